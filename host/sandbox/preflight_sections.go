package sandbox

import (
	"bytes"

	"github.com/caisson-dev/caisson/abi"
)

// Value types of the binary format.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeFuncRef   = 0x70
	typeExternRef = 0x6f
	typeFunction  = 0x60
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
	switch name {
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

// readNames walks the function and local names.
func (p *parser) readNames() {
	p.section = "name"
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
		case 1: // functions
			p.nameMap()
		case 2: // locals of functions
			for n := p.count("functions with named locals", maxFunctions+maxImports); n > 0 && p.ok(); n-- {
				p.u32()
				p.nameMap()
			}
		}
		if !p.ok() {
			return
		}
		p.pos = p.end
	}
	p.end = sectionEnd
}

func (p *parser) nameMap() {
	for n := p.count("names", maxFunctions+maxImports+maxLocals); n > 0 && p.ok(); n-- {
		p.u32()
		p.vector()
	}
}

func (p *parser) readTypes() {
	n := p.count("types", maxTypes)
	p.types = make([]function, 0, n)
	for ; n > 0 && p.ok(); n-- {
		if form := p.byte(); p.ok() && form != typeFunction {
			p.failf(Malformed, "type form 0x%x is not supported", form)
			return
		}
		params := p.bytes(p.count("parameters", maxParameters))
		results := p.bytes(p.count("results", maxParameters))
		p.types = append(p.types, function{params, results})
	}
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
			p.failf(UnknownImport, "the import %s of module %s is not a function; only functions can be imported", quoteName(name), quoteName(module))
			return
		}
		index := p.u32()
		typ := p.typeOf(index)
		if !p.ok() {
			return
		}
		p.functions = append(p.functions, index)
		p.imported++
		if err := checkImport(module, name, typ); err != nil {
			err.Section, err.Offset = p.section, int64(start)
			p.err = err
			return
		}
		if module == abi.ImportUser {
			p.seen.Imports = append(p.seen.Imports, abi.Function(name))
		}
	}
}

func (p *parser) readFunctions() {
	for n := p.count("functions", maxFunctions); n > 0 && p.ok(); n-- {
		index := p.u32()
		p.typeOf(index)
		p.functions = append(p.functions, index)
	}
}

func (p *parser) readTables() {
	for n := p.count("tables", maxTables); n > 0 && p.ok(); n-- {
		if typ := p.byte(); p.ok() && typ != typeFuncRef && typ != typeExternRef {
			p.failf(Malformed, "table type 0x%x is not supported", typ)
			return
		}
		if low := p.sizes("table"); low > maxTableMin {
			p.exceed("a table has too many elements", low, maxTableMin)
			return
		}
	}
}

func (p *parser) readMemories() {
	for n := p.count("memories", 1); n > 0 && p.ok(); n-- {
		p.memories++
		low := p.sizes("memory")
		p.seen.MemoryBytes = low * wasmPageBytes
		if low > p.limits.memoryPages() {
			p.exceed("the module starts with more bytes of memory than it may use", low*wasmPageBytes, p.limits.MemoryBytes)
			p.err.Remedy = "give the module a larger memory limit, or build it with a smaller initial memory"
			return
		}
	}
}

// sizes reads the limits of a table or a memory and returns the lower one. The upper
// one is no promise to keep: the worker's own limits bound growth.
func (p *parser) sizes(what string) int64 {
	switch flags := p.byte(); {
	case !p.ok():
		return 0
	case flags == 0:
		return int64(p.u32())
	case flags == 1:
		low := int64(p.u32())
		p.u32()
		return low
	default:
		p.failf(Malformed, "a shared or 64-bit %s is not supported", what)
		return 0
	}
}

func (p *parser) readGlobals() {
	for n := p.count("globals", maxGlobals); n > 0 && p.ok(); n-- {
		valueType := p.byte()
		p.noteGlobal(valueType, p.byte())
		p.constant()
	}
}

func (p *parser) readExports() {
	p.exports = make(map[string]export)
	for n := p.count("exports", maxExports); n > 0 && p.ok(); n-- {
		start := p.pos
		name := p.name()
		kind := p.byte()
		index := p.u32()
		if !p.ok() {
			return
		}
		if kind != kindFunction {
			continue
		}
		if int64(index) >= int64(len(p.functions)) {
			p.failf(Malformed, "the export %s is a function that does not exist", quoteName(name))
			return
		}
		p.exports[name] = export{typ: p.typeOf(p.functions[index]), offset: start}
	}
}

// readStart refuses a start function that is an import: it would be called before
// there is an instance.
func (p *parser) readStart() {
	index := p.u32()
	if p.ok() && int64(index) < int64(p.imported) {
		p.failf(Malformed, "the start function is an imported one")
	}
}

func (p *parser) readElements() {
	for n := p.count("element segments", maxSegments); n > 0 && p.ok(); n-- {
		flags := p.u32()
		if flags > 7 {
			p.failf(Malformed, "element segment kind %d is unknown", flags)
			return
		}
		passive, explicit, expressions := flags&1 != 0, flags&2 != 0, flags&4 != 0
		if !passive && explicit {
			p.u32()
		}
		if !passive {
			p.constant()
		}
		if passive || explicit {
			p.byte()
		}
		for m := p.count("elements", maxTableMin); m > 0 && p.ok(); m-- {
			if expressions {
				p.constant()
				continue
			}
			p.u32()
		}
	}
}

func (p *parser) readData() {
	for n := p.count("data segments", maxSegments); n > 0 && p.ok(); n-- {
		switch flags := p.u32(); flags {
		case 0:
			p.constant()
		case 1:
		case 2:
			p.u32()
			p.constant()
		default:
			p.failf(Malformed, "data segment kind %d is unknown", flags)
			return
		}
		p.vector()
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
		p.locals()
		p.instructions()
		p.bodies++
	}
	p.end = sectionEnd
}

// locals reads the declarations of a function's locals, which are run-length encoded
// and so the shortest way to ask for gigabytes.
func (p *parser) locals() {
	var total int64
	for n := p.count("groups of locals", maxLocals); n > 0 && p.ok(); n-- {
		total += int64(p.u32())
		p.byte()
		if total > maxLocals {
			p.exceed("a function has too many locals", total, maxLocals)
		}
	}
}
