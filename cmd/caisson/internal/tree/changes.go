package tree

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Changes returns a line for each node whose disposition or reason differs, in the order
// of the tree, and one for the Stack when its phase does. Combinators that repeat what a
// child says are left out: they would say everything twice.
func Changes(before, after View) []string {
	old, width := map[string]Row{}, utf8.RuneCountInString(stackLabel(after))
	for _, r := range before.Rows {
		old[r.Name] = r
	}
	for _, r := range after.Rows {
		width = max(width, utf8.RuneCountInString(r.Name))
	}
	line := func(who, state, says string) string {
		return strings.TrimSpace(fmt.Sprintf("%-*s  %-18s  %s", width, who, state, says))
	}
	var lines []string
	for _, r := range after.Rows {
		was, known := old[r.Name]
		if news(was, r, known) {
			lines = append(lines, line(r.Name, r.Disposition, r.Says()))
		}
	}
	if before.Phase != after.Phase {
		lines = append(lines, line(stackLabel(after), after.Phase, after.headline()))
	}
	switch {
	case after.Unanswered && !before.Unanswered:
		lines = append(lines, "The cluster does not answer; it is asked again all the time.")
	case before.Unanswered && !after.Unanswered:
		lines = append(lines, "The cluster answers again.")
	}
	return lines
}

// news reports whether a row says something that was not said before.
func news(was, is Row, known bool) bool {
	switch {
	case known && was.Disposition == is.Disposition && was.Reason == is.Reason:
		return false
	case !known && is.Disposition == v1alpha1.NodeWaiting:
		return false
	case is.Echo:
		return was.Finding() && is.Reason == "" // the end of a finding is news
	default:
		return true
	}
}

// headline is the Stack's message, unless a node's line has it.
func (v View) headline() string {
	for _, r := range v.Rows {
		if r.Finding() && strings.HasSuffix(v.Message, r.Name+": "+r.Says()) {
			return ""
		}
	}
	return v.Message
}

// stackLabel tells a Stack from a node of the same name.
func stackLabel(v View) string { return "Stack " + v.Namespace + "/" + v.Name }
