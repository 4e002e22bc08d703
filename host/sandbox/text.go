package sandbox

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Caps of texts that come out of a guest or a worker.
const (
	// maxNameBytes is how much of a name out of a module is shown.
	maxNameBytes = 64
	// maxLineBytes is how much of one log line is kept: enough for a stack frame or a
	// JSON log line, too little to fill a log with one write.
	maxLineBytes = 4 * kib
	// maxDetailBytes is how much of an error text is kept.
	maxDetailBytes = 2 * kib
	// maxTailLines is how many of the last lines on standard error a fault carries: the
	// head of a Go panic and its first frames.
	maxTailLines = 40
)

// clean makes text out of a guest fit for a log: one line of valid UTF-8 without
// control characters but tabs, made of at most the first limit bytes.
func clean(text string, limit int) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return r
		case r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r) || r == utf8.RuneError:
			return '.'
		default:
			return r
		}
	}, text)
	if cut {
		return text + "…"
	}
	return text
}

// quoteName quotes a name out of a module.
func quoteName(name string) string { return strconv.QuoteToASCII(clean(name, maxNameBytes)) }

// firstLine returns the text up to its first line break.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
