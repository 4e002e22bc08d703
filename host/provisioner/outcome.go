package provisioner

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// Outcome is what a pass, or a part of it, came to.
type Outcome struct {
	// Class decides the schedule: OK; Yield or Retry, which requeue; UserActionRequired
	// or Terminal, which park.
	Class abi.Disposition
	// Headline is the most severe finding, which is what the surface shows. It can be
	// more severe than Class: a terminal node beside one that still makes progress.
	Headline Finding
	// RetryAfter is the shortest hint of any part, or 0.
	RetryAfter time.Duration
	// Cancelled says that the process is shutting down: the outcome says nothing about
	// the tree and must not be written anywhere.
	Cancelled bool
}

// Finding is one thing that keeps a tree from being OK.
type Finding struct {
	Disposition abi.Disposition
	// Reason and Sentence are safe to show to users.
	Reason   string
	Sentence string
	// Path is the segments from the root to the node, joined by slashes.
	Path string
	// Why is for logs only.
	Why string
}

// Parks reports whether nothing will change before somebody acts.
func (o Outcome) Parks() bool {
	return !o.Cancelled && (o.Class == abi.UserActionRequired || o.Class == abi.Terminal)
}

// OK reports whether everything has been observed as desired.
func (o Outcome) OK() bool { return !o.Cancelled && o.Class == abi.OK }

// OutcomeOf classifies any error that a provisioner may return. It looks through
// wrapping and folds joined errors part by part, so that a yield never hides a
// terminal failure nor the reverse. An error without a disposition is a Retry with the
// reason unexpected; its text stays in the why.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	outcome, ok := classify(err)
	if !ok {
		outcome = outcomeOfUntyped(err)
	}
	if text := err.Error(); !outcome.Cancelled && !strings.Contains(outcome.Headline.Why, text) && !isFold(err) {
		outcome.Headline.Why = mergeWhy(outcome.Headline.Why, text)
	}
	return outcome
}

// classify looks for a disposition in err and what it wraps.
func classify(err error) (Outcome, bool) {
	switch e := err.(type) { //nolint:errorlint // The walk through the wrapping is done here, one layer at a time.
	case *Error:
		return outcomeOfTyped(e), true
	case *located:
		outcome, ok := classify(e.err)
		if !ok {
			outcome = outcomeOfUntyped(e.err)
		}
		outcome.Headline.Path = joinPath(e.segment, outcome.Headline.Path)
		return outcome, true
	case *folded:
		return e.outcome, true
	case interface{ Unwrap() []error }:
		return classifyJoined(e.Unwrap())
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			if outcome, ok := classify(inner); ok {
				return outcome, true
			}
		}
	}
	return outcomeOfSentinel(err)
}

// classifyJoined folds the parts that carry a disposition. Parts that do not are text
// around them, as in fmt.Errorf with two %w, unless no part does.
func classifyJoined(parts []error) (Outcome, bool) {
	var typed []Outcome
	for _, part := range parts {
		if part == nil {
			continue
		}
		if outcome, ok := classify(part); ok {
			typed = append(typed, outcome)
		}
	}
	if len(typed) == 0 {
		return Outcome{}, false
	}
	return foldOutcomes(typed), true
}

func outcomeOfTyped(e *Error) Outcome {
	return Outcome{
		Class:      e.disposition,
		RetryAfter: e.retryAfter,
		Headline:   Finding{Disposition: e.disposition, Reason: e.reason, Sentence: e.sentence, Why: e.Why()},
	}
}

func outcomeOfSentinel(err error) (Outcome, bool) {
	switch {
	case errors.Is(err, ErrShutdown):
		return Outcome{Class: abi.Retry, Cancelled: true}, true
	case errors.Is(err, ErrTerminal):
		return outcomeOfTyped(Terminal(abi.ReasonUnspecified, "")), true
	case errors.Is(err, ErrUserActionRequired):
		return outcomeOfTyped(UserActionRequired(abi.ReasonUnspecified, "")), true
	case errors.Is(err, ErrYield):
		return outcomeOfTyped(Yield(abi.ReasonUnspecified, "")), true
	case errors.Is(err, context.DeadlineExceeded):
		return outcomeOfTyped(Retry(abi.ReasonDeadlineExceeded, err.Error())), true
	default:
		return Outcome{}, false
	}
}

func outcomeOfUntyped(err error) Outcome {
	return outcomeOfTyped(Retry(abi.ReasonUnexpected, err.Error()))
}

func isFold(err error) bool {
	var f *folded
	return errors.As(err, &f)
}

func mergeWhy(why, text string) string {
	if why == "" || strings.Contains(text, why) {
		return text
	}
	return text + ": " + why
}
