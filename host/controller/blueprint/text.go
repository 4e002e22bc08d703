package blueprint

import (
	"strings"
	"unicode/utf8"
)

// maxText is what the API server accepts as the note of an event; conditions hold more, and
// nobody reads it.
const maxText = 1024

// clip shortens a text, and puts it on one line.
func clip(text string) string {
	const ellipsis = "…"
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxText {
		return text
	}
	cut := maxText - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}
