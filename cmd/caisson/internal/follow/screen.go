package follow

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
)

// LineScreen prints a line for each change, with the time since the start. It is for
// logs and pipes.
type LineScreen struct {
	out   io.Writer
	start time.Time
}

var _ Screen = (*LineScreen)(nil)

// NewLineScreen returns a screen whose times count from start.
func NewLineScreen(out io.Writer, start time.Time) *LineScreen {
	return &LineScreen{out: out, start: start}
}

// Show implements Screen.
func (s *LineScreen) Show(before, after tree.View) {
	for _, line := range tree.Changes(before, after) {
		_, _ = fmt.Fprintf(s.out, "%7.1fs  %s\n", time.Since(s.start).Seconds(), line)
	}
}

// Close implements Screen.
func (s *LineScreen) Close() {}

// Size returns the columns and rows of a terminal. It is asked before each drawing,
// because people resize their windows.
type Size func() (width, height int)

// LiveScreen redraws the tree in place. It is for terminals.
type LiveScreen struct {
	out   io.Writer
	size  Size
	style tree.Style
	last  tree.View
	drawn int
}

var _ Screen = (*LiveScreen)(nil)

// NewLiveScreen returns a screen for a terminal. While it is redrawn, lines are cut to the
// width and the tree to the height, because neither what wraps nor what scrolls away can
// be redrawn; Close writes what was cut.
func NewLiveScreen(out io.Writer, size Size, style tree.Style) *LiveScreen {
	return &LiveScreen{out: out, size: size, style: style}
}

// Show implements Screen.
func (s *LiveScreen) Show(_, after tree.View) {
	s.last = after
	width, height := s.size()
	s.style.Width = width
	lines := fit(tree.Lines(after, s.style), height)
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	s.draw(lines)
}

// Close implements Screen.
func (s *LiveScreen) Close() {
	if s.drawn > 0 {
		s.draw(tree.Lines(s.last, s.style))
	}
}

// draw puts lines in the place of those that were drawn before.
func (s *LiveScreen) draw(lines []string) {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r\x1b[2K" + line + "\n")
	}
	// From here to the end of the screen: what was longer before.
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	_, _ = io.WriteString(s.out, b.String())
}

// fit leaves lines out of the middle if there are more than a terminal is high: the head
// says how the Stack is, and the end what to do about it.
func fit(lines []string, height int) []string {
	room := height - 1 // the cursor stands in the line below
	if height <= 0 || len(lines) <= room {
		return lines
	}
	const least = 3 // a head, the line that says what is left out, an end
	room = max(room, least)
	top := room / 2
	bottom := room - top - 1
	hidden := len(lines) - top - bottom
	shown := append([]string{}, lines[:top]...)
	shown = append(shown, fmt.Sprintf("… %d lines more than fit this window", hidden))
	return append(shown, lines[len(lines)-bottom:]...)
}

// cut shortens a line to a width, not counting its colours.
func cut(line string, width int) string {
	if width <= 0 || visible(line) <= width {
		return line
	}
	var b strings.Builder
	count, escape := 0, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case count+columns(r) >= width:
			return b.String() + "…\x1b[0m"
		default:
			count += columns(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// visible counts the columns of a line without its colours.
func visible(line string) int {
	count, escape := 0, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			count += columns(r)
		}
	}
	return count
}

// columns is how wide a terminal draws a character, at most: the scripts with characters
// of double width begin at U+2E80, and a line that is cut too early does no harm.
func columns(r rune) int {
	if r >= 0x2E80 {
		return 2
	}
	return 1
}
