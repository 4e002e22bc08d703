package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/host"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// execute runs a command line as main does, and returns what it prints.
func execute(ctx context.Context, args ...string) (string, error) {
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func TestHelp(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	help, err := execute(t.Context(), "--help")
	require.NoError(t, err)
	path := filepath.Join("testdata", "help.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(help), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "UPDATE_GOLDEN=1 go test writes it")
	require.Equal(t, string(want), help)
}

func TestFlagsAreDocumented(t *testing.T) {
	command().Flags().VisitAll(func(f *pflag.Flag) {
		require.NotEmpty(t, f.Usage, f.Name)
		require.False(t, strings.HasSuffix(f.Usage, "."), "%s: a phrase, not a sentence", f.Name)
	})
}

// An operator that starts without what it needs would find out at the first Stack.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	broken, dead := filepath.Join(dir, "broken"), filepath.Join(dir, "dead")
	require.NoError(t, os.WriteFile(broken, []byte("token: a-secret-token\nclusters: {"), 0o600))
	require.NoError(t, os.WriteFile(dead, []byte(`
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: a-secret-token}}]
current-context: c
`), 0o600))
	valid := []string{"--namespace=caisson-system", "--cache-dir=" + filepath.Join(dir, "cache"), "--metrics-bind-address=0", "--health-probe-bind-address=0"}
	cases := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"NoNamespace":  {reason: "inventories have to be somewhere", args: []string{"--cache-dir=/c"}, want: "--namespace is required; in a pod set POD_NAMESPACE from metadata.namespace"},
		"NoCacheDir":   {reason: "a directory that others can write to would be code of theirs", args: []string{"--namespace=x"}, want: "--cache-dir is required; give a private directory, for instance an emptyDir volume"},
		"NoKubeconfig": {reason: "the file is named", args: append([]string{"--kubeconfig=/does/not/exist"}, valid...), want: "read the operator's kubeconfig: stat /does/not/exist: no such file"},
		"Broken":       {reason: "and what is wrong with it", args: append([]string{"--kubeconfig=" + broken}, valid...), want: "read the operator's kubeconfig: "},
		"NoPod":        {reason: "outside of a pod, what to give is said", args: valid, want: "find the credentials of the pod; outside of one, give --kubeconfig: "},
		"NoCluster":    {reason: "a cluster that does not answer", args: append([]string{"--kubeconfig=" + dead}, valid...), want: "connection refused"},
		"Argument":     {reason: "a forgotten dash must not pass for nothing", args: append([]string{"leader-elect=false"}, valid...), want: `unknown command "leader-elect=false"`},
		"UnknownFlag":  {reason: "a flag of another version", args: append([]string{"--nope"}, valid...), want: "unknown flag: --nope"},
		"BadDuration":  {reason: "the flag is named", args: append([]string{"--resync=often"}, valid...), want: `invalid argument "often" for "--resync" flag`},
		"BadLimit":     {reason: "a limit that is misspelled would be none", args: append([]string{"--module-limits=mem=1Gi"}, valid...), want: `--module-limits: there is no limit "mem"; there are timeout, cpu, memory, `},
		"BadCeiling":   {reason: "nor is one without a unit that there is", args: append([]string{"--module-limit-ceilings=memory=2,timeout=long"}, valid...), want: "--module-limit-ceilings: the limit timeout=long cannot be read"},
		"NoMemory":     {reason: "0 is the default, and less is nothing", args: append([]string{"--idle-worker-memory=-1Gi"}, valid...), want: "--idle-worker-memory -1Gi is negative"},
		"BadMemory":    {reason: "a size has a unit that there is", args: append([]string{"--idle-worker-memory=1GB"}, valid...), want: `invalid argument "1GB" for "--idle-worker-memory" flag`},
		"ShortLease":   {reason: "a lease must outlive a slow request", args: append([]string{"--leader-elect-lease=10ms"}, valid...), want: "--leader-elect-lease 10ms is too short"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("POD_NAMESPACE", "")
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			t.Setenv("KUBECONFIG", dead)
			out, err := execute(t.Context(), tc.args...)
			require.ErrorContains(t, err, tc.want, tc.reason)
			require.Empty(t, out, "main prints the error, and nobody the usage")
			require.NotContains(t, err.Error(), "a-secret-token")
		})
	}
}

func TestNamespaceOfThePod(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "from-the-pod")
	cmd := command()
	require.Equal(t, "from-the-pod", cmd.Flag("namespace").Value.String())
	require.NoError(t, cmd.ParseFlags([]string{"--namespace=mine"}))
	require.Equal(t, "mine", cmd.Flag("namespace").Value.String(), "the flag wins")
}

// freeAddress returns a loopback address with a port that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

func get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// build compiles a command where what was compiled before is kept, and returns its path.
func build(t *testing.T, dir string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".build", "operator-test", filepath.Base(dir)))
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", dir, "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// startCluster runs a local control plane with the CRDs until the test ends.
func startCluster(t *testing.T) (kubeconfig string, api client.Client) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig = filepath.Join(dir, "kubeconfig")
	cmd := exec.Command(build(t, "../devcluster"), "--name=home", "--dir="+filepath.Join(dir, "state"), "--kubeconfig="+kubeconfig,
		"--parent-pid="+strconv.Itoa(os.Getpid()))
	var log bytes.Buffer
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	})
	require.Eventually(t, func() bool { _, err := os.Stat(kubeconfig); return err == nil }, 3*time.Minute, 50*time.Millisecond)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, host.AddToScheme(scheme))
	api, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	crds, err := filepath.Glob("../../deploy/crds/*.yaml")
	require.NoError(t, err)
	for _, path := range crds {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		crd := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(raw, crd))
		require.NoError(t, api.Create(t.Context(), crd))
	}
	require.Eventually(t, func() bool { return api.List(t.Context(), &v1alpha1.StackList{}) == nil }, time.Minute, 50*time.Millisecond)
	return kubeconfig, api
}

// An operator that is told to end gives up everything: its lease, its ports and its
// goroutines.
func TestRunLeavesNothing(t *testing.T) {
	kubeconfig, api := startCluster(t)
	const namespace = "caisson-system"
	require.NoError(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))

	metrics, health, worker, cache := freeAddress(t), freeAddress(t), build(t, "../caisson-worker"), filepath.Join(t.TempDir(), "cache")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := execute(ctx, "--kubeconfig="+kubeconfig, "--namespace="+namespace, "--cache-dir="+cache,
			"--worker="+worker,
			"--metrics-bind-address="+metrics, "--health-probe-bind-address="+health)
		ended <- err
	}()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "caisson-operator"}}
	require.Eventually(t, func() bool {
		select {
		case err := <-ended:
			require.NoError(t, err)
			require.Fail(t, "it ended by itself")
		default:
		}
		if err := api.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		for _, url := range []string{"http://" + health + "/readyz", "http://" + health + "/healthz", "http://" + metrics + "/metrics"} {
			if code, err := get(ctx, url); err != nil || code != http.StatusOK {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond, "it does not become ready")
	require.NotEmpty(t, *lease.Spec.HolderIdentity)

	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err, "being told to end is no failure")
	case <-time.After(time.Minute):
		require.Fail(t, "it does not end")
	}
	require.NoError(t, api.Get(t.Context(), client.ObjectKeyFromObject(lease), lease))
	require.Empty(t, lease.Spec.HolderIdentity, "the next one need not wait for the lease to run out")
	for _, address := range []string{metrics, health} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		require.NoError(t, err, "its ports are free")
		require.NoError(t, listener.Close())
	}
	require.Eventually(t, func() bool { return ourGoroutines() == "" }, 20*time.Second, 20*time.Millisecond, "these still run:\n%s", ourGoroutines())
}

// ourGoroutines are the stacks of goroutines that run the product's code.
func ourGoroutines() string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	var ours []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, "caisson-dev/caisson/host/") {
			ours = append(ours, stack)
		}
	}
	return fmt.Sprint(strings.Join(ours, "\n\n"))
}
