package host_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// embedder is the operator of examples/embed, as a process that knows nothing of ours.
type embedder struct {
	*rig
	program, kubeconfig, cache string
	running                    *replica
}

const (
	embedderNamespace = "environments"
	embedderName      = "platform.example.com/environment"
)

// TestEmbed runs the operator of examples/embed: an object of its own kind becomes
// available, follows its spec, is not hurt by modules whose workers die, stays parked over
// a restart, and leaves nothing.
func TestEmbed(t *testing.T) {
	e := newEmbedder(t)
	e.start(t)
	defer func() {
		e.running.kill()
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", e.running.log.tail(8<<10))
		}
	}()
	a, b := e.team(t, "team-a"), e.team(t, "team-b")

	e.environment(t, a, "20", "Welcome aboard.", false)
	object := e.await(t, a, "True/Provisioned")
	require.Equal(t, "20", e.quota(t, a))
	require.Equal(t, "Welcome aboard.", e.greeting(t, a))
	require.Equal(t, []string{embedderName}, object.GetFinalizers())
	requireOwnFieldsOnly(t, object)

	t.Run("a change converges", func(t *testing.T) {
		e.environment(t, a, "21", "Hello.", true)
		e.await(t, a, "True/Provisioned")
		require.Equal(t, "21", e.quota(t, a))
		require.Equal(t, "Hello.", e.greeting(t, a))
		require.Equal(t, 1, e.deployments(t, a), "the application is there")
		e.environment(t, a, "21", "Hello.", false)
		e.await(t, a, "True/Provisioned")
		require.Zero(t, e.deployments(t, a), "and is switched off")
	})
	t.Run("workers die", func(t *testing.T) {
		killed := 0
		for i := range 3 {
			killed += e.killWorkers(t)
			text := fmt.Sprintf("Hello %d.", i)
			e.environment(t, a, "21", text, false)
			killed += e.killWorkers(t)
			e.await(t, a, "True/Provisioned")
			require.Equal(t, text, e.greeting(t, a))
		}
		require.Positive(t, killed)
	})
	t.Run("a park outlives a restart", func(t *testing.T) { e.parkAndRestart(t, a, b) })

	for _, namespace := range []string{a, b} {
		e.remove(t, namespace)
	}
}

func newEmbedder(t *testing.T) *embedder {
	t.Helper()
	r := needRig(t)
	dir := t.TempDir()
	e := &embedder{
		rig: r, program: testenv.BuildBinary(t, "./examples/embed", "embed"),
		kubeconfig: filepath.Join(dir, "kubeconfig"), cache: filepath.Join(dir, "cache"),
	}
	for _, name := range []string{"platform.example.com_environments.yaml", "operator.yaml"} {
		_, err := testenv.ApplyPath(t.Context(), r.admin, filepath.Join("..", "examples", "embed", "deploy", name))
		require.NoError(t, err)
	}
	e.publishGreeter(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: embedderNamespace, Name: "environments"}}
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, r.admin.SubResource("token").Create(t.Context(), account, request))
	config, err := clientcmd.Load(r.home.Kubeconfig)
	require.NoError(t, err)
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	require.NoError(t, clientcmd.WriteToFile(*config, e.kubeconfig))
	return e
}

// publishGreeter pushes the module and the chart of the example.
func (e *embedder) publishGreeter(t *testing.T) {
	t.Helper()
	push, err := registry.New(registry.Options{})
	require.NoError(t, err)
	box, err := sandbox.New(sandbox.Options{Worker: []string{e.worker}})
	require.NoError(t, err)
	defer func() { require.NoError(t, box.Close()) }()
	wasm, err := finish(t.Context(), box, testenv.BuildGuest(t, "./examples/embed/greeter", "host-test-greeter.wasm"))
	require.NoError(t, err)
	require.NoError(t, e.pushModule(t.Context(), push, "greeter", wasm))
	archive, about, err := pack(filepath.Join("..", "examples", "embed", "testdata", "podinfo"))
	require.NoError(t, err)
	ref, err := registry.ParseReference(e.registry.Ref("charts/podinfo:" + about.Version))
	require.NoError(t, err)
	_, err = push.PushChart(t.Context(), ref, archive, about)
	require.NoError(t, err)
}

func (e *embedder) start(t *testing.T) {
	t.Helper()
	started := &replica{log: &syncBuffer{}, exited: make(chan struct{})}
	started.command = exec.CommandContext(context.WithoutCancel(t.Context()), e.program,
		"--kubeconfig="+e.kubeconfig, "--cache-dir="+e.cache,
		"--greeter="+e.registry.Ref("modules/greeter:1"), "--charts=oci://"+e.registry.Ref("charts"))
	started.command.Stdout, started.command.Stderr = started.log, started.log
	require.NoError(t, started.command.Start())
	go func() {
		_ = started.command.Wait()
		close(started.exited)
	}()
	e.running = started
}

// team makes a namespace with the account that trees act as.
func (e *embedder) team(t *testing.T, namespace string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "examples", "embed", "deploy", "team.yaml"))
	require.NoError(t, err)
	_, err = testenv.Apply(t.Context(), e.admin, strings.ReplaceAll(string(raw), "team-a", namespace))
	require.NoError(t, err)
	return namespace
}

// environment applies the object of a namespace.
func (e *embedder) environment(t *testing.T, namespace, pods, greeting string, demo bool) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "examples", "embed", "deploy", "environment.yaml"))
	require.NoError(t, err)
	manifest := strings.NewReplacer(
		"team-a", namespace, "pods: 20", "pods: "+pods, "greeting: Welcome aboard.", fmt.Sprintf("greeting: %q", greeting),
		"demo: false", fmt.Sprintf("demo: %t", demo),
	).Replace(string(raw))
	eventually(t, "the edit", func() (bool, string) {
		_, err := testenv.Apply(t.Context(), e.admin, manifest)
		if meta.IsNoMatchError(err) {
			return false, err.Error() // the CRD is not served yet
		}
		require.NoError(t, err)
		return true, ""
	})
}

func (e *embedder) read(t *testing.T, namespace string) (*unstructured.Unstructured, error) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("platform.example.com/v1")
	object.SetKind("Environment")
	return object, e.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "main"}, object)
}

// await waits until the current generation is Available with a status and reason.
func (e *embedder) await(t *testing.T, namespace, want string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	eventually(t, "Environment of "+namespace+" "+want, func() (bool, string) {
		select {
		case <-e.running.exited:
			t.Fatal("the operator has ended")
		default:
		}
		object, err := e.read(t, namespace)
		require.NoError(t, err)
		conditions, observed := conditionsOf(t, object)
		c := meta.FindStatusCondition(conditions, "Available")
		if c == nil {
			return false, "no condition"
		}
		found = object
		seen := string(c.Status) + "/" + c.Reason
		return seen == want && observed == object.GetGeneration(), fmt.Sprintf("%s of generation %d: %s", seen, observed, c.Message)
	})
	return found
}

func conditionsOf(t *testing.T, object *unstructured.Unstructured) ([]metav1.Condition, int64) {
	t.Helper()
	var typed struct {
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed))
	return typed.Status.Conditions, typed.Status.ObservedGeneration
}

// requireOwnFieldsOnly: the status is applied, and nothing but the finalizer is patched.
func requireOwnFieldsOnly(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	for _, entry := range object.GetManagedFields() {
		if entry.Manager != embedderName {
			continue
		}
		fields := string(entry.FieldsV1.Raw)
		switch entry.Subresource {
		case "status":
			require.Equal(t, metav1.ManagedFieldsOperationApply, entry.Operation)
			require.Contains(t, fields, `k:{\"type\":\"Available\"}`)
			require.Contains(t, fields, "f:observedGeneration")
		case "":
			require.Contains(t, fields, "f:finalizers")
			require.NotContains(t, fields, "f:spec")
		default:
			t.Fatalf("writes to %s: %s", entry.Subresource, fields)
		}
	}
}

func (e *embedder) quota(t *testing.T, namespace string) string {
	t.Helper()
	quota := &corev1.ResourceQuota{}
	require.NoError(t, e.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "environment"}, quota))
	return quota.Spec.Hard.Pods().String()
}

func (e *embedder) greeting(t *testing.T, namespace string) string {
	t.Helper()
	text := &corev1.ConfigMap{}
	require.NoError(t, e.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "greeting"}, text))
	return text.Data["text"]
}

func (e *embedder) deployments(t *testing.T, namespace string) int {
	t.Helper()
	list := &appsv1.DeploymentList{}
	require.NoError(t, e.admin.List(t.Context(), list, client.InNamespace(namespace)))
	return len(list.Items)
}

// records are what the operator keeps, by name and version.
func (e *embedder) records(t *testing.T) []string {
	t.Helper()
	secrets := &corev1.SecretList{}
	require.NoError(t, e.admin.List(t.Context(), secrets, client.InNamespace(embedderNamespace), client.HasLabels{"caisson.dev/owner-uid"}))
	var found []string
	for _, s := range secrets.Items {
		found = append(found, s.Name+"@"+s.ResourceVersion)
	}
	return found
}

// killWorkers kills the workers of the operator, and returns how many there were.
func (e *embedder) killWorkers(t *testing.T) int {
	t.Helper()
	found := workersOf(e.running.command.Process.Pid)
	for _, pid := range found {
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	return len(found)
}

// parkAndRestart: what the record says is enough for another process to leave a parked
// object alone, while it serves others; and a new spec revives it.
func (e *embedder) parkAndRestart(t *testing.T, parked, other string) {
	t.Helper()
	e.environment(t, parked, "21", "", false)
	before := e.await(t, parked, "False/Terminal")
	conditions, _ := conditionsOf(t, before)
	require.Equal(t, "1/greeting: The greeting is empty. (no_text)", meta.FindStatusCondition(conditions, "Available").Message)
	require.True(t, meta.IsStatusConditionTrue(conditions, "Stalled"))
	require.Nil(t, meta.FindStatusCondition(conditions, "Reconciling"))
	kept := e.records(t)

	e.running.kill()
	e.start(t)
	// When an object that came later is served, the parked one has been looked at.
	e.environment(t, other, "5", "Hello.", false)
	e.await(t, other, "True/Provisioned")
	after, err := e.read(t, parked)
	require.NoError(t, err)
	require.Equal(t, before.GetResourceVersion(), after.GetResourceVersion(), "nothing was written")
	require.Subset(t, e.records(t), kept, "here neither")
	for _, line := range strings.Split(e.running.log.String(), "\n") {
		require.False(t, strings.Contains(line, "pass done") && strings.Contains(line, parked), "no pass was run: %s", line)
	}

	e.environment(t, parked, "21", "Hello again.", true)
	e.await(t, parked, "True/Provisioned")
	require.Equal(t, "Hello again.", e.greeting(t, parked))
}

// remove deletes the object of a namespace, and looks for what is left.
func (e *embedder) remove(t *testing.T, namespace string) {
	t.Helper()
	object, err := e.read(t, namespace)
	require.NoError(t, err)
	uid := string(object.GetUID())
	require.NoError(t, e.admin.Delete(t.Context(), object))
	eventually(t, "the deletion", func() (bool, string) {
		left, err := e.read(t, namespace)
		if apierrors.IsNotFound(err) {
			return true, ""
		}
		require.NoError(t, err)
		return false, fmt.Sprint(left.Object["status"])
	})
	for _, list := range []client.ObjectList{&corev1.ResourceQuotaList{}, &appsv1.DeploymentList{}, &corev1.SecretList{}} {
		require.NoError(t, e.admin.List(t.Context(), list, client.InNamespace(namespace)))
		require.Zero(t, meta.LenList(list), "%T in %s", list, namespace)
	}
	err = e.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "greeting"}, &corev1.ConfigMap{})
	require.True(t, apierrors.IsNotFound(err))
	secrets := &corev1.SecretList{}
	require.NoError(t, e.admin.List(t.Context(), secrets, client.InNamespace(embedderNamespace), client.MatchingLabels{"caisson.dev/owner-uid": uid}))
	require.Empty(t, secrets.Items, "nothing is kept for it")
}
