package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A table that grows is bounded by nothing that wazero offers: its memory is the host's.
// So the module is rewritten: each table.grow becomes a call of a function that is added
// to it, which looks at a limit before it grows the table, and notes what was wanted
// beyond it. The limit is a global that the host sets, and so no part of the native code:
// a change of it compiles nothing again. A module without table.grow is left alone; its
// tables are as large as it says at its beginning, which preflight judges.
//
// The types of what is replaced and of what replaces it are the same, so that the
// compiler refuses exactly what it refused before.

const (
	// maxGrowths caps the instructions that are replaced; compilers of languages that grow
	// tables write one into a function of their runtime.
	maxGrowths = 10_000
	// addedGlobals is how many globals are added: the limit, and what was wanted.
	addedGlobals = 2
	// startPrefix begins the name under which a start function is exported.
	startPrefix = "caisson_start"
)

// tableBounds says how a module has been rewritten.
type tableBounds struct {
	// limit and wanted are the indices of the globals, both i64.
	limit, wanted uint32
	// start is the export that runs in place of the start function, once the limit is
	// set. It is empty where there was none.
	start string
}

// growth is a table.grow: where it is in the file, and which table it grows.
type growth struct {
	at, end int
	table   uint32
}

// noteGrowth notes a table.grow whose index has been read.
func (p *parser) noteGrowth(table uint32) {
	p.seen.GrowsTables = true
	if p.growths++; p.growths > maxGrowths {
		p.exceed("too many instructions grow tables", int64(p.growths), maxGrowths)
	}
	if p.notes != nil && p.notes.growths != nil && p.ok() {
		p.notes.growths = append(p.notes.growths, growth{p.instruction, p.pos, table})
	}
}

// noteBody notes that the code of a function begins.
func (p *parser) noteBody() {
	if p.notes != nil && p.notes.bodies != nil && p.ok() {
		p.notes.bodies = append(p.notes.bodies, p.pos)
	}
}

// edit replaces a part of the file.
type edit struct {
	at, end int
	with    []byte
}

// boundTables rewrites a module that has passed preflight and uses table.grow.
func boundTables(wasm []byte) ([]byte, *tableBounds, error) {
	p, err := reread(wasm, &notes{growths: []growth{}})
	if err != nil {
		return nil, nil, fmt.Errorf("bound the tables: %w", err)
	}
	r := &recoder{parser: p, wasm: wasm, wrappers: map[uint32]uint32{}, start: -1}
	for _, g := range p.notes.growths {
		if int(g.table) >= len(p.tables) {
			return nil, nil, fmt.Errorf("bound the tables: table %d does not exist", g.table)
		}
		if _, known := r.wrappers[g.table]; !known {
			r.wrappers[g.table] = uint32(len(p.functions) + len(r.grown))
			r.grown = append(r.grown, g.table)
		}
		r.edits = append(r.edits, edit{g.at, g.end, binary.AppendUvarint([]byte{opCall}, uint64(r.wrappers[g.table]))})
	}
	r.bounds = tableBounds{limit: uint32(p.globals), wanted: uint32(p.globals) + 1}
	r.findStart()
	return r.rewrite(), &r.bounds, nil
}

// interruptible rewrites a module that has passed preflight so that every call of a
// function can be the end of it. The compiler looks at loops only, and a module can
// compute for years without one; an empty loop at the beginning of each function is one
// to look at.
func interruptible(wasm []byte) ([]byte, error) {
	p, err := reread(wasm, &notes{bodies: []int{}})
	if err != nil {
		return nil, fmt.Errorf("make it interruptible: %w", err)
	}
	r := &recoder{parser: p, wasm: wasm, start: -1}
	for _, at := range p.notes.bodies {
		r.edits = append(r.edits, edit{at, at, []byte{opLoop, typeNone, opEnd}})
	}
	return r.rewrite(), nil
}

// notes are what a parser takes down for a rewriting. What is nil is not taken down.
type notes struct {
	growths []growth
	// bodies are where the code of each function begins, behind its locals.
	bodies []int
}

// reread parses a module that has passed preflight with limits that may have been others.
func reread(wasm []byte, n *notes) (*parser, error) {
	if len(wasm) < headerBytes {
		return nil, errors.New("there is no module")
	}
	limits := DefaultLimits()
	limits.MemoryBytes, limits.TableElements = maxMemoryBytes, maxTableElements
	p := &parser{cursor: cursor{data: wasm, pos: headerBytes, end: len(wasm)}, limits: limits, counts: -1, notes: n}
	p.sections()
	if !p.ok() {
		return nil, p.err
	}
	return p, nil
}

// recoder writes a module anew, section by section.
type recoder struct {
	parser *parser
	wasm   []byte
	// edits are what changes in the code, by place.
	edits []edit
	// start is the function that is exported instead of being the start function, or -1.
	start int
	// grown are the tables that are grown, wrappers the functions that do it.
	grown    []uint32
	wrappers map[uint32]uint32
	bounds   tableBounds
	out      []byte
}

func (r *recoder) rewrite() []byte {
	r.out = append(make([]byte, 0, len(r.wasm)+4*kib), r.wasm[:headerBytes]...)
	c := &cursor{data: r.wasm, pos: headerBytes, end: len(r.wasm)}
	globals := len(r.grown) == 0 // there is nothing to add
	for c.left() > 0 {
		at := c.pos
		id := c.byte()
		content := c.vector()
		if !globals && (id == sectionGlobal || order(id) > order(sectionGlobal)) {
			globals = true
			own := []byte{0}
			if id == sectionGlobal {
				own = content
			}
			zero := []byte{typeI64, 1, opConst64, 0, opEnd}
			r.section(sectionGlobal, extended(own, zero, zero))
			if id == sectionGlobal {
				continue
			}
		}
		if len(r.grown) == 0 && id != sectionCode {
			r.out = append(r.out, r.wasm[at:c.pos]...)
			continue
		}
		switch id {
		case sectionType:
			wrapper := func(ref byte) []byte { return []byte{typeFunction, 2, ref, typeI32, 1, typeI32} }
			r.section(id, extended(content, wrapper(typeFuncRef), wrapper(typeExternRef)))
		case sectionFunction:
			r.section(id, extended(content, r.wrapperTypes()...))
		case sectionExport:
			if r.start < 0 {
				r.out = append(r.out, r.wasm[at:c.pos]...)
				continue
			}
			r.section(id, extended(content, exportOf(r.bounds.start, r.start)))
		case sectionStart: // it is exported
		case sectionCode:
			r.section(id, r.code(content, c.pos-len(content)))
		default:
			r.out = append(r.out, r.wasm[at:c.pos]...)
		}
	}
	return r.out
}

// findStart finds the start function, if there is one, and names its export.
func (r *recoder) findStart() {
	c := &cursor{data: r.wasm, pos: headerBytes, end: len(r.wasm)}
	for c.left() > 0 {
		id := c.byte()
		content := c.vector()
		if id != sectionStart {
			continue
		}
		index := &cursor{data: content, end: len(content)}
		r.bounds.start = startPrefix
		for _, e := range r.parser.exports {
			if name := string(e.name); strings.HasPrefix(name, r.bounds.start) {
				r.bounds.start = name + "_"
			}
		}
		r.start = int(index.u32())
	}
}

func (r *recoder) section(id byte, content []byte) {
	r.out = append(append(r.out, id), vectorOf(content)...)
}

// extended returns a vector with more items.
func extended(vector []byte, items ...[]byte) []byte {
	c := &cursor{data: vector, end: len(vector)}
	n := c.u32()
	out := binary.AppendUvarint(nil, uint64(n)+uint64(len(items)))
	out = append(out, vector[c.pos:]...)
	return append(out, slices.Concat(items...)...)
}

// wrapperTypes are the types of the wrappers, which are the last two of the module.
func (r *recoder) wrapperTypes() [][]byte {
	types := make([][]byte, len(r.grown))
	for i, table := range r.grown {
		typ := len(r.parser.types)
		if r.parser.tables[table] == typeExternRef {
			typ++
		}
		types[i] = binary.AppendUvarint(nil, uint64(typ))
	}
	return types
}

// code rewrites the bodies, whose section's content begins at an offset of the file, and
// adds those of the wrappers.
func (r *recoder) code(content []byte, base int) []byte {
	c := &cursor{data: content, end: len(content)}
	n := c.u32()
	out := binary.AppendUvarint(nil, uint64(n)+uint64(len(r.grown)))
	left := r.edits
	for range n {
		at := c.pos
		body := c.vector()
		end := base + c.pos
		if len(left) == 0 || left[0].at >= end {
			out = append(out, content[at:c.pos]...)
			continue
		}
		var changed []byte
		from := end - len(body)
		for len(left) > 0 && left[0].at < end {
			changed = append(append(changed, r.wasm[from:left[0].at]...), left[0].with...)
			from, left = left[0].end, left[1:]
		}
		out = append(out, vectorOf(append(changed, r.wasm[from:end]...))...)
	}
	for _, table := range r.grown {
		out = append(out, vectorOf(r.wrapper(table))...)
	}
	return out
}

// wrapper is the code in the place of a table.grow:
//
//	if size(table) + n > limit: wanted = size(table) + n, and -1; else: table.grow
func (r *recoder) wrapper(table uint32) []byte {
	indexed := func(b []byte, index uint32) []byte { return binary.AppendUvarint(b, uint64(index)) }
	b := []byte{1, 1, typeI64} // a local for the sum, behind the two parameters
	b = append(indexed(append(b, opBulk, opTableSize), table), opExtend32, opGet, 1, opExtend32, opAdd64, opTee, 2)
	b = append(indexed(append(b, opGetGlobal), r.bounds.limit), opMore64, opIf, typeNone, opGet, 2)
	b = append(indexed(append(b, opSetGlobal), r.bounds.wanted), opConst32, 0x7f, opReturn, opEnd)
	return append(indexed(append(b, opGet, 0, opGet, 1, opBulk, opTableGrow), table), opEnd)
}

// Instructions of the wrappers that the kernel does without.
const (
	opLoop      = 0x03
	opReturn    = 0x0f
	opCall      = 0x10
	opTee       = 0x22
	opGetGlobal = 0x23
	opSetGlobal = 0x24
	opMore64    = 0x56 // unsigned
	opExtend32  = 0xad // i32 to i64, unsigned
	opBulk      = 0xfc
	opTableGrow = 0x0f
	opTableSize = 0x10
)
