package serial_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/provisionertest"
	"github.com/caisson-dev/caisson/host/provisioner/serial"
)

var (
	errYield    = provisioner.Yield("application_installing", "rolling out")
	errRetry    = provisioner.Retry("chart_unavailable", "connection refused")
	errUser     = provisioner.UserActionRequired("secret_missing", "no token")
	errTerminal = provisioner.Terminal("invalid_config", "podCIDR")
)

// wants is what a call is to come to; the zero value is OK.
type wants struct {
	calls  []string
	class  abi.Disposition
	reason string
	path   string
}

func requireOutcome(t *testing.T, err error, want wants, reason string) {
	t.Helper()
	outcome := provisioner.OutcomeOf(err)
	require.False(t, outcome.Cancelled, reason)
	require.Equal(t, want.class, outcome.Class, reason)
	require.Equal(t, want.reason, outcome.Headline.Reason, reason)
	require.Equal(t, want.path, outcome.Headline.Path, reason)
}

func TestProvision(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		results []error
		want    wants
	}{
		"Case011": {"all children are called in order", []error{nil, nil, nil}, wants{calls: []string{"P 0", "P 1", "P 2"}}},
		"Case012": {
			"a yield holds up what is behind it", []error{nil, errYield, nil},
			wants{calls: []string{"P 0", "P 1"}, class: abi.Yield, reason: "application_installing", path: "1"},
		},
		"Case013": {
			"a terminal child behind a yield is not reached", []error{errYield, errTerminal},
			wants{calls: []string{"P 0"}, class: abi.Yield, reason: "application_installing", path: "0"},
		},
		"Case014": {
			"a terminal child parks", []error{errTerminal, errYield},
			wants{calls: []string{"P 0"}, class: abi.Terminal, reason: "invalid_config", path: "0"},
		},
		"Case015": {
			"a retry holds up what is behind it", []error{nil, errRetry, nil},
			wants{calls: []string{"P 0", "P 1"}, class: abi.Retry, reason: "chart_unavailable", path: "1"},
		},
		"UserAction": {
			"a request to the user parks as what it is", []error{nil, errUser},
			wants{calls: []string{"P 0", "P 1"}, class: abi.UserActionRequired, reason: "secret_missing", path: "1"},
		},
		"Untyped": {
			"an error without a disposition is retried", []error{errors.New("boom"), nil},
			wants{calls: []string{"P 0"}, class: abi.Retry, reason: "unexpected", path: "0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trace := &provisionertest.Trace{}
			var children []provisioner.Provisioner
			for i, result := range test.results {
				children = append(children, provisionertest.New(string(rune('0'+i)), trace).Up(result))
			}
			err := serial.New("s", children...).Provision(t.Context())
			requireOutcome(t, err, test.want, test.reason)
			require.Equal(t, test.want.calls, trace.Calls(), test.reason)
		})
	}
}

func TestDeprovision(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		results []error
		want    wants
	}{
		"Case016": {"children go in reverse", []error{nil, nil, nil}, wants{calls: []string{"D 2", "D 1", "D 0"}}},
		"Case017": {
			"one that is still going holds up the others", []error{nil, nil, errYield},
			wants{calls: []string{"D 2"}, class: abi.Yield, reason: "application_installing", path: "2"},
		},
		"Case018": {
			"a terminal child does not park a removal", []error{nil, errTerminal, nil},
			wants{calls: []string{"D 2", "D 1"}, class: abi.Retry, reason: "invalid_config", path: "1"},
		},
		"UserAction": {
			"nor does a request to the user", []error{nil, errUser},
			wants{calls: []string{"D 1"}, class: abi.Retry, reason: "secret_missing", path: "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trace := &provisionertest.Trace{}
			var children []provisioner.Provisioner
			for i, result := range test.results {
				children = append(children, provisionertest.New(string(rune('0'+i)), trace).Down(result))
			}
			err := serial.New("s", children...).Deprovision(t.Context())
			requireOutcome(t, err, test.want, test.reason)
			require.False(t, provisioner.IsTerminal(err), "a removal never parks")
			require.Equal(t, test.want.calls, trace.Calls(), test.reason)
		})
	}
}

func TestPasses(t *testing.T) {
	t.Run("Case019", func(t *testing.T) {
		trace := &provisionertest.Trace{}
		s := serial.New("s", provisionertest.New("0", trace), provisionertest.New("1", trace).Up(errYield, nil))
		require.Error(t, s.Provision(t.Context()))
		require.NoError(t, s.Provision(t.Context()))
		require.Equal(t, []string{"P 0", "P 1", "P 0", "P 1"}, trace.Calls(), "a pass starts at the first child")
	})
	t.Run("Case020", func(t *testing.T) {
		trace := &provisionertest.Trace{}
		s := serial.New("s",
			provisionertest.New("0", trace), provisionertest.New("1", trace).Up(errYield), provisionertest.New("2", trace))
		require.Error(t, s.Provision(t.Context()))
		require.NoError(t, s.Deprovision(t.Context()))
		require.Equal(t, []string{"P 0", "P 1", "D 2", "D 1", "D 0"}, trace.Calls(), "the never provisioned one goes too")
	})
	t.Run("Case021", func(t *testing.T) {
		s := serial.New("empty")
		require.Equal(t, "empty", s.ProvisionerName())
		require.NoError(t, s.Provision(t.Context()))
		require.NoError(t, s.Deprovision(t.Context()))
	})
}

func TestContextEnds(t *testing.T) {
	t.Run("Case022", func(t *testing.T) {
		ctx, shutdown := context.WithCancelCause(t.Context())
		trace := &provisionertest.Trace{}
		first := provisionertest.New("0", trace).OnUp(func(context.Context) error {
			shutdown(provisioner.ErrShutdown)
			return nil
		})
		err := serial.New("s", first, provisionertest.New("1", trace)).Provision(ctx)
		require.True(t, provisioner.OutcomeOf(err).Cancelled)
		require.Equal(t, []string{"P 0"}, trace.Calls())
	})
	t.Run("Case022InsideAChild", func(t *testing.T) {
		ctx, shutdown := context.WithCancelCause(t.Context())
		first := provisionertest.New("0", nil).OnUp(func(ctx context.Context) error {
			shutdown(provisioner.ErrShutdown)
			return ctx.Err() // as a client would: it knows nothing of the cause
		})
		err := serial.New("s", first).Provision(ctx)
		require.True(t, provisioner.OutcomeOf(err).Cancelled, "what a child makes of a shutdown is one")
	})
	t.Run("Case022Deprovision", func(t *testing.T) {
		ctx, shutdown := context.WithCancelCause(t.Context())
		trace := &provisionertest.Trace{}
		last := provisionertest.New("1", trace).OnDown(func(context.Context) error {
			shutdown(provisioner.ErrShutdown)
			return nil
		})
		err := serial.New("s", provisionertest.New("0", trace), last).Deprovision(ctx)
		require.True(t, provisioner.OutcomeOf(err).Cancelled)
		require.Equal(t, []string{"D 1"}, trace.Calls())
	})
	t.Run("Case023", func(t *testing.T) {
		errBudget := errors.New("the pass took too long")
		ctx, end := context.WithCancelCause(t.Context())
		trace := &provisionertest.Trace{}
		second := provisionertest.New("1", trace).OnUp(func(ctx context.Context) error {
			end(errBudget)
			return ctx.Err()
		})
		err := serial.New("s", provisionertest.New("0", trace), second, provisionertest.New("2", trace)).Provision(ctx)
		requireOutcome(t, err, wants{class: abi.Retry, reason: abi.ReasonDeadlineExceeded, path: "1"}, "a budget is no shutdown")
		require.Equal(t, []string{"P 0", "P 1"}, trace.Calls())
	})
	t.Run("Case023BetweenChildren", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
		defer cancel()
		trace := &provisionertest.Trace{}
		err := serial.New("s", provisionertest.New("0", trace)).Provision(ctx)
		requireOutcome(t, err, wants{class: abi.Retry, reason: abi.ReasonDeadlineExceeded}, "no child is called")
		require.Empty(t, trace.Calls())
	})
}

type segmented struct{ provisioner.Provisioner }

func (s segmented) PathSegment() string { return s.ProvisionerName() }

func TestPathsUseSegments(t *testing.T) {
	inner := segmented{serial.New("platform", segmented{provisionertest.New("cni", nil).Up(errYield).Down(errTerminal)})}
	outer := serial.New("root", provisionertest.New("first", nil), inner)
	requireOutcome(t, outer.Provision(t.Context()),
		wants{class: abi.Yield, reason: "application_installing", path: "platform/cni"}, "named nodes are named in paths")
	requireOutcome(t, outer.Deprovision(t.Context()),
		wants{class: abi.Retry, reason: "invalid_config", path: "platform/cni"}, "also when nothing parks")
}

func TestChildrenAreCopied(t *testing.T) {
	trace := &provisionertest.Trace{}
	children := []provisioner.Provisioner{provisionertest.New("0", trace), provisionertest.New("1", trace)}
	s := serial.New("s", children...)
	children[0] = provisionertest.New("other", trace)
	require.NoError(t, s.Provision(t.Context()))
	require.Equal(t, []string{"P 0", "P 1"}, trace.Calls(), "a node does not change once it is made")
}
