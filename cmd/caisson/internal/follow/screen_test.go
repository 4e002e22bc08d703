package follow

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/golden"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree/treetest"
)

func life() []tree.View {
	var views []tree.View
	for _, s := range treetest.Life() {
		views = append(views, tree.Of(s.Stack, treetest.Start().Add(s.At)))
	}
	return append(views, tree.Missing("platform", "platform"))
}

func TestLineScreen(t *testing.T) {
	var out strings.Builder
	s := NewLineScreen(&out, time.Now().Add(-100*time.Second))
	before := tree.View{}
	for _, v := range life() {
		s.Show(before, v)
		s.Show(v, v)
		before = v
	}
	s.Close()
	stamp := regexp.MustCompile(`(?m)^  1\d\d\.\ds  `)
	lines := strings.Count(out.String(), "\n")
	require.Len(t, stamp.FindAllString(out.String(), -1), lines, "each line has the time since the start")
	golden.Equal(t, "lines", stamp.ReplaceAllString(out.String(), "   TIME  "))
}

// terminal does what a terminal does with what a LiveScreen writes.
type terminal struct {
	t     *testing.T
	lines []string
	row   int
}

var control = regexp.MustCompile(`\x1b\[(\d*)([A-Z])`)

func (x *terminal) Write(p []byte) (int, error) {
	text := string(p)
	for text != "" {
		if at := control.FindStringSubmatchIndex(text); at != nil && at[0] == 0 {
			x.obey(text[at[2]:at[3]], text[at[4]:at[5]])
			text = text[at[1]:]
			continue
		}
		switch text[0] {
		case '\r':
		case '\n':
			x.row++
		default:
			x.grow()
			x.lines[x.row] += text[:1]
		}
		text = text[1:]
	}
	return len(p), nil
}

func (x *terminal) grow() {
	for len(x.lines) <= x.row {
		x.lines = append(x.lines, "")
	}
}

func (x *terminal) obey(number, letter string) {
	switch letter {
	case "A":
		var n int
		_, err := fmt.Sscan(number, &n)
		require.NoError(x.t, err)
		require.LessOrEqual(x.t, n, x.row, "above the first line")
		x.row -= n
	case "K":
		x.grow()
		x.lines[x.row] = ""
	case "J":
		x.lines = x.lines[:min(x.row, len(x.lines))]
	default:
		require.Fail(x.t, "an unexpected control sequence", letter)
	}
}

// After each drawing the terminal has the view and nothing else.
func TestLiveScreenRedraws(t *testing.T) {
	x := &terminal{t: t}
	s := NewLiveScreen(x, func() (int, int) { return 500, 50 }, tree.Style{Coloured: true})
	for _, v := range life() {
		s.Show(tree.View{}, v)
		require.Equal(t, tree.Lines(v, tree.Style{Coloured: true, Width: 500}), x.lines)
		require.Len(t, x.lines, x.row, "the cursor is below")
	}
	s.Close()
	require.Equal(t, []string{"Stack platform/platform  \x1b[2mGone\x1b[0m"}, x.lines)
}

func TestLiveScreenGolden(t *testing.T) {
	var out strings.Builder
	s := NewLiveScreen(&out, func() (int, int) { return 72, 40 }, tree.Style{Coloured: true})
	for _, v := range life()[2:4] {
		s.Show(tree.View{}, v)
		out.WriteString("---- shown\n")
	}
	s.Close()
	golden.Equal(t, "live", strings.NewReplacer("\x1b", "ESC", "\r", "CR").Replace(out.String()))
}

// In a small window the tree gives way; what was cut appears in the end.
func TestLiveScreenInSmallWindow(t *testing.T) {
	x := &terminal{t: t}
	width, height := 40, 10
	s := NewLiveScreen(x, func() (int, int) { return width, height }, tree.Style{})
	view := life()[3]
	whole := tree.Lines(view, tree.Style{})
	s.Show(tree.View{}, view)
	require.Len(t, x.lines, 9, "one line is the cursor's")
	require.Equal(t, "Stack platform/platform  UserActionRequ…\x1b[0m", x.lines[0], "the head stays")
	require.Contains(t, x.lines[4], "lines more than fit this window")
	require.True(t, strings.HasPrefix(x.lines[7], "  kubectl annotate"), "and so does what to do: %q", x.lines)
	for _, line := range x.lines {
		require.LessOrEqual(t, visible(line), width)
	}
	width, height = 500, 50
	s.Show(tree.View{}, view)
	require.Equal(t, whole, x.lines, "a window that grew")
	width, height = 60, 5
	s.Show(tree.View{}, view)
	s.Close()
	require.Equal(t, tree.Lines(view, tree.Style{Width: 60}), x.lines, "nothing is cut when it stays")
}

func TestLiveScreenThatNeverShowed(t *testing.T) {
	var out strings.Builder
	NewLiveScreen(&out, func() (int, int) { return 80, 24 }, tree.Style{}).Close()
	require.Empty(t, out.String(), "an error is not preceded by an empty Stack")
}

func TestFit(t *testing.T) {
	lines := strings.Fields("a b c d e f")
	cases := map[string]struct {
		reason string
		height int
		want   string
	}{
		"Unknown": {reason: "a size that is not known cuts nothing", height: 0, want: "a b c d e f"},
		"Enough":  {reason: "one more line for the cursor", height: 7, want: "a b c d e f"},
		"Short":   {reason: "the middle goes", height: 6, want: "a b … 2 lines more than fit this window e f"},
		"Tiny":    {reason: "head and end at least", height: 1, want: "a … 4 lines more than fit this window f"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, strings.Join(fit(lines, tc.height), " "), tc.reason)
			require.Equal(t, strings.Fields("a b c d e f"), lines, "what is given stays as it is")
		})
	}
}

func TestCut(t *testing.T) {
	cases := map[string]struct {
		reason string
		line   string
		width  int
		want   string
	}{
		"Fits":      {reason: "nothing is to be cut", line: "abcde", width: 5, want: "abcde"},
		"Long":      {reason: "a sign that there is more, within the width", line: "abcdef", width: 5, want: "abcd…\x1b[0m"},
		"NoWidth":   {reason: "a width that is not known cuts nothing", line: "abcdef", width: 0, want: "abcdef"},
		"Colours":   {reason: "colours take no room", line: "\x1b[31mabcde\x1b[0m", width: 5, want: "\x1b[31mabcde\x1b[0m"},
		"CutColour": {reason: "a cut colour ends with the line", line: "\x1b[31mabcdef\x1b[0m", width: 5, want: "\x1b[31mabcd…\x1b[0m"},
		"Branches":  {reason: "characters count, not bytes", line: "│  ├─ x", width: 7, want: "│  ├─ x"},
		"Wide":      {reason: "some characters are two columns wide", line: "配置无效", width: 6, want: "配置…\x1b[0m"},
		"One":       {reason: "only the sign is left", line: "ab", width: 1, want: "…\x1b[0m"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, cut(tc.line, tc.width), tc.reason)
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add("\x1b[31mabcdef\x1b[0m", 5)
	f.Add("配置无效", 3)
	f.Add("\x1b\x1b[", 1)
	f.Fuzz(func(t *testing.T, line string, width int) {
		got := cut(line, width)
		if width > 0 {
			require.LessOrEqual(t, visible(got), width)
		}
		if visible(line) <= width {
			require.Equal(t, line, got)
		}
	})
}
