package wire

import (
	"iter"
	"strconv"
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

// kindOf returns the kind of a value by its first byte.
func kindOf(c byte) Kind {
	switch c {
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

// Value is one value of a document that has been read. The zero Value is none.
type Value struct {
	tree   *tree
	number int
}

func (v Value) part() *part { return &v.tree.parts[v.number] }

// Kind returns the kind of the value.
func (v Value) Kind() Kind {
	if v.tree == nil {
		return KindNone
	}
	return v.part().kind
}

// Raw returns the value as it stands, without the spaces around it, or nil for none.
func (v Value) Raw() []byte {
	if v.tree == nil {
		return nil
	}
	p := v.part()
	return v.tree.data[p.start:p.end:p.end]
}

// Text returns the text of a string: escapes are resolved, and what is no Unicode becomes
// U+FFFD, as in encoding/json.
func (v Value) Text() string {
	p := v.part()
	return textOf(v.tree.data[p.start+1:p.end-1], p.plainText)
}

// inside returns the numbers of the first part inside of the value, and of the one after the
// last.
func (v Value) inside() (first, end int) { return v.number + 1, int(v.part().after) }

// Members returns the members of an object in their order, each time that one is there.
// They count as asked for.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		parts := v.tree.parts
		for i, end := v.inside(); i < end; i = int(parts[i].after) {
			parts[i].asked = true
			if !yield(v.tree.nameOf(&parts[i]), Value{v.tree, i}) {
				return
			}
		}
	}
}

// Elements returns the elements of an array.
func (v Value) Elements() []Value {
	elements := []Value{}
	parts := v.tree.parts
	for i, end := v.inside(); i < end; i = int(parts[i].after) {
		elements = append(elements, Value{v.tree, i})
	}
	return elements
}

// Member returns the last member of an object that has this name, or none, and counts it
// as asked for. Nobody can get at the others, so they count as taken.
func (v Value) Member(name string) Value {
	var found Value
	parts := v.tree.parts
	for i, end := v.inside(); i < end; i = int(parts[i].after) {
		p := &parts[i]
		if p.plainName && int(p.nameEnd-p.nameStart) != len(name) || !v.tree.named(p, name) {
			continue
		}
		found.Take()
		p.asked = true
		found = Value{v.tree, i}
	}
	return found
}

// Take counts all members inside of the value as asked for.
func (v Value) Take() {
	if v.tree == nil {
		return
	}
	parts := v.tree.parts
	for i, end := v.inside(); i < end; i++ {
		parts[i].asked = true
	}
}

// Unread returns the first member inside of the value that nobody has asked for, or none.
func (v Value) Unread() Value {
	if v.tree == nil {
		return Value{}
	}
	parts := v.tree.parts
	for i, end := v.inside(); i < end; i++ {
		if parts[i].nameStart > 0 && !parts[i].asked {
			return Value{v.tree, i}
		}
	}
	return Value{}
}

// PathTo appends to path, which leads to v, the way to a value inside of it.
func (v Value) PathTo(inner Value, path string) string {
	parts := v.tree.parts
	for at := v.number; at < inner.number; {
		next, i := at+1, 0
		for ; int(parts[next].after) <= inner.number; i++ {
			next = int(parts[next].after)
		}
		if parts[at].kind == KindArray {
			path = ElementPath(path, i)
		} else {
			path = MemberPath(path, v.tree.nameOf(&parts[next]))
		}
		at = next
	}
	return path
}

// MemberPath appends a name to a path. One that would read as something else is quoted, so
// that different members have different paths.
func MemberPath(path, name string) string {
	plain := name != ""
	for i := range len(name) {
		c := name[i]
		plain = plain && (c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if !plain {
		name = "[" + strconv.Quote(name) + "]"
	}
	return JoinPath(path, name)
}

// ElementPath appends an index to a path.
func ElementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// JoinPath appends a path that begins inside of it to a path.
func JoinPath(path, inside string) string {
	if path == "" || inside == "" || inside[0] == '[' {
		return path + inside
	}
	return path + "." + inside
}
