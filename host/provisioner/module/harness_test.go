package module_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

type hostFunc = func(ctx context.Context, name string, request []byte) []byte

// runtimeFunc is a guest in Go.
type runtimeFunc func(ctx context.Context, export string, input []byte, host hostFunc) (int32, []byte, error)

func (f runtimeFunc) Call(ctx context.Context, _, export string, input []byte, host func(ctx context.Context, name string, request []byte) []byte) (int32, []byte, error) {
	return f(ctx, export, input, host)
}

// answers is a guest that always says the same.
func answers(code int32, output string) runtimeFunc {
	return func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
		return code, []byte(output), nil
	}
}

// fault is what a runtime says of a call that did not end well.
type fault struct{ reason, text, trap string }

func (f fault) Error() string  { return f.text }
func (f fault) Reason() string { return f.reason }
func (f fault) Trap() string   { return f.trap }

// driver is a cd.Applications that answers as told and traces what it is asked.
type driver struct {
	mu        sync.Mutex
	trace     []string
	apps      []*cd.Application
	installed []cd.Installed
	ensure    error
	remove    error
	list      error
	hook      func()
}

var _ cd.Applications = (*driver)(nil)

func (d *driver) Ensure(_ context.Context, to scope.Scope, app *cd.Application) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hook != nil {
		d.hook()
	}
	d.trace = append(d.trace, fmt.Sprintf("ensure %s %s@%s", app.ID.Path, app.Chart, app.Version))
	d.apps = append(d.apps, app)
	d.installed = upsert(d.installed, cd.Installed{ID: app.ID, ScopeID: to.ID(), Release: app.Release, Namespace: app.Namespace, Version: app.Version})
	return d.ensure
}

func (d *driver) Remove(_ context.Context, from scope.Scope, id scope.ResourceIdentifier) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trace = append(d.trace, fmt.Sprintf("remove %s %s", id.Path, from.Teardown()))
	if d.remove == nil {
		var left []cd.Installed
		for _, i := range d.installed {
			if i.ID.Path != id.Path || i.ScopeID != from.ID() {
				left = append(left, i)
			}
		}
		d.installed = left
	}
	return d.remove
}

func (d *driver) List(context.Context, scope.Owner) ([]cd.Installed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]cd.Installed(nil), d.installed...), d.list
}

func (d *driver) calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.trace
	d.trace = nil
	return calls
}

func upsert(list []cd.Installed, app cd.Installed) []cd.Installed {
	for i := range list {
		if list[i].ID.Path == app.ID.Path {
			list[i] = app
			return list
		}
	}
	return append(list, app)
}

// facts is a module.Facts.
type facts struct {
	mu        sync.Mutex
	values    map[string]json.RawMessage
	published int
	err       error
}

func (f *facts) Snapshot() map[string]json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.values)
}

func (f *facts) Publish(_ context.Context, _ string, published map[string]json.RawMessage) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published++
	if f.err != nil {
		return f.err
	}
	if f.values == nil {
		f.values = map[string]json.RawMessage{}
	}
	maps.Copy(f.values, published)
	return nil
}

// state is a module.State. values, generation and sticky are its kinds, by path.
type state struct {
	mu                         sync.Mutex
	values, generation, sticky map[string]string
	saves                      []string
	load                       error
	save                       error
}

func (s *state) Load(_ context.Context, path string) (module.Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	get := func(from map[string]string) json.RawMessage {
		if value, ok := from[path]; ok {
			return json.RawMessage(value)
		}
		return nil
	}
	return module.Kept{State: get(s.values), Generation: get(s.generation), Sticky: get(s.sticky)}, s.load
}

func (s *state) Save(ctx context.Context, path string, kept module.Kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	line := path + "=" + string(kept.State)
	if kept.Generation != nil {
		line += " generation=" + string(kept.Generation)
	}
	if kept.Sticky != nil {
		line += " sticky=" + string(kept.Sticky)
	}
	s.saves = append(s.saves, line)
	if s.save != nil {
		return s.save
	}
	put := func(into *map[string]string, raw json.RawMessage) {
		if *into == nil {
			*into = map[string]string{}
		}
		if raw == nil {
			delete(*into, path)
			return
		}
		(*into)[path] = string(raw)
	}
	put(&s.values, kept.State)
	put(&s.generation, kept.Generation)
	put(&s.sticky, kept.Sticky)
	return nil
}

// world is everything around one module node.
type world struct {
	guest    runtimeFunc
	calls    int
	manifest abi.Manifest
	grant    capability.Grant
	instance error
	driver   *driver
	facts    *facts
	state    *state
	memo     *module.Memo
	now      time.Time
	inputs   []provisioner.Input
	events   []module.Event
	scope    scope.Scope
	limits   module.Limits
	options  module.Options
}

const nodePath = "all/on-workload/cni"

func owner() scope.Owner {
	return scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "s", UID: "u1", Generation: 3}
}

func newWorld(guest runtimeFunc) *world {
	w := &world{
		guest: guest, driver: &driver{}, facts: &facts{}, state: &state{},
		now:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		manifest: abi.Manifest{ABI: 1, Name: "cni", Version: "1.0.0", Capabilities: abi.Functions(), Reasons: []abi.ReasonText{{Code: "pool_exhausted", Sentence: "No address is left."}}},
		grant:    capability.Grant{Capabilities: abi.Functions()},
		scope:    scope.NewHome(owner(), nil, nil),
	}
	w.options = module.Options{
		Node: abi.Node{Name: "cni", Path: nodePath}, ID: scope.ResourceIdentifier{Owner: owner(), Path: nodePath, Name: "cni"},
		Driver: w.driver, Facts: w.facts, State: w.state,
		Inputs:    provisioner.InputRecorderFunc(func(i provisioner.Input) { w.inputs = append(w.inputs, i) }),
		Events:    module.EventRecorderFunc(func(_ context.Context, e module.Event) { w.events = append(w.events, e) }),
		SecretKey: []byte("0123456789abcdef0123456789abcdef"),
	}
	return w
}

// remote moves the node to another cluster.
func (w *world) remote(c client.Client, state abi.ScopeState, teardown abi.Teardown) *world {
	w.scope = w.scope.Remote(scope.RemoteCluster{
		ID: scope.ResourceIdentifier{Owner: owner(), Path: "workload"}, Client: c, Host: "api.example.com", Port: 6443, State: state, Teardown: teardown,
	})
	return w
}

// node returns a new node: each pass builds a tree of its own.
func (w *world) node() *module.Provisioner {
	o := w.options
	o.Memo = w.memo
	o.Clock = func() time.Time { return w.now }
	o.Instance = func(context.Context) (*module.Instance, error) {
		if w.instance != nil {
			return nil, w.instance
		}
		return &module.Instance{Name: "cni", Digest: "sha256:aa", Manifest: w.manifest, Grant: w.grant, Limits: w.limits, Runtime: runtimeFunc(
			func(ctx context.Context, export string, input []byte, host hostFunc) (int32, []byte, error) {
				w.calls++
				return w.guest(ctx, export, input, host)
			})}, nil
	}
	return module.New(o)
}

func (w *world) context(t *testing.T) context.Context {
	t.Helper()
	return scope.NewContext(t.Context(), w.scope)
}

func (w *world) provision(t *testing.T) error {
	t.Helper()
	return w.node().Provision(w.context(t))
}

func (w *world) deprovision(t *testing.T) error {
	t.Helper()
	return w.node().Deprovision(w.context(t))
}

// ask calls a host function from within a guest and decodes the answer.
func ask(t *testing.T, ctx context.Context, host hostFunc, f abi.Function, request, result any) *abi.CallError {
	t.Helper()
	raw, err := json.Marshal(request)
	require.NoError(t, err)
	var response abi.Response
	require.NoError(t, json.Unmarshal(host(ctx, string(f), raw), &response))
	if response.Error != nil {
		require.Nil(t, response.Result, "exactly one of the two is set")
		return response.Error
	}
	require.NotNil(t, response.Result, "exactly one of the two is set")
	if result != nil {
		require.NoError(t, json.Unmarshal(response.Result, result))
	}
	return nil
}

// once runs a body as the guest of one provision and expects OK.
func (w *world) once(t *testing.T, body func(ctx context.Context, host hostFunc)) {
	t.Helper()
	ran := false
	w.guest = func(ctx context.Context, _ string, _ []byte, host hostFunc) (int32, []byte, error) {
		ran = true
		body(ctx, host)
		return 0, nil, nil
	}
	require.NoError(t, w.provision(t))
	require.True(t, ran)
}

// demoApp is a spec that needs no catalogue.
func demoApp() abi.AppSpec {
	return abi.AppSpec{Repo: "oci://r.example.com/charts", Chart: "cilium", Version: "1.16.0", Namespace: "kube-system"}
}

// passOn is a guest that ensures one application and returns the driver's verdict.
func passOn(t *testing.T, spec func() abi.AppSpec) runtimeFunc {
	t.Helper()
	return func(ctx context.Context, export string, _ []byte, host hostFunc) (int32, []byte, error) {
		var status abi.AppStatus
		var callError *abi.CallError
		if export == abi.ExportProvision {
			callError = ask(t, ctx, host, abi.AppEnsure, spec(), &status)
		} else {
			callError = ask(t, ctx, host, abi.AppRemove, abi.AppRef{Name: spec().Name}, &status)
		}
		if callError != nil {
			return int32(abi.Retry), []byte(`{"reason":"unexpected","why":"` + string(callError.Code) + `"}`), nil
		}
		out, err := json.Marshal(abi.Output{Reason: status.Reason, Why: "application " + string(status.Phase), RetryAfterSeconds: status.RetryAfterSeconds})
		require.NoError(t, err)
		return int32(status.Disposition), out, nil
	}
}

var errDial = errors.New("dial tcp 10.0.0.7:6443: connect: connection refused")
