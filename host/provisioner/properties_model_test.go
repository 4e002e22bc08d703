package provisioner_test

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/caisson-dev/caisson/abi"
)

// The model is the algebra as it is written down: outcomes are lists of what is not OK,
// in the order of the children. Progress decides the schedule, severity the surface, and
// nothing that a removal comes to parks. It shares no code with the combinators.

// seen is what the model expects a call to come to.
type seen struct {
	parts              []part
	cancelled, panicks bool
}

func (s seen) ok() bool { return len(s.parts) == 0 && !s.cancelled && !s.panicks }

// call is a call of a leaf; down tells a deprovision from a provision.
type call struct {
	leaf int
	down bool
}

// model predicts one pass over a forest.
type model struct {
	forest *forest
	calls  []call
	// registered are the brackets that the pass must register.
	registered map[int]bool
	// gone are the remote nodes that the pass must see gone.
	gone map[*node]bool
}

func newModel(f *forest) *model {
	return &model{forest: f, registered: map[int]bool{}, gone: map[*node]bool{}}
}

func (m *model) up(n *node, path string) seen {
	switch n.kind {
	case leafKind:
		m.calls = append(m.calls, call{leaf: n.id})
		return leafResult(n.up, path)
	case serialKind:
		for i, child := range n.children {
			if s := m.up(child, below(path, child, i)); !s.ok() {
				return s
			}
		}
		return seen{}
	case concurrentKind:
		var all []seen
		for i, child := range n.children {
			all = append(all, caught(m.up(child, below(path, child, i)), below(path, child, i)))
		}
		return together(all)
	case conditionalKind:
		switch n.verdict {
		case isTrue:
			return m.up(n.children[0], below(path, n.children[0], 0))
		case isFalse:
			return m.down(n.children[0], below(path, n.children[0], 0))
		default:
			return leafResult(n.unknown, path)
		}
	default:
		remote := m.forest.brackets[n.remote]
		if !remote.ready {
			return seen{parts: []part{{class: abi.Yield, headline: abi.Yield, reason: "remote_pending", path: path}}}
		}
		if remote.owned {
			m.registered[n.remote] = true
		}
		return m.up(n.children[0], below(path, n.children[0], 0))
	}
}

func (m *model) down(n *node, path string) seen {
	switch n.kind {
	case leafKind:
		m.calls = append(m.calls, call{leaf: n.id, down: true})
		return unparked(leafResult(n.down, path))
	case serialKind:
		return m.backwards(n, path, func(s seen, _ string) seen { return s })
	case concurrentKind:
		if n.downSerial {
			return m.backwards(n, path, caught)
		}
		var all []seen
		for i, child := range n.children {
			all = append(all, caught(m.down(child, below(path, child, i)), below(path, child, i)))
		}
		return together(all)
	case conditionalKind:
		return m.down(n.children[0], below(path, n.children[0], 0))
	default:
		var s seen
		if m.forest.brackets[n.remote].ready { // Otherwise nothing can ever have been installed there.
			s = m.down(n.children[0], below(path, n.children[0], 0))
		}
		m.gone[n] = s.ok()
		return s
	}
}

// backwards takes children down from the last, and stops at the first that is not gone.
func (m *model) backwards(n *node, path string, each func(seen, string) seen) seen {
	for i := len(n.children) - 1; i >= 0; i-- {
		at := below(path, n.children[i], i)
		if s := each(m.down(n.children[i], at), at); !s.ok() {
			return s
		}
	}
	return seen{}
}

// stays reports whether an owned remote must keep its registration after a deprovision:
// it must if one of its nodes was not seen gone.
func (m *model) stays(bracket int) bool {
	var anyLeft func(n *node) bool
	anyLeft = func(n *node) bool {
		return n.kind == remoteKind && n.remote == bracket && !m.gone[n] || slices.ContainsFunc(n.children, anyLeft)
	}
	return anyLeft(m.forest.root)
}

func leafResult(r result, path string) seen {
	s := seen{cancelled: r.shutsDown, panicks: r.panics}
	if len(r.parts) > 0 {
		whole := summary(r.parts)
		whole.path = path
		s.parts = []part{whole}
	}
	return s
}

// caught keeps a panic with its child.
func caught(s seen, path string) seen {
	if !s.panicks {
		return s
	}
	return seen{parts: []part{{class: abi.Retry, headline: abi.Retry, reason: "module_trap", path: path}}, cancelled: s.cancelled}
}

func together(all []seen) seen {
	var s seen
	for _, one := range all {
		s.parts = append(s.parts, one.parts...)
		s.cancelled = s.cancelled || one.cancelled
	}
	return s
}

func unparked(s seen) seen {
	for i, p := range s.parts {
		if p.headline == abi.Terminal || p.headline == abi.UserActionRequired {
			s.parts[i].class, s.parts[i].headline = abi.Retry, abi.Retry
		}
	}
	return s
}

// summary folds what is not OK, in order.
func summary(parts []part) part {
	has := map[abi.Disposition]bool{}
	var whole part
	for _, p := range parts {
		has[p.class] = true
		if p.headline > whole.headline {
			whole.headline, whole.reason, whole.path = p.headline, p.reason, p.path
		}
		if p.hint > 0 && (whole.hint == 0 || p.hint < whole.hint) {
			whole.hint = p.hint
		}
	}
	for _, class := range []abi.Disposition{abi.Retry, abi.Yield, abi.Terminal, abi.UserActionRequired} {
		if has[class] {
			whole.class = class
			break
		}
	}
	return whole
}

func below(path string, child *node, index int) string {
	segment := child.segment
	if segment == "" {
		segment = strconv.Itoa(index)
	}
	if path == "" {
		return segment
	}
	return path + "/" + segment
}

// String is what the report of a failed property shows.
func (p part) String() string {
	return fmt.Sprintf("%s, shows %s %s at %q after %s", p.class, p.headline, p.reason, p.path, p.hint)
}
