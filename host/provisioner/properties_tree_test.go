package provisioner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

// part is what the model knows of one thing that is not OK.
type part struct {
	class    abi.Disposition
	headline abi.Disposition
	reason   string
	path     string
	hint     time.Duration
}

// result is what a leaf, or a predicate that cannot decide, comes to, and what the
// algebra is to read into that.
type result struct {
	err error
	// parts is empty for OK, and has one entry otherwise; more are those of a list.
	parts []part
	// panics and shutsDown are what it does instead of returning err.
	panics, shutsDown bool
}

func (r result) ok() bool { return len(r.parts) == 0 && !r.panics && !r.shutsDown }

// kind is the kind of a node of a random tree.
type kind string

const (
	leafKind        kind = "leaf"
	serialKind      kind = "serial"
	concurrentKind  kind = "concurrent"
	conditionalKind kind = "conditional"
	remoteKind      kind = "remote"
)

// verdict is what the predicate of a random conditional says.
type verdict string

const (
	isTrue    verdict = "true"
	isFalse   verdict = "false"
	isUnknown verdict = "unknown"
)

// node is a node of a random tree: a description that both the model and the real
// combinators are made from.
type node struct {
	kind kind
	// id numbers the leaves.
	id int
	// segment is the node's own; if empty, its path has its index.
	segment  string
	children []*node

	up, down result // of a leaf

	limit      int // of a concurrent
	downSerial bool

	verdict verdict // of a conditional
	unknown result

	remote int // of a remote node: the index of its bracket
}

// has reports whether the tree below and including the node has one of a kind.
func (n *node) has(k kind) bool {
	return n.kind == k || slices.ContainsFunc(n.children, func(child *node) bool { return child.has(k) })
}

// bracket describes a remote.
type bracket struct {
	owned, ready bool
}

// forest is a random tree with the remotes that its nodes are on.
type forest struct {
	root     *node
	leaves   int // how many there are, and
	names    int // how many nodes have a segment of their own
	brackets []bracket
}

// options say what may occur in a forest.
type options struct {
	shutdowns, panics bool
}

func drawForest(t *rapid.T, o options) *forest {
	f := &forest{brackets: make([]bracket, rapid.IntRange(1, 3).Draw(t, "remotes"))}
	for i := range f.brackets {
		f.brackets[i] = bracket{owned: rapid.Bool().Draw(t, "owned"), ready: rapid.IntRange(0, 3).Draw(t, "ready") > 0}
	}
	f.root = f.drawNode(t, o, 4)
	return f
}

func (f *forest) drawNode(t *rapid.T, o options, depth int) *node {
	kinds := []kind{leafKind, serialKind, serialKind, concurrentKind, concurrentKind, conditionalKind, remoteKind}
	if depth == 0 {
		kinds = kinds[:1]
	}
	n := &node{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), id: f.leaves}
	if rapid.Bool().Draw(t, "named") {
		f.names++
		n.segment = fmt.Sprintf("n%d", f.names)
	}
	children := 0
	switch n.kind {
	case leafKind:
		f.leaves++
		n.up, n.down = drawResult(t, o), drawResult(t, o)
	case serialKind:
		children = rapid.IntRange(0, 4).Draw(t, "children")
	case concurrentKind:
		children = rapid.IntRange(0, 5).Draw(t, "children")
		n.limit = rapid.IntRange(1, 4).Draw(t, "limit")
		n.downSerial = rapid.Bool().Draw(t, "downSerial")
	case conditionalKind:
		children = 1
		n.verdict = rapid.SampledFrom([]verdict{isTrue, isFalse, isUnknown}).Draw(t, "verdict")
		n.unknown = drawFailure(t)
	case remoteKind:
		children = 1
		n.remote = rapid.IntRange(0, len(f.brackets)-1).Draw(t, "remote")
	}
	for range children {
		n.children = append(n.children, f.drawNode(t, o, depth-1))
	}
	return n
}

func drawResult(t *rapid.T, o options) result {
	switch drawn := rapid.IntRange(0, 20).Draw(t, "result"); {
	case drawn < 9:
		return result{}
	case drawn == 19 && o.panics:
		return result{panics: true}
	case drawn == 20 && o.shutdowns:
		return result{shutsDown: true}
	default:
		return drawFailure(t)
	}
}

// errors of a shape that combinators of others return.
type list []error

func (l list) Error() string   { return fmt.Sprintf("%d errors", len(l)) }
func (l list) Errors() []error { return l }

// drawFailure draws an error in one of the many shapes that errors have in Go, together
// with what it means.
func drawFailure(t *rapid.T) result {
	switch rapid.IntRange(0, 7).Draw(t, "shape") {
	case 0, 1, 2:
		return drawTyped(t)
	case 3:
		inner := drawTyped(t)
		return result{err: fmt.Errorf("wrapped: %w", fmt.Errorf("twice: %w", inner.err)), parts: inner.parts}
	case 4:
		return plainFailure()
	case 5:
		return drawSentinel(t)
	case 6:
		// What a sentence is about is no failure of its own.
		inner := drawTyped(t)
		return result{err: fmt.Errorf("%w: while %w", errors.New("connection refused"), inner.err), parts: inner.parts}
	default:
		return drawList(t)
	}
}

func drawTyped(t *rapid.T) result {
	disposition := rapid.SampledFrom([]abi.Disposition{abi.Yield, abi.Retry, abi.UserActionRequired, abi.Terminal}).Draw(t, "disposition")
	reason := "reason_" + strconv.Itoa(rapid.IntRange(0, 99).Draw(t, "reason"))
	err := provisioner.New(disposition, reason, "why")
	hint := time.Duration(rapid.IntRange(0, 3).Draw(t, "hint")) * time.Second
	if hint > 0 {
		err = err.WithRetryAfter(hint)
	}
	return result{err: err, parts: []part{{class: disposition, headline: disposition, reason: reason, hint: hint}}}
}

func plainFailure() result {
	return result{err: errors.New("plain"), parts: []part{{class: abi.Retry, headline: abi.Retry, reason: "unexpected"}}}
}

func drawSentinel(t *rapid.T) result {
	sentinels := []result{
		{err: provisioner.ErrYield, parts: []part{{class: abi.Yield, headline: abi.Yield, reason: "unspecified"}}},
		{err: provisioner.ErrTerminal, parts: []part{{class: abi.Terminal, headline: abi.Terminal, reason: "unspecified"}}},
		{err: provisioner.ErrUserActionRequired, parts: []part{{class: abi.UserActionRequired, headline: abi.UserActionRequired, reason: "unspecified"}}},
		{err: provisioner.ErrNotFound, parts: []part{{class: abi.Retry, headline: abi.Retry, reason: "unexpected"}}},
		{err: context.DeadlineExceeded, parts: []part{{class: abi.Retry, headline: abi.Retry, reason: "deadline_exceeded"}}},
	}
	return rapid.SampledFrom(sentinels).Draw(t, "sentinel")
}

func drawList(t *rapid.T) result {
	var errs []error
	var parts []part
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		one := plainFailure()
		if rapid.IntRange(0, 3).Draw(t, "typed") > 0 {
			one = drawTyped(t)
		}
		errs, parts = append(errs, one.err), append(parts, one.parts...)
	}
	if rapid.Bool().Draw(t, "aggregate") {
		return result{err: list(errs), parts: parts}
	}
	return result{err: errors.Join(errs...), parts: parts}
}
