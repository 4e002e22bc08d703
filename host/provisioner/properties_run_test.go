package provisioner_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"pgregory.net/rapid"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

// event is the beginning or the end of a call.
type event struct {
	call
	end bool
}

// pass is one call of the root of a real tree.
type pass struct {
	outcome  provisioner.Outcome
	panicked bool
	events   []event
	// registered are the brackets that are registered after it.
	registered map[int]bool
}

// calls are those that began.
func (p *pass) calls() []call {
	var calls []call
	for _, e := range p.events {
		if !e.end {
			calls = append(calls, e.call)
		}
	}
	return calls
}

// runner makes the real tree of a forest and runs it. Each leaf takes the time that
// delays has for it; in a bubble of synctest that decides exactly which one ends first.
type runner struct {
	*forest
	delays   []time.Duration
	shutdown context.CancelCauseFunc
	brackets []*remotecluster.Bracket

	mu         sync.Mutex
	events     []event
	registered map[int]bool
}

// run provisions and then deprovisions the tree of a forest, each with an order of
// finishing of its own.
func (f *forest) run(t *testing.T, clients *scope.ClientCache, delays []time.Duration) (up, down pass) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &runner{forest: f, delays: delays, registered: map[int]bool{}}
		for i, b := range f.brackets {
			options := remotecluster.Options{
				Remote: resolver{index: i, ready: b.ready}, Clusters: r, Applications: r, Clients: reachable{clients},
			}
			if b.owned {
				options.Ownership = remotecluster.Owned
			}
			r.brackets = append(r.brackets, remotecluster.New(options))
		}
		tree := r.build(f.root)
		if f.root.kind == leafKind || f.root.has(remoteKind) { // Other roots keep from parking by themselves.
			tree = remotecluster.Around(tree, r.brackets...)
		}
		up = r.pass(t, tree.Provision)
		down = r.pass(t, tree.Deprovision)
	})
	return up, down
}

func (r *runner) pass(t *testing.T, call func(context.Context) error) (p pass) {
	ctx, cancel := context.WithCancelCause(scope.NewContext(t.Context(), scope.NewHome(anOwner(), nil, nil)))
	defer cancel(nil)
	r.shutdown, r.events = cancel, nil
	func() {
		defer func() { p.panicked = recover() != nil }()
		p.outcome = provisioner.OutcomeOf(call(ctx))
	}()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	p.events, p.registered = r.events, map[int]bool{}
	for i := range r.registered {
		p.registered[i] = true
	}
	return p
}

func (r *runner) build(n *node) provisioner.Provisioner {
	var children []provisioner.Provisioner
	for _, child := range n.children {
		children = append(children, r.build(child))
	}
	var built provisioner.Provisioner
	switch n.kind {
	case leafKind:
		built = provisionertest.New("leaf", nil).OnUp(r.leaf(call{leaf: n.id}, n.up)).OnDown(r.leaf(call{leaf: n.id, down: true}, n.down))
	case serialKind:
		built = serial.New("serial", children...)
	case concurrentKind:
		o := concurrent.Options{Limit: n.limit}
		if n.downSerial {
			o.Down = concurrent.Serial
		}
		built = concurrent.New("concurrent", o, children...)
	case conditionalKind:
		decisions := map[verdict]conditional.Decision{
			isTrue: conditional.True(), isFalse: conditional.False(), isUnknown: conditional.Unknown(n.unknown.err),
		}
		built = conditional.New("conditional", func(context.Context) conditional.Decision { return decisions[n.verdict] }, children[0])
	case remoteKind:
		built = r.brackets[n.remote].On("remote", children[0])
	}
	if n.segment == "" {
		return built
	}
	return named{built, n.segment}
}

func (r *runner) leaf(c call, does result) provisionertest.Hook {
	return func(ctx context.Context) error {
		r.note(event{call: c})
		time.Sleep(r.delays[c.leaf])
		r.note(event{call: c, end: true})
		switch {
		case does.panics:
			panic("random")
		case does.shutsDown:
			r.shutdown(provisioner.ErrShutdown)
			if r.root.kind == leafKind {
				return provisioner.ErrShutdown // Nobody is above it to tell.
			}
			return fmt.Errorf("get: %w", ctx.Err())
		default:
			return does.err
		}
	}
}

func (r *runner) note(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// The runner is the driver of its brackets: it registers, and nothing is installed.

func (r *runner) Register(_ context.Context, id scope.ResourceIdentifier, _ *clientcmdapi.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registered[indexOf(id)] = true
	return nil
}

func (r *runner) Registered(_ context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registered[indexOf(id)] {
		return aKubeconfig(), nil
	}
	return nil, provisioner.ErrNotFound
}

func (r *runner) Deregister(_ context.Context, id scope.ResourceIdentifier) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.registered, indexOf(id))
	return nil
}

func (*runner) Ensure(context.Context, scope.Scope, *cd.Application) error { return nil }

func (*runner) Remove(context.Context, scope.Scope, scope.ResourceIdentifier) error { return nil }

func (*runner) List(context.Context, scope.Owner) ([]cd.Installed, error) { return nil, nil }

// resolver finds a remote, or does not yet.
type resolver struct {
	index int
	ready bool
}

func (r resolver) ID() *scope.ResourceIdentifier {
	return &scope.ResourceIdentifier{Owner: anOwner(), Path: fmt.Sprintf("remote/%d", r.index), Name: fmt.Sprint(r.index)}
}

func (r resolver) Config(context.Context) (*clientcmdapi.Config, error) {
	if !r.ready {
		return nil, provisioner.Yield("remote_pending", "no kubeconfig")
	}
	return aKubeconfig(), nil
}

func indexOf(id scope.ResourceIdentifier) int {
	var index int
	_, _ = fmt.Sscan(id.Name, &index)
	return index
}

// reachable answers for clusters that do not exist.
type reachable struct{ *scope.ClientCache }

func (reachable) Reachable(context.Context, *scope.Connection) error { return nil }

func anOwner() scope.Owner {
	return scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "s", UID: "u"}
}

func aKubeconfig() *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://remote.example:6443"}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "t"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	return config
}

// drawDelays draws how long each leaf takes; equal ones leave the order to the scheduler.
func (f *forest) drawDelays(t *rapid.T) []time.Duration {
	delays := make([]time.Duration, f.leaves)
	for i := range delays {
		delays[i] = time.Duration(rapid.IntRange(0, 9).Draw(t, "delay")) * time.Second
	}
	return delays
}
