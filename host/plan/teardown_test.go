package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// TestTeardown takes a platform down in each mode, from the spec to what the driver is
// told. A remote inside takes part in the mode of the one around it, and the module that
// frees what outlives the cluster drains in each of them.
func TestTeardown(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		// passes is how many passes the removal takes.
		passes int
		left   []string
	}{
		"Drain":   {"each is waited for, the innermost first", 4, []string{}},
		"Discard": {"nothing is waited for, but the registrations stay until the sweep finds nothing", 2, []string{}},
		"Orphan":  {"workloads are left on purpose, and nothing at home", 2, []string{"all/on-workload/platform/cni", "all/on-workload/platform/on-inner/app"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform(t, strings.Replace(nestedPlatform, "teardown: Drain", "teardown: "+name, 1))
			require.True(t, p.pass(t.Context(), t, "up").OK())
			require.Len(t, p.clusters, 2)
			require.Len(t, p.runs(), 3)
			p.delete()
			p.trace = nil
			passes := 0
			for done := false; !done && passes < 10; {
				passes++
				done = p.pass(t.Context(), t, "down").OK()
				p.settle()
			}
			golden(t, "teardown-"+strings.ToLower(name), joinLines(p.trace))
			require.Equal(t, test.passes, passes, test.reason)
			require.Equal(t, test.left, p.runs(), test.reason)
			require.Empty(t, p.stack.Status.Abandoned, "what is left on purpose is not abandoned")
			p.nothingIsLeftAtHome(t)
		})
	}
}

// TestCase074DrainInsideDiscard proves that a module that needs a drain is waited for in
// every mode, and with it the remote.
func TestCase074DrainInsideDiscard(t *testing.T) {
	for _, mode := range []string{"Discard", "Orphan"} {
		t.Run(mode, func(t *testing.T) {
			p := newPlatform(t, strings.Replace(nestedPlatform, "teardown: Drain", "teardown: "+mode, 1))
			require.True(t, p.pass(t.Context(), t, "up").OK())
			p.delete()
			const lb = "all/on-workload/platform/lb"
			p.will(lb, provisioner.Yield(abi.ReasonAwaitingDependency, ""))
			outcome := p.pass(t.Context(), t, "its load balancers are being freed")
			p.settle()
			require.Equal(t, abi.Yield, outcome.Class)
			require.Equal(t, lb, outcome.Headline.Path)
			require.Contains(t, p.trace, "deprovision "+lb+" on workload, which is ready: Drain")
			require.NotContains(t, p.trace, "deregister remote/workload", "the module needs the cluster")
			require.Contains(t, p.runs(), "all/on-workload/platform/cni", "and so do its load balancers")
			require.NotEmpty(t, p.clusters)
		})
	}
}

// TestCase075DiscardGoesOn proves that a discard goes on to what comes after it, while
// what it started is still going.
func TestCase075DiscardGoesOn(t *testing.T) {
	p := newPlatform(t, strings.Replace(nestedPlatform, "teardown: Drain", "teardown: Discard", 1))
	require.True(t, p.pass(t.Context(), t, "up").OK())
	p.delete()
	outcome := p.pass(t.Context(), t, "down")
	require.Equal(t, abi.Yield, outcome.Class)
	require.Contains(t, p.trace, "remove all/cluster from home, which is ready: Drain", "at home there is always a drain")
	require.Len(t, p.clusters, 2, "applications are listed on both")

	p.settle()
	p.workload.set(func(s *site) { s.down = true }) // the cluster went, as it was to
	p.inner.set(func(s *site) { s.down = true })
	require.True(t, p.pass(t.Context(), t, "the cluster is gone, and so is all that was listed").OK())
	require.Empty(t, p.stack.Status.Abandoned)
	p.nothingIsLeftAtHome(t)
}
