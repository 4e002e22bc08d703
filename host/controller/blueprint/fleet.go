package blueprint

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// FleetOptions are what runs share. All but Clock and Logger are required.
type FleetOptions struct {
	// Config and HTTPClient reach the API server as the operator.
	Config     *rest.Config
	HTTPClient *http.Client
	Scheme     *runtime.Scheme
	// Client writes Stacks, Stacks reads them from a cache, and Live from the API server.
	Client client.Client
	Stacks client.Reader
	Live   client.Reader
	// Events records what owners cannot be told in their conditions.
	Events events.EventRecorder
	// Clock is time.Now if nil.
	Clock func() time.Time
	// Logger gets what operators need to know.
	Logger logr.Logger
}

// Fleet is the controllers that run for Blueprints, at most one for each kind. It is a
// Runnable of a manager, under whose context they run. It is safe for concurrent use.
type Fleet struct {
	options FleetOptions
	// notify is told that something about the run of a Blueprint has changed.
	notify atomic.Pointer[func(blueprint string, uid types.UID, what news)]

	mu   sync.Mutex
	base context.Context //nolint:containedctx // It is the life of the manager, which runs are started in later.
	runs map[schema.GroupKind]*run
}

// news is what a run tells.
type news int

const (
	// countsChanged is about owners.
	countsChanged news = iota
	// rightsLost is about the kind: it may have gone, or the right to watch it or to write
	// to its objects.
	rightsLost
)

var (
	_ manager.Runnable               = (*Fleet)(nil)
	_ manager.LeaderElectionRunnable = (*Fleet)(nil)
)

// NewFleet returns a fleet without runs.
func NewFleet(o FleetOptions) *Fleet {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Fleet{options: o, runs: map[schema.GroupKind]*run{}}
}

// Start lets runs start, and ends them all with its context.
func (f *Fleet) Start(ctx context.Context) error {
	f.mu.Lock()
	f.base = ctx
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	for gk, r := range f.runs {
		r.stop()
		delete(f.runs, gk)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: one operator writes.
func (f *Fleet) NeedLeaderElection() bool { return true }

// ensure has an order carried out, and returns the run that does, or nil as long as the
// manager has not started or is about to end. A run that has failed is started again.
func (f *Fleet) ensure(ctx context.Context, o *order) (*run, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base == nil || f.base.Err() != nil {
		return nil, nil //nolint:nilnil // Nothing runs, and nothing has failed.
	}
	gk := o.kind.gvk.GroupKind()
	r := f.runs[gk]
	if r != nil && (r.failed() != nil || !r.kind.same(o.kind) || r.order.Load().uid != o.uid) {
		r.stop()
		r = nil
	}
	if r == nil {
		r = f.start(f.base, o)
		f.runs[gk] = r
		return r, nil
	}
	return r, r.follow(ctx, o)
}

// stop ends the run that a Blueprint has for a kind, and returns when nothing of it is
// left.
func (f *Fleet) stop(gk schema.GroupKind, blueprint types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.runs[gk]
	if r == nil || r.order.Load().uid != blueprint {
		return
	}
	r.stop()
	delete(f.runs, gk)
}

// wake looks at an owner, if its kind has a run.
func (f *Fleet) wake(gk schema.GroupKind, owner types.NamespacedName) {
	f.mu.Lock()
	r := f.runs[gk]
	f.mu.Unlock()
	if r == nil {
		return
	}
	if !r.kind.namespaced {
		owner.Namespace = ""
	}
	r.wake(owner)
}

// listen has runs tell somebody what changes.
func (f *Fleet) listen(notify func(blueprint string, uid types.UID, what news)) {
	f.notify.Store(&notify)
}

func (f *Fleet) changed(r *run, what news) {
	if notify := f.notify.Load(); notify != nil {
		o := r.order.Load()
		(*notify)(o.name, o.uid, what)
	}
}
