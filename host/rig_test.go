package host_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/caisson-dev/caisson/host"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

const (
	operatorNamespace = "caisson-system"
	operatorAccount   = "caisson-operator"
	// placeholder stands for the registry in the example's manifests.
	placeholder = "registry.example.com"
	// patience bounds every wait. It is an upper bound for a machine that does a lot else,
	// and says nothing about how long things take.
	patience = 2 * time.Minute
	poll     = 50 * time.Millisecond
)

// rig is the operator on a real control plane, with another one as the remote, shared by
// the tests of the package. Each test has Stacks and namespaces of its own.
type rig struct {
	home, workload       *testenv.Cluster
	admin, workloadAdmin client.WithWatch
	registry             *registrytest.Registry
	cleanups             []func()
	requests             *requestLog
	log                  *syncBuffer
	collectors           *prometheus.Registry
	stopped              chan error
	worker               string
	// wasm holds the modules by name, with their manifests.
	wasm map[string][]byte
}

// theRig starts it when the first test asks for it, so that unit tests alone stay quick.
var theRig = sync.OnceValues(startRig)

func TestMain(m *testing.M) {
	// The binary serves as the worker of an embedder; see TestEmbeddedWorker.
	host.RunWorkerIfRequested()
	flag.Parse()
	code := m.Run()
	if started {
		r, _ := theRig()
		if code != 0 && r.log != nil {
			fmt.Fprintf(os.Stderr, "the end of the operator's log:\n%s\n", r.log.tail(8<<10))
		}
		r.stop()
	}
	os.Exit(code)
}

// started says that there is something to stop.
var started bool

// needRig returns the rig, or fails the test.
func needRig(t *testing.T) *rig {
	t.Helper()
	r, err := theRig()
	require.NoError(t, err)
	return r
}

func startRig() (*rig, error) {
	started = true
	r := &rig{requests: &requestLog{}, log: &syncBuffer{}, collectors: prometheus.NewRegistry(), stopped: make(chan error, 1)}
	var group errgroup.Group
	group.Go(func() (err error) { r.home, err = testenv.StartMain(); return err })
	group.Go(func() (err error) { r.workload, err = testenv.StartMain(); return err })
	group.Go(func() (err error) {
		r.worker, err = testenv.Build("./cmd/caisson-worker", "caisson-worker", "CGO_ENABLED=0")
		return err
	})
	if err := group.Wait(); err != nil {
		return r, err
	}
	scheme := runtime.NewScheme()
	if err := host.AddToScheme(scheme); err != nil {
		return r, err
	}
	var err error
	if r.admin, err = client.NewWithWatch(r.home.Config, client.Options{Scheme: scheme}); err != nil {
		return r, err
	}
	if r.workloadAdmin, err = client.NewWithWatch(r.workload.Config, client.Options{Scheme: scheme}); err != nil {
		return r, err
	}
	r.registry = registrytest.New(r)
	if err := r.publish(); err != nil {
		return r, err
	}
	return r, r.startOperator(scheme)
}

// startOperator installs what we ship, and runs the host as the identity that we ship.
func (r *rig) startOperator(scheme *runtime.Scheme) error {
	ctx, stop := context.WithCancel(context.Background())
	r.Cleanup(stop)
	root, err := testenv.ModuleRoot()
	if err != nil {
		return err
	}
	for _, path := range []string{"deploy/crds", "deploy/rbac.yaml"} {
		if _, err := testenv.ApplyPath(ctx, r.admin, filepath.Join(root, path)); err != nil {
			return err
		}
	}
	// An API server that is busy serves a kind some seconds after its CRD has come.
	for _, list := range []client.ObjectList{&v1alpha1.StackList{}, &v1alpha1.ModuleList{}, &v1alpha1.ApplicationList{}, &v1alpha1.BlueprintList{}} {
		err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
			return r.admin.List(ctx, list) == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait for %T: %w", list, err)
		}
	}
	config, err := r.operatorConfig(ctx)
	if err != nil {
		return err
	}
	logger := r.logger()
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "caisson-host-test-")
	if err != nil {
		return err
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	// The ceiling of a limit that only its own test sets.
	ceilings, err := host.ParseModuleLimits(map[string]string{"hostCalls": "5000"})
	if err != nil {
		return err
	}
	err = host.New(ctx, mgr, host.Options{
		Namespace: operatorNamespace, CacheDir: dir, Worker: []string{r.worker}, Metrics: r.collectors, Logger: logger,
		LimitCeilings: ceilings,
	})
	if err != nil {
		return err
	}
	go func() { r.stopped <- mgr.Start(ctx) }()
	r.Cleanup(func() {
		stop()
		<-r.stopped
	})
	return nil
}

// operatorConfig is access as the shipped ServiceAccount, which is no admin.
func (r *rig) operatorConfig(ctx context.Context) (*rest.Config, error) {
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = operatorNamespace, operatorAccount
	request := &authenticationv1.TokenRequest{}
	if err := r.admin.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("mint the operator's token: %w", err)
	}
	config := rest.AnonymousClientConfig(r.home.Config)
	config.BearerToken = request.Status.Token
	config.QPS, config.Burst = 100, 200
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return r.requests.wrap(next) }
	return config, nil
}

func (r *rig) logger() logr.Logger {
	return funcr.New(func(prefix, args string) { fmt.Fprintln(r.log, prefix, args) }, funcr.Options{LogTimestamp: true, Verbosity: 1})
}

func (r *rig) stop() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	for _, c := range []*testenv.Cluster{r.home, r.workload} {
		if c != nil {
			c.Stop()
		}
	}
}

// Helper, Cleanup and Fatalf make the rig a registrytest.TB, for what outlives one test.
func (r *rig) Helper() {}

// Cleanup implements registrytest.TB.
func (r *rig) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// Fatalf implements registrytest.TB.
func (r *rig) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// alive fails the test if the operator has ended.
func (r *rig) alive(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.stopped:
		r.stopped <- err
		require.NoError(t, err, "the operator has ended")
		t.Fatal("the operator has ended")
	default:
	}
}

// counters are those that a no-op is measured by.
type counters struct{ passes, calls, wakes int }

func (r *rig) counters(t *testing.T) counters {
	t.Helper()
	return counters{
		passes: sum(t, r.collectors, "caisson_passes_total", "", ""),
		calls:  sum(t, r.collectors, "caisson_module_calls_total", "", ""),
		wakes:  sum(t, metrics.Registry, "controller_runtime_reconcile_total", "controller", "stack"),
	}
}

// sum adds up the values of a counter, of those series that have a label of this value
// unless the label is empty.
func sum(t *testing.T, from prometheus.Gatherer, name, label, value string) int {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	total := 0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			counts := label == ""
			for _, l := range m.GetLabel() {
				counts = counts || l.GetName() == label && l.GetValue() == value
			}
			if counts {
				total += int(m.GetCounter().GetValue())
			}
		}
	}
	return total
}

// requestLog records what the operator asks its own API server.
type requestLog struct {
	mu   sync.Mutex
	list []string
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		// Two things are done by the clock, and by libraries: a watch that ends is opened
		// again, and a series of equal events is closed.
		watch := req.URL.Query().Get("watch") != ""
		series := req.Method == http.MethodPatch && strings.HasPrefix(req.URL.Path, "/apis/events.k8s.io/")
		if !watch && !series {
			who := req.Header.Get("Impersonate-User")
			l.mu.Lock()
			l.list = append(l.list, strings.TrimSpace(req.Method+" "+req.URL.Path+" "+who))
			l.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

// since returns what was asked after the first n requests.
func (l *requestLog) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list[n:])
}

func (l *requestLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// syncBuffer is a buffer for many writers.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// reset forgets what was written.
func (b *syncBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buffer.Reset()
}

// count returns how often a text was written.
func (b *syncBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(b.buffer.Bytes(), []byte(text))
}

func (b *syncBuffer) tail(n int) string {
	text := b.String()
	return text[max(0, len(text)-n):]
}

// eventually waits until look says that it is done, and fails with what it saw last.
func eventually(t *testing.T, what string, look func() (done bool, seen string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		done, seen := look()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen in %s; the last that was seen: %s", what, patience, seen)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		case <-tick(t.Context()):
		}
	}
}

// tick fires after a moment, or with the context.
func tick(ctx context.Context) <-chan struct{} {
	moment, cancel := context.WithTimeout(ctx, poll)
	context.AfterFunc(moment, cancel)
	return moment.Done()
}
