package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// explainer is a Stack, and what is computed of it once.
type explainer struct {
	Cluster
	now  time.Time
	view tree.View
	// places are the nodes of the spec by name.
	places map[string]place
	// available is the condition, if it is about the current spec.
	available *metav1.Condition
}

// Of explains a Stack at a time. It uses the words of [tree.Of], so that both commands
// say the same.
func Of(c Cluster, now time.Time) Explanation {
	e := &explainer{Cluster: c, now: now, view: tree.Of(c.Stack, now), places: placesOf(c.Stack)}
	if found := meta.FindStatusCondition(c.Stack.Status.Conditions, v1alpha1.ConditionAvailable); found != nil && e.view.Phase != tree.Pending {
		e.available = found
	}
	x := Explanation{
		Version: Version, Namespace: c.Stack.Namespace, Name: c.Stack.Name,
		Phase: e.view.Phase, Available: e.view.Available, Parked: e.parked(), Leaves: e.view.Summary,
		Others: e.others(), Modules: e.modules(), Unread: c.Unread,
		Retained: cleaned(c.Stack.Status.Retained), Abandoned: cleaned(c.Stack.Status.Abandoned),
	}
	if e.available != nil {
		x.Since, x.SinceSeconds = e.since(e.available.LastTransitionTime)
	}
	x.Headline = e.headline(x)
	x.Findings = e.findings()
	x.Steps = e.steps()
	x.Next = e.next()
	return x
}

// parked reports whether the Stack waits for somebody, and for nothing else.
func (e *explainer) parked() bool {
	parked := e.Stack.Status.Parked
	return parked != nil && e.available != nil && !e.deleting() && parked.Generation == e.Stack.Generation
}

func (e *explainer) deleting() bool { return e.Stack.DeletionTimestamp != nil }

// headline is how the Stack is, as one sentence.
func (e *explainer) headline(x Explanation) string {
	who := fmt.Sprintf("Stack %s/%s ", x.Namespace, x.Name)
	switch {
	case x.Phase == tree.Pending:
		return who + e.pendingHeadline()
	case e.deleting():
		return who + e.deletingHeadline(x.Phase)
	case x.Available:
		return who + "is Available: every node is as desired."
	}
	switch x.Phase {
	case v1alpha1.ReasonProvisioning:
		return who + "is not Available yet: it is being brought up."
	case v1alpha1.ReasonRetrying:
		return who + "is not Available: something failed, and is tried again."
	case v1alpha1.ReasonSuspended:
		return who + "is not Available: it is suspended, and nothing is done for it."
	case v1alpha1.ReasonTerminal:
		if x.Parked {
			return who + "is not Available: as it is specified, it cannot be brought up."
		}
		return who + "is not Available: a part of it cannot be brought up as it is specified, and others go on."
	case v1alpha1.ReasonUserActionRequired:
		if x.Parked {
			return who + "is not Available: it waits for somebody."
		}
		return who + "is not Available: a part of it waits for somebody, and others go on."
	default:
		return who + "is not Available."
	}
}

func (e *explainer) pendingHeadline() string {
	status := e.Stack.Status
	switch {
	case e.deleting():
		return "is to be deleted, and the operator has not begun yet."
	case len(status.Conditions) == 0:
		return "is new: the operator has not looked at it yet."
	default:
		return fmt.Sprintf("has changed: the operator has seen generation %d, and not generation %d of the spec yet.", status.ObservedGeneration, e.Stack.Generation)
	}
}

func (e *explainer) deletingHeadline(phase string) string {
	switch phase {
	case v1alpha1.ReasonDeprovisioning:
		return "is being deleted: what it made is being removed."
	case v1alpha1.ReasonDeprovisioned:
		return "is as good as gone: everything that could be removed is."
	default:
		return "is being deleted: something is in the way, and is tried again."
	}
}

// findings are the nodes that have something to say, the one that the Stack's own message
// is about first, and then the worst.
func (e *explainer) findings() []Finding {
	if e.view.Phase == tree.Pending {
		return nil
	}
	var found []Finding
	for _, r := range e.view.Rows {
		if r.Finding() {
			found = append(found, e.finding(r))
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(e.order(a)-e.order(b), tree.Urgency(a.Disposition)-tree.Urgency(b.Disposition))
	})
	if e.available == nil || e.view.Available || e.view.Phase == v1alpha1.ReasonSuspended || len(found) > 0 && e.order(found[0]) == 0 {
		return found
	}
	return append(e.ownFinding(), found...)
}

// order is 0 for the finding that the Stack's message is about.
func (e *explainer) order(f Finding) int {
	if strings.HasPrefix(e.view.Message, f.Path+": ") && strings.HasSuffix(e.view.Message, "("+f.Reason+")") {
		return 0
	}
	return 1
}

func (e *explainer) finding(r tree.Row) Finding {
	p := e.places[r.Name]
	f := Finding{Path: p.path, Kind: r.Kind, ActsOn: p.actsOn(), Disposition: r.Disposition, Reason: r.Reason, Says: r.Message}
	for _, n := range e.Stack.Status.Nodes {
		if n.Name == r.Name {
			f.Since, f.SinceSeconds = e.since(n.LastTransitionTime)
		}
	}
	if e.view.Phase != v1alpha1.ReasonSuspended { // nothing would be seen, whatever somebody did
		f.Steps = e.remedy(p, f)
	}
	return f
}

// ownFinding is what the Stack says of itself and no node does: a tree that makes no sense,
// an account that is missing.
func (e *explainer) ownFinding() []Finding {
	says, reason := splitReason(e.view.Message)
	if reason == "" {
		return nil
	}
	f := Finding{Kind: "stack", Disposition: e.available.Reason, Reason: reason, Says: says}
	f.Since, f.SinceSeconds = e.since(e.available.LastTransitionTime)
	if parked := e.Stack.Status.Parked; parked != nil && parked.Reason == reason {
		f.Since, f.SinceSeconds = e.since(parked.Since)
		f.Disposition = tree.Clean(parked.Disposition)
	}
	f.Steps = e.remedy(place{}, f)
	return []Finding{f}
}

// splitReason takes a message of a condition apart: a sentence and (a_reason).
func splitReason(message string) (says, reason string) {
	at := strings.LastIndex(message, " (")
	if at < 0 || !strings.HasSuffix(message, ")") {
		return message, ""
	}
	return message[:at], strings.TrimSuffix(message[at+2:], ")")
}

// since returns a time and how long ago it was; a time that is not known is absent.
func (e *explainer) since(t metav1.Time) (*time.Time, int64) {
	if t.IsZero() {
		return nil, 0
	}
	at := t.UTC()
	return &at, int64(max(e.now.Sub(at), 0) / time.Second)
}

// others groups the nodes that are no findings. A combinator that repeats what a child
// says is left out.
func (e *explainer) others() []Group {
	var groups []Group
	for _, r := range e.view.Rows {
		if r.Finding() || r.Echo && r.Reason != "" {
			continue
		}
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Disposition == r.Disposition })
		if i < 0 {
			groups = append(groups, Group{Disposition: r.Disposition})
			i = len(groups) - 1
		}
		groups[i].Nodes = append(groups[i].Nodes, r.Name)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(rank(a.Disposition)-rank(b.Disposition), cmp.Compare(a.Disposition, b.Disposition))
	})
	return groups
}

// rank puts what works first, and what is not there last.
func rank(disposition string) int {
	switch disposition {
	case abi.OK.String():
		return 0
	case v1alpha1.NodeWaiting:
		return 2
	case v1alpha1.NodeRemoved:
		return 3
	default:
		return 1
	}
}

// modules are those that nodes refer to and that are not ready, sorted by name.
func (e *explainer) modules() []Module {
	used := map[string]bool{}
	for _, n := range e.Stack.Spec.Provisioners {
		if n.Module != nil {
			used[n.Module.Ref] = true
		}
	}
	var unready []Module
	for i := range e.Modules {
		m := &e.Modules[i]
		if !used[m.Name] {
			continue
		}
		switch c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ModuleReady); {
		case c == nil || c.ObservedGeneration != m.Generation:
			unready = append(unready, Module{Name: tree.Clean(m.Name), Reason: tree.Pending, Says: "The operator has not loaded it yet."})
		case c.Status != metav1.ConditionTrue:
			unready = append(unready, Module{Name: tree.Clean(m.Name), Reason: tree.Clean(c.Reason), Says: tree.Clean(c.Message)})
		}
	}
	slices.SortFunc(unready, func(a, b Module) int { return cmp.Compare(a.Name, b.Name) })
	return unready
}

func cleaned(lines []string) []string {
	var out []string
	for _, l := range lines {
		out = append(out, tree.Clean(l))
	}
	return out
}
