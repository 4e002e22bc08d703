package guest

import (
	"errors"
	"iter"

	"github.com/caisson-dev/caisson/guest-sdk/internal/wire"
)

// Doc is a JSON document, or a part of one, that is read where and when it is asked for:
// a config, a fact, a state or a Kubernetes object. It costs no decoding of what nobody
// reads, and keeps encoding/json out of the module.
//
//	replicas := doc.Get("spec", "replicas").IntOr(1)
//
// Reading does not fail. What is absent, or null, reads as the zero value or the default
// of the method. What is of another type than the method reads as well, and is noted: the
// first note of a document is its [Doc.Err], with the path to it. The zero Doc is absent.
type Doc struct {
	doc *document
	// value is what there is, or none.
	value wire.Value
	// lost is where something is not.
	lost *lost
}

// document is what the parts of one document have in common.
type document struct {
	name    string
	root    wire.Value
	problem string
}

// lost is the place of something that is not there, in its last ancestor that is.
type lost struct {
	ancestor wire.Value
	below    string
}

// newDoc returns a document whose paths begin with name.
func newDoc(name string, root wire.Value) Doc {
	return Doc{doc: &document{name: name, root: root}, value: root}
}

// parseDoc is newDoc for JSON that may be empty.
func parseDoc(name string, raw []byte) Doc {
	// The host sends no JSON that is not valid, and what it wraps in some was read with it.
	root, _ := wire.Parse(raw)
	return newDoc(name, root)
}

// Exists reports whether there is something, which may not be null.
func (d Doc) Exists() bool { return d.value.Kind() > wire.KindNull }

// Path says where in its document the part stands, for instance config.ports[0].name.
func (d Doc) Path() string {
	switch {
	case d.doc == nil:
		return ""
	case d.value.Kind() != wire.KindNone:
		return d.doc.root.PathTo(d.value, d.doc.name)
	case d.lost == nil:
		return d.doc.name
	case d.lost.ancestor.Kind() == wire.KindNone:
		return wire.JoinPath(d.doc.name, d.lost.below)
	default:
		return wire.JoinPath(d.doc.root.PathTo(d.lost.ancestor, d.doc.name), d.lost.below)
	}
}

// Err returns the first problem that was noted in the document that d is a part of, or
// nil.
func (d Doc) Err() error {
	if d.doc == nil || d.doc.problem == "" {
		return nil
	}
	return errors.New(d.doc.problem)
}

// Refuse notes a problem of the author's own with d. It reads like the rest of a sentence
// that begins with the path: "is no range of addresses".
func (d Doc) Refuse(problem string) {
	if d.doc != nil && d.doc.problem == "" {
		d.doc.problem = d.Path() + " " + problem
	}
}

// Required notes a problem if d is absent or null, and returns d.
func (d Doc) Required() Doc {
	if !d.Exists() {
		d.Refuse("is missing")
	}
	return d
}

// mistyped notes that d is of another type than it was read as.
func (d Doc) mistyped(want string) {
	d.Refuse("is " + d.value.Kind().String() + " and must be " + want)
}

// is reports whether d exists and is of a kind, and notes if it is of another one.
func (d Doc) is(kind wire.Kind, want string) bool {
	if d.value.Kind() == kind {
		return true
	}
	if d.Exists() {
		d.mistyped(want)
	}
	return false
}

// Get returns the member at a path of names. It is absent if anything on the way is. Of
// members with one name the last counts; names are compared to the letter.
func (d Doc) Get(names ...string) Doc {
	for _, name := range names {
		d = d.member(name)
	}
	return d
}

func (d Doc) member(name string) Doc {
	if d.is(wire.KindObject, "an object") {
		if member := d.value.Member(name); member.Kind() != wire.KindNone {
			return Doc{doc: d.doc, value: member}
		}
	}
	place := lost{ancestor: d.value}
	if d.lost != nil {
		place = *d.lost
	}
	place.below = wire.MemberPath(place.below, name)
	return Doc{doc: d.doc, lost: &place}
}

// Items returns the elements of a list, or nil for none.
func (d Doc) Items() []Doc {
	if !d.is(wire.KindArray, "a list") {
		return nil
	}
	elements := d.value.Elements()
	items := make([]Doc, len(elements))
	for i, element := range elements {
		items[i] = Doc{doc: d.doc, value: element}
	}
	return items
}

// Fields returns the members of an object in their order; a name that is repeated comes as
// often.
func (d Doc) Fields() iter.Seq2[string, Doc] {
	return func(yield func(string, Doc) bool) {
		if !d.is(wire.KindObject, "an object") {
			return
		}
		for name, member := range d.value.Members() {
			if !yield(name, Doc{doc: d.doc, value: member}) {
				return
			}
		}
	}
}
