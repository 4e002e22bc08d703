package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// indent is what stands before everything that belongs to a heading.
const indent = "  "

// page collects lines.
type page struct {
	tree.Style
	lines []string
}

// Lines returns the explanation as lines of text without line breaks. Commands are for
// pasting, and stay whole however narrow the terminal is.
func Lines(x Explanation, s tree.Style) []string {
	p := &page{Style: s}
	p.head(x)
	for i, f := range x.Findings {
		p.finding(x, f, i)
	}
	p.modules(x)
	p.steps(x.Steps)
	p.sentences("What happens by itself", x.Next)
	p.others(x)
	p.names("Kept on purpose when it is removed", x.Retained)
	p.names("Given up, and possibly still running", x.Abandoned)
	if len(x.Unread) > 0 {
		p.blank()
		p.text("", "You may not read "+strings.Join(x.Unread, " and ")+", so this may say less than it could.")
	}
	return p.lines
}

func (p *page) head(x Explanation) {
	for i, line := range p.Wrap(x.Headline, 0) {
		if i == 0 {
			name := fmt.Sprintf("Stack %s/%s", x.Namespace, x.Name)
			line = strings.Replace(line, name, p.PaintAs(x.Phase, name), 1)
		}
		p.lines = append(p.lines, line)
	}
	p.field("phase", p.Paint(x.Phase)+leaves(x))
	if x.Since != nil {
		p.field("for", age(x.Since, x.SinceSeconds))
	}
}

func leaves(x Explanation) string {
	if x.Leaves == "" {
		return ""
	}
	return ", " + x.Leaves + " leaves OK"
}

// finding is one node that is not as desired. The first is the one that decides.
func (p *page) finding(x Explanation, f Finding, i int) {
	switch {
	case i == 0 && x.Phase == v1alpha1.ReasonSuspended:
		p.heading("As it was seen last")
	case i == 0 && !x.Available:
		p.heading("Why")
	case i == 0:
		p.heading("Worth a look")
	case i == 1:
		p.heading("And besides")
	default:
		p.blank()
	}
	if f.Path != "" {
		p.field("node", f.Path+" ("+f.Kind+")")
		p.field("acts on", f.ActsOn)
	}
	p.field("says", says(f))
	if f.Disposition != "" {
		p.field("so it is", p.Paint(f.Disposition)+", for "+age(f.Since, f.SinceSeconds))
	}
	for _, step := range f.Steps {
		p.field("to do", step.Text)
		p.commands(step.Commands)
	}
}

func says(f Finding) string {
	if f.Reason == "" {
		return f.Says
	}
	return strings.TrimSpace(f.Says + " (" + f.Reason + ")")
}

func (p *page) modules(x Explanation) {
	said := 0
	for _, m := range x.Modules {
		if x.says(m.Says) {
			continue
		}
		if said++; said == 1 {
			p.heading("Modules that are not ready")
		}
		p.text(indent, fmt.Sprintf("%s: %s (%s)", m.Name, m.Says, m.Reason))
	}
}

// says reports whether a step of a finding says it already.
func (x Explanation) says(sentence string) bool {
	for _, f := range x.Findings {
		for _, step := range f.Steps {
			if strings.Contains(step.Text, sentence) {
				return true
			}
		}
	}
	return false
}

func (p *page) steps(steps []Step) {
	if len(steps) == 0 {
		return
	}
	p.heading("What you can do")
	for _, step := range steps {
		p.text(indent, step.Text)
		p.commands(step.Commands)
	}
}

func (p *page) sentences(heading string, sentences []string) {
	if len(sentences) == 0 {
		return
	}
	p.heading(heading)
	for _, s := range sentences {
		p.text(indent, s)
	}
}

func (p *page) others(x Explanation) {
	if len(x.Others) == 0 {
		return
	}
	switch {
	case x.Phase == tree.Pending:
		p.heading("The nodes, as they were seen last")
	case len(x.Findings) == 0:
		p.heading("The nodes")
	default:
		p.heading("The other nodes")
	}
	for _, g := range x.Others {
		p.field(g.Disposition, strings.Join(g.Nodes, ", "))
	}
}

func (p *page) names(heading string, names []string) {
	if len(names) == 0 {
		return
	}
	p.heading(heading)
	for _, name := range names {
		p.text(indent, name)
	}
}

func (p *page) blank() { p.lines = append(p.lines, "") }

func (p *page) heading(text string) {
	p.blank()
	p.lines = append(p.lines, text)
}

// labelWidth is that of the widest label, with the space behind it.
const labelWidth = len("so it is") + 2

// field writes a label, and a text that wraps beside it.
func (p *page) field(label, text string) {
	if text == "" {
		return
	}
	for i, line := range p.Wrap(text, len(indent)+labelWidth) {
		if i > 0 {
			label = ""
		}
		p.lines = append(p.lines, fmt.Sprintf("%s%-*s%s", indent, labelWidth, label, line))
	}
}

func (p *page) text(before, text string) {
	for _, line := range p.Wrap(text, len(before)) {
		p.lines = append(p.lines, before+line)
	}
}

func (p *page) commands(commands []string) {
	for _, c := range commands {
		p.lines = append(p.lines, indent+indent+c)
	}
}

// age is how long something has been so, and since when.
func age(since *time.Time, seconds int64) string {
	if since == nil {
		return "a time that is not known"
	}
	return fmt.Sprintf("%s, since %s", tree.Age(time.Duration(seconds)*time.Second), since.Format("2006-01-02 15:04:05 MST"))
}
