package remotecluster_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

const (
	pendingLine = " on workload: pending, :0, Drain, no config"
	goneLine    = " on workload: gone, :0, Drain, no config"
	storedLine  = " on workload: ready, stored.example:443, Drain, config"
)

func (w *world) stored(server string) {
	w.driver.registrations[identifier("workload").Hash()] = kubeconfig(server)
}

func TestCase067DeregisterAfterTheSweep(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	w.driver.install("workload", "cni")
	w.driver.install("elsewhere", "other")
	requireFinding(t, yields(abi.ReasonRemoteInUse), tree.Deprovision(home(t)))
	require.Equal(t, []string{"D cni" + readyLine}, w.trace.Calls(), "an application still addresses it")

	w.driver.removeAll()
	w.driver.install("elsewhere", "other")
	require.NoError(t, tree.Deprovision(home(t)), "one elsewhere does not count")
	require.Equal(t, []string{"D cni" + readyLine, "deregister workload"}, w.trace.Calls())
}

func TestCase067RemoteInUseNamesTheRemote(t *testing.T) {
	w := newWorld(ready())
	w.driver.install("workload", "cni")
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	require.NoError(t, bracket.On("a", w.leaf("cni")).Deprovision(home(t)))
	require.Equal(t, "workload", provisioner.OutcomeOf(bracket.Finish(home(t))).Headline.Path)
}

func TestCase068OneStillGoing(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	going := provisionertest.New("b", nil).Down(provisioner.Yield("application_deleting", ""), nil)
	tree := remotecluster.Around(concurrent.New("c", concurrent.Options{}, bracket.On("a", w.leaf("cni")), bracket.On("b", going)), bracket)
	requireFinding(t, yields("application_deleting"), tree.Deprovision(home(t)))
	require.Equal(t, []string{"D cni" + readyLine}, w.trace.Calls())
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, []string{"D cni" + readyLine, "deregister workload"}, w.trace.Calls())
}

func TestCase068NodesThatWereNotReached(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	going := provisionertest.New("x", nil).Down(provisioner.Yield("application_deleting", ""), nil)
	tree := remotecluster.Around(serial.New("s", bracket.On("a", w.leaf("cni")), going, bracket.On("b", w.leaf("app"))), bracket)
	requireFinding(t, yields("application_deleting"), tree.Deprovision(home(t)))
	require.Equal(t, []string{"D app" + readyLine}, w.trace.Calls(), "a node that was not called did not report OK")
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, []string{"D app" + readyLine, "D cni" + readyLine, "deregister workload"}, w.trace.Calls())
}

func TestDeregisterThoughOtherNodesYield(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	cluster := provisionertest.New("cluster", nil).Down(provisioner.Yield("application_deleting", ""))
	tree := remotecluster.Around(serial.New("s", cluster, bracket.On("a", w.leaf("cni"))), bracket)
	requireFinding(t, yields("application_deleting"), tree.Deprovision(home(t)))
	require.Equal(t, []string{"D cni" + readyLine, "deregister workload"}, w.trace.Calls())

	w.resolver.answers = []answer{pending()} // the cluster app has taken the kubeconfig with it
	requireFinding(t, yields("application_deleting"), tree.Deprovision(home(t)))
	require.Equal(t, []string{"deregister workload"}, w.trace.Calls(), "nothing is left to visit")
}

func TestCase070Gone(t *testing.T) {
	w := newWorld(gone())
	w.stored("https://stored.example")
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, []string{"D cni" + goneLine, "deregister workload"}, w.trace.Calls(), "the child runs, and knows")
	require.Zero(t, w.clients.probes, "nobody looks for a cluster that is gone")
}

// nest returns a tree with a remote "inner" on the remote "workload".
func (w *world) nest(inner *resolver) provisioner.Provisioner {
	options := w.options(remotecluster.Owned)
	options.Nested = []scope.ResourceIdentifier{identifier("inner")}
	outer := remotecluster.New(options)
	options = w.options(remotecluster.Owned)
	options.Remote = inner
	nested := remotecluster.New(options)
	return remotecluster.Around(outer.On("o", nested.On("i", w.leaf("app"))), outer, nested)
}

func TestCase071OuterGone(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		reach  error
		calls  []string
	}{
		"InnerLives": {
			"an inner cluster that answers is cleaned up", nil,
			[]string{"D app on inner: ready, inner.example:443, Drain, config", "deregister inner", "deregister workload"},
		},
		"InnerDied": {
			"one that does not went with the outer one", errors.New("no route"),
			[]string{"D app on inner: gone, :0, Drain, no config", "deregister inner", "deregister workload"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(gone())
			w.clients.unreachable["inner.example"] = test.reach
			w.driver.registrations[identifier("inner").Hash()] = kubeconfig("https://inner.example")
			inner := &resolver{name: "inner", answers: []answer{pending()}}
			require.NoError(t, w.nest(inner).Deprovision(home(t)))
			require.Equal(t, test.calls, w.trace.Calls(), test.reason)
			require.Empty(t, inner.scopes, "there is nowhere to ask")
			require.Empty(t, w.driver.registrations)
		})
	}
}

func TestCase071OuterPendingAndInnerInUse(t *testing.T) {
	w := newWorld(pending())
	w.driver.registrations[identifier("inner").Hash()] = kubeconfig("https://inner.example")
	require.NoError(t, w.nest(&resolver{name: "inner", answers: []answer{pending()}}).Deprovision(home(t)))
	require.Equal(t, []string{"D app on inner: ready, inner.example:443, Drain, config", "deregister inner", "deregister workload"}, w.trace.Calls(),
		"nothing was installed on the outer one, and still the inner one is visited")

	w = newWorld(pending())
	w.driver.install("inner", "app")
	requireFinding(t, yields(abi.ReasonRemoteInUse), w.nest(&resolver{name: "inner", answers: []answer{pending()}}).Deprovision(home(t)))
	require.Equal(t, []string{"D app on inner: pending, :0, Drain, no config", "deregister workload"}, w.trace.Calls())
}

func TestCase072NeverUsed(t *testing.T) {
	unreachable := ready()
	for name, test := range map[string]struct {
		reason    string
		answer    answer
		ownership remotecluster.Ownership
		calls     []string
	}{
		"Pending":     {"it never came up", pending(), remotecluster.Owned, []string{"deregister workload"}},
		"External":    {"nor did somebody else's", pending(), remotecluster.External, nil},
		"Unreachable": {"it never answered", unreachable, remotecluster.Owned, []string{"deregister workload"}},
		"Malformed":   {"its kubeconfig never worked", answer{config: kubeconfig("")}, remotecluster.Owned, []string{"deregister workload"}},
		"Forbidden":   {"it could never be read", answer{err: provisioner.UserActionRequired("forbidden", "")}, remotecluster.Owned, []string{"deregister workload"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.answer)
			w.clients.unreachable["workload.example"] = errors.New("refused")
			bracket := remotecluster.New(w.options(test.ownership))
			tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
			require.NoError(t, tree.Deprovision(home(t)), test.reason)
			require.Equal(t, test.calls, w.trace.Calls(), "the child is skipped")
		})
	}
}

func TestCase072ApplicationsWithoutRegistration(t *testing.T) {
	w := newWorld(pending())
	w.driver.install("workload", "cni")
	bracket := remotecluster.New(w.options(remotecluster.External))
	node := bracket.On("a", w.leaf("cni"))
	require.NoError(t, node.Deprovision(home(t)))
	require.Equal(t, []string{"D cni" + pendingLine}, w.trace.Calls(), "something is installed, so the child runs")
}

func TestCase073StoredCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		answer answer
		reach  map[string]error
		calls  []string
	}{
		"Pending":     {"the Secret went first", pending(), nil, []string{"D cni" + storedLine, "deregister workload"}},
		"Malformed":   {"the Secret was broken", answer{config: kubeconfig("")}, nil, []string{"D cni" + storedLine, "deregister workload"}},
		"Failed":      {"the look-up failed", answer{err: errors.New("etcd timeout")}, nil, []string{"D cni" + storedLine, "deregister workload"}},
		"Moved":       {"the Secret leads nowhere", ready(), map[string]error{"workload.example": errors.New("refused")}, []string{"D cni" + storedLine, "deregister workload"}},
		"ReadyIsBest": {"what the resolver says comes first", ready(), nil, []string{"D cni" + readyLine, "deregister workload"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.answer)
			w.stored("https://stored.example")
			for host, err := range test.reach {
				w.clients.unreachable[host] = err
			}
			bracket := remotecluster.New(w.options(remotecluster.Owned))
			tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
			require.NoError(t, tree.Deprovision(home(t)))
			require.Equal(t, test.calls, w.trace.Calls(), test.reason)
		})
	}
}

func TestCase073Unreachable(t *testing.T) {
	waits := provisioner.Yield(abi.ReasonRemoteUnreachable, "")
	for name, test := range map[string]struct {
		reason string
		answer answer
		want   finding
	}{
		"Pending":   {"the leaf waits", pending(), yields(abi.ReasonRemoteUnreachable)},
		"Malformed": {"what is wrong with the kubeconfig is shown, and does not park", answer{config: kubeconfig("")}, retries(abi.ReasonInvalidKubeconfig)},
		"User":      {"so is what somebody must do", answer{err: provisioner.UserActionRequired("secret_missing", "")}, retries("secret_missing")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.answer)
			w.stored("https://stored.example")
			w.clients.unreachable["stored.example"] = errors.New("refused")
			var states []abi.ScopeState
			leaf := provisionertest.New("cni", nil).OnDown(func(ctx context.Context) error {
				s, _ := scope.FromContext(ctx)
				states = append(states, s.State())
				require.Nil(t, s.Config())
				require.Nil(t, s.Client())
				return waits
			})
			bracket := remotecluster.New(w.options(remotecluster.Owned))
			tree := remotecluster.Around(bracket.On("a", leaf), bracket)
			requireFinding(t, test.want, tree.Deprovision(home(t)))
			require.Equal(t, []abi.ScopeState{abi.ScopePending}, states, "unreachable is never gone")
			require.NotNil(t, w.driver.registered("workload"))
		})
	}
}

func TestCase075Discard(t *testing.T) {
	w := newWorld(ready())
	options := w.options(remotecluster.Owned)
	options.Teardown = abi.Discard
	bracket := remotecluster.New(options)
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	w.driver.install("workload", "cni") // its delete was issued and is not waited for
	requireFinding(t, yields(abi.ReasonRemoteInUse), tree.Deprovision(home(t)))
	require.Equal(t, []string{"D cni on workload: ready, workload.example:6443, Discard, config"}, w.trace.Calls())
	w.driver.removeAll()
	require.NoError(t, tree.Deprovision(home(t)))
	require.Contains(t, w.trace.Calls(), "deregister workload")
}

func TestCase117FailedLookUpsRemoveNothing(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		breaks func(d *driver)
		want   finding
	}{
		"Registered":      {"an unreadable registration is not absent", func(d *driver) { d.registeredErr = errors.New("timeout") }, retries(abi.ReasonRegistrationFailed)},
		"RegisteredTyped": {"its own reason is kept", func(d *driver) { d.registeredErr = provisioner.UserActionRequired("forbidden", "") }, retries("forbidden")},
		"List":            {"an unreadable list is not empty", func(d *driver) { d.listErr = errors.New("timeout") }, retries(abi.ReasonUnexpected)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(pending())
			test.breaks(w.driver)
			bracket := remotecluster.New(w.options(remotecluster.Owned))
			tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
			requireFinding(t, test.want, tree.Deprovision(home(t)))
			require.Empty(t, w.trace.Calls(), "no child is skipped or called, nothing is deregistered")
		})
	}
}

func TestFinishFailures(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		breaks func(d *driver)
		want   finding
	}{
		"Deregister": {"it is tried again", func(d *driver) { d.deregisterErr = errors.New("timeout") }, retries(abi.ReasonRegistrationFailed)},
		"Terminal":   {"and never parks", func(d *driver) { d.deregisterErr = provisioner.Terminal("forbidden", "") }, retries("forbidden")},
		"List":       {"an unreadable list is not empty", func(d *driver) { d.listErr = errors.New("timeout") }, retries(abi.ReasonUnexpected)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(ready())
			test.breaks(w.driver)
			bracket := remotecluster.New(w.options(remotecluster.Owned))
			require.NoError(t, bracket.On("a", w.leaf("cni")).Deprovision(home(t)))
			requireFinding(t, test.want, bracket.Finish(home(t)))
		})
	}
	t.Run("WithoutNodes", func(t *testing.T) {
		w := newWorld(ready())
		require.NoError(t, remotecluster.New(w.options(remotecluster.Owned)).Finish(home(t)))
		require.Equal(t, []string{"deregister workload"}, w.trace.Calls(), "a remote that no node uses any more is forgotten")
	})
	t.Run("Shutdown", func(t *testing.T) {
		ctx, shutdown := context.WithCancelCause(home(t))
		w := newWorld(ready())
		bracket := remotecluster.New(w.options(remotecluster.Owned))
		require.NoError(t, bracket.On("a", w.leaf("cni")).Deprovision(ctx))
		shutdown(provisioner.ErrShutdown)
		require.True(t, provisioner.OutcomeOf(bracket.Finish(ctx)).Cancelled)
	})
}

func TestFinishNeedsEveryCallOfANode(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	node := bracket.On("a", provisionertest.New("cni", nil).Down(provisioner.Yield("application_deleting", ""), nil))
	require.Error(t, node.Deprovision(home(t)))
	require.NoError(t, node.Deprovision(home(t)))
	require.NoError(t, bracket.Finish(home(t)))
	require.Empty(t, w.trace.Calls(), "a node that stands at two places must be gone from both")
}

func TestAPanicWhileResolvingIsSharedAsAnError(t *testing.T) {
	w := newWorld()
	options := w.options(remotecluster.Owned)
	options.Remote = &resolver{name: "workload"} // a script without an answer panics
	bracket := remotecluster.New(options)
	tree := concurrent.New("c", concurrent.Options{Limit: 1}, bracket.On("a", w.leaf("a")), bracket.On("b", w.leaf("b")))
	err := tree.Provision(home(t))
	requireFinding(t, retries(abi.ReasonModuleTrap), err)
	require.ErrorContains(t, err, "another node of the pass broke off")
	require.Empty(t, w.trace.Calls())
}

func TestHammer(t *testing.T) {
	const nodes, passes = 32, 20
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	var mu sync.Mutex
	unregistered := 0
	children := make([]provisioner.Provisioner, nodes)
	for i := range children {
		children[i] = bracket.On(fmt.Sprint(i), provisionertest.New("leaf", nil).OnUp(func(context.Context) error {
			if w.driver.registered("workload") == nil {
				mu.Lock()
				defer mu.Unlock()
				unregistered++
			}
			return nil
		}))
	}
	tree := remotecluster.Around(concurrent.New("c", concurrent.Options{Limit: nodes}, children...), bracket)
	ctx := home(t)
	for range passes {
		require.NoError(t, tree.Provision(ctx))
		require.Equal(t, []string{"register workload"}, w.trace.Calls(), "once in a pass")
		require.NoError(t, tree.Deprovision(ctx))
		require.Equal(t, []string{"deregister workload"}, w.trace.Calls())
	}
	require.Zero(t, unregistered, "nobody ran before the registration")
	require.Len(t, w.resolver.scopes, 2*passes)
}
