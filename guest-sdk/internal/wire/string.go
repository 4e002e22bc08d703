package wire

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted takes a string, the opening quote of which comes next, and reports whether what
// is between its quotes is the text itself: no escape, and valid UTF-8.
func (r *Reader) quoted() (plain bool, err error) {
	r.pos++
	start := r.pos
	plain = true
	ascii := true
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		switch {
		case c == '"':
			if !ascii && plain {
				plain = utf8.Valid(r.data[start:r.pos])
			}
			r.pos++
			return plain, nil
		case c == '\\':
			plain = false
			r.pos++
			if err := r.escape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, r.unexpected("in a string")
		default:
			ascii = ascii && c < utf8.RuneSelf
			r.pos++
		}
	}
	return false, errShort
}

// escape takes what follows a backslash.
func (r *Reader) escape() error {
	if r.pos >= len(r.data) {
		return errShort
	}
	switch r.data[r.pos] {
	case 'b', 'f', 'n', 'r', 't', '\\', '/', '"':
		r.pos++
		return nil
	case 'u':
		r.pos++
		for range 4 {
			if r.pos >= len(r.data) {
				return errShort
			}
			if !isHex(r.data[r.pos]) {
				return r.unexpected("in a \\u escape")
			}
			r.pos++
		}
		return nil
	default:
		return r.unexpected("in an escape")
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// Text takes a string and returns its text: escapes are resolved, and what is no Unicode
// becomes U+FFFD, as in encoding/json.
func (r *Reader) Text() (string, error) {
	if r.peek() != '"' {
		return "", r.mistyped("a string")
	}
	start := r.pos + 1
	plain, err := r.quoted()
	if err != nil {
		return "", err
	}
	if !plain {
		return unquote(r.data[start : r.pos-1]), nil
	}
	if r.text == "" {
		r.text = string(r.data)
	}
	return r.text[start : r.pos-1], nil
}

// unquote resolves what is between the quotes of a string that [Reader.quoted] accepted.
func unquote(s []byte) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			c, size := utf8.DecodeRune(s[i:])
			out = utf8.AppendRune(out, c)
			i += size
			continue
		}
		if s[i+1] != 'u' {
			out = append(out, unescaped(s[i+1]))
			i += 2
			continue
		}
		c := hexRune(s[i:])
		i += 6
		if utf16.IsSurrogate(c) {
			// Half of a pair alone is no character.
			pair := utf16.DecodeRune(c, hexRune(s[i:]))
			if pair != utf8.RuneError {
				i += 6
			}
			c = pair
		}
		out = utf8.AppendRune(out, c)
	}
	return string(out)
}

// hexRune returns the code unit of a \u escape at the start of s, or -1.
func hexRune(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c // a quote, a slash or a backslash
	}
}

// sameName reports whether encoding/json takes key for the field name: letters of either
// case are the same, and so are the two signs outside of ASCII that fold to a letter.
func sameName(key, name string) bool {
	i := 0
	for _, c := range key {
		switch c {
		case 'ſ':
			c = 's'
		case '\u212a': // the sign for kelvin
			c = 'k'
		}
		if i >= len(name) || lower(c) != lower(rune(name[i])) {
			return false
		}
		i++
	}
	return i == len(name)
}

func lower(c rune) rune {
	if c >= 'A' && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
