package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd/helm"
	"github.com/caisson-dev/caisson/host/controller"
	"github.com/caisson-dev/caisson/host/controller/blueprint"
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
	// IdleWorkerBytes is how much memory idle worker processes may hold together; see
	// sandbox.Options.
	IdleWorkerBytes int64
	// Limits are those of modules for which nobody says otherwise.
	Limits sandbox.Limits
	// DefaultLimits are those of Module objects that set none, in the words of such objects.
	DefaultLimits v1alpha1.ModuleLimits
	// LimitCeilings are the highest limits that a Module object may set. A Module that asks
	// for more is not loaded, and says both numbers. Where nobody asks for anything, they
	// lower what there is.
	LimitCeilings v1alpha1.ModuleLimits
	// AllowInProcess lets Module objects, and modules that the program loads, run in this
	// process if they ask for it; see sandbox.Sandbox.LoadInProcess for what does not hold there.
	// Whoever may write Modules can then end this process.
	AllowInProcess bool
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

// limitPolicy is what the options say of the limits of Module objects.
func (o Options) limitPolicy() limitPolicy {
	return limitPolicy{base: o.Limits, defaults: o.DefaultLimits, ceilings: o.LimitCeilings}
}

// memoSize is how many module calls are remembered: 128 nodes of 128 busy Stacks.
const memoSize = 16384

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
	h, err := Embed(ctx, mgr, o)
	if err != nil {
		return err
	}
	if err := h.UseObjects(); err != nil {
		return err
	}
	if err := controller.SetupStack(mgr, h.passes, h.parts.driver); err != nil {
		return errors.Join(fmt.Errorf("set up the stack controller: %w", err), h.parts.box.Close())
	}
	if err := blueprint.Setup(mgr, o.Logger.WithName("blueprint")); err != nil {
		return errors.Join(fmt.Errorf("set up the blueprint controller: %w", err), h.parts.box.Close())
	}
	return nil
}

// parts are what a host is made of.
type parts struct {
	own       client.Client
	key       []byte
	artifacts *registry.Client
	driver    *helm.Driver
	counters  *controller.Metrics
	// box comes last, because it has processes that must be ended.
	box *sandbox.Sandbox
}

func newParts(ctx context.Context, mgr ctrl.Manager, o Options) (*parts, error) {
	logger := slog.New(logr.ToSlogHandler(o.Logger))
	p := &parts{}
	var err error
	if p.own, err = client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()}); err != nil {
		return nil, fmt.Errorf("make the operator's own client: %w", err)
	}
	if p.key, err = digestKey(ctx, p.own, o.Namespace); err != nil {
		return nil, err
	}
	if p.artifacts, err = registry.New(registry.Options{
		CacheDir: filepath.Join(o.CacheDir, "artifacts"), PlainHTTPHosts: o.PlainHTTPHosts, Logger: logger.With("part", "registry"),
	}); err != nil {
		return nil, fmt.Errorf("make the registry client: %w", err)
	}
	if p.driver, err = helm.New(helm.Options{
		Namespace: o.Namespace, Client: p.own, CacheDir: filepath.Join(o.CacheDir, "charts"),
		PlainHTTP: o.PlainHTTPHosts, Logger: o.Logger.WithName("helm"),
	}); err != nil {
		return nil, fmt.Errorf("make the helm driver: %w", err)
	}
	if p.counters, err = controller.NewMetrics(o.Metrics); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if p.box, err = sandbox.New(sandbox.Options{
		Worker: o.Worker, CacheDir: filepath.Join(o.CacheDir, "native"), Limits: o.Limits,
		MaxWorkers: o.MaxWorkers, IdleBytes: o.IdleWorkerBytes, AllowInProcess: o.AllowInProcess, Logger: logger.With("part", "sandbox"),
	}); err != nil {
		return nil, fmt.Errorf("make the sandbox: %w", err)
	}
	if err := o.Metrics.Register(newSandboxMetrics(p.box.Stats)); err != nil {
		return nil, errors.Join(fmt.Errorf("register metrics of the sandbox: %w", err), p.box.Close())
	}
	return p, nil
}

// planner makes what all trees of a host have in common.
func (p *parts) planner(mgr ctrl.Manager, o Options) *planner {
	modules := controller.NewModules(mgr.GetClient(), p.counters, time.Now, p.box.MaxWorkers())
	return &planner{
		cache: plan.NewCache(0), state: controller.NewStateStore(p.own, o.Namespace), modules: modules,
		clients: scope.NewClientCache(scope.ClientCacheOptions{Scheme: mgr.GetScheme(), Home: mgr.GetConfig(), Policy: o.Kubeconfigs}),
		dependencies: plan.Dependencies{
			Driver: p.driver, Catalogue: controller.NewCatalogue(mgr.GetClient()), Modules: modules,
			Memo: module.NewMemo(memoSize), Events: controller.ModuleEvents(mgr.GetEventRecorder("caisson")), SecretKey: p.key,
		},
	}
}

// passes makes the reconciler of Stacks.
func (p *parts) passes(mgr ctrl.Manager, o Options, trees *planner) *controller.StackReconciler {
	return &controller.StackReconciler{
		Client: mgr.GetClient(), Planner: trees, Tenants: tenants{trees.clients}, Memory: trees.dependencies.Memo,
		Inventory: p.driver, State: trees.state, Events: mgr.GetEventRecorder("caisson"), Metrics: p.counters,
		Wakes: controller.NewWakes(), Index: controller.NewInputIndex(),
		DefaultServiceAccount: o.DefaultServiceAccount, Resync: o.Resync,
	}
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
