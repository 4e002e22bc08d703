package guest

import (
	"errors"
	"iter"
	"strconv"

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
	raw   []byte
	path  string
	notes *notes
}

// notes are what the parts of one document have in common.
type notes struct {
	problem string
	// asked holds the paths that were asked for, with true for those that were taken with
	// all that is in them; nil when nobody wants to know.
	asked map[string]bool
}

// newDoc returns a document whose paths begin with name. raw is valid JSON or empty.
func newDoc(name string, raw []byte) Doc {
	return Doc{raw: raw, path: name, notes: &notes{}}
}

// Exists reports whether there is something, which may not be null.
func (d Doc) Exists() bool {
	kind := d.kind()
	return kind != wire.KindNone && kind != wire.KindNull
}

func (d Doc) kind() wire.Kind { return wire.KindOf(d.raw) }

// Path says where in its document the part stands, for instance config.ports[0].name.
func (d Doc) Path() string { return d.path }

// Err returns the first problem that was noted in the document that d is a part of, or
// nil.
func (d Doc) Err() error {
	if d.notes == nil || d.notes.problem == "" {
		return nil
	}
	return errors.New(d.notes.problem)
}

// Refuse notes a problem of the author's own with d. It reads like the rest of a sentence
// that begins with the path: "is no range of addresses".
func (d Doc) Refuse(problem string) {
	if d.notes != nil && d.notes.problem == "" {
		d.notes.problem = d.path + " " + problem
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
func (d Doc) mistyped(want string) { d.Refuse("is " + d.kind().String() + " and must be " + want) }

// Get returns the member at a path of names. It is absent if anything on the way is. Of
// members with one name the last counts; names are compared to the letter.
func (d Doc) Get(names ...string) Doc {
	for _, name := range names {
		d = d.member(name)
	}
	return d
}

func (d Doc) member(name string) Doc {
	child := d.child(memberPath(d.path, name), nil)
	if !d.Exists() {
		return child
	}
	if d.kind() != wire.KindObject {
		d.mistyped("an object")
		return child
	}
	r := wire.NewReader(d.raw)
	_ = r.Members(func(key string) error {
		value, err := r.Raw()
		if key == name {
			child.raw = value
		}
		return err
	})
	return child
}

// child returns a part of the document, which from now on counts as asked for.
func (d Doc) child(path string, raw []byte) Doc {
	if d.notes != nil && d.notes.asked != nil {
		d.notes.asked[path] = d.notes.asked[path]
	}
	return Doc{raw: raw, path: path, notes: d.notes}
}

// whole notes that d was taken with all that is in it.
func (d Doc) whole() {
	if d.notes != nil && d.notes.asked != nil {
		d.notes.asked[d.path] = true
	}
}

// Items returns the elements of a list, or nil for none.
func (d Doc) Items() []Doc {
	if !d.Exists() {
		return nil
	}
	if d.kind() != wire.KindArray {
		d.mistyped("a list")
		return nil
	}
	items := []Doc{}
	r := wire.NewReader(d.raw)
	_ = r.Elements(func(i int) error {
		value, err := r.Raw()
		items = append(items, d.child(elementPath(d.path, i), value))
		return err
	})
	return items
}

// Fields returns the members of an object in their order; a name that is repeated comes as
// often.
func (d Doc) Fields() iter.Seq2[string, Doc] {
	return func(yield func(string, Doc) bool) {
		if !d.Exists() {
			return
		}
		if d.kind() != wire.KindObject {
			d.mistyped("an object")
			return
		}
		r := wire.NewReader(d.raw)
		_ = r.Members(func(key string) error {
			value, err := r.Raw()
			if err == nil && !yield(key, d.child(memberPath(d.path, key), value)) {
				return errStop
			}
			return err
		})
	}
}

// errStop ends a walk that nobody wants the rest of.
var errStop = errors.New("stop")

// unread returns the path of the first member that nobody asked for, or "".
func (d Doc) unread() string {
	if d.notes.asked[d.path] {
		return ""
	}
	found := ""
	visit := func(part Doc, known bool) error {
		if !known {
			found = part.path
		} else {
			found = part.unread()
		}
		if found != "" {
			return errStop
		}
		return nil
	}
	r := wire.NewReader(d.raw)
	switch d.kind() {
	case wire.KindObject:
		_ = r.Members(func(key string) error {
			value, err := r.Raw()
			if err != nil {
				return err
			}
			part := Doc{raw: value, path: memberPath(d.path, key), notes: d.notes}
			_, known := d.notes.asked[part.path]
			return visit(part, known)
		})
	case wire.KindArray:
		_ = r.Elements(func(i int) error {
			value, err := r.Raw()
			if err != nil {
				return err
			}
			return visit(Doc{raw: value, path: elementPath(d.path, i), notes: d.notes}, true)
		})
	case wire.KindNone, wire.KindNull, wire.KindBool, wire.KindNumber, wire.KindString:
	}
	return found
}

// memberPath appends a name to a path. One that would read as something else is quoted, so
// that different members have different paths.
func memberPath(path, name string) string {
	plain := name != ""
	for i := range len(name) {
		c := name[i]
		plain = plain && (c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	switch {
	case !plain:
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	default:
		return path + "." + name
	}
}

func elementPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
