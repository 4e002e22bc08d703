package wire

import (
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendText appends s as a JSON string, escaped as encoding/json does it.
func AppendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if !escaped(c) {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		char, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case char == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
			start = i + size
		case isSeparator(char):
			dst = append(append(dst, s[start:i]...), `\u202`...)
			dst = append(dst, hexDigits[char&0xf])
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// escaped reports whether an ASCII character is escaped; those of HTML are, so that JSON
// can stand in a page.
func escaped(c byte) bool {
	return c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}

// isSeparator reports whether c is U+2028 or U+2029, which end a line in JavaScript.
func isSeparator(c rune) bool { return c == '\u2028' || c == '\u2029' }

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}

// AppendFloat appends a number of the given size, 32 or 64 bits, as encoding/json writes
// it. It fails for what is no number.
func AppendFloat(dst []byte, f float64, bits int) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, errors.New("JSON has no " + strconv.FormatFloat(f, 'g', -1, bits))
	}
	abs := math.Abs(f)
	format := byte('f')
	if abs != 0 {
		small, large := abs < 1e-6, abs >= 1e21
		if bits == 32 {
			small, large = float32(abs) < 1e-6, float32(abs) >= 1e21
		}
		if small || large {
			format = 'e'
		}
	}
	dst = strconv.AppendFloat(dst, f, format, -1, bits)
	// e-09 is written e-9.
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && (dst[n-3] == '-' || dst[n-3] == '+') && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst, nil
}

// AppendDocument appends a JSON document without its spaces, escaped as encoding/json does
// it with a json.RawMessage. It fails, and appends nothing, for what is not JSON.
func AppendDocument(dst, raw []byte) ([]byte, error) {
	p := parser{data: raw}
	if err := p.document(); err != nil {
		return dst, err
	}
	inside := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case !inside && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		case c == '"':
			inside = !inside
		case c == '\\':
			dst = append(dst, c)
			i++
			c = raw[i]
		case c == '<' || c == '>' || c == '&':
			dst = appendEscape(dst, c)
			continue
		case c == 0xe2 && i+2 < len(raw) && raw[i+1] == 0x80 && raw[i+2]&^1 == 0xa8:
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[raw[i+2]&0xf])
			i += 2
			continue
		}
		dst = append(dst, c)
	}
	return dst, nil
}

// object appends the members of one object; its methods are called in order. Those that
// begin with opt leave a member with the zero value out.
type object struct {
	dst  []byte
	some bool
	err  error
}

func (o *object) key(name string) {
	if o.some {
		o.dst = append(o.dst, ',')
	} else {
		o.dst = append(o.dst, '{')
		o.some = true
	}
	o.dst = append(append(append(o.dst, '"'), name...), '"', ':')
}

// end closes the object and returns the document.
func (o *object) end() ([]byte, error) {
	if !o.some {
		o.dst = append(o.dst, '{')
	}
	o.dst = append(o.dst, '}')
	return o.dst, o.err
}

func (o *object) text(name, value string) {
	o.key(name)
	o.dst = AppendText(o.dst, value)
}

func (o *object) optText(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) integer(name string, value int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, value, 10)
}

func (o *object) optInteger(name string, value int64) {
	if value != 0 {
		o.integer(name, value)
	}
}

func (o *object) optTrue(name string, value bool) { //nolint:revive // It is what is written.
	if value {
		o.key(name)
		o.dst = append(o.dst, "true"...)
	}
}

// document appends raw JSON; nil is null.
func (o *object) document(name string, raw []byte) {
	o.key(name)
	if raw == nil {
		o.dst = append(o.dst, "null"...)
		return
	}
	o.append(raw, name)
}

func (o *object) optDocument(name string, raw []byte) {
	if len(raw) > 0 {
		o.document(name, raw)
	}
}

func (o *object) append(raw []byte, name string) {
	out, err := AppendDocument(o.dst, raw)
	if err != nil && o.err == nil {
		o.err = errors.New(name + ": " + err.Error())
	}
	o.dst = out
}

// appendTexts appends strings as an array; nil is null.
func appendTexts[T ~string](dst []byte, values []T) []byte {
	if values == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendText(dst, string(v))
	}
	return append(dst, ']')
}
