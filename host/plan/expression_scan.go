package plan

import (
	"errors"
	"fmt"
	"strings"
)

// segment is a piece of a string of the spec: literal text, or the source of one
// expression.
type segment struct {
	text       string
	expression bool
}

// The marks of an expression in a string. The escape is one character longer so that
// a single dollar sign, which is common in values, never needs one.
const (
	expressionOpen   = "${"
	expressionEscape = "$${"
)

var errEmptyExpression = errors.New("the expression is empty")

// scan splits a string into literal text and expressions. "${" opens an expression and
// the "}" that matches it closes it: braces of maps, quotes and comments of CEL inside
// are skipped. "$${" stands for a literal "${". Neighbouring literals are joined, so a
// string without expressions has at most one segment.
func scan(s string) ([]segment, error) {
	var segments []segment
	var literal strings.Builder
	for i := 0; i < len(s); {
		rest := s[i:]
		switch {
		case strings.HasPrefix(rest, expressionEscape):
			literal.WriteString(expressionOpen)
			i += len(expressionEscape)
		case strings.HasPrefix(rest, expressionOpen):
			length, err := expressionLength(rest[len(expressionOpen):])
			if err != nil {
				return nil, fmt.Errorf("at byte %d: %w", i, err)
			}
			if literal.Len() > 0 {
				segments = append(segments, segment{text: literal.String()})
				literal.Reset()
			}
			start := i + len(expressionOpen)
			segments = append(segments, segment{text: s[start : start+length], expression: true})
			i = start + length + 1
		default:
			literal.WriteByte(s[i])
			i++
		}
	}
	if literal.Len() > 0 {
		segments = append(segments, segment{text: literal.String()})
	}
	return segments, nil
}

// expressionLength returns how many bytes of s belong to the expression that starts at
// its beginning, without the closing brace.
func expressionLength(s string) (int, error) {
	depth := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"' || c == '\'':
			end, ok := quoteEnd(s, i)
			if !ok {
				return 0, errors.New("a quoted text inside ${ is not closed")
			}
			i = end
		case strings.HasPrefix(s[i:], "//"):
			i += commentLength(s[i:])
		case c == '{':
			depth++
			i++
		case c == '}' && depth > 0:
			depth--
			i++
		case c == '}':
			if strings.TrimSpace(s[:i]) == "" {
				return 0, errEmptyExpression
			}
			return i, nil
		default:
			i++
		}
	}
	return 0, errors.New("${ has no matching }; write $${ for the characters themselves")
}

// quoteEnd returns the index behind the CEL string literal whose first quote is at i.
func quoteEnd(s string, i int) (int, bool) {
	quote := s[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s[i:], triple) {
		quote = triple
	}
	raw := isRaw(s, i)
	for j := i + len(quote); j < len(s); {
		switch {
		case s[j] == '\\' && !raw:
			j += 2
		case strings.HasPrefix(s[j:], quote):
			return j + len(quote), true
		default:
			j++
		}
	}
	return 0, false
}

// isRaw reports whether the quote at i follows a prefix with r, in which a backslash
// is an ordinary character.
func isRaw(s string, i int) bool {
	start := i
	for start > 0 && strings.IndexByte("rRbB", s[start-1]) >= 0 {
		start--
	}
	prefix := strings.ToLower(s[start:i])
	if prefix != "r" && prefix != "rb" && prefix != "br" {
		return false
	}
	return start == 0 || !isIdentifierByte(s[start-1])
}

func isIdentifierByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// commentLength returns the length of the comment that s starts with. CEL's comments
// end with their line.
func commentLength(s string) int {
	if end := strings.IndexByte(s, '\n'); end >= 0 {
		return end + 1
	}
	return len(s)
}
