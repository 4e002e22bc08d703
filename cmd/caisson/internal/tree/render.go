package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Lines returns the view as lines of text without line breaks: a head line, the table,
// and below it what each node that is not as desired says, the worst first, and what the
// reader has to do about it.
func Lines(v View, s Style) []string {
	head := fmt.Sprintf("Stack %s/%s  %s", v.Namespace, v.Name, s.Paint(v.Phase))
	if v.Summary != "" {
		head += "  " + v.Summary + " leaves OK"
	}
	lines := []string{head}
	if len(v.Rows) > 0 {
		lines = append(append(lines, ""), table(v.Rows, s)...)
	}
	if notes := notes(v, s); len(notes) > 0 {
		lines = append(append(lines, ""), notes...)
	}
	var end []string
	if next := next(v); len(next) > 0 {
		end = append(s.Wrap(next[0], 0), next[1:]...) // commands are for pasting, and stay whole
	}
	if end = append(end, hint(v)...); len(end) > 0 {
		lines = append(append(lines, ""), end...)
	}
	return lines
}

// table draws the nodes. A combinator that only repeats a child has no reason of its own,
// so that the eye finds the node that has.
func table(rows []Row, s Style) []string {
	cells := [][]string{{"NODE", "KIND", "DISPOSITION", "SINCE", "REASON"}}
	for _, r := range rows {
		since, reason := Age(r.Since), r.Reason
		if r.Disposition == v1alpha1.NodeWaiting {
			since = "-"
		}
		if r.Echo || reason == "" {
			reason = "-"
		}
		cells = append(cells, []string{r.Prefix + r.Name, r.Kind, r.Disposition, since, reason})
	}
	return layout(cells, s)
}

// dispositionColumn is the one that is coloured.
const dispositionColumn = 2

// layout pads the columns to their widest cell.
func layout(table [][]string, s Style) []string {
	widths := make([]int, len(table[0]))
	for _, row := range table {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, 0, len(table))
	for n, row := range table {
		var b strings.Builder
		for i, cell := range row {
			padding := ""
			if i < len(row)-1 {
				padding = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
			if i == dispositionColumn && n > 0 {
				cell = s.Paint(cell)
			}
			b.WriteString(cell + padding)
		}
		lines = append(lines, b.String())
	}
	return lines
}

// notes are the sentences of the nodes that have something to say, and that of the Stack
// if none of them has said it.
func notes(v View, s Style) []string {
	var speakers []Row
	width := 0
	for _, r := range v.Rows {
		if r.Finding() {
			speakers = append(speakers, r)
			width = max(width, utf8.RuneCountInString(r.Name))
		}
	}
	slices.SortStableFunc(speakers, func(a, b Row) int { return cmp.Compare(Urgency(a.Disposition), Urgency(b.Disposition)) })
	var lines []string
	said := false
	for _, r := range speakers {
		padding := strings.Repeat(" ", width-utf8.RuneCountInString(r.Name)+2)
		for i, part := range s.Wrap(r.Says(), width+2) {
			if i == 0 {
				lines = append(lines, s.PaintAs(r.Disposition, r.Name)+padding+part)
				continue
			}
			lines = append(lines, strings.Repeat(" ", width+2)+part)
		}
		said = said || strings.HasSuffix(v.Message, r.Name+": "+r.Says())
	}
	if v.Message != "" && !said {
		lines = append(s.Wrap(v.Message, 0), lines...)
	}
	return lines
}

// Finding reports whether a person who looks for the cause has to look at this row.
func (r Row) Finding() bool { return r.Reason != "" && !r.Echo }

// Says is the sentence of a row with its reason, as the Stack's conditions have it.
func (r Row) Says() string {
	switch {
	case r.Reason == "":
		return r.Message
	case r.Message == "":
		return "(" + r.Reason + ")"
	default:
		return fmt.Sprintf("%s (%s)", r.Message, r.Reason)
	}
}

// Urgency orders dispositions by how much a person has to do about them: 0 is the worst.
func Urgency(disposition string) int {
	for i, d := range []abi.Disposition{abi.Terminal, abi.UserActionRequired, abi.Retry, abi.Yield} {
		if disposition == d.String() {
			return i
		}
	}
	return int(abi.Terminal) + 1
}

// next says what the reader has to do, as a sentence and commands, one a line. What is
// fine needs no such sentence.
func next(v View) []string {
	if v.Unanswered {
		return []string{"The cluster does not answer. This is what was seen last; it is asked again all the time."}
	}
	switch v.Phase {
	case v1alpha1.ReasonProvisioning, v1alpha1.ReasonDeprovisioning:
		return []string{"There is nothing to do: it goes on by itself."}
	case v1alpha1.ReasonRetrying:
		return []string{"It is tried again by itself. If it stays like this, the operator's log has the details."}
	case v1alpha1.ReasonUserActionRequired, v1alpha1.ReasonTerminal:
		return []string{
			"It waits for somebody to put that right, and goes on when it sees that. To make it try now:",
			fmt.Sprintf("  kubectl annotate stack -n %s %s %s=$(date +%%s) --overwrite", v.Namespace, v.Name, v1alpha1.RetryAnnotation),
		}
	case Pending:
		return []string{"If it stays like this, see whether the operator runs."}
	default:
		return nil
	}
}

// hint says where there is more to read about what is not as desired.
func hint(v View) []string {
	switch {
	case v.Unanswered, v.Phase == v1alpha1.ReasonProvisioned, v.Phase == v1alpha1.ReasonDeprovisioned, v.Phase == Gone:
		return nil
	default:
		return []string{fmt.Sprintf("More: caisson stack explain -n %s %s", v.Namespace, v.Name)}
	}
}

// Age writes a duration as people say it: 42s, 3m10s, 5h, 2d.
func Age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}
