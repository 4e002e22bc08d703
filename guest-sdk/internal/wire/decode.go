package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// The functions of this file read a value into a variable in the manner of encoding/json:
// a null leaves most as they are, and what is repeated is read over what was there.

// mistyped says that a value is not of the type that it must be of.
func (v Value) mistyped(want string) error {
	return errors.New("the value at offset " + strconv.Itoa(int(v.part().start)) + " is " + v.Kind().String() + " and must be " + want)
}

// fields reads an object into a struct: read takes the value of a field that it knows and
// reports whether it does. names are those that it knows, between spaces; a member that has
// none of them is tried once more without regard to case.
func (v Value) fields(names string, read func(name []byte, value Value) (bool, error)) error {
	if v.Kind() == KindNull {
		return nil
	}
	if v.Kind() != KindObject {
		return v.mistyped("an object")
	}
	parts := v.tree.parts
	for i, end := v.inside(); i < end; i = int(parts[i].after) {
		p := &parts[i]
		key := v.tree.data[p.nameStart:p.nameEnd]
		if !p.plainName {
			key = []byte(unquote(key))
		}
		known, err := read(key, Value{v.tree, i})
		if err == nil && !known {
			err = readFolded(key, names, Value{v.tree, i}, read)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readFolded reads a member whose name is that of a field but for its case.
func readFolded(key []byte, names string, value Value, read func(name []byte, value Value) (bool, error)) error {
	for name := range strings.FieldsSeq(names) {
		if sameName(string(key), name) {
			_, err := read([]byte(name), value)
			return err
		}
	}
	return nil
}

// text reads a string.
func text[T ~string](v Value, into *T) error {
	switch v.Kind() {
	case KindNull:
		return nil
	case KindString:
		*into = T(v.Text())
		return nil
	default:
		return v.mistyped("a string")
	}
}

// flag reads a boolean.
func flag(v Value, into *bool) error {
	switch v.Kind() {
	case KindNull:
		return nil
	case KindBool:
		*into = v.Raw()[0] == 't'
		return nil
	default:
		return v.mistyped("a boolean")
	}
}

// integer reads a whole number of the given size. One that is written as a fraction or
// with an exponent is none, whatever its value.
func integer[T ~int | ~int32 | ~int64 | ~uint8](v Value, into *T, low int64, high int64) error {
	switch v.Kind() {
	case KindNull:
		return nil
	case KindNumber:
	default:
		return v.mistyped("a whole number")
	}
	n, err := strconv.ParseInt(string(v.Raw()), 10, 64)
	if err != nil || n < low || n > high {
		return errors.New("the number at offset " + strconv.Itoa(int(v.part().start)) + " is no whole number of its range")
	}
	*into = T(n)
	return nil
}

// list reads an array into a slice: elements are read into those that are there, which
// shows when a key is repeated.
func list[T any](v Value, into *[]T, element func(Value, *T) error) error {
	switch v.Kind() {
	case KindNull:
		*into = nil
		return nil
	case KindArray:
	default:
		return v.mistyped("a list")
	}
	s := *into
	elements := v.Elements()
	for i, value := range elements {
		switch {
		case i >= cap(s):
			var zero T
			s = append(s[:i], zero)
		case i >= len(s):
			s = s[:i+1]
		}
		if err := element(value, &s[i]); err != nil {
			return err
		}
	}
	*into = s[:len(elements)]
	if len(elements) == 0 {
		*into = []T{}
	}
	return nil
}

// documents reads an object of raw documents. One that is repeated replaces the first.
func documents(v Value, into *map[string]json.RawMessage) error {
	switch v.Kind() {
	case KindNull:
		*into = nil
		return nil
	case KindObject:
	default:
		return v.mistyped("an object")
	}
	if *into == nil {
		*into = map[string]json.RawMessage{}
	}
	for key, value := range v.Members() {
		(*into)[key] = value.Raw()
	}
	return nil
}

// octets reads bytes in base64, or as encoding/json also accepts them, as numbers.
func octets(v Value, into *[]byte) error {
	if v.Kind() != KindString {
		return list(v, into, func(v Value, b *byte) error { return integer(v, b, 0, 255) })
	}
	decoded, err := base64.StdEncoding.DecodeString(v.Text())
	if err != nil {
		return errors.New("the bytes are not base64")
	}
	*into = decoded
	return nil
}
