package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// nestedPlatform has a cluster that is made by an application at home, a remote on it, and
// another remote on that. The module lb frees load balancers, which outlive a cluster.
const nestedPlatform = `
remotes:
- {name: workload, owned: true, teardown: Drain, unreachableGrace: 15m, kubeconfigSecret: {name: workload-kubeconfig}}
- {name: inner, owned: true, within: workload, kubeconfigSecret: {name: inner-kubeconfig}}
root: all
provisioners:
- {name: all, serial: {children: [cluster, on-workload]}}
- {name: cluster, application: {ref: cluster}}
- {name: on-workload, remotecluster: {remote: workload, child: platform}}
- {name: platform, serial: {children: [cni, lb, on-inner]}}
- {name: cni, application: {ref: cni}}
- {name: lb, module: {ref: lb}}
- {name: on-inner, remotecluster: {remote: inner, child: app}}
- {name: app, application: {ref: app}}
`

// site is a cluster: as much of an API server as a remote needs, which can be stopped.
type site struct {
	*httptest.Server

	mu      sync.Mutex
	down    bool
	hangs   bool
	asked   int
	secrets map[string][]byte
	release chan struct{}
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{secrets: map[string][]byte{}, release: make(chan struct{})}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(func() {
		close(s.release)
		s.Close()
	})
	return s
}

func (s *site) set(change func(s *site)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *site) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked++
	down, hangs, secrets := s.down, s.hangs, maps.Clone(s.secrets)
	s.mu.Unlock()
	switch {
	case hangs:
		select {
		case <-s.release:
		case <-r.Context().Done():
		}
		return
	case down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; {
	case r.URL.Path == "/version":
		answer = map[string]string{"gitVersion": "v1.37.0"}
	case r.URL.Path == "/api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case r.URL.Path == "/apis":
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	case r.URL.Path == "/api/v1":
		answer = metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1",
			APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"get"}}},
		}
	case secrets[name] != nil:
		answer = corev1.Secret{
			TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
			Data: map[string][]byte{"value": secrets[name]},
		}
	default:
		w.WriteHeader(http.StatusNotFound)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// platform is a world whose driver does as the teardown of the scope says, and whose
// workloads are there whatever the driver knows of them.
type platform struct {
	*world

	stack    *v1alpha1.Stack
	workload *site
	inner    *site
	// memo is over all passes; nil remembers nothing.
	memo *module.Memo
	// workloads are running or terminating, by path.
	workloads map[string]string
}

func newPlatform(t *testing.T, spec string) *platform {
	t.Helper()
	stack := parseStack(t, spec)
	p := &platform{world: newWorld(t, stack), stack: stack, workload: newSite(t), inner: newSite(t), workloads: map[string]string{}}
	p.clock = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	p.connect(scope.DefaultProbeTimeout)
	p.workload.secrets["inner-kubeconfig"] = kubeconfigOf(t, p.inner.Server)
	p.kubeconfig(t, kubeconfigOf(t, p.workload.Server))
	return p
}

// connect forgets all connections; those to come have so long to answer.
func (p *platform) connect(probe time.Duration) {
	p.clients = scope.NewClientCache(scope.ClientCacheOptions{Now: p.now, IdleTimeout: 1000 * time.Hour, ProbeTimeout: probe})
}

// kubeconfig replaces that of the workload cluster.
func (p *platform) kubeconfig(t *testing.T, raw []byte) {
	t.Helper()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: "team", Name: "workload-kubeconfig"}
	require.NoError(t, p.home.Client().Get(t.Context(), key, &secret))
	secret.Data["value"] = raw
	require.NoError(t, p.home.Client().Update(t.Context(), &secret))
}

func (p *platform) delete() {
	at := metav1.NewTime(p.now())
	p.stack.DeletionTimestamp = &at
}

func (p *platform) later(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock = p.clock.Add(d)
}

// pass runs a pass as the controller does, which keeps what was given up.
func (p *platform) pass(ctx context.Context, t *testing.T, title string) provisioner.Outcome {
	t.Helper()
	deps := p.dependencies()
	deps.Driver, deps.Modules, deps.Memo = p, ModulesFunc(p.module), p.memo
	tree, err := Build(p.stack, deps)
	require.NoError(t, err)
	p.logf("== %s", title)
	if p.stack.DeletionTimestamp != nil {
		err = tree.Deprovision(p.context(ctx))
	} else {
		err = tree.Provision(p.context(ctx))
	}
	outcome := provisioner.OutcomeOf(err)
	p.logf("-- %s %s %s", outcome.Class, outcome.Headline.Reason, outcome.Headline.Path)
	if added := slices.DeleteFunc(tree.Abandoned(), func(line string) bool { return slices.Contains(p.stack.Status.Abandoned, line) }); len(added) > 0 {
		p.logf("   abandoned: %s", strings.Join(added, "; "))
	}
	p.stack.Status.Abandoned = tree.Abandoned()
	return outcome
}

// settle lets the clusters finish what they were told, and a driver that does not wait
// for it forget what is done.
func (p *platform) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(p.workloads)) {
		switch p.workloads[path] {
		case "discarded":
			p.logf("   %s went by itself", path)
			delete(p.workloads, path)
			delete(p.installed, path)
		case "terminating":
			delete(p.workloads, path)
		}
	}
}

// runs are the workloads that nobody has touched.
func (p *platform) runs() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := []string{}
	for _, path := range slices.Sorted(maps.Keys(p.workloads)) {
		if p.workloads[path] == "running" {
			running = append(running, path)
		}
	}
	return running
}

func (p *platform) nothingIsLeftAtHome(t *testing.T) {
	t.Helper()
	require.Empty(t, p.installed, "the inventory is empty")
	require.Empty(t, p.clusters, "no credentials are kept")
}

// module is one that tells what it was told, and lb needs a drain.
func (p *platform) module(ctx context.Context, namespace, name string) (*module.Instance, error) {
	instance, err := p.world.module(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	instance.Manifest.RequiresDrain = name == "lb"
	instance.Runtime = runtimeFunc(func(export string, input *abi.Input) (int32, []byte, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.logf("%s %s on %s, which is %s: %s", export, input.Node.Path, p.names[input.Scope.ID], input.Scope.State, input.Teardown)
		if err := p.next(input.Node.Path); err != nil {
			headline := provisioner.OutcomeOf(err).Headline
			return int32(headline.Disposition), fmt.Appendf(nil, `{"reason":%q}`, headline.Reason), nil
		}
		return 0, []byte("{}"), nil
	})
	return instance, nil
}

// Ensure implements cd.Applications.
func (p *platform) Ensure(ctx context.Context, to scope.Scope, app *cd.Application) error {
	if err := p.world.Ensure(ctx, to, app); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.workloads[app.ID.Path] = "running"
	p.installed[app.ID.Path] = cd.Installed{ID: app.ID, ScopeID: to.ID(), Release: app.ID.Name, Namespace: "ns"}
	return nil
}

// Remove implements cd.Applications.
func (p *platform) Remove(_ context.Context, from scope.Scope, id scope.ResourceIdentifier) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logf("remove %s from %s, which is %s: %s", id.Path, p.names[from.ID()], from.State(), from.Teardown())
	if _, known := p.installed[id.Path]; !known {
		return nil
	}
	switch {
	case from.State() == abi.ScopeGone:
		delete(p.installed, id.Path)
		return nil
	case from.IsRemote() && from.Config() == nil:
		return provisioner.Yield(abi.ReasonRemoteUnreachable, "")
	case from.Teardown() == abi.Orphan:
		delete(p.installed, id.Path)
		return nil
	case from.Teardown() == abi.Discard:
		p.workloads[id.Path] = "discarded"
		return nil
	}
	if _, there := p.workloads[id.Path]; there {
		p.workloads[id.Path] = "terminating"
		return provisioner.Yield(abi.ReasonApplicationDeleting, "")
	}
	delete(p.installed, id.Path)
	return nil
}

// failingList is a platform whose inventory can be read so many times, and then not any
// more.
type failingList struct {
	*platform

	after int
}

// List implements cd.Applications.
func (f *failingList) List(ctx context.Context, owner scope.Owner) ([]cd.Installed, error) {
	if f.after == 0 {
		return nil, provisioner.Retry(abi.ReasonUnexpected, "no inventory")
	}
	f.after--
	return f.platform.List(ctx, owner)
}
