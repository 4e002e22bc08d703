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
	if outcome, ok := classify(err); ok {
		return outcome
	}
	return outcomeOfUntyped(err)
}

// OrRetry returns err if it carries a disposition, and otherwise a Retry with the
// reason that wraps it. A nil error stays nil. It is for callers that know better than
// "unexpected" what an error of somebody else's stands for.
func OrRetry(err error, reason string) error {
	if err == nil {
		return nil
	}
	if _, ok := classify(err); ok {
		return err
	}
	return Retry(reason, "").WithCause(err)
}

// classify looks for a disposition in err and what it wraps.
func classify(err error) (Outcome, bool) {
	switch e := err.(type) { //nolint:errorlint // The walk through the wrapping is done here, one layer at a time.
	case *Error:
		return outcomeOfTyped(e), true
	case *located:
		outcome := OutcomeOf(e.err)
		outcome.Headline.Path = joinPath(e.segment, outcome.Headline.Path)
		return outcome, true
	case *folded:
		return e.outcome, true
	case interface{ Unwrap() []error }:
		return withText(err)(classifyJoined(err, e.Unwrap()))
	case interface{ Errors() []error }:
		// The aggregate of Kubernetes: errors.Is looks through it, Unwrap does not.
		return withText(err)(classifyJoined(err, e.Errors()))
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			if outcome, ok := classify(inner); ok {
				return withText(err)(outcome, true)
			}
		}
	}
	return outcomeOfSentinel(err)
}

// withText adds the text of a wrapping error to the why, for the logs.
func withText(err error) func(Outcome, bool) (Outcome, bool) {
	return func(o Outcome, ok bool) (Outcome, bool) {
		if ok && !o.Cancelled {
			o.Headline.Why = mergeWhy(o.Headline.Why, err.Error())
		}
		return o, ok
	}
}

// classifyJoined folds the parts. In a plain list, such as errors.Join makes, a part
// without a disposition is a failure of its own. In a sentence, such as fmt.Errorf with
// two %w makes, it is what the sentence is about, and does not count beside a part that
// has one.
func classifyJoined(err error, parts []error) (Outcome, bool) {
	list := isPlainList(err, parts)
	var outcomes []Outcome
	typed := false
	for _, part := range parts {
		if part == nil {
			continue
		}
		outcome, ok := classify(part)
		switch {
		case ok:
			typed = true
			outcomes = append(outcomes, outcome)
		case list:
			outcomes = append(outcomes, outcomeOfUntyped(part))
		}
	}
	if !typed {
		return Outcome{}, false
	}
	return foldOutcomes(outcomes), true
}

// isPlainList reports whether err says nothing of its own about its parts.
func isPlainList(err error, parts []error) bool {
	if _, ok := err.(interface{ Errors() []error }); ok {
		return true
	}
	texts := make([]string, 0, len(parts))
	for _, part := range parts {
		if part != nil {
			texts = append(texts, part.Error())
		}
	}
	return err.Error() == strings.Join(texts, "\n")
}

func outcomeOfTyped(e *Error) Outcome {
	if e == nil {
		// A nil *Error in an error interface is a slip of the code that returned it.
		e = Retry(abi.ReasonUnexpected, "nil *provisioner.Error returned as an error")
	}
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

func mergeWhy(why, text string) string {
	if why == "" || strings.Contains(text, why) {
		return text
	}
	return text + ": " + why
}
