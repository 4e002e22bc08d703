package tree

import (
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Row is one node of the tree.
type Row struct {
	// Prefix is the branch that is drawn before the name.
	Prefix string `json:"-"`
	// Depth is 0 for the root.
	Depth       int    `json:"depth"`
	Name        string `json:"name"`
	Kind        string `json:"kind"`
	Disposition string `json:"disposition"`
	Reason      string `json:"reason,omitempty"`
	Message     string `json:"message,omitempty"`
	// Since is how long the node has been so, in whole seconds.
	Since time.Duration `json:"-"`
	// SinceSeconds is Since for machines.
	SinceSeconds int64 `json:"sinceSeconds"`
	// Echo says that a combinator only repeats what one of its children says, so that
	// whoever looks for the cause has to look there.
	Echo bool `json:"-"`
}

// View is a Stack as it is shown.
type View struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Phase is the reason of the Available condition, Pending before the first pass over
	// the current spec, or Gone.
	Phase     string `json:"phase"`
	Available bool   `json:"available"`
	Message   string `json:"message,omitempty"`
	Summary   string `json:"summary,omitempty"`
	Rows      []Row  `json:"nodes"`
	// Unanswered says that the cluster does not answer, and that the rest is what was
	// seen last.
	Unanswered bool `json:"-"`
}

// The phases that are no reasons of a condition.
const (
	// Pending is a Stack whose spec no pass has seen.
	Pending = "Pending"
	// Gone is a Stack that does not exist any more.
	Gone = "Gone"
)

// The messages of a Pending Stack.
const (
	unseenMessage   = "The operator has not looked at it yet."
	changedMessage  = "The spec has changed, and the operator has not looked at it yet."
	deletingMessage = "It is to be deleted, and the operator has not begun yet."
)

// The pieces that branches are drawn with.
const (
	branchMiddle = "├─ "
	branchLast   = "└─ "
	trunkOpen    = "│  "
	trunkClosed  = "   "
)

// Of returns the view of a Stack at a time. Nodes are in the order of the spec. A node
// without a status reads Waiting, and a malformed tree is shown as far as it goes: each
// node once.
func Of(stack *v1alpha1.Stack, now time.Time) View {
	view := View{Namespace: stack.Namespace, Name: stack.Name, Summary: Clean(stack.Status.Summary)}
	c := meta.FindStatusCondition(stack.Status.Conditions, v1alpha1.ConditionAvailable)
	view.Phase, view.Message = phaseOf(stack, c)
	view.Available = c != nil && view.Phase != Pending && c.Status == metav1.ConditionTrue
	w := &walker{now: now, specs: map[string]*v1alpha1.Node{}, status: map[string]v1alpha1.NodeStatus{}, seen: map[string]bool{}, rows: []Row{}}
	for i := range stack.Spec.Provisioners {
		w.specs[stack.Spec.Provisioners[i].Name] = &stack.Spec.Provisioners[i]
	}
	for _, n := range stack.Status.Nodes {
		w.status[n.Name] = n
	}
	w.walk(stack.Spec.Root, "", "", 0)
	view.Rows = w.rows
	return view
}

// Missing returns the view of a Stack that does not exist any more.
func Missing(namespace, name string) View {
	return View{Namespace: namespace, Name: name, Phase: Gone, Rows: []Row{}}
}

// phaseOf believes a condition only if it is about the current spec: what it says of an
// older one may be the opposite of what is going to happen.
func phaseOf(stack *v1alpha1.Stack, c *metav1.Condition) (phase, message string) {
	switch {
	case c != nil && c.ObservedGeneration == stack.Generation:
		return Clean(c.Reason), Clean(c.Message)
	case stack.DeletionTimestamp != nil:
		return Pending, deletingMessage
	case c != nil:
		return Pending, changedMessage
	default:
		return Pending, unseenMessage
	}
}

type walker struct {
	now    time.Time
	specs  map[string]*v1alpha1.Node
	status map[string]v1alpha1.NodeStatus
	seen   map[string]bool
	rows   []Row
}

// walk adds a node and what is below it. prefix is drawn before the node itself, trunk
// before its children.
func (w *walker) walk(name, prefix, trunk string, depth int) {
	spec, ok := w.specs[name]
	if !ok || w.seen[name] {
		return
	}
	w.seen[name] = true
	row := w.row(spec)
	row.Prefix, row.Depth = prefix, depth
	at := len(w.rows)
	w.rows = append(w.rows, row)
	children := w.children(spec)
	for i, child := range children {
		if i == len(children)-1 {
			w.walk(child, trunk+branchLast, trunk+trunkClosed, depth+1)
			continue
		}
		w.walk(child, trunk+branchMiddle, trunk+trunkOpen, depth+1)
	}
	w.rows[at].Echo = len(children) > 0 && echoes(row, w.rows[at+1:])
}

// children are those that will be drawn, so that the last of them gets the last branch.
func (w *walker) children(spec *v1alpha1.Node) []string {
	var drawn []string
	for _, child := range spec.Children() {
		if _, ok := w.specs[child]; ok && !w.seen[child] {
			drawn = append(drawn, child)
		}
	}
	return drawn
}

func (w *walker) row(spec *v1alpha1.Node) Row {
	row := Row{Name: Clean(spec.Name), Kind: spec.Kind(), Disposition: v1alpha1.NodeWaiting}
	if s, ok := w.status[spec.Name]; ok {
		row.Disposition, row.Reason, row.Message = Clean(s.Disposition), Clean(s.Reason), Clean(s.Message)
		row.Since = max(w.now.Sub(s.LastTransitionTime.Time), 0).Truncate(time.Second)
		row.SinceSeconds = int64(row.Since / time.Second)
	}
	return row
}

// echoes reports whether a combinator has nothing to say that is not said below it. A
// combinator has findings of its own too: a remote that does not answer, a condition
// that cannot be evaluated.
func echoes(combinator Row, below []Row) bool {
	if combinator.Reason == "" {
		return true
	}
	for _, r := range below {
		if r.Disposition == combinator.Disposition && r.Reason == combinator.Reason {
			return true
		}
	}
	return false
}

// Clean keeps the names and sentences of a stranger's module from moving the cursor of a
// terminal.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
