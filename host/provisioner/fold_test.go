package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand" //nolint:depguard // What testing/quick hands to generators.
	"reflect"
	"strconv"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// tree is a random tree of results, as combinators would fold it.
type tree struct {
	leaf     error
	children []tree
}

// Generate implements quick.Generator.
func (tree) Generate(r *rand.Rand, _ int) reflect.Value {
	return reflect.ValueOf(randomTree(r, 3))
}

func randomTree(r *rand.Rand, depth int) tree {
	if depth == 0 || r.Intn(3) == 0 {
		return tree{leaf: randomLeaf(r)}
	}
	children := make([]tree, r.Intn(5))
	for i := range children {
		children[i] = randomTree(r, depth-1)
	}
	return tree{children: children}
}

func randomLeaf(r *rand.Rand) error {
	reason := "reason_" + strconv.Itoa(r.Intn(100))
	disposition := abi.Disposition(r.Intn(5))
	if disposition == abi.OK {
		return nil
	}
	err := provisioner.New(disposition, reason, "why "+reason)
	if r.Intn(3) == 0 {
		err = err.WithRetryAfter(time.Duration(1+r.Intn(60)) * time.Second)
	}
	switch r.Intn(4) {
	case 0:
		return fmt.Errorf("wrapped: %w", err)
	case 1:
		return errors.Join(err)
	case 2:
		return errors.New("untyped")
	default:
		return err
	}
}

// fold folds the tree as a provision does.
func (n tree) fold() error { return n.foldWith(func(err error) error { return err }) }

// unparked folds the tree as a deprovision does.
func (n tree) unparked() error { return n.foldWith(provisioner.Unpark) }

func (n tree) foldWith(leaf func(error) error) error {
	if n.children == nil {
		return leaf(n.leaf)
	}
	results := make([]error, len(n.children))
	for i, child := range n.children {
		results[i] = provisioner.Under(strconv.Itoa(i), child.foldWith(leaf))
	}
	return provisioner.Fold(results...)
}

// leaves returns the outcomes of all leaves that are not OK, with their paths.
func (n tree) leaves(path string) []provisioner.Outcome {
	if n.children == nil {
		outcome := provisioner.OutcomeOf(n.leaf)
		if outcome.OK() {
			return nil
		}
		outcome.Headline.Path = path
		return []provisioner.Outcome{outcome}
	}
	var all []provisioner.Outcome
	for i, child := range n.children {
		segment := strconv.Itoa(i)
		if path != "" {
			segment = path + "/" + segment
		}
		all = append(all, child.leaves(segment)...)
	}
	return all
}

func progresses(o provisioner.Outcome) bool { return o.Class == abi.Yield || o.Class == abi.Retry }

func check(t *testing.T, property any) {
	t.Helper()
	require.NoError(t, quick.Check(property, &quick.Config{MaxCount: 1000, Rand: rand.New(rand.NewSource(1))}))
}

func TestFoldProperties(t *testing.T) {
	t.Run("Deterministic", func(t *testing.T) {
		check(t, func(n tree) bool {
			return reflect.DeepEqual(provisioner.OutcomeOf(n.fold()), provisioner.OutcomeOf(n.fold()))
		})
	})
	t.Run("OKExactlyIfAllAre", func(t *testing.T) {
		check(t, func(n tree) bool {
			return (n.fold() == nil) == (len(n.leaves("")) == 0) || n.children == nil
		})
	})
	t.Run("NeverParksWhileSomethingProgresses", func(t *testing.T) {
		check(t, func(n tree) bool {
			progress := false
			leaves := n.leaves("")
			for _, leaf := range leaves {
				progress = progress || progresses(leaf)
			}
			parks := provisioner.IsTerminal(n.fold())
			return parks == (!progress && len(leaves) > 0)
		})
	})
	t.Run("HeadlineIsTheFirstOfTheMostSevere", func(t *testing.T) {
		check(t, func(n tree) bool {
			var want provisioner.Finding
			for _, leaf := range n.leaves("") {
				if leaf.Headline.Disposition > want.Disposition {
					want = leaf.Headline
				}
			}
			return provisioner.OutcomeOf(n.fold()).Headline == want
		})
	})
	t.Run("NeverLosesATerminal", func(t *testing.T) {
		check(t, func(n tree) bool {
			for _, leaf := range n.leaves("") {
				if leaf.Headline.Disposition == abi.Terminal {
					return provisioner.OutcomeOf(n.fold()).Headline.Disposition == abi.Terminal
				}
			}
			return provisioner.OutcomeOf(n.fold()).Headline.Disposition != abi.Terminal
		})
	})
	t.Run("ShortestHint", func(t *testing.T) {
		check(t, func(n tree) bool {
			var want time.Duration
			for _, leaf := range n.leaves("") {
				if leaf.RetryAfter > 0 && (want == 0 || leaf.RetryAfter < want) {
					want = leaf.RetryAfter
				}
			}
			return provisioner.OutcomeOf(n.fold()).RetryAfter == want
		})
	})
	t.Run("ARemovalNeverParksNorLosesAReason", func(t *testing.T) {
		check(t, func(n tree) bool {
			removed := provisioner.OutcomeOf(n.unparked())
			leaves := n.leaves("")
			if len(leaves) == 0 {
				return removed.OK()
			}
			known := false
			for _, leaf := range leaves {
				known = known || leaf.Headline.Path == removed.Headline.Path && leaf.Headline.Reason == removed.Headline.Reason
			}
			return known && progresses(removed) && removed.Headline.Disposition <= abi.Retry
		})
	})
	t.Run("UnparkOfAFoldNeverParks", func(t *testing.T) {
		check(t, func(n tree) bool {
			before, after := provisioner.OutcomeOf(n.fold()), provisioner.OutcomeOf(provisioner.Unpark(n.fold()))
			return !after.Parks() && after.OK() == before.OK() &&
				after.Headline.Reason == before.Headline.Reason && after.Headline.Path == before.Headline.Path
		})
	})
	t.Run("AShutdownAnywhereIsOne", func(t *testing.T) {
		check(t, func(before, after tree) bool {
			err := provisioner.Fold(before.fold(), provisioner.Under("x", provisioner.ErrShutdown), after.fold())
			outcome := provisioner.OutcomeOf(provisioner.Unpark(err))
			return outcome.Cancelled && !outcome.Parks() && !outcome.OK()
		})
	})
}

func TestFoldKeepsEveryErrorForTheLog(t *testing.T) {
	boom := errors.New("boom")
	err := provisioner.Fold(nil, provisioner.Under("a", provisioner.Yield("remote_pending", "no secret")), provisioner.Under("b", boom))
	require.Equal(t, "a: Yield (remote_pending): no secret; b: boom", err.Error())
	require.ErrorIs(t, err, boom)
	require.ErrorIs(t, err, provisioner.ErrYield)
	require.NoError(t, provisioner.Fold())
	require.NoError(t, provisioner.Fold(nil, nil))
}

func TestUnparkLeavesAlone(t *testing.T) {
	yield := provisioner.Yield("remote_pending", "")
	require.NoError(t, provisioner.Unpark(nil))
	require.Equal(t, error(yield), provisioner.Unpark(yield), "what may make progress is as it was")
	require.Equal(t, provisioner.ErrShutdown, provisioner.Unpark(provisioner.ErrShutdown))
	require.ErrorIs(t, provisioner.Unpark(provisioner.Terminal("invalid_stack", "")), provisioner.ErrTerminal, "the log can still tell")
}

// leaf is a provisioner that is always OK.
type leaf struct{ provisioner.Metadata }

func (leaf) Provision(context.Context) error   { return nil }
func (leaf) Deprovision(context.Context) error { return nil }

type named struct {
	provisioner.Provisioner
	segment string
}

func (n named) PathSegment() string { return n.segment }

func TestPaths(t *testing.T) {
	child := leaf{provisioner.Metadata{Name: "cni"}}
	require.Equal(t, "3", provisioner.Segment(child, 3))
	require.Equal(t, "platform", provisioner.Segment(named{child, "platform"}, 3))
	require.NoError(t, provisioner.At(child, 0, nil))
	require.NoError(t, provisioner.Under("a", nil))

	err := provisioner.Under("all", provisioner.At(named{child, "platform"}, 0, provisioner.At(child, 2, errors.New("boom"))))
	require.Equal(t, "all/platform/2", provisioner.OutcomeOf(err).Headline.Path)
	require.Equal(t, "all/platform/2", provisioner.OutcomeOf(fmt.Errorf("pass: %w", err)).Headline.Path, "through wrapping too")
}

func TestInterruptedAndSettle(t *testing.T) {
	untyped := fmt.Errorf("get: %w", context.Canceled)
	typed := provisioner.Yield("application_installing", "")
	live := t.Context()
	stopped, stop := context.WithCancelCause(t.Context())
	stop(provisioner.ErrShutdown)
	spent, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	aborted, abort := context.WithCancel(t.Context())
	abort()

	require.NoError(t, provisioner.Interrupted(live))
	require.Equal(t, provisioner.ErrShutdown, provisioner.Interrupted(stopped))
	for _, ctx := range []context.Context{spent, aborted} {
		require.Equal(t, abi.ReasonDeadlineExceeded, provisioner.OutcomeOf(provisioner.Interrupted(ctx)).Headline.Reason)
	}
	for name, test := range map[string]struct {
		reason string
		ctx    context.Context
		err    error
		want   string
	}{
		"LiveUntyped":    {"without an end nothing is read into an error", live, untyped, abi.ReasonUnexpected},
		"LiveTyped":      {"nor into a typed one", live, typed, "application_installing"},
		"AbortedUntyped": {"a cancellation that is no shutdown is a used-up budget", aborted, untyped, abi.ReasonDeadlineExceeded},
		"AbortedTyped":   {"what a child said before stands", aborted, typed, "application_installing"},
		"AbortedOther":   {"so does a failure that is none", aborted, errors.New("boom"), abi.ReasonUnexpected},
		"Spent":          {"a deadline is one", spent, fmt.Errorf("get: %w", context.DeadlineExceeded), abi.ReasonDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, provisioner.OutcomeOf(provisioner.Settle(test.ctx, test.err)).Headline.Reason, test.reason)
			require.NoError(t, provisioner.Settle(test.ctx, nil))
		})
	}
	require.Equal(t, provisioner.ErrShutdown, provisioner.Settle(stopped, untyped))
	require.Equal(t, provisioner.ErrShutdown, provisioner.Settle(stopped, typed))
	require.NoError(t, provisioner.Settle(stopped, nil), "what was done before the end is done")
}

func TestInputRecorderFunc(t *testing.T) {
	var got provisioner.Input
	recorder := provisioner.InputRecorder(provisioner.InputRecorderFunc(func(i provisioner.Input) { got = i }))
	want := provisioner.Input{ScopeID: "home", Kind: "Secret", Namespace: "a", Name: "b", Version: "1"}
	recorder.RecordInput(want)
	require.Equal(t, want, got)
	require.Equal(t, "x", provisioner.Metadata{Name: "x"}.ProvisionerName())
}
