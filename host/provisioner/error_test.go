package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

func TestCase001WrappedTerminal(t *testing.T) {
	inner := provisioner.Terminal("invalid_config", "podCIDR overlaps")
	err := fmt.Errorf("install cni: %w", fmt.Errorf("compute values: %w", inner))
	require.True(t, provisioner.IsTerminal(err))

	var carrier *provisioner.Error
	require.ErrorAs(t, err, &carrier)
	require.Equal(t, "invalid_config", carrier.Reason())
	require.Equal(t, "podCIDR overlaps", carrier.Why())

	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, "invalid_config", outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "install cni: compute values", "the log has the wrapping")
	require.NotContains(t, outcome.Headline.Sentence, "install", "the surface has not")
	require.NotContains(t, outcome.Headline.Sentence, "podCIDR", "nor the why")
}

func TestCase002UserActionIsTerminalOfItsOwnClass(t *testing.T) {
	err := provisioner.UserActionRequired("secret_missing", "key token")
	require.True(t, provisioner.IsTerminal(err))
	require.Equal(t, abi.UserActionRequired, provisioner.OutcomeOf(err).Class)
	require.ErrorIs(t, err, provisioner.ErrUserActionRequired)
	require.NotErrorIs(t, err, provisioner.ErrTerminal)
}

func TestCase003YieldSaysWhatFor(t *testing.T) {
	err := provisioner.Yield("application_installing", "1 of 3")
	require.False(t, provisioner.IsTerminal(err))
	finding := provisioner.OutcomeOf(err).Headline
	require.Equal(t, "application_installing", finding.Reason)
	require.Equal(t, "The application is being installed.", finding.Sentence)
	require.Equal(t, "1 of 3", finding.Why)
}

func TestCase004UntypedTextStaysInLogs(t *testing.T) {
	outcome := provisioner.OutcomeOf(errors.New("dial 10.0.0.7 token=abc"))
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.ReasonUnexpected, outcome.Headline.Reason)
	require.NotContains(t, outcome.Headline.Sentence, "token")
	require.NotContains(t, outcome.Headline.Sentence, "10.0.0.7")
	require.Contains(t, outcome.Headline.Why, "dial 10.0.0.7 token=abc")
}

// aggregate is shaped like the one of Kubernetes: no Unwrap, but an Is that looks in.
type aggregate []error

func (a aggregate) Error() string   { return fmt.Sprint([]error(a)) }
func (a aggregate) Errors() []error { return a }
func (a aggregate) Is(target error) bool {
	for _, err := range a {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

func TestCase005JoinsHideNothing(t *testing.T) {
	yield, terminal := provisioner.Yield("remote_pending", ""), provisioner.Terminal("invalid_stack", "")
	for name, test := range map[string]struct {
		reason   string
		err      error
		class    abi.Disposition
		headline abi.Disposition
		code     string
	}{
		"Join":            {"a yield does not mask a terminal", errors.Join(yield, terminal), abi.Yield, abi.Terminal, "invalid_stack"},
		"JoinReversed":    {"nor the reverse", errors.Join(terminal, yield), abi.Yield, abi.Terminal, "invalid_stack"},
		"JoinUntyped":     {"an untyped failure in a list counts", errors.Join(yield, errors.New("boom")), abi.Retry, abi.Retry, "unexpected"},
		"JoinAllUntyped":  {"a list of untyped failures is one", errors.Join(errors.New("a"), errors.New("b")), abi.Retry, abi.Retry, "unexpected"},
		"JoinOfOne":       {"a list of one is that one", errors.Join(nil, terminal), abi.Terminal, abi.Terminal, "invalid_stack"},
		"Sentence":        {"what a sentence is about is no failure of its own", fmt.Errorf("%w: %w", provisioner.ErrNotFound, yield), abi.Yield, abi.Yield, "remote_pending"},
		"SentenceOfTyped": {"two typed ones in a sentence are folded", fmt.Errorf("both %w and %w", yield, terminal), abi.Yield, abi.Terminal, "invalid_stack"},
		"Nested":          {"lists in lists are folded", errors.Join(errors.Join(yield), fmt.Errorf("x: %w", errors.Join(terminal))), abi.Yield, abi.Terminal, "invalid_stack"},
		"Aggregate":       {"an aggregate is a list", aggregate{yield, terminal}, abi.Yield, abi.Terminal, "invalid_stack"},
		"AggregateMixed":  {"also with untyped failures", aggregate{yield, errors.New("boom")}, abi.Retry, abi.Retry, "unexpected"},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := provisioner.OutcomeOf(test.err)
			require.Equal(t, test.class, outcome.Class, test.reason)
			require.Equal(t, test.headline, outcome.Headline.Disposition, test.reason)
			require.Equal(t, test.code, outcome.Headline.Reason, test.reason)
		})
	}
}

func TestSentinels(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		err    error
		class  abi.Disposition
		code   string
	}{
		"Yield":     {"a bare sentinel has a class", provisioner.ErrYield, abi.Yield, abi.ReasonUnspecified},
		"User":      {"a wrapped one too", fmt.Errorf("x: %w", provisioner.ErrUserActionRequired), abi.UserActionRequired, abi.ReasonUnspecified},
		"Terminal":  {"terminal as well", provisioner.ErrTerminal, abi.Terminal, abi.ReasonUnspecified},
		"NotFound":  {"not found says nothing of what comes next", provisioner.ErrNotFound, abi.Retry, abi.ReasonUnexpected},
		"Deadline":  {"a deadline has a reason of its own", fmt.Errorf("get: %w", context.DeadlineExceeded), abi.Retry, abi.ReasonDeadlineExceeded},
		"Cancelled": {"a cancellation alone does not say why", context.Canceled, abi.Retry, abi.ReasonUnexpected},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := provisioner.OutcomeOf(test.err)
			require.Equal(t, test.class, outcome.Class, test.reason)
			require.Equal(t, test.code, outcome.Headline.Reason, test.reason)
			require.False(t, outcome.Cancelled)
		})
	}
	t.Run("Shutdown", func(t *testing.T) {
		outcome := provisioner.OutcomeOf(fmt.Errorf("apply: %w", provisioner.ErrShutdown))
		require.True(t, outcome.Cancelled)
		require.False(t, outcome.Parks())
		require.False(t, outcome.OK())
	})
	t.Run("Nil", func(t *testing.T) {
		require.True(t, provisioner.OutcomeOf(nil).OK())
		require.False(t, provisioner.IsTerminal(nil))
	})
}

func TestNewMapsVocabularies(t *testing.T) {
	for name, test := range map[string]struct {
		reason      string
		disposition abi.Disposition
		code        string
		want        abi.Disposition
		wantCode    string
	}{
		"Terminal":      {"a valid one is kept", abi.Terminal, "invalid_config", abi.Terminal, "invalid_config"},
		"OK":            {"OK is no error", abi.OK, "invalid_config", abi.Retry, abi.ReasonUnspecified},
		"Unknown":       {"nor is what does not exist", abi.Disposition(7), "invalid_config", abi.Retry, abi.ReasonUnspecified},
		"Negative":      {"nor a negative number", abi.Disposition(-1), "invalid_config", abi.Retry, abi.ReasonUnspecified},
		"BadReason":     {"a reason that is none is replaced", abi.Yield, "Not A Reason", abi.Yield, abi.ReasonUnspecified},
		"ForeignReason": {"one of a module's own is kept", abi.Yield, "waiting_for_the_tide", abi.Yield, "waiting_for_the_tide"},
	} {
		t.Run(name, func(t *testing.T) {
			err := provisioner.New(test.disposition, test.code, "why")
			require.Equal(t, test.want, err.Disposition(), test.reason)
			require.Equal(t, test.wantCode, err.Reason(), test.reason)
			require.NotEmpty(t, err.Sentence(), "a surface is never without words")
			require.Contains(t, err.Why(), "why")
		})
	}
	t.Run("BadReasonIsLogged", func(t *testing.T) {
		require.Contains(t, provisioner.Yield("Not A Reason", "").Why(), "Not A Reason")
	})
}

func TestWithDerivesCopies(t *testing.T) {
	cause := errors.New("connection refused")
	base := provisioner.Retry("chart_unavailable", "pull chart")
	derived := base.WithSentence("The shop is closed.").WithRetryAfter(time.Minute).WithCause(cause)

	require.Equal(t, "The shop is closed.", derived.Sentence())
	require.Equal(t, time.Minute, derived.RetryAfter())
	require.ErrorIs(t, derived, cause)
	require.Equal(t, "pull chart: connection refused", derived.Why())
	require.Equal(t, "Retry (chart_unavailable): pull chart: connection refused", derived.Error())

	require.Zero(t, base.RetryAfter(), "the original is untouched")
	require.NotErrorIs(t, base, cause)
	require.NotEqual(t, derived.Sentence(), base.Sentence())
	require.Equal(t, "connection refused", provisioner.Yield("forbidden", "").WithCause(cause).Why())
	require.Equal(t, "Yield (forbidden)", provisioner.Yield("forbidden", "").Error())
}

func TestDispositionOfTheCarrierWinsOverItsCause(t *testing.T) {
	err := provisioner.Retry("registration_failed", "").WithCause(provisioner.Terminal("invalid_kubeconfig", ""))
	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.Retry, outcome.Headline.Disposition)
}

func TestNilCarrierIsNoPanic(t *testing.T) {
	var carrier *provisioner.Error
	var err error = carrier
	outcome := provisioner.OutcomeOf(fmt.Errorf("leaf: %w", err))
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.ReasonUnexpected, outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "nil *provisioner.Error")
	require.NotErrorIs(t, err, provisioner.ErrYield)
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(provisioner.Fold(err)).Class)
}

func TestOrRetry(t *testing.T) {
	untyped := errors.New("connection refused")
	typed := fmt.Errorf("register: %w", provisioner.UserActionRequired("forbidden", ""))
	require.NoError(t, provisioner.OrRetry(nil, "registration_failed"))
	require.Equal(t, typed, provisioner.OrRetry(typed, "registration_failed"), "what has a disposition keeps it")
	require.Equal(t, provisioner.ErrShutdown, provisioner.OrRetry(provisioner.ErrShutdown, "registration_failed"))

	err := provisioner.OrRetry(untyped, "registration_failed")
	require.ErrorIs(t, err, untyped)
	outcome := provisioner.OutcomeOf(err)
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, "registration_failed", outcome.Headline.Reason)
	require.Equal(t, "connection refused", outcome.Headline.Why)
}

func TestReasonsOfTheHostHaveSentences(t *testing.T) {
	for _, text := range abi.HostReasons() {
		err := provisioner.Yield(text.Code, "")
		require.Equal(t, text.Sentence, err.Sentence())
		require.NotContains(t, err.Why(), "invalid reason", text.Code)
	}
}
