package wire

import (
	"errors"
	"strconv"
)

// maxDepth is how deep arrays and objects may be nested: the limit of encoding/json.
const maxDepth = 10000

// errShort says that a document is cut off, in the words of encoding/json.
var errShort = errors.New("unexpected end of JSON input")

// parser reads one JSON document from its start to its end, by the grammar of JSON.
type parser struct {
	data []byte
	pos  int
	// tree notes what is read, unless it is nil.
	tree *tree
}

// What may come next, spaces aside.
type expected byte

const (
	aValue      expected = iota
	aValueOrEnd          // the first of an array, or its end
	aName                // of a member
	aNameOrEnd           // the first of an object, or its end
	aColon               // after a name
	aCommaOrEnd          // after a value that is inside of something
	theEnd               // after the document
)

// bracket is an array or object that is open.
type bracket struct {
	end  byte // that closes it
	part int
}

// document reads the document.
//
// It is one loop over the tokens, and not a function for each kind of value, because it
// sees every byte that a module gets: in WebAssembly a call within Go costs as much as
// looking at twenty bytes.
func (p *parser) document() error { //nolint:gocognit // See above.
	var room [32]bracket
	open := room[:0] // what has to be closed
	next := aValue
	for {
		data, i := p.data, p.pos
		for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
			i++
		}
		p.pos = i
		if i == len(data) {
			if next == theEnd {
				return nil
			}
			return errShort
		}
		c := data[i]
		switch next {
		case theEnd:
			return p.unexpected("after the document")
		case aColon:
			if c != ':' {
				return p.unexpected("after the name of a member")
			}
			p.pos++
			next = aValue
			continue
		case aName, aNameOrEnd:
			if c == '"' {
				plain, err := p.quoted()
				if err != nil {
					return err
				}
				p.tree.name(i+1, p.pos-1, plain)
				next = aColon
				continue
			}
			if next == aName || c != '}' {
				return p.unexpected("instead of the name of a member")
			}
		case aValue, aValueOrEnd:
			if next == aValueOrEnd && c == ']' {
				break
			}
			part := p.tree.begin(kindOf(c), i)
			if c == '{' || c == '[' {
				if len(open) == maxDepth {
					return errors.New("exceeded max depth")
				}
				open = append(open, bracket{c + 2, part}) // in ASCII both have their counterpart two further on
				p.pos++
				next = aValueOrEnd
				if c == '{' {
					next = aNameOrEnd
				}
				continue
			}
			plain, err := p.scalar(c)
			if err != nil {
				return err
			}
			p.tree.end(part, p.pos, plain)
			next = after(open)
			continue
		case aCommaOrEnd:
			last := open[len(open)-1]
			if c == ',' {
				p.pos++
				next = aValue
				if last.end == '}' {
					next = aName
				}
				continue
			}
			if c != last.end {
				return p.unexpected("after a value")
			}
		}
		// Something ends here.
		p.pos++
		p.tree.end(open[len(open)-1].part, p.pos, false)
		open = open[:len(open)-1]
		next = after(open)
	}
}

// after returns what may follow a value.
func after(open []bracket) expected {
	if len(open) == 0 {
		return theEnd
	}
	return aCommaOrEnd
}

// scalar takes a value that is no array and no object, and reports what quoted does.
func (p *parser) scalar(c byte) (plain bool, err error) {
	switch c {
	case '"':
		return p.quoted()
	case 't':
		return false, p.literal("true")
	case 'f':
		return false, p.literal("false")
	case 'n':
		return false, p.literal("null")
	default:
		return false, p.number()
	}
}

func (p *parser) literal(want string) error {
	if end := p.pos + len(want); end <= len(p.data) && string(p.data[p.pos:end]) == want {
		p.pos = end
		return nil
	}
	for i := range len(want) {
		if !p.at(want[i]) {
			break
		}
		p.pos++
	}
	return p.unexpected("in literal " + want)
}

// number takes a number by the grammar of JSON.
func (p *parser) number() error {
	if p.at('-') {
		p.pos++
	}
	switch {
	case p.at('0'):
		p.pos++
	case p.digits() == 0:
		return p.unexpected("instead of a value")
	}
	if p.at('.') {
		p.pos++
		if p.digits() == 0 {
			return p.unexpected("after the decimal point")
		}
	}
	if p.at('e') || p.at('E') {
		p.pos++
		if p.at('+') || p.at('-') {
			p.pos++
		}
		if p.digits() == 0 {
			return p.unexpected("in the exponent")
		}
	}
	return nil
}

func (p *parser) at(c byte) bool { return p.pos < len(p.data) && p.data[p.pos] == c }

func (p *parser) digits() int {
	data, i := p.data, p.pos
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	n := i - p.pos
	p.pos = i
	return n
}

// unexpected says what is wrong at the current position. The offset and a byte are all
// that it tells of the document, which may hold what does not belong into a log.
func (p *parser) unexpected(where string) error {
	if p.pos >= len(p.data) {
		return errShort
	}
	return errors.New("invalid character " + strconv.QuoteRune(rune(p.data[p.pos])) + " " + where + " at offset " + strconv.Itoa(p.pos))
}
