package plan

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

func TestFailuresOfExpressions(t *testing.T) {
	shutdown, cancel := context.WithCancelCause(t.Context())
	cancel(provisioner.ErrShutdown)
	late, stop := context.WithCancel(t.Context())
	stop()
	for name, tc := range map[string]struct {
		reason    string
		ctx       context.Context
		err       error
		class     abi.Disposition
		want      string
		cancelled bool
	}{
		"Fact":     {reason: "an absent fact is waited for", ctx: t.Context(), err: fmt.Errorf("p: %w", errFactMissing), class: abi.Yield, want: abi.ReasonFactsMissing},
		"Fault":    {reason: "anything else is a fault of the spec", ctx: t.Context(), err: fmt.Errorf("p: no such overload"), class: abi.Terminal, want: abi.ReasonInvalidExpression},
		"Starved":  {reason: "running out of time is not", ctx: t.Context(), err: fmt.Errorf("p: %w", context.DeadlineExceeded), class: abi.Retry, want: abi.ReasonDeadlineExceeded},
		"Budget":   {reason: "nor is the end of the pass", ctx: late, err: fmt.Errorf("p: %w", context.Canceled), class: abi.Retry, want: abi.ReasonDeadlineExceeded},
		"Shutdown": {reason: "a shutdown says nothing", ctx: shutdown, err: fmt.Errorf("p: %w", context.Canceled), class: abi.Retry, cancelled: true},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := provisioner.OutcomeOf(expressionFailed(tc.ctx, tc.err))
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.want, outcome.Headline.Reason, tc.reason)
			require.Equal(t, tc.cancelled, outcome.Cancelled, tc.reason)
		})
	}
}

func TestScopeVariable(t *testing.T) {
	require.Empty(t, scopeVariable(t.Context()), "without a scope nothing is known of it")
	home := scope.NewHome(scope.Owner{Name: "o"}, nil, nil)
	require.Equal(t, map[string]any{"id": "home", "host": "", "port": int64(0), "remote": false},
		scopeVariable(scope.NewContext(t.Context(), home)))
	id := RemoteID(home.Owner(), "r")
	remote := home.Remote(scope.RemoteCluster{ID: id, Host: "h.example.com", Port: 6443, State: abi.ScopeReady})
	require.Equal(t, map[string]any{"id": id.Hash(), "host": "h.example.com", "port": int64(6443), "remote": true},
		scopeVariable(scope.NewContext(t.Context(), remote)))
}

func TestNullsReachTheLeaves(t *testing.T) {
	stack := parseStack(t, `
parameters: {none: null, nested: {a: [null]}}
root: a
provisioners:
- {name: a, serial: {children: [b, c]}}
- {name: b, module: {ref: m, config: {written: null, computed: "${parameters.none}", nested: "${parameters.nested}", spec: "${resource.spec.parameters.none}"}}}
- {name: c, application: {ref: m, values: {written: null, computed: "${parameters.none}"}}}
`)
	w := newWorld(t, stack)
	_, err := pass(t, w, stack, "")
	require.NoError(t, err)
	require.JSONEq(t, `{"computed":null,"nested":{"a":[null]},"spec":null,"written":null}`, w.configs["provision b"])
	values := w.specs["a/c"].Values
	require.Contains(t, values, "written")
	require.Contains(t, values, "computed")
	require.Nil(t, values["computed"])
}

func TestRemoteIDIsNotThatOfANode(t *testing.T) {
	owner := scope.Owner{Name: "o", UID: "u"}
	remote := RemoteID(owner, "a")
	node := scope.ResourceIdentifier{Owner: owner, Path: "a", Name: "a"}
	require.NotEqual(t, remote.Hash(), node.Hash())
	owner.Generation = 7
	require.Equal(t, remote.Hash(), RemoteID(owner, "a").Hash(), "a new generation is the same remote")
}
