package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Kind is the kind of a JSON value.
type Kind byte

// The kinds.
const (
	KindNone Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// KindOf returns the kind of the value that valid JSON starts with, and [KindNone] for
// nothing.
func KindOf(raw []byte) Kind {
	if len(raw) == 0 {
		return KindNone
	}
	switch raw[0] {
	case 'n':
		return KindNull
	case 't', 'f':
		return KindBool
	case '"':
		return KindString
	case '[':
		return KindArray
	case '{':
		return KindObject
	default:
		return KindNumber
	}
}

// String names the kind with its article, for a message.
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindBool:
		return "a boolean"
	case KindNumber:
		return "a number"
	case KindString:
		return "a string"
	case KindArray:
		return "a list"
	case KindObject:
		return "an object"
	case KindNone:
	}
	return "nothing"
}

// Members calls visit for each member of the object that comes next. visit takes the
// value. It fails when something else than an object comes.
func (r *Reader) Members(visit func(key string) error) error {
	if r.peek() != '{' {
		return r.mistyped("an object")
	}
	if r.depth >= maxDepth {
		return errors.New("exceeded max depth")
	}
	r.depth++
	r.pos++
	if r.peek() == '}' {
		r.pos++
		r.depth--
		return nil
	}
	for {
		if r.peek() != '"' {
			return r.unexpected("instead of the name of a member")
		}
		key, err := r.Text()
		if err != nil {
			return err
		}
		if err := r.colon(); err != nil {
			return err
		}
		if err := visit(key); err != nil {
			return err
		}
		switch r.peek() {
		case ',':
			r.pos++
		case '}':
			r.pos++
			r.depth--
			return nil
		default:
			return r.unexpected("after a member")
		}
	}
}

// Elements calls visit for each element of the array that comes next, like [Reader.Members].
func (r *Reader) Elements(visit func(i int) error) error {
	if r.peek() != '[' {
		return r.mistyped("a list")
	}
	if r.depth >= maxDepth {
		return errors.New("exceeded max depth")
	}
	r.depth++
	r.pos++
	if r.peek() == ']' {
		r.pos++
		r.depth--
		return nil
	}
	for i := 0; ; i++ {
		if err := visit(i); err != nil {
			return err
		}
		switch r.peek() {
		case ',':
			r.pos++
		case ']':
			r.pos++
			r.depth--
			return nil
		default:
			return r.unexpected("after an element")
		}
	}
}

// fields reads an object into a struct: read takes the value of a field that it knows and
// reports whether it does. names are those that it knows, between spaces; a key that is
// none of them is tried once more without regard to case.
func (r *Reader) fields(names string, read func(name string) (bool, error)) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	return r.Members(func(key string) error {
		known, err := read(key)
		if known || err != nil {
			return err
		}
		for name := range strings.FieldsSeq(names) {
			if sameName(key, name) {
				_, err := read(name)
				return err
			}
		}
		return r.Skip()
	})
}

func text[T ~string](r *Reader, into *T) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	s, err := r.Text()
	if err == nil {
		*into = T(s)
	}
	return err
}

func flag(r *Reader, into *bool) error {
	switch r.peek() {
	case 'n':
		return r.literal("null")
	case 't':
		*into = true
		return r.literal("true")
	case 'f':
		*into = false
		return r.literal("false")
	default:
		return r.mistyped("a boolean")
	}
}

// integer reads a whole number of the given size. One that is written as a fraction or
// with an exponent is none, whatever its value.
func integer[T ~int | ~int32 | ~int64 | ~uint8](r *Reader, into *T, low int64, high int64) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	start := r.pos
	if KindOf(r.data[start:]) != KindNumber {
		return r.mistyped("a whole number")
	}
	if err := r.number(); err != nil {
		return err
	}
	n, err := strconv.ParseInt(string(r.data[start:r.pos]), 10, 64)
	if err != nil || n < low || n > high {
		return errors.New("the number at offset " + strconv.Itoa(start) + " is no whole number of its range")
	}
	*into = T(n)
	return nil
}

func raw(r *Reader, into *json.RawMessage) error {
	value, err := r.Raw()
	if err == nil {
		*into = value
	}
	return err
}

// list reads an array into a slice in the manner of encoding/json: elements are read into
// those that are there, which shows when a key is repeated.
func list[T any](r *Reader, into *[]T, element func(*T) error) error {
	if null, err := r.Null(); null || err != nil {
		*into = nil
		return err
	}
	s, n := *into, 0
	err := r.Elements(func(i int) error {
		switch {
		case i >= cap(s):
			var zero T
			s = append(s[:i], zero)
		case i >= len(s):
			s = s[:i+1]
		}
		n = i + 1
		return element(&s[i])
	})
	if err != nil {
		return err
	}
	*into = s[:n]
	if n == 0 {
		*into = []T{}
	}
	return nil
}

// documents reads an object of raw documents. One that is repeated replaces the first.
func documents(r *Reader, into *map[string]json.RawMessage) error {
	if null, err := r.Null(); null || err != nil {
		*into = nil
		return err
	}
	if *into == nil && r.peek() == '{' {
		*into = map[string]json.RawMessage{}
	}
	return r.Members(func(key string) error {
		value, err := r.Raw()
		if err == nil {
			(*into)[key] = value
		}
		return err
	})
}

// octets reads bytes in base64, or as encoding/json also accepts them, as numbers.
func octets(r *Reader, into *[]byte) error {
	if r.peek() != '"' {
		return list(r, into, func(b *byte) error { return integer(r, b, 0, 255) })
	}
	s, err := r.Text()
	if err != nil {
		return err
	}
	*into, err = base64.StdEncoding.DecodeString(s)
	if err != nil {
		return errors.New("the bytes are not base64")
	}
	return nil
}

// document reads a whole document.
func document(data []byte, read func(r *Reader) error) error {
	r := NewReader(data)
	if err := read(r); err != nil {
		return err
	}
	return r.End()
}
