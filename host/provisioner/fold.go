package provisioner

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// Fold joins the results of children, in index order, into one error, or nil if all
// are nil. The order of the arguments decides ties, so callers must pass the results
// by index and not by the time at which they came.
//
// If any result is a shutdown, the fold is one. Otherwise any Yield or Retry makes it
// requeue with the shortest hint, and only if there is none does it park. The headline
// is the most severe result: Terminal, then UserActionRequired, Retry, Yield.
func Fold(results ...error) error {
	var outcomes []Outcome
	var errs []error
	for _, err := range results {
		if err == nil {
			continue
		}
		errs = append(errs, err)
		outcomes = append(outcomes, OutcomeOf(err))
	}
	if len(errs) == 0 {
		return nil
	}
	return &folded{outcome: foldOutcomes(outcomes), errs: errs}
}

// At places the error of a child under its path segment: the child's own segment if it
// is [Segmented], its index otherwise. A nil error stays nil.
func At(child Provisioner, index int, err error) error {
	if err == nil {
		return nil
	}
	return &located{segment: Segment(child, index), err: err}
}

// Segment returns the path segment of a child at an index.
func Segment(child Provisioner, index int) string {
	if s, ok := child.(Segmented); ok {
		return s.PathSegment()
	}
	return strconv.Itoa(index)
}

// Under places an error under a path segment. A nil error stays nil.
func Under(segment string, err error) error {
	if err == nil {
		return nil
	}
	return &located{segment: segment, err: err}
}

// Unpark maps the result of a deprovision: it never parks, because what blocks a
// removal must be tried again. Terminal and UserActionRequired become Retry and keep
// their reason. Other errors, and nil, are returned as they are.
func Unpark(err error) error {
	if err == nil {
		return nil
	}
	outcome := OutcomeOf(err)
	if outcome.Cancelled {
		return err
	}
	if !outcome.Parks() && !parksInSurface(outcome) {
		return err
	}
	outcome.Headline.Disposition = abi.Retry
	outcome.Class = abi.Retry
	return &folded{outcome: outcome, errs: []error{err}}
}

// Interrupted returns the error with which a combinator stops before its next child
// when the context has ended, or nil: a shutdown, or a used-up budget.
func Interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), ErrShutdown) {
		return ErrShutdown
	}
	return Retry(abi.ReasonDeadlineExceeded, ctx.Err().Error())
}

// Settle reads the error of a child in the light of its context, which the child may
// not have done: after a shutdown it is one, whatever the child made of that, and after
// a used-up budget an error that only repeats the cancellation says so. Other errors,
// and nil, are returned as they are.
func Settle(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	stop := Interrupted(ctx)
	if stop == nil {
		return err
	}
	if errors.Is(stop, ErrShutdown) {
		return ErrShutdown
	}
	if _, typed := classify(err); !typed && errors.Is(err, context.Canceled) {
		return Retry(abi.ReasonDeadlineExceeded, "").WithCause(err)
	}
	return err
}

func parksInSurface(o Outcome) bool {
	return o.Headline.Disposition == abi.Terminal || o.Headline.Disposition == abi.UserActionRequired
}

func foldOutcomes(outcomes []Outcome) Outcome {
	var result Outcome
	for _, o := range outcomes {
		if o.Cancelled {
			return Outcome{Class: abi.Retry, Cancelled: true}
		}
		if o.Class == abi.OK {
			continue
		}
		result.Class = foldClass(result.Class, o.Class)
		if o.Headline.Disposition > result.Headline.Disposition {
			result.Headline = o.Headline
		}
		if o.RetryAfter > 0 && (result.RetryAfter == 0 || o.RetryAfter < result.RetryAfter) {
			result.RetryAfter = o.RetryAfter
		}
	}
	return result
}

// foldClass joins two classes: progress beats parking, and within each the more severe
// one wins.
func foldClass(a, b abi.Disposition) abi.Disposition {
	progresses := func(d abi.Disposition) bool { return d == abi.Yield || d == abi.Retry }
	switch {
	case a == abi.OK:
		return b
	case progresses(a) == progresses(b):
		return max(a, b)
	case progresses(a):
		return a
	default:
		return b
	}
}

// folded is the error of several children.
type folded struct {
	outcome Outcome
	errs    []error
}

func (f *folded) Error() string {
	texts := make([]string, len(f.errs))
	for i, err := range f.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (f *folded) Unwrap() []error { return f.errs }

// located is the error of one child, placed in its tree.
type located struct {
	segment string
	err     error
}

func (l *located) Error() string { return l.segment + ": " + l.err.Error() }

func (l *located) Unwrap() error { return l.err }

func joinPath(head, tail string) string {
	if tail == "" {
		return head
	}
	return head + "/" + tail
}
