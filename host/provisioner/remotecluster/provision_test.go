package remotecluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/concurrent"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/remotecluster"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
	"github.com/caisson-dev/caisson/host/scope"
)

const readyLine = " on workload: ready, workload.example:6443, Drain, config"

func TestCase059Pending(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		answer answer
		want   finding
	}{
		"Yield":     {"it is not there yet", pending(), yields(abi.ReasonRemotePending)},
		"OwnReason": {"the resolver knows why", answer{err: provisioner.Yield("awaiting_dependency", "")}, yields("awaiting_dependency")},
		"Nothing":   {"a resolver without an answer", answer{}, yields(abi.ReasonRemotePending)},
		"User":      {"somebody must act", answer{err: provisioner.UserActionRequired("secret_missing", "")}, finding{abi.UserActionRequired, abi.UserActionRequired, "secret_missing"}},
		"Untyped":   {"a failed look-up", answer{err: errors.New("etcd timeout")}, retries(abi.ReasonUnexpected)},
		"Gone":      {"it may be made again", gone(), retries(abi.ReasonRemoteGone)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(test.answer)
			node := remotecluster.New(w.options(remotecluster.Owned)).On("on-workload", w.leaf("cni"))
			requireFinding(t, test.want, node.Provision(home(t)))
			require.Empty(t, w.trace.Calls(), "no registration, no child")
			require.Equal(t, "on-workload", node.ProvisionerName())
		})
	}
}

func TestCase060Unreachable(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		err    error
		want   finding
	}{
		"Refused":      {"it does not answer", errors.New("connection refused"), yields(abi.ReasonRemoteUnreachable)},
		"ProbeTimeout": {"the probe's own time-out is no budget of ours", fmt.Errorf("x: %w", context.DeadlineExceeded), yields(abi.ReasonRemoteUnreachable)},
		"Unauthorized": {"it refuses the credential", fmt.Errorf("x: %w", scope.ErrUnauthorized), retries(abi.ReasonForbidden)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(ready())
			w.clients.unreachable["workload.example"] = test.err
			node := remotecluster.New(w.options(remotecluster.Owned)).On("n", w.leaf("cni"))
			requireFinding(t, test.want, node.Provision(home(t)))
			require.Empty(t, w.trace.Calls(), "nothing is registered before it answers")
		})
	}
}

func TestCase061RegisterOnceThenRun(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := serial.New("s", bracket.On("a", w.leaf("cni")), bracket.On("b", w.leaf("addons")))
	require.NoError(t, tree.Provision(home(t)))
	require.Equal(t, []string{"register workload", "P cni" + readyLine, "P addons" + readyLine}, w.trace.Calls())
	require.Equal(t, []string{scope.HomeID}, w.resolver.scopes, "resolved once, in the enclosing scope")
	require.Equal(t, 1, w.clients.probes)
}

func TestCase061ErrorsOfChildrenAreTheirOwn(t *testing.T) {
	w := newWorld(ready())
	node := remotecluster.New(w.options(remotecluster.Owned)).
		On("n", provisionertest.New("cni", nil).Up(provisioner.Terminal("invalid_config", "")))
	err := node.Provision(home(t))
	requireFinding(t, finding{abi.Terminal, abi.Terminal, "invalid_config"}, err)
	require.Equal(t, "0", provisioner.OutcomeOf(err).Headline.Path)
}

func TestCase062EverybodySeesTheSame(t *testing.T) {
	w := newWorld(pending(), ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := concurrent.New("c", concurrent.Options{}, bracket.On("a", w.leaf("a")), bracket.On("b", w.leaf("b")))
	requireFinding(t, yields(abi.ReasonRemotePending), tree.Provision(home(t)))
	require.Empty(t, w.trace.Calls(), "nobody runs unregistered")
	require.Len(t, w.resolver.scopes, 1)

	bracket.Begin()
	require.NoError(t, tree.Provision(home(t)))
	require.Equal(t, "register workload", w.trace.Calls()[0])
}

func TestCase062FailedRegistrationIsShared(t *testing.T) {
	w := newWorld(ready())
	w.driver.registerErr = errors.New("conflict")
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := concurrent.New("c", concurrent.Options{}, bracket.On("a", w.leaf("a")), bracket.On("b", w.leaf("b")))
	requireFinding(t, retries(abi.ReasonRegistrationFailed), tree.Provision(home(t)))
	require.Equal(t, []string{"register workload"}, w.trace.Calls(), "one attempt, no child")
}

func TestCase063SwitchedOffPartKeepsTheRegistration(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	off := func(context.Context) conditional.Decision { return conditional.False() }
	tree := remotecluster.Around(serial.New("s",
		bracket.On("a", w.leaf("cni")), conditional.New("c", off, bracket.On("b", w.leaf("gpu")))), bracket)
	for range 2 {
		require.NoError(t, tree.Provision(home(t)))
		require.Equal(t, []string{"register workload", "P cni" + readyLine, "D gpu" + readyLine}, w.trace.Calls())
		require.NotNil(t, w.driver.registered("workload"))
	}
}

func TestCase063SwitchedOffBeforeTheRemoteIsThere(t *testing.T) {
	w := newWorld(pending())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	off := func(context.Context) conditional.Decision { return conditional.False() }
	tree := remotecluster.Around(conditional.New("c", off, bracket.On("b", w.leaf("gpu"))), bracket)
	require.NoError(t, tree.Provision(home(t)), "what was never installed is gone")
	require.Empty(t, w.trace.Calls())
}

func TestCase064TwoPasses(t *testing.T) {
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	for range 2 {
		require.NoError(t, tree.Provision(home(t)))
		require.Equal(t, []string{"register workload", "P cni" + readyLine}, w.trace.Calls())
	}
	for range 2 {
		require.NoError(t, tree.Deprovision(home(t)))
		require.Equal(t, []string{"D cni" + readyLine, "deregister workload"}, w.trace.Calls())
	}
	require.NoError(t, tree.Provision(home(t)))
	require.NotNil(t, w.driver.registered("workload"), "up again")
	require.Equal(t, "a", tree.ProvisionerName(), "the tree keeps its name")
}

func TestCase065RegistrationErrorsKeepTheirType(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		err    error
		want   finding
	}{
		"Untyped":   {"a failure of somebody else's", errors.New("forbidden: cannot create secrets"), retries(abi.ReasonRegistrationFailed)},
		"Forbidden": {"a typed one is never a silent yield", provisioner.Retry("forbidden", ""), retries("forbidden")},
		"User":      {"nor is a request to the user", provisioner.UserActionRequired("forbidden", ""), finding{abi.UserActionRequired, abi.UserActionRequired, "forbidden"}},
		"Yield":     {"a yield is one", provisioner.Yield("remote_pending", ""), yields("remote_pending")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(ready())
			w.driver.registerErr = test.err
			node := remotecluster.New(w.options(remotecluster.Owned)).On("n", w.leaf("cni"))
			requireFinding(t, test.want, node.Provision(home(t)))
			require.Equal(t, []string{"register workload"}, w.trace.Calls(), "the child is not called")
		})
	}
}

func TestCase066MalformedKubeconfig(t *testing.T) {
	noContext := kubeconfig("https://workload.example")
	noContext.CurrentContext = ""
	for name, server := range map[string]answer{
		"NoCurrentContext": {config: noContext},
		"PlainHTTP":        {config: kubeconfig("http://workload.example")},
		"NoServer":         {config: kubeconfig("")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(server)
			node := remotecluster.New(w.options(remotecluster.Owned)).On("n", w.leaf("cni"))
			err := node.Provision(home(t))
			requireFinding(t, finding{abi.Terminal, abi.Terminal, abi.ReasonInvalidKubeconfig}, err)
			var refused *scope.KubeconfigError
			require.ErrorAs(t, err, &refused)
			require.Empty(t, w.trace.Calls())
		})
	}
}

func TestCase069ExternalIsNeverRegistered(t *testing.T) {
	for _, ownership := range []remotecluster.Ownership{"", remotecluster.External} {
		w := newWorld(ready())
		bracket := remotecluster.New(w.options(ownership))
		tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
		require.NoError(t, tree.Provision(home(t)))
		require.NoError(t, tree.Deprovision(home(t)))
		require.Equal(t, []string{"P cni" + readyLine, "D cni" + readyLine}, w.trace.Calls())
	}
}

func TestCase074TeardownReachesLeaves(t *testing.T) {
	w := newWorld(ready())
	options := w.options(remotecluster.External)
	options.Teardown = abi.Discard
	outer := remotecluster.New(options)
	nested := newWorld(ready())
	nested.resolver.name = "inner"
	innerOptions := nested.options(remotecluster.External)
	innerOptions.Teardown = abi.Drain
	inner := remotecluster.New(innerOptions)
	var seen []abi.Teardown
	leaf := provisionertest.New("leaf", nil).OnDown(func(ctx context.Context) error {
		s, _ := scope.FromContext(ctx)
		seen = append(seen, s.Teardown())
		return nil
	})
	tree := outer.On("o", concurrent.New("c", concurrent.Options{}, serial.New("s", inner.On("i", leaf))))
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, []abi.Teardown{abi.Discard}, seen, "through combinators and nested remotes, never strengthened")
}

func TestCase076ServerChangesBetweenPasses(t *testing.T) {
	w := newWorld(ready(), answer{config: kubeconfig("https://moved.example")})
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	require.NoError(t, tree.Provision(home(t)))
	require.NoError(t, tree.Provision(home(t)))
	require.Len(t, w.driver.registrations, 1, "the same registration is updated")
	require.Equal(t, "https://moved.example", w.driver.registered("workload").Clusters["remote"].Server)
	require.NoError(t, tree.Deprovision(home(t)))
	require.Empty(t, w.driver.registrations)
}

func TestCase077TwoIdentitiesOnOneServer(t *testing.T) {
	w := newWorld(ready())
	first := remotecluster.New(w.options(remotecluster.Owned))
	options := w.options(remotecluster.Owned)
	options.Remote = &resolver{name: "other", answers: []answer{ready()}}
	second := remotecluster.New(options)
	one, two := remotecluster.Around(first.On("a", w.leaf("a")), first), remotecluster.Around(second.On("b", w.leaf("b")), second)
	require.NoError(t, one.Provision(home(t)))
	require.NoError(t, two.Provision(home(t)))
	require.Len(t, w.driver.registrations, 2)
	require.NoError(t, one.Deprovision(home(t)))
	require.NotNil(t, w.driver.registered("other"), "the end of one leaves the other")
}

func TestCase078TokenIsRegistered(t *testing.T) {
	w := newWorld(ready())
	require.NoError(t, remotecluster.New(w.options(remotecluster.Owned)).On("n", w.leaf("cni")).Provision(home(t)))
	require.Equal(t, "s3cr3t", w.driver.registered("workload").AuthInfos["remote"].Token)
}

func TestCase080Rotation(t *testing.T) {
	rotated := kubeconfig("https://workload.example:6443")
	rotated.AuthInfos["u"].Token = "n3w"
	w := newWorld(ready(), answer{config: rotated})
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	require.NoError(t, tree.Provision(home(t)))
	require.NoError(t, tree.Provision(home(t)))
	require.Equal(t, "n3w", w.driver.registered("workload").AuthInfos["remote"].Token)
	require.Equal(t, 2, w.clients.cache.Len(), "another connection")
}

func TestNestedResolvesInTheOuterScope(t *testing.T) {
	w := newWorld(ready())
	outer := remotecluster.New(w.options(remotecluster.Owned))
	innerResolver := &resolver{name: "inner", answers: []answer{{config: kubeconfig("https://inner.example")}}}
	options := w.options(remotecluster.Owned)
	options.Remote = innerResolver
	inner := remotecluster.New(options)
	tree := remotecluster.Around(outer.On("o", inner.On("i", w.leaf("app"))), outer, inner)

	require.NoError(t, tree.Provision(home(t)))
	require.Equal(t, []string{identifier("workload").Hash()}, innerResolver.scopes)
	require.Equal(t, []string{"register workload", "register inner", "P app on inner: ready, inner.example:443, Drain, config"}, w.trace.Calls())
	require.NoError(t, tree.Deprovision(home(t)))
	require.Equal(t, []string{"D app on inner: ready, inner.example:443, Drain, config", "deregister inner", "deregister workload"}, w.trace.Calls(),
		"the inner one is forgotten first")
}

func TestContextEnds(t *testing.T) {
	ctx, shutdown := context.WithCancelCause(home(t))
	shutdown(provisioner.ErrShutdown)
	w := newWorld(ready())
	bracket := remotecluster.New(w.options(remotecluster.Owned))
	tree := remotecluster.Around(bracket.On("a", w.leaf("cni")), bracket)
	require.True(t, provisioner.OutcomeOf(tree.Provision(ctx)).Cancelled)
	require.True(t, provisioner.OutcomeOf(tree.Deprovision(ctx)).Cancelled)
	require.True(t, provisioner.OutcomeOf(bracket.On("never called", w.leaf("x")).Provision(ctx)).Cancelled)
	require.Empty(t, w.trace.Calls())
	require.Empty(t, w.resolver.scopes)
}

func TestWithoutScope(t *testing.T) {
	w := newWorld(ready())
	node := remotecluster.New(w.options(remotecluster.Owned)).On("n", w.leaf("cni"))
	requireFinding(t, retries(abi.ReasonUnexpected), node.Provision(t.Context()))
	requireFinding(t, retries(abi.ReasonUnexpected), node.Deprovision(t.Context()))
	require.Empty(t, w.trace.Calls())
}
