package wire

// tree is a document that has been read: its values, each before those inside of it.
type tree struct {
	data  []byte
	parts []part
	// The name of the part that comes next.
	nameStart, nameEnd uint32
	plainName          bool
}

// part is one value.
type part struct {
	// start and end are the offsets at which it begins and ends, after is the number of the
	// first part that is neither it nor inside of it. No document of 4 GiB fits into the
	// memory of a guest.
	start, end, after uint32
	// nameStart and nameEnd are what is between the quotes of its name; both are 0 for what
	// has none.
	nameStart, nameEnd uint32
	kind               Kind
	// plainName and plainText say that what is between the quotes of the name, or of a
	// string, is the text itself.
	plainName, plainText bool
	// asked says that somebody wanted it.
	asked bool
}

// bytesPerPart is how many bytes of a document there are to each of its parts, at a guess
// that is on the small side.
const bytesPerPart = 12

// Parse reads a document. Raw parts of it alias data, which must not be changed any more.
func Parse(data []byte) (Value, error) {
	p := parser{data: data, tree: &tree{data: data, parts: make([]part, 0, len(data)/bytesPerPart+1)}}
	if err := p.document(); err != nil {
		return Value{}, err
	}
	return Value{tree: p.tree}, nil
}

// begin adds a part and returns its number. Nothing is noted in a nil tree.
func (t *tree) begin(kind Kind, at int) int {
	if t == nil {
		return 0
	}
	t.parts = append(t.parts, part{start: uint32(at), nameStart: t.nameStart, nameEnd: t.nameEnd, plainName: t.plainName, kind: kind})
	t.nameStart, t.nameEnd = 0, 0
	return len(t.parts) - 1
}

// end notes where a part ends, and that all since then is inside of it.
func (t *tree) end(number, at int, plain bool) {
	if t == nil {
		return
	}
	p := &t.parts[number]
	p.end, p.after, p.plainText = uint32(at), uint32(len(t.parts)), plain
}

// name notes the name of the part that comes next.
func (t *tree) name(start, end int, plain bool) {
	if t != nil {
		t.nameStart, t.nameEnd, t.plainName = uint32(start), uint32(end), plain
	}
}

// nameOf returns the name of a member.
func (t *tree) nameOf(p *part) string { return textOf(t.data[p.nameStart:p.nameEnd], p.plainName) }

// named reports whether a part is a member of this name.
func (t *tree) named(p *part, name string) bool {
	raw := t.data[p.nameStart:p.nameEnd]
	if p.plainName {
		return string(raw) == name
	}
	return p.nameStart > 0 && unquote(raw) == name
}

// textOf returns the text of what is between the quotes of a string.
func textOf(raw []byte, plain bool) string { //nolint:revive // What the parser has seen.
	if plain {
		return string(raw)
	}
	return unquote(raw)
}
