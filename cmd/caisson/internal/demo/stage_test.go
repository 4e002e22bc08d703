package demo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

// root is the source tree.
const root = "../../../.."

// TestMain lets this test program play the programs that the demo starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(play(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// play is a control plane that only writes its kubeconfig, or a server that only answers,
// until it is told to end.
func play(args []string) int {
	if strings.HasPrefix(strings.Join(args, " "), "stack explain ") {
		return playExplain(args)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch {
		case name == "--listen", name == "--health-probe-bind-address", name == "--metrics-bind-address":
			listener, err := net.Listen("tcp", value)
			if err != nil {
				return 1
			}
			server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
			go func() { _ = server.Serve(listener) }()
		case name == "--kubeconfig" && strings.HasPrefix(args[0], "--name="):
			if os.WriteFile(value, []byte(kubeconfigText), 0o600) != nil {
				return 1
			}
		}
	}
	<-signals
	return 0
}

const kubeconfigText = `
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`

// staged returns a demo whose programs this test program plays.
func staged(t *testing.T) (*demo, *strings.Builder) {
	t.Helper()
	d, out := newDemo(t, false)
	self, err := os.Executable()
	require.NoError(t, err)
	d.Root, d.Self, d.bin = root, self, t.TempDir()
	for _, program := range []string{"devcluster", "caisson-operator", "caisson-worker"} {
		require.NoError(t, os.Symlink(self, filepath.Join(d.bin, program)))
	}
	t.Cleanup(func() { require.NoError(t, d.env.Stop()) })
	return d, out
}

func TestStartClusters(t *testing.T) {
	given := filepath.Join(t.TempDir(), "given")
	require.NoError(t, os.WriteFile(given, []byte(kubeconfigText), 0o600))
	d, out := staged(t)
	d.WorkloadKubeconfig = given
	require.NoError(t, d.startClusters(t.Context()))
	require.Equal(t, filepath.Join(d.env.Dir(), "home.kubeconfig"), d.home.kubeconfig)
	require.Equal(t, given, d.workload.kubeconfig, "what was given is used")
	require.NotEmpty(t, d.registry)
	require.Len(t, d.env.State().Processes, 2, "and nothing is started for it")
	require.Contains(t, out.String(), "connect to the given workload cluster")
	require.Contains(t, out.String(), "start the home control plane")
}

func TestStartClustersFails(t *testing.T) {
	d, _ := staged(t)
	d.HomeKubeconfig = "/does/not/exist"
	err := d.startClusters(t.Context())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "connect to the given home cluster: read kubeconfig of home: ")
}

func TestPushCharts(t *testing.T) {
	server := httptest.NewServer(registrytest.NewHandler(""))
	t.Cleanup(server.Close)
	d, _ := staged(t)
	d.registry = strings.TrimPrefix(server.URL, "http://")
	require.NoError(t, d.pushCharts(t.Context()))
	charts, err := os.ReadDir(d.example("charts"))
	require.NoError(t, err)
	for _, chart := range charts {
		_, meta, err := packChart(d.example("charts", chart.Name()))
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v2/charts/"+meta.Name+"/manifests/"+meta.Version, http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, chart.Name())
	}
	d.registry = "127.0.0.1:1"
	require.Error(t, d.pushCharts(t.Context()), "a registry that is not there")
}

// The operator is started as the ServiceAccount that we ship, never as the admin.
func TestInstallOperator(t *testing.T) {
	d, _ := staged(t)
	d.home = fakeCluster(t, "home", interceptor.Funcs{})
	d.home.config = &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "the admin's"}
	require.NoError(t, d.installOperator(t.Context()))
	account := &corev1.ServiceAccount{}
	require.NoError(t, d.home.client.Get(t.Context(), types.NamespacedName{Namespace: operatorNamespace, Name: operatorAccount}, account))
	raw, err := os.ReadFile(filepath.Join(d.env.Dir(), "operator.kubeconfig"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), "the admin's")
	info, err := os.Stat(filepath.Join(d.env.Dir(), "operator.kubeconfig"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NotEmpty(t, d.operator.Metrics)
	require.NoError(t, d.operator.Signal(0), "it runs")
}

// readyWorkloads are what the Stack stands for.
func readyWorkloads() []client.Object {
	one, two := int32(1), int32(2)
	objects := []client.Object{&appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cilium", Labels: helm()},
		Status:     appsv1.DaemonSetStatus{NumberReady: 1, DesiredNumberScheduled: 1},
	}}
	for name, replicas := range map[string]*int32{"csi-controller": &one, "cilium-operator": &one, "gpu-operator": &one, "ingress-nginx-controller": &two, "metrics-server": &one} {
		objects = append(objects, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: helm()},
			Spec:       appsv1.DeploymentSpec{Replicas: replicas}, Status: appsv1.DeploymentStatus{ReadyReplicas: *replicas},
		})
	}
	return objects
}

// lit returns a demo with two clusters and a screen, before the Stack is applied.
func lit(t *testing.T, onWorkload ...client.Object) (*demo, *strings.Builder) {
	t.Helper()
	d, out := staged(t)
	d.registry = "127.0.0.1:5000"
	d.home = discoverable(t, fakeCluster(t, "home", interceptor.Funcs{}))
	d.workload = discoverable(t, fakeCluster(t, "workload", interceptor.Funcs{}, onWorkload...))
	d.Screen = func(start time.Time) follow.Screen { return follow.NewLineScreen(out, start) }
	return d, out
}

func TestPrepare(t *testing.T) {
	d, _ := lit(t)
	require.NoError(t, d.prepare(t.Context()))
	require.NoError(t, d.prepare(t.Context()), "on clusters that were used before, too")
	kubeconfig := &corev1.Secret{}
	require.NoError(t, d.home.client.Get(t.Context(), types.NamespacedName{Namespace: stackNamespace, Name: "workload-kubeconfig"}, kubeconfig))
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["value"])
	require.NoError(t, err)
	require.Equal(t, d.workload.config.Host, config.Host)
	modules := &v1alpha1.ModuleList{}
	require.NoError(t, d.home.client.List(t.Context(), modules))
	require.Len(t, modules.Items, len(demoModules()))
	for _, m := range modules.Items {
		require.NotContains(t, m.Spec.Reference, placeholder, m.Name)
		require.Contains(t, m.Spec.Reference, d.registry, m.Name)
	}
	applications := &v1alpha1.ApplicationList{}
	require.NoError(t, d.home.client.List(t.Context(), applications))
	require.NotEmpty(t, applications.Items)
}

// playOperator gives the Stack the status of a scene as soon as it is there.
func playOperator(ctx context.Context, c client.Client, scene string) error {
	stack := &v1alpha1.Stack{}
	for c.Get(ctx, types.NamespacedName{Namespace: stackNamespace, Name: stackName}, stack) != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, s := range treetest.Life() {
		if s.Name == scene {
			stack.Status = s.Stack.Status
		}
	}
	stack.Status.Conditions[0].ObservedGeneration = stack.Generation
	return c.Update(ctx, stack)
}

func TestBringUp(t *testing.T) {
	d, out := lit(t, readyWorkloads()...)
	require.NoError(t, d.home.client.Create(t.Context(), treetest.Stack()))
	require.NoError(t, playOperator(t.Context(), d.home.client, "available"))
	require.NoError(t, d.bringUp(t.Context()))
	require.Contains(t, out.String(), "Stack platform/platform  Provisioned")
	require.Contains(t, out.String(), "on the workload cluster: ")
}

func TestBringUpBelievesNobody(t *testing.T) {
	d, _ := lit(t, readyWorkloads()[1:]...)
	require.NoError(t, d.home.client.Create(t.Context(), treetest.Stack()))
	require.NoError(t, playOperator(t.Context(), d.home.client, "available"))
	require.ErrorContains(t, d.bringUp(t.Context()), `expected "cilium 1/1" on the workload cluster`, "a Stack may say that it is available")
}

// A Stack that goes at once was not taken down by the operator.
func TestTakeDownWithoutOperator(t *testing.T) {
	d, _ := lit(t)
	require.NoError(t, d.snapshot(t.Context()))
	require.NoError(t, d.home.client.Create(t.Context(), treetest.Stack()))
	require.ErrorContains(t, d.takeDown(t.Context()), "no node was seen to go before the Stack did")
	require.ErrorContains(t, d.takeDown(t.Context()), "delete stack: ", "there is none any more")
}

func TestTakeDown(t *testing.T) {
	d, out := lit(t)
	registration := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: registrationPrefix + "abc"}}
	require.NoError(t, d.snapshot(t.Context()))
	require.NoError(t, d.home.client.Create(t.Context(), registration))
	stack := treetest.Stack()
	stack.Finalizers = []string{v1alpha1.StackFinalizer}
	require.NoError(t, d.home.client.Create(t.Context(), stack))

	// A watch on the Stack is open when the screen has it; only then the operator goes on.
	shown := make(chan struct{}, 100)
	d.Screen = func(start time.Time) follow.Screen {
		return &tellingScreen{Screen: follow.NewLineScreen(out, start), shown: shown}
	}
	operated := make(chan error, 1)
	go func() {
		<-shown
		<-shown // the second is of a tick, so the watch is open
		operated <- errors.Join(
			playOperator(t.Context(), d.home.client, "going"),
			d.home.client.Create(t.Context(), event("e", stackName, "Deprovisioned", "Everything that the Stack made is gone.")),
			d.home.client.Delete(t.Context(), registration),
			release(t.Context(), d.home.client),
		)
	}()
	require.NoError(t, d.takeDown(t.Context()))
	require.NoError(t, <-operated)
	require.Contains(t, out.String(), "gpu-operator             Removed")
	require.Contains(t, out.String(), "Stack platform/platform  Gone")
	require.Contains(t, out.String(), "nothing is left on either cluster, except what is reported as retained: nothing\n")
}

// tellingScreen tells when it is shown something.
type tellingScreen struct {
	follow.Screen
	shown chan struct{}
}

func (s *tellingScreen) Show(before, after tree.View) {
	s.Screen.Show(before, after)
	s.shown <- struct{}{}
}

// release takes the finalizer from the Stack.
func release(ctx context.Context, c client.Client) error {
	stack := &v1alpha1.Stack{}
	if err := c.Get(ctx, types.NamespacedName{Namespace: stackNamespace, Name: stackName}, stack); err != nil {
		return err
	}
	stack.Finalizers = nil
	return c.Update(ctx, stack)
}
