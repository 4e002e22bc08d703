package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd/helm"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/plan"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/scope"
)

// Options say what a host is made of. Namespace and CacheDir are required.
type Options struct {
	// Namespace is the operator's own, where inventories, module state and registrations
	// are kept out of reach of tenants.
	Namespace string
	// CacheDir holds artifacts, native code and charts, each in a directory of its own. It
	// must be private: native code out of it is run.
	CacheDir string
	// Worker is the command of the worker; see sandbox.Options.
	Worker []string
	// MaxWorkers caps the worker processes; see sandbox.Options.
	MaxWorkers int
	// Limits are those of modules that set none.
	Limits sandbox.Limits
	// PlainHTTPHosts are registries that may be spoken to without TLS. Those on loopback
	// always may.
	PlainHTTPHosts []string
	// Kubeconfigs is what the kubeconfigs of remotes may hold.
	Kubeconfigs scope.KubeconfigPolicy
	// DefaultServiceAccount is for Stacks that name none; empty refuses them.
	DefaultServiceAccount string
	// Resync is how often a converged Stack is looked at though nothing happened;
	// controller.DefaultResync if 0.
	Resync time.Duration
	// Metrics takes the collectors; controller-runtime's registry if nil.
	Metrics prometheus.Registerer
	// Logger gets what operators need to know; discarded if it has no sink.
	Logger logr.Logger
}

// memoSize is how many module calls are remembered: 128 nodes of 128 busy Stacks.
const memoSize = 16384

// digestKeyName is the Secret that holds the key of secret digests.
const digestKeyName = "caisson-digest-key"

// RunWorkerIfRequested turns the process into a sandbox worker if it was started as one,
// and does not return then. An embedder calls it first in main.
func RunWorkerIfRequested() { sandbox.RunWorkerIfRequested() }

// AddToScheme registers what a manager's scheme needs: the types of Kubernetes and ours.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// New assembles a host and adds its controllers to a manager. The context is used while
// it is made: an error means that a part could not be, and names it.
func New(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if o.Namespace == "" || o.CacheDir == "" {
		return errors.New("a host needs a namespace of its own and a cache directory")
	}
	if o.Metrics == nil {
		o.Metrics = metrics.Registry
	}
	logger := slog.New(logr.ToSlogHandler(o.Logger))
	own, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("make the operator's own client: %w", err)
	}
	key, err := digestKey(ctx, own, o.Namespace)
	if err != nil {
		return err
	}
	box, err := sandbox.New(sandbox.Options{
		Worker: o.Worker, CacheDir: filepath.Join(o.CacheDir, "native"), Limits: o.Limits,
		MaxWorkers: o.MaxWorkers, Logger: logger.With("part", "sandbox"),
	})
	if err != nil {
		return fmt.Errorf("make the sandbox: %w", err)
	}
	artifacts, err := registry.New(registry.Options{
		CacheDir: filepath.Join(o.CacheDir, "artifacts"), PlainHTTPHosts: o.PlainHTTPHosts, Logger: logger.With("part", "registry"),
	})
	if err != nil {
		return fmt.Errorf("make the registry client: %w", err)
	}
	driver, err := helm.New(helm.Options{
		Namespace: o.Namespace, Client: own, CacheDir: filepath.Join(o.CacheDir, "charts"),
		PlainHTTP: o.PlainHTTPHosts, Logger: o.Logger.WithName("helm"),
	})
	if err != nil {
		return fmt.Errorf("make the helm driver: %w", err)
	}
	if err := mgr.Add(closeAtEnd{driver: driver, box: box}); err != nil {
		return fmt.Errorf("add the end of the host: %w", err)
	}
	counters, err := controller.NewMetrics(o.Metrics)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	modules := controller.NewModules(mgr.GetClient(), counters, time.Now)
	if err := setupModules(mgr, o, own, artifacts, box, modules); err != nil {
		return err
	}
	clients := scope.NewClientCache(scope.ClientCacheOptions{Scheme: mgr.GetScheme(), Home: mgr.GetConfig(), Policy: o.Kubeconfigs})
	memo := module.NewMemo(memoSize)
	state := controller.NewStateStore(own, o.Namespace)
	events := mgr.GetEventRecorder("caisson")
	p := &planner{
		cache: plan.NewCache(0), state: state,
		dependencies: plan.Dependencies{
			Driver: driver, Clients: clients, Catalogue: controller.NewCatalogue(mgr.GetClient()), Modules: modules,
			Memo: memo, Events: controller.ModuleEvents(events), SecretKey: key,
		},
	}
	stacks := &controller.StackReconciler{
		Client: mgr.GetClient(), Planner: p, Tenants: tenants{clients}, Memory: memo, Inventory: driver, State: state,
		Events: events, Metrics: counters, Wakes: controller.NewWakes(), Index: controller.NewInputIndex(),
		DefaultServiceAccount: o.DefaultServiceAccount, Resync: o.Resync,
	}
	if err := controller.SetupStack(mgr, stacks, driver); err != nil {
		return fmt.Errorf("set up the stack controller: %w", err)
	}
	return nil
}

func setupModules(mgr ctrl.Manager, o Options, own client.Client, artifacts *registry.Client, box *sandbox.Sandbox, modules *controller.Modules) error {
	reconciler := &controller.ModuleReconciler{
		Client: mgr.GetClient(), Modules: modules,
		Source: &source{artifacts: artifacts, secrets: own},
		Loader: &loader{box: box, limits: o.Limits},
	}
	if err := controller.SetupModule(mgr, reconciler); err != nil {
		return fmt.Errorf("set up the module controller: %w", err)
	}
	return nil
}

// digestKey reads the key of secret digests, or makes it. It lives as long as the
// installation, so that an unchanged secret keeps its digest over restarts.
func digestKey(ctx context.Context, own client.Client, namespace string) ([]byte, error) {
	const entry, size = "key", 32
	key := make([]byte, size)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make the key of secret digests: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: digestKeyName},
		Data:       map[string][]byte{entry: key},
	}
	err := own.Create(ctx, secret)
	if err == nil {
		return key, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("make secret %s/%s: %w", namespace, digestKeyName, err)
	}
	existing := &corev1.Secret{}
	if err := own.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
		return nil, fmt.Errorf("read secret %s/%s: %w", namespace, digestKeyName, err)
	}
	if len(existing.Data[entry]) != size {
		return nil, fmt.Errorf("secret %s/%s does not hold a key of %d bytes; delete it to have a new one made", namespace, digestKeyName, size)
	}
	return existing.Data[entry], nil
}

// closeTimeout is how long running Helm actions may take to end: less than the 30 s that
// a pod is given to stop.
const closeTimeout = 20 * time.Second

// closeAtEnd lets running actions end and then ends the workers when the manager stops,
// on every replica.
type closeAtEnd struct {
	driver *helm.Driver
	box    *sandbox.Sandbox
}

var (
	_ manager.Runnable               = closeAtEnd{}
	_ manager.LeaderElectionRunnable = closeAtEnd{}
)

// Start implements manager.Runnable.
func (c closeAtEnd) Start(ctx context.Context) error {
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return errors.Join(c.driver.Close(ending), c.box.Close())
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c closeAtEnd) NeedLeaderElection() bool { return false }
