package doctor

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
)

// Result is how a check ended.
type Result string

// The results, from the best to the worst.
const (
	// OK is as it should be.
	OK Result = "ok"
	// Skipped could not be looked at, for a reason that is no fault.
	Skipped Result = "skipped"
	// Warning works, and less well than it could.
	Warning Result = "warning"
	// Failed does not work.
	Failed Result = "failed"
)

// Check is one thing that was looked at.
type Check struct {
	// Area is what the thing is part of: sandbox or cluster.
	Area string `json:"area"`
	// Name is a stable word or two.
	Name   string `json:"name"`
	Result Result `json:"result"`
	// Says is what was found, in a phrase.
	Says string `json:"says,omitempty"`
	// Remedy is what to do, in a sentence; it is there for warnings and failures.
	Remedy string `json:"remedy,omitempty"`
}

// Worst is the worst of the results, OK without any.
func Worst(checks []Check) Result {
	order := []Result{OK, Skipped, Warning, Failed}
	worst := 0
	for _, c := range checks {
		for i, r := range order {
			if c.Result == r {
				worst = max(worst, i)
			}
		}
	}
	return order[worst]
}

// Lines writes the checks for people: a table for each area, and below it what to do.
func Lines(checks []Check, style tree.Style) []string {
	name := 0
	for _, c := range checks {
		name = max(name, len(c.Name))
	}
	var lines []string
	area := ""
	for _, c := range checks {
		if c.Area != area {
			if area != "" {
				lines = append(lines, "")
			}
			area = c.Area
			lines = append(lines, strings.ToUpper(area))
		}
		head := fmt.Sprintf("  %-*s  ", name, c.Name)
		says := style.Wrap(printable(c.Says), len(head)+len(Skipped)+2)
		lines = append(lines, strings.TrimRight(head+style.PaintAs(paint(c.Result), fmt.Sprintf("%-*s", len(Skipped), c.Result))+"  "+says[0], " "))
		for _, more := range says[1:] {
			lines = append(lines, strings.Repeat(" ", len(head)+len(Skipped)+2)+more)
		}
	}
	return append(lines, remedies(checks, style)...)
}

// remedies are what to do, the failures first.
func remedies(checks []Check, style tree.Style) []string {
	var lines []string
	for _, r := range []Result{Failed, Warning} {
		for _, c := range checks {
			if c.Result != r || c.Remedy == "" {
				continue
			}
			for i, text := range style.Wrap(fmt.Sprintf("%s: %s", c.Name, printable(c.Remedy)), 2) {
				lines = append(lines, []string{"* ", "  "}[min(i, 1)]+text)
			}
		}
	}
	if len(lines) == 0 {
		return []string{"", "Nothing is to be done."}
	}
	return append([]string{"", "What to do:"}, lines...)
}

// paint is the disposition whose colour a result has.
func paint(r Result) string {
	switch r {
	case OK:
		return abi.OK.String()
	case Failed:
		return abi.Terminal.String()
	case Skipped:
		return tree.Pending
	default:
		return abi.Yield.String()
	}
}

// printable keeps what somebody else wrote from moving the cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}
