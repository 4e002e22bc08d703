package module_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

// Each kind of state goes in and comes out by itself.
func TestKindsOfState(t *testing.T) {
	var got abi.Input
	output := `{"state":{"volume":"vol-7"},"generationState":{"n":1},"stickyState":{"n":5}}`
	w := newWorld(func(_ context.Context, _ string, input []byte, _ hostFunc) (int32, []byte, error) {
		got = abi.Input{}
		return 0, []byte(output), json.Unmarshal(input, &got)
	})
	require.NoError(t, w.provision(t))
	require.Nil(t, got.State)
	require.Nil(t, got.GenerationState)
	require.Nil(t, got.StickyState)
	require.Equal(t, []string{nodePath + `={"volume":"vol-7"} generation={"n":1} sticky={"n":5}`}, w.state.saves, "in one write")

	require.NoError(t, w.provision(t))
	require.JSONEq(t, `{"volume":"vol-7"}`, string(got.State))
	require.JSONEq(t, `{"n":1}`, string(got.GenerationState))
	require.JSONEq(t, `{"n":5}`, string(got.StickyState))
	require.Len(t, w.state.saves, 1, "what is equal is not written again")

	output = `{"generationState":null,"stickyState":{"n":6}}`
	require.NoError(t, w.provision(t))
	require.Equal(t, nodePath+`={"volume":"vol-7"} sticky={"n":6}`, w.state.saves[1], "absent keeps, null drops")
}

// All kinds have one limit, and what is kept from before counts.
func TestStateLimitIsShared(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	cases := map[string]struct {
		reason, output string
		refused        bool
	}{
		"fits":     {reason: "to the byte", output: `{"generationState":` + long(32<<10) + `,"stickyState":` + long(16<<10) + `}`},
		"too much": {reason: "one more", output: `{"generationState":` + long(32<<10+1) + `,"stickyState":` + long(16<<10) + `}`, refused: true},
		"replaced": {reason: "what is replaced does not count", output: `{"state":1,"generationState":` + long(48<<10) + `}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(answers(0, c.output))
			w.state.values = map[string]string{nodePath: long(16 << 10)}
			err := w.provision(t)
			if !c.refused {
				require.NoError(t, err, c.reason)
				return
			}
			require.Equal(t, abi.ReasonOutputTooLarge, provisioner.OutcomeOf(err).Headline.Reason, c.reason)
			require.ErrorContains(t, err, "the state has 65537 bytes and 65536 are allowed")
			require.Empty(t, w.state.saves)
		})
	}
}

// A memo must not answer for a module that would see another state.
func TestStateIsPartOfTheEnvelope(t *testing.T) {
	w := newWorld(answers(0, `{}`))
	w.memo = module.NewMemo(1)
	require.NoError(t, w.provision(t))
	require.NoError(t, w.provision(t))
	require.Equal(t, 1, w.calls)
	for i, kind := range []*map[string]string{&w.state.values, &w.state.generation, &w.state.sticky} {
		*kind = map[string]string{nodePath: "1"}
		require.NoError(t, w.provision(t))
		require.NoError(t, w.provision(t))
		require.Equal(t, 2+i, w.calls)
	}
}

// What is kept of a node goes with it, and not before.
func TestStateGoesWithTheNode(t *testing.T) {
	kept := func(w *world) {
		w.state.values = map[string]string{nodePath: `{"volume":"vol-7"}`}
		w.state.sticky = map[string]string{nodePath: `5`}
	}
	w := newWorld(answers(1, `{"reason":"unexpected"}`))
	kept(w)
	require.Error(t, w.deprovision(t))
	require.Empty(t, w.state.saves, "it is not over")

	w.guest = answers(0, `{"generationState":1}`)
	w.driver.installed = []cd.Installed{{ID: scope.ResourceIdentifier{Owner: owner(), Path: nodePath}, ScopeID: scope.HomeID}}
	w.driver.remove = provisioner.Yield(abi.ReasonApplicationDeleting, "")
	require.Error(t, w.deprovision(t))
	require.Empty(t, w.state.saves, "nor while applications are left")

	w.driver.remove = nil
	require.NoError(t, w.deprovision(t))
	require.Equal(t, []string{nodePath + "="}, w.state.saves)
	require.NoError(t, w.deprovision(t))
	require.Len(t, w.state.saves, 1, "once")

	kept(w)
	w.instance = provisioner.Terminal(abi.ReasonModuleNotFound, "")
	require.NoError(t, w.deprovision(t))
	require.Len(t, w.state.saves, 2, "also if nobody could ask the module")

	kept(w)
	w.state.save = errDial
	require.ErrorIs(t, w.deprovision(t), errDial, "a removal is over when nothing is kept")
}

// A module that does not come to an end on a cluster that is gone holds up a deletion for
// half an hour, and no longer.
func TestStuckOnAClusterThatIsGone(t *testing.T) {
	stuck := map[string]struct {
		reason string
		guest  runtimeFunc
	}{
		"yields":  {"it waits for a cluster that nobody will see again", answers(1, `{"reason":"unexpected"}`)},
		"retries": {"or fails over it", answers(2, `{"reason":"unexpected"}`)},
		"traps": {"or dies of it", func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
			return 0, nil, fault{reason: abi.ReasonModuleTrap, text: "unreachable"}
		}},
	}
	for name, c := range stuck {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.guest).remote(nil, abi.ScopeGone, abi.Drain)
			given := 0
			w.memo, w.options.Abandoned = module.NewMemo(8), func() { given++ }
			w.state.values = map[string]string{nodePath: "1"}
			w.driver.installed = []cd.Installed{{ID: scope.ResourceIdentifier{Owner: owner(), Path: nodePath}, ScopeID: w.scope.ID()}}
			require.Error(t, w.deprovision(t), c.reason)
			w.now = w.now.Add(30*time.Minute - time.Second)
			require.Error(t, w.deprovision(t), "a second early")
			require.Zero(t, given)
			require.Empty(t, w.driver.calls())

			w.now = w.now.Add(time.Second)
			require.NoError(t, w.deprovision(t))
			require.Equal(t, 1, given, "and is told")
			require.Equal(t, []string{"remove " + nodePath + " Drain"}, w.driver.calls(), "what the driver knows of is dropped")
			require.Empty(t, w.state.values)
		})
	}
}

// Near misses: who is waited for, however long it takes.
func TestStuckIsWaitedFor(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*world)
	}{
		"ready":       {"the cluster is there", func(w *world) { w.remote(nil, abi.ScopeReady, abi.Drain) }},
		"pending":     {"not reachable is not gone", func(w *world) { w.remote(nil, abi.ScopePending, abi.Drain) }},
		"lives":       {"of a Stack that is not deleted nothing is given up", func(w *world) { w.options.Abandoned = nil }},
		"no memo":     {"nobody knows for how long it has been", func(w *world) { w.memo = nil }},
		"interrupted": {"a shutdown says nothing", func(w *world) { w.guest = answers(0, `{}`); w.instance = provisioner.ErrShutdown }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(answers(1, `{"reason":"unexpected"}`)).remote(nil, abi.ScopeGone, abi.Drain)
			w.memo, w.options.Abandoned = module.NewMemo(8), func() { t.Error("it was given up: " + c.reason) }
			if name == "ready" || name == "pending" {
				w.scope = scope.NewHome(owner(), nil, nil)
			}
			c.change(w)
			for range 3 {
				require.Error(t, w.deprovision(t), c.reason)
				w.now = w.now.Add(24 * time.Hour)
			}
		})
	}
}
