package tree

import (
	"strings"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// Style says how to write a view. The zero value neither colours nor wraps.
type Style struct {
	// Coloured writes ANSI colours around the words that matter.
	Coloured bool
	// Width wraps the sentences below the table at so many columns; 0 does not wrap.
	Width int
}

// The ANSI colours of the dispositions.
const (
	ansiReset  = "\x1b[0m"
	ansiGreen  = "\x1b[32m"
	ansiYellow = "\x1b[33m"
	ansiRed    = "\x1b[31m"
	ansiDim    = "\x1b[2m"
)

// Paint colours a word by what it says of a node or a Stack.
func (s Style) Paint(word string) string { return s.PaintAs(word, word) }

// PaintAs colours a text as Paint would colour a word.
func (s Style) PaintAs(word, text string) string {
	if !s.Coloured {
		return text
	}
	colour := ansiYellow
	switch strings.TrimSpace(word) {
	case abi.OK.String(), v1alpha1.ReasonProvisioned, v1alpha1.ReasonDeprovisioned:
		colour = ansiGreen
	case abi.Terminal.String(), abi.UserActionRequired.String():
		colour = ansiRed
	case v1alpha1.NodeWaiting, v1alpha1.NodeRemoved, v1alpha1.ReasonSuspended, Pending, Gone:
		colour = ansiDim
	}
	return colour + text + ansiReset
}

// Wrap breaks a text between words, so that it fits beside an indentation. A word that
// does not fit stays whole, and so does everything where there is hardly any room.
func (s Style) Wrap(text string, indent int) []string {
	const least = 20
	width := s.Width - indent
	if width < least {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
