package provisioner_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// rounds is how often the library is asked for its default of 100 trees: each round
	// begins with small ones again. -rapid.checks gives more.
	rounds = 8
	// timings is how many orders of finishing each tree is run in.
	timings = 3
)

// TestProperties runs random trees of the real combinators, in random orders of
// finishing, and holds every pass to the model and to what must be true of any.
func TestProperties(t *testing.T) {
	clients := scope.NewClientCache(scope.ClientCacheOptions{})
	for name, o := range map[string]options{
		"Outcomes":           {},
		"Panics":             {panics: true},
		"Shutdowns":          {shutdowns: true},
		"PanicsAndShutdowns": {panics: true, shutdowns: true},
	} {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				rapid.Check(t, func(r *rapid.T) {
					f := drawForest(r, o)
					for range timings {
						up, down := f.run(t, clients, f.drawDelays(r))
						f.checkUp(r, &up)
						f.checkDown(r, &up, &down)
					}
				})
			}
		})
	}
}

func (f *forest) checkUp(t *rapid.T, p *pass) {
	m := newModel(f)
	f.checkModel(t, m, m.up(f.root, ""), p)
	f.checkOrder(t, f.root, p, false)
	if p.panicked || p.outcome.Cancelled {
		return
	}
	for i, b := range f.brackets {
		if p.registered[i] != m.registered[i] || p.registered[i] && !b.owned {
			t.Fatalf("remote %d (%+v) is registered: %v", i, b, p.registered[i])
		}
	}
	f.checkNothingIsLost(t, p)
}

func (f *forest) checkDown(t *rapid.T, before, p *pass) {
	m := newModel(f)
	f.checkModel(t, m, m.down(f.root, ""), p)
	f.checkOrder(t, f.root, p, true)
	if p.panicked || p.outcome.Cancelled {
		return
	}
	if p.outcome.Parks() || p.outcome.Headline.Disposition > abi.Retry {
		t.Fatalf("a removal parks, or looks as if it did: %+v", p.outcome)
	}
	for i := range f.brackets {
		if stays := before.registered[i] && m.stays(i); p.registered[i] != stays {
			t.Fatalf("remote %d is registered after a removal: %v", i, p.registered[i])
		}
	}
}

// checkModel compares a pass with the model.
func (f *forest) checkModel(t *rapid.T, m *model, want seen, p *pass) {
	if p.panicked != want.panicks {
		t.Fatalf("panicked: %v, and the model: %v", p.panicked, want.panicks)
	}
	if p.panicked {
		return
	}
	if p.outcome.Cancelled != want.cancelled {
		t.Fatalf("cancelled: %v, and the model: %v", p.outcome.Cancelled, want.cancelled)
	}
	if want.cancelled {
		if p.outcome.OK() || p.outcome.Parks() {
			t.Fatalf("a shutdown says nothing of the tree: %+v", p.outcome)
		}
		return
	}
	if got, want := partOf(p.outcome), summary(want.parts); got != want {
		t.Fatalf("the pass came to\n  %s\nand the model to\n  %s", got, want)
	}
	// The order of calls is free where children run side by side.
	byLeaf := func(a, b call) int { return cmp.Compare(a.leaf, b.leaf) }
	got, expected := slices.SortedFunc(slices.Values(p.calls()), byLeaf), slices.SortedFunc(slices.Values(m.calls), byLeaf)
	if !slices.Equal(got, expected) {
		t.Fatalf("called %v, and the model %v", got, expected)
	}
}

func partOf(o provisioner.Outcome) part {
	return part{class: o.Class, headline: o.Headline.Disposition, reason: o.Headline.Reason, path: o.Headline.Path, hint: o.RetryAfter}
}

// checkNothingIsLost holds the outcome to the leaves that were really called: what one of
// them said is never masked by another.
func (f *forest) checkNothingIsLost(t *rapid.T, p *pass) {
	progress, worst := false, abi.OK
	leaves := f.leavesByID()
	for _, c := range p.calls() {
		if c.down || leaves[c.leaf].up.ok() || leaves[c.leaf].up.panics {
			continue
		}
		told := summary(leaves[c.leaf].up.parts)
		progress = progress || told.class == abi.Yield || told.class == abi.Retry
		worst = max(worst, told.headline)
	}
	if p.outcome.Headline.Disposition < worst {
		t.Fatalf("a leaf said %s, and the outcome is %+v", worst, p.outcome)
	}
	if progress && p.outcome.Parks() {
		t.Fatalf("it parks while a leaf makes progress: %+v", p.outcome)
	}
	if p.outcome.OK() {
		return
	}
	at := f.at(p.outcome.Headline.Path)
	if at == nil {
		t.Fatalf("no node is at %q", p.outcome.Headline.Path)
	}
	if at.kind == leafKind && !slices.ContainsFunc(p.calls(), func(c call) bool { return c.leaf == at.id }) {
		t.Fatalf("the leaf at %q was not called", p.outcome.Headline.Path)
	}
}

func (f *forest) leavesByID() map[int]*node {
	leaves := map[int]*node{}
	var walk func(n *node)
	walk = func(n *node) {
		if n.kind == leafKind {
			leaves[n.id] = n
		}
		for _, child := range n.children {
			walk(child)
		}
	}
	walk(f.root)
	return leaves
}

// at finds a node by its path, or nil.
func (f *forest) at(path string) *node {
	n := f.root
	if path == "" {
		return n
	}
	for segment := range strings.SplitSeq(path, "/") {
		index := -1
		for i, child := range n.children {
			if below("", child, i) == segment {
				index = i
			}
		}
		if index < 0 {
			return nil
		}
		n = n.children[index]
	}
	return n
}

// span is when the calls below a node began and ended, as indexes of events; first is -1
// if there were none.
type span struct{ first, last int }

// checkOrder looks at when the children of a node were busy: those of a serial one after
// the other, those of a concurrent never more at once than its limit. down says that the node is
// being taken down.
func (f *forest) checkOrder(t *rapid.T, n *node, p *pass, down bool) span {
	if n.kind == leafKind {
		return spanOf(p, n.id)
	}
	down = down || n.kind == conditionalKind && n.verdict == isFalse
	whole := span{first: -1}
	var busy []span
	for _, child := range n.children {
		s := f.checkOrder(t, child, p, down)
		if s.first < 0 {
			continue
		}
		busy = append(busy, s)
		if whole.first < 0 || s.first < whole.first {
			whole.first = s.first
		}
		whole.last = max(whole.last, s.last)
	}
	if len(busy) == 0 {
		return whole
	}
	limit := n.limit
	switch {
	case n.kind == serialKind, n.kind == concurrentKind && n.downSerial && down:
		limit = 1
		if down {
			slices.Reverse(busy)
		}
		if !slices.IsSortedFunc(busy, func(a, b span) int { return cmp.Compare(a.first, b.first) }) {
			t.Fatalf("the children of a %s ran in another order: %v", n.kind, busy)
		}
	case n.kind != concurrentKind:
		return whole
	}
	for i := range p.events {
		at := 0
		for _, s := range busy {
			if s.first <= i && i <= s.last {
				at++
			}
		}
		if at > limit {
			t.Fatalf("%d children of a %s with limit %d ran at once", at, n.kind, limit)
		}
	}
	return whole
}

func spanOf(p *pass, leaf int) span {
	s := span{first: -1}
	for i, e := range p.events {
		if e.leaf != leaf {
			continue
		}
		if s.first < 0 {
			s.first = i
		}
		s.last = i
	}
	return s
}
