package wire

import (
	"errors"
	"strconv"
)

// maxDepth is how deep arrays and objects may be nested: the limit of encoding/json.
const maxDepth = 10000

// errShort says that a document is cut off, in the words of encoding/json.
var errShort = errors.New("unexpected end of JSON input")

// Reader reads one JSON document from its start to its end. Raw parts that it returns
// alias the document, which must not be changed afterwards.
type Reader struct {
	data []byte
	// text is a copy of data, made for the first string; strings without escapes are parts
	// of it.
	text  string
	pos   int
	depth int
}

// NewReader returns a reader of a document.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// End reports an error unless nothing but spaces is left.
func (r *Reader) End() error {
	r.space()
	if r.pos < len(r.data) {
		return r.unexpected("after the document")
	}
	return nil
}

// peek returns the next byte that is no space, without taking it, and 0 at the end.
func (r *Reader) peek() byte {
	r.space()
	if r.pos >= len(r.data) {
		return 0
	}
	return r.data[r.pos]
}

func (r *Reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// unexpected says what is wrong at the current position. The offset and a byte are all
// that it tells of the document, which may hold what does not belong into a log.
func (r *Reader) unexpected(where string) error {
	if r.pos >= len(r.data) {
		return errShort
	}
	return errors.New("invalid character " + strconv.QuoteRune(rune(r.data[r.pos])) + " " + where + " at offset " + strconv.Itoa(r.pos))
}

// mistyped says that the value that comes next is not of the type that it must be of.
func (r *Reader) mistyped(want string) error {
	at := r.pos
	if err := r.Skip(); err != nil {
		return err
	}
	return errors.New("the value at offset " + strconv.Itoa(at) + " is " + KindOf(r.data[at:]).String() + " and must be " + want)
}

// Null takes a null and reports whether there was one. As with encoding/json null leaves a
// value as it is.
func (r *Reader) Null() (bool, error) {
	if r.peek() != 'n' {
		return false, nil
	}
	return true, r.literal("null")
}

func (r *Reader) literal(want string) error {
	for i := range len(want) {
		if r.pos >= len(r.data) || r.data[r.pos] != want[i] {
			return r.unexpected("in literal " + want)
		}
		r.pos++
	}
	return nil
}

// Skip takes the value that comes next, whatever it is, and checks that it is JSON.
func (r *Reader) Skip() error {
	var room [64]byte
	open := room[:0] // the brackets that have to be closed
	for {
		opened, err := r.open(&open)
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		more, err := r.close(&open)
		if err != nil || !more {
			return err
		}
	}
}

// open takes a scalar, or the start of an array or object up to its first value. It
// reports whether a value must follow.
func (r *Reader) open(open *[]byte) (bool, error) {
	c := r.peek()
	if c != '{' && c != '[' {
		return false, r.scalar(c)
	}
	end := c + 2 // in ASCII both brackets have their counterpart two further on
	if r.depth+len(*open) >= maxDepth {
		return false, errors.New("exceeded max depth")
	}
	r.pos++
	if r.peek() == end {
		r.pos++
		return false, nil
	}
	*open = append(*open, end)
	if c == '{' {
		return true, r.name()
	}
	return true, nil
}

// close takes what follows a value inside of the open brackets. It reports whether
// another value must follow.
func (r *Reader) close(open *[]byte) (bool, error) {
	for len(*open) > 0 {
		end := (*open)[len(*open)-1]
		switch r.peek() {
		case end:
			r.pos++
			*open = (*open)[:len(*open)-1]
		case ',':
			r.pos++
			if end == '}' {
				return true, r.name()
			}
			return true, nil
		default:
			return false, r.unexpected("after a value")
		}
	}
	return false, nil
}

// name takes the name of a member and its colon, without looking at them.
func (r *Reader) name() error {
	if r.peek() != '"' {
		return r.unexpected("instead of the name of a member")
	}
	if _, err := r.quoted(); err != nil {
		return err
	}
	return r.colon()
}

func (r *Reader) colon() error {
	if r.peek() != ':' {
		return r.unexpected("after the name of a member")
	}
	r.pos++
	return nil
}

func (r *Reader) scalar(c byte) error {
	switch c {
	case '"':
		_, err := r.quoted()
		return err
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	default:
		return r.number()
	}
}

// number takes a number by the grammar of JSON.
func (r *Reader) number() error {
	if r.at('-') {
		r.pos++
	}
	switch {
	case r.at('0'):
		r.pos++
	case r.digits() == 0:
		return r.unexpected("instead of a value")
	}
	if r.at('.') {
		r.pos++
		if r.digits() == 0 {
			return r.unexpected("after the decimal point")
		}
	}
	if r.at('e') || r.at('E') {
		r.pos++
		if r.at('+') || r.at('-') {
			r.pos++
		}
		if r.digits() == 0 {
			return r.unexpected("in the exponent")
		}
	}
	return nil
}

func (r *Reader) at(c byte) bool { return r.pos < len(r.data) && r.data[r.pos] == c }

func (r *Reader) digits() int {
	start := r.pos
	for r.pos < len(r.data) && r.data[r.pos] >= '0' && r.data[r.pos] <= '9' {
		r.pos++
	}
	return r.pos - start
}

// Raw takes the value that comes next and returns it as it stands, without the spaces
// around it.
func (r *Reader) Raw() ([]byte, error) {
	r.space()
	start := r.pos
	if err := r.Skip(); err != nil {
		return nil, err
	}
	return r.data[start:r.pos:r.pos], nil
}
