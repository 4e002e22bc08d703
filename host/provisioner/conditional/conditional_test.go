package conditional_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/conditional"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
)

var (
	errYield    = provisioner.Yield("application_deleting", "2 objects left")
	errTerminal = provisioner.Terminal("invalid_config", "podCIDR")
)

func always(d conditional.Decision) conditional.Predicate {
	return func(context.Context) conditional.Decision { return d }
}

func TestProvision(t *testing.T) {
	for name, test := range map[string]struct {
		reason   string
		decision conditional.Decision
		up, down error
		calls    []string
		class    abi.Disposition
		headline abi.Disposition
		code     string
	}{
		"Case041OK":    {"true provisions", conditional.True(), nil, nil, []string{"P child"}, abi.OK, abi.OK, ""},
		"Case041Yield": {"and passes a yield on", conditional.True(), errYield, nil, []string{"P child"}, abi.Yield, abi.Yield, "application_deleting"},
		"Case041Terminal": {
			"and a terminal failure, which parks", conditional.True(), errTerminal, nil,
			[]string{"P child"}, abi.Terminal, abi.Terminal, "invalid_config",
		},
		"Case042": {"false deprovisions, and is OK once the child is gone", conditional.False(), errTerminal, nil, []string{"D child"}, abi.OK, abi.OK, ""},
		"Case043": {"a child still going is a yield", conditional.False(), nil, errYield, []string{"D child"}, abi.Yield, abi.Yield, "application_deleting"},
		"Case044": {
			"a removal never parks, in a provision pass either", conditional.False(), nil, errTerminal,
			[]string{"D child"}, abi.Retry, abi.Retry, "invalid_config",
		},
		"Case045": {
			"unknown touches nothing", conditional.Unknown(provisioner.Yield("facts_missing", "facts.gpu")), errTerminal, errTerminal,
			nil, abi.Yield, abi.Yield, "facts_missing",
		},
		"Case045Terminal": {
			"what can never be decided parks", conditional.Unknown(provisioner.Terminal("invalid_expression", "when")), nil, nil,
			nil, abi.Terminal, abi.Terminal, "invalid_expression",
		},
		"Case045Untyped": {
			"an untyped error is a retry", conditional.Unknown(errors.New("boom")), nil, nil,
			nil, abi.Retry, abi.Retry, "unexpected",
		},
		"Case045Nil":  {"unknown without an error is not OK", conditional.Unknown(nil), nil, nil, nil, abi.Yield, abi.Yield, "facts_missing"},
		"Case045Zero": {"the zero decision is unknown", conditional.Decision{}, nil, nil, nil, abi.Yield, abi.Yield, "facts_missing"},
	} {
		t.Run(name, func(t *testing.T) {
			trace := &provisionertest.Trace{}
			child := provisionertest.New("child", trace).Up(test.up).Down(test.down)
			outcome := provisioner.OutcomeOf(conditional.New("c", always(test.decision), child).Provision(t.Context()))
			require.Equal(t, test.class, outcome.Class, test.reason)
			require.Equal(t, test.headline, outcome.Headline.Disposition, test.reason)
			require.Equal(t, test.code, outcome.Headline.Reason, test.reason)
			require.Equal(t, test.calls, trace.Calls(), test.reason)
			if test.calls != nil && test.class != abi.OK {
				require.Equal(t, "0", outcome.Headline.Path)
			}
		})
	}
}

func TestCase043BlocksASurroundingSerial(t *testing.T) {
	trace := &provisionertest.Trace{}
	going := provisionertest.New("going", trace).Down(errYield)
	s := serial.New("s", conditional.New("c", always(conditional.False()), going), provisionertest.New("next", trace))
	require.ErrorIs(t, s.Provision(t.Context()), provisioner.ErrYield)
	require.Equal(t, []string{"D going"}, trace.Calls())
}

func TestCase046DeprovisionAsksNobody(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		down   error
		class  abi.Disposition
	}{
		"OK":       {"the child is gone", nil, abi.OK},
		"Yield":    {"the child is going", errYield, abi.Yield},
		"Terminal": {"a removal never parks", errTerminal, abi.Retry},
	} {
		t.Run(name, func(t *testing.T) {
			trace := &provisionertest.Trace{}
			forbidden := func(context.Context) conditional.Decision {
				t.Error("the predicate was asked in a deprovision")
				return conditional.False()
			}
			c := conditional.New("c", forbidden, provisionertest.New("child", trace).Down(test.down))
			require.Equal(t, test.class, provisioner.OutcomeOf(c.Deprovision(t.Context())).Class, test.reason)
			require.Equal(t, []string{"D child"}, trace.Calls())
		})
	}
}

func TestCase047TrueFalseTrue(t *testing.T) {
	trace := &provisionertest.Trace{}
	decisions := []conditional.Decision{conditional.True(), conditional.False(), conditional.True(), conditional.True()}
	pass := 0
	when := func(context.Context) conditional.Decision { return decisions[pass] }
	// The child answers as a driver does: a provision while it is going waits for the end.
	child := provisionertest.New("child", trace).Up(nil, errYield, nil).Down(errYield)
	c := conditional.New("c", when, child)
	var classes []abi.Disposition
	for pass = range decisions {
		classes = append(classes, provisioner.OutcomeOf(c.Provision(t.Context())).Class)
	}
	require.Equal(t, []abi.Disposition{abi.OK, abi.Yield, abi.Yield, abi.OK}, classes)
	require.Equal(t, []string{"P child", "D child", "P child", "P child"}, trace.Calls())
}

func TestShutdownIsOne(t *testing.T) {
	for name, test := range map[string]struct {
		reason   string
		decision conditional.Decision
	}{
		"True":    {"while the child comes up", conditional.True()},
		"False":   {"while it goes", conditional.False()},
		"Unknown": {"while the predicate looks something up", conditional.Unknown(context.Canceled)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, shutdown := context.WithCancelCause(t.Context())
			ended := func(ctx context.Context) error {
				shutdown(provisioner.ErrShutdown)
				return ctx.Err()
			}
			when := func(ctx context.Context) conditional.Decision {
				if test.decision == conditional.Unknown(context.Canceled) {
					return conditional.Unknown(ended(ctx))
				}
				return test.decision
			}
			c := conditional.New("c", when, provisionertest.New("child", nil).OnUp(ended).OnDown(ended))
			require.True(t, provisioner.OutcomeOf(c.Provision(ctx)).Cancelled, test.reason)
		})
	}
}

func TestNilPredicateUninstallsNothing(t *testing.T) {
	trace := &provisionertest.Trace{}
	c := conditional.New("c", nil, provisionertest.New("child", trace))
	require.ErrorIs(t, c.Provision(t.Context()), provisioner.ErrYield)
	require.Empty(t, trace.Calls())
}

func TestHammer(t *testing.T) {
	trace := &provisionertest.Trace{}
	type key struct{}
	when := func(ctx context.Context) conditional.Decision {
		if ctx.Value(key{}) == nil {
			return conditional.False()
		}
		return conditional.True()
	}
	c := conditional.New("c", when, provisionertest.New("child", trace).Up(errTerminal).Down(errYield))
	const passes = 32
	var wait sync.WaitGroup
	outcomes := make([]provisioner.Outcome, passes)
	for i := range passes {
		wait.Go(func() {
			ctx := t.Context()
			if i%2 == 0 {
				ctx = context.WithValue(ctx, key{}, true)
			}
			outcomes[i] = provisioner.OutcomeOf(c.Provision(ctx))
		})
	}
	wait.Wait()
	for i, outcome := range outcomes {
		want := abi.Yield
		if i%2 == 0 {
			want = abi.Terminal
		}
		require.Equal(t, want, outcome.Class, "passes do not see each other")
	}
	require.Len(t, trace.Calls(), passes)
}
