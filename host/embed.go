package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/caisson-dev/caisson/host/controller"
)

// Host runs trees inside an operator of somebody else's; make one with [Embed]. Modules
// are loaded with [Host.LoadModule], and [Manage] adds a controller for a kind of one's
// own. Its methods are called before the manager starts.
type Host struct {
	mgr     ctrl.Manager
	options Options
	parts   *parts
	trees   *planner
	passes  *controller.StackReconciler
	records *controller.Records
	// granted are the modules that the program has loaded itself.
	granted *controller.Modules
	watched controller.Watched
}

// Embed assembles a host without any controller, and ends it with the manager. Nothing of
// Caisson's has to be installed on the cluster: its CRDs are needed after
// [Host.UseObjects] only. The manager's scheme must know the types of Kubernetes; see
// client-go's, or [AddToScheme]. The namespace of the options must exist.
//
// An error names the part that could not be made. One that Is sandbox.ErrWorkerUnusable
// says that main does not call [RunWorkerIfRequested], or that Options.Worker is wrong.
func Embed(ctx context.Context, mgr ctrl.Manager, o Options) (*Host, error) {
	if o.Namespace == "" || o.CacheDir == "" {
		return nil, errors.New("a host needs a namespace of its own and a cache directory")
	}
	if err := o.limitPolicy().check(); err != nil {
		return nil, err
	}
	if o.Metrics == nil {
		o.Metrics = metrics.Registry
	}
	p, err := newParts(ctx, mgr, o)
	if err != nil {
		return nil, err
	}
	trees := p.planner(mgr, o)
	for _, part := range []manager.Runnable{
		manager.RunnableFunc(trees.clients.Run), manager.RunnableFunc(p.driver.Run), closeAtEnd{driver: p.driver, box: p.box},
	} {
		if err := mgr.Add(part); err != nil {
			return nil, errors.Join(fmt.Errorf("add what drops idle connections and ends the host: %w", err), p.box.Close())
		}
	}
	return &Host{
		mgr: mgr, options: o, parts: p, trees: trees, passes: p.passes(mgr, o, trees),
		records: controller.NewRecords(p.own, o.Namespace),
		granted: controller.NewModules(mgr.GetClient(), p.counters, time.Now, p.box.MaxWorkers()),
	}, nil
}

// UseObjects lets trees use Module and Application objects by their names, and adds the
// controller that loads the former. Their CRDs must be installed. Call it before [Manage].
func (h *Host) UseObjects() error {
	err := controller.SetupModule(h.mgr, &controller.ModuleReconciler{
		Client: h.mgr.GetClient(), Modules: h.trees.modules,
		Source: &source{artifacts: h.parts.artifacts, secrets: h.parts.own},
		Loader: &loader{box: h.parts.box, policy: h.options.limitPolicy()},
	})
	if err != nil {
		return errors.Join(fmt.Errorf("set up the module controller: %w", err), h.parts.box.Close())
	}
	h.watched = controller.CaissonObjects
	return nil
}
