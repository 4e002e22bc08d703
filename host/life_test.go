package host_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

// TestLife lets Stacks live: they park and revive, change, and meet every kind of
// interruption. The scenarios run side by side, for they wait most of the time, each with
// namespaces of its own; those that disturb others have clusters of their own.
// testdata/life has what the status of each Stack tells, for people to read.
func TestLife(t *testing.T) {
	r := needRig(t)
	r.lifeCharts(t, r.registry)
	r.lifeCatalogue(t, "life", r.registry)
	scenarios := map[string]func(*testing.T, *rig){
		"secret absent":    lifeSecretAbsent,
		"conditional":      lifeConditional,
		"upgrade":          lifeUpgrade,
		"module updated":   lifeModuleUpdated,
		"module faulted":   lifeModuleFaulted,
		"operator":         lifeOperator,
		"registry down":    lifeRegistryDown,
		"workload outages": lifeOutages,
		"drift":            lifeDrift,
		"suspend":          lifeSuspend,
		"deleted asleep":   lifeDeletedAsleep,
		"teardown":         lifeTeardown,
	}
	var all sync.WaitGroup
	defer all.Wait()
	for name, scenario := range scenarios {
		all.Go(func() { t.Run(name, func(t *testing.T) { scenario(t, r) }) })
	}
}

// life is the place of one scenario: a tenant at home with the kubeconfig of the workload
// cluster, and a namespace there.
type life struct {
	*rig
	namespace, place string
}

func (r *rig) life(t *testing.T, name string) *life {
	t.Helper()
	l := &life{rig: r, namespace: r.tenant(t, "life-"+name)}
	l.place = testenv.Namespace(t, r.workloadAdmin, "life-"+name)
	r.secret(t, l.namespace, "workload-kubeconfig", "value", r.workload.Kubeconfig)
	return l
}

// fill replaces the place in a spec.
func (l *life) fill(spec string) string { return strings.ReplaceAll(spec, "PLACE", l.place) }

// start creates a Stack that is followed.
func (l *life) start(t *testing.T, name, spec string) (client.ObjectKey, *timeline) {
	t.Helper()
	trace := l.chronicle(t, l.namespace, name)
	return l.stack(t, l.namespace, name, l.fill(spec)), trace
}

// end deletes a Stack, waits until it is gone, and checks that nothing of it is left at home.
func (l *life) end(t *testing.T, key client.ObjectKey) {
	t.Helper()
	stack := l.get(t, key)
	require.NoError(t, l.admin.Delete(t.Context(), stack))
	l.awaitGone(t, key)
	l.requireNothingKept(t, string(stack.UID))
}

// awaitGone waits until a Stack is gone.
func (r *rig) awaitGone(t *testing.T, key client.ObjectKey) {
	t.Helper()
	eventually(t, "the end of "+key.String(), func() (bool, string) {
		r.alive(t)
		stack := &v1alpha1.Stack{}
		err := r.admin.Get(t.Context(), key, stack)
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		require.NoError(t, err)
		return false, describeStack(stack)
	})
}

func describeStack(stack *v1alpha1.Stack) string {
	var said []string
	for _, c := range stack.Status.Conditions {
		said = append(said, c.Type+" "+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	return strings.Join(said, "\n")
}

// requireNothingKept looks for inventory, state and registrations at home.
func (r *rig) requireNothingKept(t *testing.T, uid string) {
	t.Helper()
	kept := &corev1.SecretList{}
	require.NoError(t, r.admin.List(t.Context(), kept, client.InNamespace(operatorNamespace), client.MatchingLabels{"caisson.dev/owner-uid": uid}))
	require.Empty(t, names(kept), "inventory, state and registration at home")
}

// lifeCharts publishes two versions of the chart of the web, and one of the GPUs.
func (r *rig) lifeCharts(t *testing.T, shelf *registrytest.Registry) {
	t.Helper()
	push, err := registry.New(registry.Options{})
	require.NoError(t, err)
	for _, chart := range []struct{ name, version string }{{"metrics-server", "3.13.0"}, {"metrics-server", "3.14.0"}, {"gpu-operator", "25.3.0"}} {
		dir := filepath.Join(t.TempDir(), chart.name)
		require.NoError(t, os.CopyFS(dir, os.DirFS(examplePath("charts", chart.name))))
		raw, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
		require.NoError(t, err)
		raw = regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(raw, []byte("version: "+chart.version))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "Chart.yaml"), raw, 0o600))
		archive, meta, err := pack(dir)
		require.NoError(t, err)
		require.Equal(t, chart.version, meta.Version)
		ref, err := registry.ParseReference(shelf.Ref("life/" + meta.Name + ":" + meta.Version))
		require.NoError(t, err)
		_, err = push.PushChart(t.Context(), ref, archive, meta)
		require.NoError(t, err)
	}
}

// lifeCatalogue creates the applications PREFIX-web, whose version 4.0.0 nobody has
// published, and PREFIX-gpu.
func (r *rig) lifeCatalogue(t *testing.T, prefix string, shelf *registrytest.Registry) {
	t.Helper()
	repo := "oci://" + shelf.Ref("life")
	entry := func(name, chart string, versions ...string) {
		app := &v1alpha1.Application{ObjectMeta: metav1.ObjectMeta{Name: prefix + "-" + name}}
		for _, version := range versions {
			app.Spec.Versions = append(app.Spec.Versions, v1alpha1.ApplicationVersion{Version: version, Repo: repo, Chart: chart})
		}
		r.create(t, app)
	}
	entry("web", "metrics-server", "3.13.0", "3.14.0", "4.0.0")
	entry("gpu", "gpu-operator", "25.3.0")
}

// webStack is one application on the workload cluster.
const webStack = `
serviceAccountName: builder
remotes:
  - {name: workload, owned: true, teardown: Drain, kubeconfigSecret: {name: workload-kubeconfig}}
root: all
provisioners:
  - {name: all, remotecluster: {remote: workload, child: web}}
  - {name: web, application: {ref: life-web, version: 3.13.0, namespace: PLACE}}
`

// changed is a spec with something in it replaced, which must be there.
func changed(t *testing.T, spec, from, to string) string {
	t.Helper()
	require.Contains(t, spec, from)
	return strings.ReplaceAll(spec, from, to)
}

// deployment reads a Deployment of the place.
func (l *life) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(t, l.workloadAdmin.Get(t.Context(), client.ObjectKey{Namespace: l.place, Name: name}, d))
	return d
}

// releases lists what Helm has recorded in the place, as the release's application and
// revision with the status of the record, for instance "metrics-server 2 deployed".
func (l *life) releases(t *testing.T) []string {
	t.Helper()
	list := &corev1.SecretList{}
	require.NoError(t, l.workloadAdmin.List(t.Context(), list, client.InNamespace(l.place), client.MatchingLabels{"owner": "helm"}))
	found := make([]string, 0, len(list.Items))
	for _, s := range list.Items {
		found = append(found, s.Labels["name"]+" "+s.Labels["version"]+" "+s.Labels["status"])
	}
	slices.Sort(found)
	return found
}

// requireEmptyPlace checks that nothing of Helm's is left in the place.
func (l *life) requireEmptyPlace(t *testing.T) {
	t.Helper()
	require.Empty(t, l.releases(t))
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
		require.NoError(t, l.workloadAdmin.List(t.Context(), list, client.InNamespace(l.place), byHelm()))
		require.Empty(t, names(list))
	}
}
