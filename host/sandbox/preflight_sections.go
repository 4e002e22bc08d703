package sandbox

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/abi"
)

// Value types of the binary format.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeV128      = 0x7b
	typeFuncRef   = 0x70
	typeExternRef = 0x6f
	typeFunction  = 0x60
	// Types of proposals that this host does not run, and the mark of a table with an
	// initial value.
	typeExnRef    = 0x69
	typeRef       = 0x64
	typeRefNull   = 0x63
	tableWithInit = 0x40
)

// External kinds of imports and exports.
const (
	kindFunction = iota
	kindTable
	kindMemory
	kindGlobal
)

// readCustom notes the manifest and checks the counts of the name section, which the
// compiler reads for its stack traces. Every other custom section is skipped there
// and here.
func (p *parser) readCustom() {
	p.custom++
	if p.custom > maxCustom {
		p.exceed("too many custom sections", int64(p.custom), maxCustom)
		return
	}
	name := p.name()
	if !p.ok() {
		return
	}
	switch string(name) {
	case abi.ManifestSection:
		content := p.bytes(p.left())
		switch {
		case p.seen.Manifest != nil:
			p.failf(Malformed, "the section %s is repeated", abi.ManifestSection)
		case len(content) > maxManifestBytes:
			p.exceed("the manifest has too many bytes", int64(len(content)), maxManifestBytes)
		default:
			p.seen.Manifest = bytes.Clone(content)
		}
	case "name":
		p.readNames()
	case "go:buildid":
		p.goBuilt = true
	}
	p.pos = p.end
}

// readNames walks the names, as the compiler does for its stack traces. It takes lists
// that do not fill the space that they claim for something else, so that they must.
func (p *parser) readNames() {
	p.section = "name"
	if p.named {
		p.failf(Malformed, "the section of names is repeated")
		return
	}
	p.named = true
	sectionEnd := p.end
	for p.ok() && p.pos < sectionEnd {
		p.end = sectionEnd
		id := p.byte()
		size := p.u32()
		if int64(size) > int64(p.left()) {
			p.failf(Malformed, "a list of names claims %d bytes where %d are left", size, p.left())
			return
		}
		p.end = p.pos + int(size)
		switch id {
		case 0: // the module
			p.text()
		case 1: // functions
			p.nameMap()
		case 2: // locals of functions
			for n := p.count("functions with named locals", maxFunctions+maxImports); n > 0 && p.ok(); n-- {
				p.u32()
				p.nameMap()
			}
		default:
			p.pos = p.end
		}
		if p.ok() && p.left() != 0 {
			p.failf(Malformed, "%d bytes follow a list of names", p.left())
		}
	}
	p.end = sectionEnd
}

func (p *parser) nameMap() {
	n := p.count("names", maxNames)
	p.names += n
	if p.names > maxNames {
		p.exceed("too many names", int64(p.names), maxNames)
	}
	for ; n > 0 && p.ok(); n-- {
		p.u32()
		p.text()
	}
}

// text skips a name that nobody is bound by.
func (p *parser) text() {
	if b := p.vector(); !utf8.Valid(b) {
		p.failf(Malformed, "a name is not UTF-8")
	}
}

func (p *parser) readTypes() {
	n := p.count("types", maxTypes)
	p.types = make([]function, 0, n)
	for ; n > 0 && p.ok(); n-- {
		if form := p.byte(); p.ok() && form != typeFunction {
			p.failf(Unsupported, "type form 0x%x is not supported", form)
			return
		}
		params := p.valueTypes(p.count("parameters", maxParameters))
		results := p.valueTypes(p.count("results", maxParameters))
		p.types = append(p.types, function{params, results})
	}
}

// valueTypes reads n value types.
func (p *parser) valueTypes(n int) []byte {
	from := p.pos
	for range n {
		p.valueType()
	}
	return p.data[from:p.pos]
}

// valueType reads a value type.
func (p *parser) valueType() byte {
	switch typ := p.byte(); typ {
	case typeI32, typeI64, typeF32, typeF64, typeV128, typeFuncRef, typeExternRef:
		return typ
	case typeExnRef, typeRef, typeRefNull:
		p.failf(Unsupported, "value type 0x%x is not supported", typ)
	default:
		p.failf(Malformed, "value type 0x%x is unknown", typ)
	}
	return 0
}

// refType reads a type of references.
func (p *parser) refType() byte {
	typ := p.valueType()
	if p.ok() && typ != typeFuncRef && typ != typeExternRef {
		p.failf(Malformed, "type 0x%x is no type of references", typ)
	}
	return typ
}

// typeOf returns the function type of an index into the type section.
func (p *parser) typeOf(index uint32) function {
	if int64(index) >= int64(len(p.types)) {
		p.failf(Malformed, "type %d does not exist", index)
		return function{}
	}
	return p.types[index]
}

func (p *parser) readImports() {
	for n := p.count("imports", maxImports); n > 0 && p.ok(); n-- {
		start := p.pos
		module, name := p.name(), p.name()
		kind := p.byte()
		if !p.ok() {
			return
		}
		if kind != kindFunction {
			p.pos = start
			p.failf(UnknownImport, "the import %s of module %s is not a function; only functions can be imported", quoteName(string(name)), quoteName(string(module)))
			return
		}
		index := p.u32()
		typ := p.typeOf(index)
		if !p.ok() {
			return
		}
		p.functions = append(p.functions, index)
		p.imported++
		if err := checkImport(string(module), string(name), typ); err != nil {
			err.Section, err.Offset = p.section, int64(start)
			p.err = err
			return
		}
		if string(module) == abi.ImportUser {
			p.seen.Imports = append(p.seen.Imports, abi.Function(name))
		}
	}
}

func (p *parser) readFunctions() {
	n := p.count("functions", maxFunctions)
	p.functions = slices.Grow(p.functions, n)
	for ; n > 0 && p.ok(); n-- {
		index := p.u32()
		p.typeOf(index)
		p.functions = append(p.functions, index)
	}
}

func (p *parser) readTables() {
	for n := p.count("tables", maxTables); n > 0 && p.ok(); n-- {
		if p.pos < p.end && p.data[p.pos] == tableWithInit {
			p.failf(Unsupported, "a table with a first value is not supported")
			return
		}
		p.tables = append(p.tables, p.refType())
		if low, _ := p.sizes("table"); low > int64(p.limits.TableElements) {
			p.exceed("a table has too many elements", low, int64(p.limits.TableElements))
			if p.err != nil {
				p.err.Remedy = "give the module a larger limit of table elements, or build it with a smaller table"
			}
			return
		}
	}
}

func (p *parser) readMemories() {
	for n := p.count("memories", 1); n > 0 && p.ok(); n-- {
		p.memories++
		low, high := p.sizes("memory")
		if high > maxMemoryBytes/wasmPageBytes {
			p.failf(Malformed, "the memory may grow to %d pages, more than there can be", high)
			return
		}
		p.seen.MemoryBytes = low * wasmPageBytes
		if low > p.limits.memoryPages() {
			p.exceed("the module starts with more bytes of memory than it may use", low*wasmPageBytes, p.limits.MemoryBytes)
			p.err.Remedy = "give the module a larger memory limit, or build it with a smaller initial memory"
			return
		}
	}
}

// sizes reads the limits of a table or a memory; the upper one is 0 if there is none. It
// is no promise to keep: the worker's own limits bound growth.
func (p *parser) sizes(what string) (low, high int64) {
	switch flags := p.byte(); {
	case !p.ok():
		return 0, 0
	case flags == 0:
		return int64(p.u32()), 0
	case flags == 1:
		low, high = int64(p.u32()), int64(p.u32())
		if p.ok() && high < low {
			p.failf(Malformed, "a %s has a first size of %d and a largest of %d", what, low, high)
		}
		return low, high
	case flags <= 7:
		p.failf(Unsupported, "a shared or 64-bit %s is not supported", what)
		return 0, 0
	default:
		p.failf(Malformed, "the limits of a %s have the unknown flags 0x%x", what, flags)
		return 0, 0
	}
}

func (p *parser) readGlobals() {
	for n := p.count("globals", maxGlobals); n > 0 && p.ok(); n-- {
		valueType, mutability := p.valueType(), p.byte()
		if mutability > 1 {
			p.failf(Malformed, "the mutability 0x%x is unknown", mutability)
			return
		}
		p.noteGlobal(valueType, mutability)
		p.constant(valueType)
		p.globals++
	}
}

func (p *parser) readExports() {
	n := p.count("exports", maxExports)
	p.exports = make([]export, 0, n)
	for ; n > 0 && p.ok(); n-- {
		start := p.pos
		name := p.name()
		kind := p.byte()
		index := p.u32()
		if !p.ok() {
			return
		}
		if int64(index) >= p.exportable(kind) {
			p.pos = start
			p.failf(Malformed, "the export %s is something that does not exist", quoteName(string(name)))
			return
		}
		e := export{name: name, offset: start, callable: kind == kindFunction}
		if e.callable {
			e.typ = p.typeOf(p.functions[index])
		}
		p.exports = append(p.exports, e)
	}
	slices.SortFunc(p.exports, func(a, b export) int { return bytes.Compare(a.name, b.name) })
	for i := 1; i < len(p.exports) && p.ok(); i++ {
		if bytes.Equal(p.exports[i-1].name, p.exports[i].name) {
			p.pos = max(p.exports[i-1].offset, p.exports[i].offset)
			p.failf(Malformed, "two exports are called %s", quoteName(string(p.exports[i].name)))
		}
	}
}

// exportable is how many things of a kind there are.
func (p *parser) exportable(kind byte) int64 {
	switch kind {
	case kindFunction:
		return int64(len(p.functions))
	case kindTable:
		return int64(len(p.tables))
	case kindMemory:
		return int64(p.memories)
	case kindGlobal:
		return int64(p.globals)
	default:
		return 0
	}
}

// readStart refuses a start function that is an import: it would be called before
// there is an instance.
func (p *parser) readStart() {
	index := int64(p.u32())
	switch {
	case !p.ok():
	case index < int64(p.imported):
		p.failf(Malformed, "the start function is an imported one")
	case index >= int64(len(p.functions)):
		p.failf(Malformed, "the start function does not exist")
	case !p.typeOf(p.functions[index]).is(":"):
		p.failf(Malformed, "the start function has parameters or results")
	}
}

func (p *parser) readElements() {
	for n := p.count("element segments", maxSegments); n > 0 && p.ok(); n-- {
		p.readElementSegment()
	}
}

func (p *parser) readElementSegment() {
	flags := p.u32()
	if flags > 7 {
		p.failf(Malformed, "element segment kind %d is unknown", flags)
		return
	}
	passive, explicit, expressions := flags&1 != 0, flags&2 != 0, flags&4 != 0
	table := int64(0)
	if !passive && explicit {
		table = int64(p.u32())
	}
	if !passive {
		p.constant(typeI32)
	}
	typ := byte(typeFuncRef)
	switch {
	case !passive && !explicit:
	case expressions:
		typ = p.refType()
	default:
		if kind := p.byte(); kind != 0 {
			p.failf(Malformed, "element kind 0x%x is unknown", kind)
		}
	}
	if !passive && p.ok() && (table >= int64(len(p.tables)) || p.tables[table] != typ) {
		p.failf(Malformed, "elements are meant for table %d, which does not exist or has another type", table)
	}
	if expressions {
		p.readInit(func() { p.constant(typ) })
	} else {
		p.readInit(p.functionIndex)
	}
}

// readInit reads the elements of a segment, each by element.
func (p *parser) readInit(element func()) {
	n := p.count("elements", maxElements)
	p.elements += n
	if p.elements > maxElements {
		p.exceed("too many elements", int64(p.elements), maxElements)
	}
	for ; n > 0 && p.ok(); n-- {
		element()
	}
}

// functionIndex reads the number of a function.
func (p *parser) functionIndex() {
	if index := p.u32(); int64(index) >= int64(len(p.functions)) {
		p.failf(Malformed, "function %d does not exist", index)
	}
}

func (p *parser) readData() {
	for n := p.count("data segments", maxSegments); n > 0 && p.ok(); n-- {
		p.segments++
		switch flags := p.u32(); flags {
		case 0:
			p.memoryIndex(0)
			p.constant(typeI32)
		case 1:
		case 2:
			p.memoryIndex(p.u32())
			p.constant(typeI32)
		default:
			p.failf(Malformed, "data segment kind %d is unknown", flags)
			return
		}
		p.vector()
	}
}

// memoryIndex checks the number of a memory.
func (p *parser) memoryIndex(index uint32) {
	if int64(index) >= int64(p.memories) {
		p.failf(Malformed, "data is meant for memory %d, which does not exist", index)
	}
}

func (p *parser) readCode() {
	n := p.count("function bodies", maxFunctions)
	sectionEnd := p.end
	for ; n > 0 && p.ok(); n-- {
		p.end = sectionEnd
		size := int64(p.u32())
		switch {
		case !p.ok():
			return
		case size > int64(p.left()):
			p.failf(Malformed, "a function body claims %d bytes where %d are left", size, p.left())
			return
		case size > maxBodyBytes:
			p.exceed("a function body has too many bytes", size, maxBodyBytes)
			return
		}
		p.end = p.pos + int(size)
		p.readLocals()
		p.noteBody()
		p.instructions()
		p.bodies++
	}
	p.end = sectionEnd
}

// readLocals reads the declarations of a function's locals, which are run-length encoded
// and so the shortest way to ask for gigabytes.
func (p *parser) readLocals() {
	var total int64
	for n := p.count("groups of locals", maxLocals); n > 0 && p.ok(); n-- {
		total += int64(p.u32())
		p.valueType()
		if total > maxLocals {
			p.exceed("a function has too many locals", total, maxLocals)
		}
	}
	p.locals += total
	if p.locals > maxTotalLocals {
		p.exceed("the functions have too many locals together", p.locals, maxTotalLocals)
	}
}
