package remotecluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/scope"
)

func owner() scope.Owner {
	return scope.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team-a", Name: "platform", UID: "u-1"}
}

func identifier(name string) scope.ResourceIdentifier {
	return scope.ResourceIdentifier{Owner: owner(), Path: name, Name: name}
}

func kubeconfig(server string) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "s3cr3t"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	return config
}

// answer is one answer of a resolver.
type answer struct {
	config *clientcmdapi.Config
	err    error
}

// resolver answers from a script whose last entry repeats, and notes the scope that it
// was asked in.
type resolver struct {
	name string

	mu      sync.Mutex
	answers []answer
	scopes  []string
}

func (r *resolver) ID() *scope.ResourceIdentifier {
	id := identifier(r.name)
	return &id
}

func (r *resolver) Config(ctx context.Context) (*clientcmdapi.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	enclosing, _ := scope.FromContext(ctx)
	r.scopes = append(r.scopes, enclosing.ID())
	next := r.answers[0]
	if len(r.answers) > 1 {
		r.answers = r.answers[1:]
	}
	return next.config, next.err
}

// clients makes real connections and answers for clusters that do not exist.
type clients struct {
	cache *scope.ClientCache

	mu          sync.Mutex
	unreachable map[string]error         // by host
	again       map[string]time.Duration // by host
	probes      int
}

func newClients() *clients {
	return &clients{cache: scope.NewClientCache(scope.ClientCacheOptions{}), unreachable: map[string]error{}, again: map[string]time.Duration{}}
}

func (c *clients) Remote(kubeconfig *clientcmdapi.Config) (*scope.Connection, error) {
	return c.cache.Remote(kubeconfig)
}

func (c *clients) Reachable(_ context.Context, connection *scope.Connection) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probes++
	host, _ := connection.Address()
	return c.unreachable[host]
}

func (c *clients) AskAgainIn(connection *scope.Connection) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	host, _ := connection.Address()
	return c.again[host]
}

// driver keeps registrations and applications in memory.
type driver struct {
	mu            sync.Mutex
	trace         *provisionertest.Trace
	registrations map[string]*clientcmdapi.Config
	installed     []cd.Installed

	registerErr, registeredErr, deregisterErr, listErr error
}

func newDriver(trace *provisionertest.Trace) *driver {
	return &driver{trace: trace, registrations: map[string]*clientcmdapi.Config{}}
}

func (d *driver) Register(_ context.Context, id scope.ResourceIdentifier, config *clientcmdapi.Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trace.Add("register " + id.Path)
	if d.registerErr != nil {
		return d.registerErr
	}
	d.registrations[id.Hash()] = config
	return nil
}

func (d *driver) Registered(_ context.Context, id scope.ResourceIdentifier) (*clientcmdapi.Config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.registeredErr != nil {
		return nil, d.registeredErr
	}
	if config := d.registrations[id.Hash()]; config != nil {
		return config, nil
	}
	return nil, fmt.Errorf("registration of %s: %w", id.Path, provisioner.ErrNotFound)
}

func (d *driver) Deregister(_ context.Context, id scope.ResourceIdentifier) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trace.Add("deregister " + id.Path)
	if d.deregisterErr != nil {
		return d.deregisterErr
	}
	delete(d.registrations, id.Hash())
	return nil
}

func (d *driver) List(_ context.Context, of scope.Owner) ([]cd.Installed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listErr != nil {
		return nil, d.listErr
	}
	var found []cd.Installed
	for _, i := range d.installed {
		if i.ID.Owner == of {
			found = append(found, i)
		}
	}
	return found, nil
}

func (d *driver) Ensure(context.Context, scope.Scope, *cd.Application) error { return nil }

func (d *driver) Remove(context.Context, scope.Scope, scope.ResourceIdentifier) error { return nil }

func (d *driver) install(remote, app string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.installed = append(d.installed, cd.Installed{ID: identifier(app), ScopeID: identifier(remote).Hash(), Release: app})
}

func (d *driver) removeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.installed = nil
}

func (d *driver) registered(name string) *clientcmdapi.Config {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.registrations[identifier(name).Hash()]
}

// world is everything around a bracket.
type world struct {
	trace    *provisionertest.Trace
	driver   *driver
	clients  *clients
	resolver *resolver
}

func newWorld(answers ...answer) *world {
	trace := &provisionertest.Trace{}
	return &world{trace: trace, driver: newDriver(trace), clients: newClients(), resolver: &resolver{name: "workload", answers: answers}}
}

func ready() answer   { return answer{config: kubeconfig("https://workload.example:6443")} }
func pending() answer { return answer{err: provisioner.Yield(abi.ReasonRemotePending, "no secret")} }
func gone() answer    { return answer{err: fmt.Errorf("cluster: %w", provisioner.ErrNotFound)} }

func (w *world) options(ownership remotecluster.Ownership) remotecluster.Options {
	return remotecluster.Options{
		Remote: w.resolver, Clusters: w.driver, Applications: w.driver, Clients: w.clients, Ownership: ownership,
	}
}

// leaf is a child that notes the scope that it is called in.
func (w *world) leaf(name string) *provisionertest.Child {
	note := func(op string) provisionertest.Hook {
		return func(ctx context.Context) error {
			s, _ := scope.FromContext(ctx)
			host, port := s.Address()
			credential := "no config"
			if s.Config() != nil && s.Client() != nil {
				credential = "config"
			}
			w.trace.Add(fmt.Sprintf("%s %s on %s: %s, %s:%d, %s, %s", op, name, s.RemoteID().Path, s.State(), host, port, s.Teardown(), credential))
			return nil
		}
	}
	return provisionertest.New(name, nil).OnUp(note("P")).OnDown(note("D"))
}

// home returns a context with the home scope.
func home(tb testing.TB) context.Context {
	tb.Helper()
	return scope.NewContext(tb.Context(), scope.NewHome(owner(), nil, nil))
}

// finding is the part of an outcome that most tests look at.
type finding struct {
	class    abi.Disposition
	headline abi.Disposition
	reason   string
}

func requireFinding(t *testing.T, want finding, err error) {
	t.Helper()
	outcome := provisioner.OutcomeOf(err)
	require.False(t, outcome.Cancelled)
	require.Equal(t, want, finding{outcome.Class, outcome.Headline.Disposition, outcome.Headline.Reason}, "%v", err)
}

func yields(reason string) finding  { return finding{abi.Yield, abi.Yield, reason} }
func retries(reason string) finding { return finding{abi.Retry, abi.Retry, reason} }
