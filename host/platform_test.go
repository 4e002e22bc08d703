package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// cloudSecret is in the Secret that the storage module places without seeing it.
const cloudSecret = "application-credential-secret = ohnomysecret"

// TestPlatform brings the example up on two control planes, leaves it alone, and takes
// it down.
func TestPlatform(t *testing.T) {
	r := needRig(t)
	key := types.NamespacedName{Namespace: "platform", Name: "platform"}
	r.applyExample(t, "tenant.yaml")
	r.secret(t, key.Namespace, "workload-kubeconfig", "value", r.workload.Kubeconfig)
	r.secret(t, key.Namespace, "cloud-config", "cloud.conf", []byte("[Global]\n"+cloudSecret+"\n"))
	r.applyExample(t, "modules.yaml")
	r.applyExample(t, "catalogue.yaml")
	for _, name := range []string{"cilium", "storage", "ingress"} {
		r.awaitModule(t, name, "True/Loaded")
	}

	trace := r.follow(t, key)
	r.applyExample(t, "stack.yaml")
	stack := r.awaitStack(t, key, "True/Provisioned")
	require.Equal(t, "5/5", stack.Status.Summary)
	uid := string(stack.UID)
	r.requireRolledOut(t)

	t.Run("left alone", func(t *testing.T) { r.leaveAlone(t, key) })

	require.NoError(t, r.admin.Delete(t.Context(), stack))
	eventually(t, "the deletion", func() (bool, string) {
		r.alive(t)
		err := r.admin.Get(t.Context(), key, stack)
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		require.NoError(t, err)
		return false, fmt.Sprint(stack.Status.Conditions)
	})
	trace.compare(t)
	trace.requireOrder(t)
	r.requireNothingLeft(t, uid)
	r.requireFarewell(t, key)
	require.NotContains(t, r.log.String(), "ohnomysecret", "no secret is logged")
	for _, line := range strings.Split(string(r.workload.Kubeconfig), "\n") {
		if token, found := strings.CutPrefix(strings.TrimSpace(line), "token: "); found {
			require.NotContains(t, r.log.String(), token, "no credential is logged")
		}
	}
}

func (r *rig) requireRolledOut(t *testing.T) {
	t.Helper()
	deployments := &appsv1.DeploymentList{}
	require.NoError(t, r.workloadAdmin.List(t.Context(), deployments, byHelm()))
	require.GreaterOrEqual(t, len(deployments.Items), 4)
	for _, d := range deployments.Items {
		require.Equal(t, *d.Spec.Replicas, d.Status.ReadyReplicas, "%s/%s", d.Namespace, d.Name)
	}
	config := &corev1.SecretList{}
	require.NoError(t, r.workloadAdmin.List(t.Context(), config, byHelm()))
	var placed []string
	for _, secret := range config.Items {
		for _, value := range secret.Data {
			if strings.Contains(string(value), cloudSecret) {
				placed = append(placed, secret.Name)
			}
		}
	}
	require.NotEmpty(t, placed, "the handle was replaced by the secret")
}

func byHelm() client.MatchingLabels {
	return client.MatchingLabels{"app.kubernetes.io/managed-by": "Helm"}
}

// requireNothingLeft looks for everything that was made for an owner.
func (r *rig) requireNothingLeft(t *testing.T, uid string) {
	t.Helper()
	ctx := t.Context()
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &appsv1.DaemonSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &storagev1.StorageClassList{},
	} {
		require.NoError(t, r.workloadAdmin.List(ctx, list, byHelm()))
		require.Empty(t, names(list), "%T on the workload cluster", list)
	}
	releases := &corev1.SecretList{}
	require.NoError(t, r.workloadAdmin.List(ctx, releases, client.MatchingLabels{"owner": "helm"}))
	require.Empty(t, names(releases), "Helm's own records")
	kept := &corev1.SecretList{}
	require.NoError(t, r.admin.List(ctx, kept, client.InNamespace(operatorNamespace), client.MatchingLabels{"caisson.dev/owner-uid": uid}))
	require.Empty(t, names(kept), "inventory, state and registration at home")
}

func names(list client.ObjectList) []string {
	var found []string
	add := func(o metav1.Object) { found = append(found, o.GetNamespace()+"/"+o.GetName()) }
	switch l := list.(type) {
	case *appsv1.DeploymentList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	case *appsv1.DaemonSetList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	case *corev1.ServiceList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	case *corev1.ConfigMapList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	case *corev1.SecretList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	case *storagev1.StorageClassList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	}
	return found
}

// requireFarewell finds the event that says what is kept on purpose.
func (r *rig) requireFarewell(t *testing.T, key types.NamespacedName) {
	t.Helper()
	eventually(t, "the farewell", func() (bool, string) {
		events := &eventsv1.EventList{}
		require.NoError(t, r.admin.List(t.Context(), events, client.InNamespace(key.Namespace)))
		var notes []string
		for _, e := range events.Items {
			require.NotContains(t, e.Note, "ohnomysecret")
			notes = append(notes, e.Reason+": "+e.Note)
			if e.Regarding.Name == key.Name && e.Reason == v1alpha1.ReasonDeprovisioned && strings.Contains(e.Note, "kept on purpose: ") && strings.Contains(e.Note, "gpu-operator") {
				return true, ""
			}
		}
		return false, strings.Join(notes, "\n")
	})
}

// leaveAlone wakes a converged Stack, and measures what that costs.
func (r *rig) leaveAlone(t *testing.T, key types.NamespacedName) {
	r.quiesce(t)
	before := r.get(t, key)

	asked, counted := r.requests.count(), r.counters(t)
	for i := range 3 {
		object := &v1alpha1.Module{}
		require.NoError(t, r.admin.Get(t.Context(), client.ObjectKey{Name: "storage"}, object))
		object.Annotations = map[string]string{"touched": fmt.Sprint(i)}
		require.NoError(t, r.admin.Update(t.Context(), object))
		r.awaitWakes(t, counted.wakes+i+1)
	}
	did := r.counters(t)
	t.Logf("3 wakes by a touched Module: %d passes, %d module calls, %d requests", did.passes-counted.passes, did.calls-counted.calls, r.requests.count()-asked)
	require.Empty(t, r.requests.since(asked), "no write and no read that is not from a cache")
	require.Equal(t, counted.passes, did.passes)
	require.Equal(t, counted.calls, did.calls)

	asked, counted = r.requests.count(), r.counters(t)
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = "kube-system", r.aDeployment(t, "kube-system")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
	require.NoError(t, r.workloadAdmin.Patch(t.Context(), deployment, patch))
	r.awaitWakes(t, counted.wakes+1)
	r.quiesce(t)
	did = r.counters(t)
	t.Logf("a driver notification: %d passes, %d module calls, requests at home: %q", did.passes-counted.passes, did.calls-counted.calls, r.requests.since(asked))
	require.Equal(t, counted.calls, did.calls, "the driver looks, and no module is called")
	for _, request := range r.requests.since(asked) {
		require.True(t, strings.HasPrefix(request, "GET "), "no write: %s", request)
	}
	require.Equal(t, before.ResourceVersion, r.get(t, key).ResourceVersion)
}

func (r *rig) aDeployment(t *testing.T, namespace string) string {
	t.Helper()
	list := &appsv1.DeploymentList{}
	require.NoError(t, r.workloadAdmin.List(t.Context(), list, client.InNamespace(namespace), byHelm()))
	require.NotEmpty(t, list.Items)
	return list.Items[0].Name
}

func (r *rig) awaitWakes(t *testing.T, want int) {
	t.Helper()
	eventually(t, "the wake", func() (bool, string) {
		got := r.counters(t).wakes
		return got >= want, fmt.Sprintf("%d wakes of %d", got, want)
	})
}

// quiesce waits until nothing has happened for a while: the last events of a roll-out
// come after the Stack is available.
func (r *rig) quiesce(t *testing.T) {
	t.Helper()
	const still = 40 // polls in a row, longer than the driver holds notifications back
	last, calm := r.counters(t), 0
	asked := r.requests.count()
	eventually(t, "rest", func() (bool, string) {
		now, requests := r.counters(t), r.requests.count()
		calm++
		if now != last || requests != asked {
			calm = 0
		}
		last, asked = now, requests
		return calm >= still, fmt.Sprintf("%+v after %d requests", now, requests)
	})
}

// nodeTrace is what was seen of the nodes of a Stack, each state once in a row.
type nodeTrace struct {
	mu    sync.Mutex
	nodes map[string][]string
	// order is every change over all nodes, and updates the write of the status that it came
	// with: the nodes of one write are in no order.
	order   []string
	updates []int
	writes  int
	ended   chan struct{}
}

// follow watches a Stack from before it exists until it is gone.
func (r *rig) follow(t *testing.T, key types.NamespacedName) *nodeTrace {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	watcher, err := r.admin.Watch(ctx, &v1alpha1.StackList{}, client.InNamespace(key.Namespace))
	require.NoError(t, err)
	trace := &nodeTrace{nodes: map[string][]string{}, ended: make(chan struct{})}
	go func() {
		defer close(trace.ended)
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			stack, ok := event.Object.(*v1alpha1.Stack)
			if !ok || stack.Name != key.Name {
				continue
			}
			trace.add(stack)
			if event.Type == "DELETED" {
				return
			}
		}
	}()
	return trace
}

func (n *nodeTrace) add(stack *v1alpha1.Stack) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes++
	for _, node := range stack.Status.Nodes {
		state := node.Disposition
		if node.Reason != "" {
			state += "(" + node.Reason + ")"
		}
		seen := n.nodes[node.Name]
		if len(seen) == 0 || seen[len(seen)-1] != state {
			n.nodes[node.Name] = append(seen, state)
			n.order = append(n.order, node.Name+" "+state)
			n.updates = append(n.updates, n.writes)
		}
	}
}

// compare checks the life of each node against the golden file, which has an expression
// for each: how many steps of a roll-out are seen depends on how quick it is.
func (n *nodeTrace) compare(t *testing.T) {
	t.Helper()
	<-n.ended
	n.mu.Lock()
	defer n.mu.Unlock()
	raw, err := os.ReadFile(filepath.Join("testdata", "platform.trace"))
	require.NoError(t, err)
	var known []string
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		node, expression, found := strings.Cut(line, ": ")
		require.True(t, found, line)
		known = append(known, node)
		got := strings.Join(n.nodes[node], " ")
		require.Regexp(t, "^"+expression+"$", got, node)
	}
	for node := range n.nodes {
		require.Contains(t, known, node)
	}
	t.Logf("%s", strings.Join(n.order, "\n"))
}

// requireOrder checks what the tree promises about the order of things.
func (n *nodeTrace) requireOrder(t *testing.T) {
	t.Helper()
	first := func(what string, matches func(entry string) bool) int {
		i := slices.IndexFunc(n.order, matches)
		require.GreaterOrEqual(t, i, 0, "%s was not seen", what)
		return n.updates[i]
	}
	at := func(entry string) int { return first(entry, func(e string) bool { return e == entry }) }
	begins := func(node string) int {
		return first(node+" at work", func(e string) bool { return strings.HasPrefix(e, node+" ") && e != node+" "+v1alpha1.NodeWaiting })
	}
	for _, addon := range []string{"metrics", "storage", "ingress"} {
		require.LessOrEqual(t, at("cni OK"), begins(addon), "%s begins after the network", addon)
		require.LessOrEqual(t, at(addon+" OK"), begins("gpu-operator"), "the GPUs come after the add-ons")
		require.LessOrEqual(t, at("gpu-operator Removed"), at(addon+" Removed"), "and go before them")
		require.Less(t, at(addon+" Yield(application_deleting)"), at("cni Yield(application_deleting)"), "the network goes last")
	}
}
