package wire

import (
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted takes a string, the opening quote of which comes next, and reports whether what
// is between its quotes is the text itself: no escape, and valid UTF-8.
func (p *parser) quoted() (plain bool, err error) {
	start := p.pos + 1
	p.pos = start
	plain, ascii := true, true
	for {
		p.pos = plainUntil(p.data, p.pos)
		if p.pos == len(p.data) {
			return false, errShort
		}
		switch c := p.data[p.pos]; {
		case c == '"':
			if !ascii && plain {
				plain = utf8.Valid(p.data[start:p.pos])
			}
			p.pos++
			return plain, nil
		case c == '\\':
			plain = false
			p.pos++
			if err := p.escape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, p.unexpected("in a string")
		default:
			ascii = false
			p.pos++
		}
	}
}

// Eight equal bytes.
const (
	ones    = 0x0101010101010101
	highs   = 0x80 * ones
	quotes  = '"' * ones
	slashes = '\\' * ones
	spaces  = ' ' * ones
)

// plainUntil returns the offset of the first byte, from i on, that does not simply stand
// for itself in a string: a quote, a backslash, a control character, or one that is not
// ASCII. Eight bytes are looked at together: x-ones has the high bit of a byte set where
// the byte was 0, and of no byte before the first such one unless it was set in x.
func plainUntil(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		b := data[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		found := (x | (x - spaces) | ((x ^ quotes) - ones) | ((x ^ slashes) - ones)) & highs
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(data) && isPlain(data[i]) {
		i++
	}
	return i
}

// isPlain reports whether a byte in a string stands for itself and is ASCII.
func isPlain(c byte) bool { return c != '"' && c != '\\' && c >= ' ' && c < utf8.RuneSelf }

// escape takes what follows a backslash.
func (p *parser) escape() error {
	if p.pos >= len(p.data) {
		return errShort
	}
	switch p.data[p.pos] {
	case 'b', 'f', 'n', 'r', 't', '\\', '/', '"':
		p.pos++
		return nil
	case 'u':
		p.pos++
		for range 4 {
			if p.pos >= len(p.data) {
				return errShort
			}
			if !isHex(p.data[p.pos]) {
				return p.unexpected("in a \\u escape")
			}
			p.pos++
		}
		return nil
	default:
		return p.unexpected("in an escape")
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// unquote resolves what is between the quotes of a string that [parser.quoted] accepted.
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
