package sandbox

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// Caps of the binary format. They exist because a compiler's memory and time follow
// these numbers rather than the size of the file; the JavaScript API of Wasm has
// most of them at ten times the value, real modules at a tenth of it.
const (
	maxTypes     = 10_000
	maxImports   = 1_000
	maxFunctions = 100_000 // 300,000 empty functions compile for 3 s
	maxExports   = 10_000
	maxGlobals   = 10_000
	maxTables    = 4
	// maxElements caps all element segments together: a byte in the file becomes 64 in
	// the decoder. A Go guest has 6,000.
	maxElements = 1_000_000
	// maxSegments: std Go writes about 10,000 data segments per MB of module.
	maxSegments  = 100_000
	maxBodyBytes = 4 * mib // a body of 2 MB compiles for 1.4 s in 370 MB
	maxLocals    = 50_000  // ten million compile for 0.5 s in 240 MB
	// maxTotalLocals caps the locals of all functions together. The decoder writes out
	// each of them, in 8 bytes: 100,000 functions of a megabyte could ask for 40 GB. A Go
	// guest of 16 MB has one million.
	maxTotalLocals = 5_000_000
	maxParameters  = 1_000
	// maxConstantDepth caps the operands of a constant expression; compilers use two.
	maxConstantDepth = 64
	// maxWasmNameBytes bounds names of imports, exports and sections.
	maxWasmNameBytes = 4 * kib
	// maxNames caps the names of functions and locals: two bytes in the file become 40
	// in the decoder.
	maxNames  = 1_000_000
	maxCustom = 1_000
	// maxManifestBytes bounds the manifest; the CLI embeds none that is larger.
	maxManifestBytes = wasmfile.MaxManifestBytes
)

// The section identifiers of the binary format.
const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
	sectionTag
)

// Inspection is what a module says of itself without being run.
type Inspection struct {
	// Manifest is the JSON of the custom section [abi.ManifestSection], or nil. It has
	// not been parsed.
	Manifest []byte
	// Imports are the host functions that the module imports, in its own order.
	Imports []abi.Function
	// MemoryBytes is how much linear memory the module starts with.
	MemoryBytes int64
	// GrowsTables says that the module has code that grows a table.
	GrowsTables bool
	// FreshReason says why an instance can serve one call only, or is empty: then its
	// state can be put back after each call.
	FreshReason string
}

// Preflight parses a module without running or trusting it and reports what it needs.
// limits may be the zero value. Time is linear in the size of the module, memory is
// bounded by it, and no claim in the module decides how much is allocated. A module
// that breaks the format, a limit or the ABI is a [*LoadError]. One that passes can only
// be refused by the compiler if the types inside of a function do not match.
func Preflight(wasm []byte, limits Limits) (*Inspection, error) {
	limits = limits.orElse(DefaultLimits())
	if err := checkHeader(wasm, limits); err != nil {
		return nil, err
	}
	p := parser{
		cursor: cursor{data: wasm, pos: headerBytes, end: len(wasm)},
		limits: limits,
		seen:   Inspection{},
		counts: -1,
	}
	p.sections()
	if p.ok() {
		p.section = ""
		p.checkABI()
	}
	if !p.ok() {
		return nil, p.err
	}
	seen := p.seen // a pointer into the parser would keep it, and the module with it
	return &seen, nil
}

// headerBytes is the length of the magic number and the version.
const headerBytes = 8

// checkHeader tells a module from everything else, in words that help.
func checkHeader(wasm []byte, limits Limits) error {
	if len(wasm) > limits.ModuleBytes {
		return &LoadError{Kind: TooLarge, Offset: -1, Detail: "the file has too many bytes",
			Got: int64(len(wasm)), Limit: int64(limits.ModuleBytes)}
	}
	if len(wasm) < headerBytes || !bytes.Equal(wasm[:4], []byte("\x00asm")) {
		return &LoadError{Kind: NotWasm, Offset: -1, Detail: "the file is not a Wasm module",
			Remedy: "build it with GOOS=wasip1 GOARCH=wasm -buildmode=c-shared, or with another compiler that targets wasm32"}
	}
	switch version := wasm[4:8]; {
	case bytes.Equal(version, []byte{1, 0, 0, 0}):
		return nil
	case version[2] == 1:
		return &LoadError{Kind: Component, Offset: -1, Detail: "the file is a component of the Wasm component model, which this host does not run",
			Remedy: "build a core module instead, for instance for the target wasip1"}
	default:
		return &LoadError{Kind: NotWasm, Offset: -1, Detail: "the file has an unknown version of the Wasm format",
			Remedy: "build a core module of version 1"}
	}
}

// function is what the parser keeps of a function type: two slices of the module.
type function struct {
	params, results []byte
}

// is reports whether the type is the one that a signature of signatures.go writes.
func (f function) is(s signature) bool {
	return s.matches(f.params, f.results)
}

// export is what the parser keeps of an export. The name is a slice of the module.
type export struct {
	name     []byte
	typ      function
	offset   int
	callable bool
}

// parser walks the sections and collects what the checks of the ABI need.
type parser struct {
	cursor
	limits Limits
	seen   Inspection

	types     []function
	imported  int      // how many functions are imported
	functions []uint32 // type of each function, imported ones first
	exports   []export // by name
	tables    []byte   // type of each table
	globals   int
	memories  int
	bodies    int
	elements  int
	locals    int64
	names     int
	segments  int
	counts    int // how many data segments the data count section announces, or -1
	custom    int
	named     bool
	goBuilt   bool
	stack     [maxConstantDepth]byte
	// instruction is where the one that is being read begins.
	instruction int
	growths     int
	// notes are taken for a rewriting, unless they are nil.
	notes *notes
}

// order is the position of each section in a module, as the format wants it; a
// section that is missing here is unknown.
func order(id byte) int {
	switch id {
	case sectionType, sectionImport, sectionFunction, sectionTable, sectionMemory:
		return int(id)
	case sectionGlobal, sectionExport, sectionStart, sectionElement:
		return int(id)
	case sectionDataCount:
		return sectionElement + 1
	case sectionCode, sectionData:
		return int(id) + 1
	default:
		return 0
	}
}

// sections walks the sections, each inside its own bounds.
func (p *parser) sections() {
	last := 0
	for p.ok() && p.pos < len(p.data) {
		p.section, p.end = "", len(p.data)
		id := p.byte()
		size := p.u32()
		if !p.ok() {
			return
		}
		if int64(size) > int64(p.left()) {
			p.failf(Malformed, "a section claims %d bytes where %d are left", size, p.left())
			return
		}
		if id != sectionCustom {
			if !p.follows(id, last) {
				return
			}
			last = order(id)
		}
		p.end = p.pos + int(size)
		p.read(id)
		if p.ok() && p.left() != 0 {
			p.failf(Malformed, "%d bytes follow the section's content", p.left())
		}
	}
	if p.ok() && p.bodies != len(p.functions)-p.imported {
		p.failf(Malformed, "%d functions are declared and %d have code", len(p.functions)-p.imported, p.bodies)
	}
	if p.ok() && p.counts >= 0 && p.counts != p.segments {
		p.failf(Malformed, "%d data segments are announced and %d are there", p.counts, p.segments)
	}
}

// follows reports whether a section may come after those up to last in the order.
func (p *parser) follows(id byte, last int) bool {
	switch {
	case id == sectionTag:
		p.failf(Unsupported, "the section of tags belongs to exception handling, which this host does not run")
	case order(id) == 0:
		p.failf(Malformed, "section %d is unknown", id)
	case order(id) <= last:
		p.failf(Malformed, "section %d is repeated or out of order", id)
	default:
		return true
	}
	return false
}

// read reads the content of one section.
func (p *parser) read(id byte) {
	switch id {
	case sectionCustom:
		p.section = "custom"
		p.readCustom()
	case sectionType:
		p.section = "type"
		p.readTypes()
	case sectionImport:
		p.section = "import"
		p.readImports()
	case sectionFunction:
		p.section = "function"
		p.readFunctions()
	case sectionTable:
		p.section = "table"
		p.readTables()
	case sectionMemory:
		p.section = "memory"
		p.readMemories()
	case sectionGlobal:
		p.section = "global"
		p.readGlobals()
	case sectionExport:
		p.section = "export"
		p.readExports()
	case sectionStart:
		p.section = "start"
		p.readStart()
	case sectionElement:
		p.section = "element"
		p.readElements()
	case sectionDataCount:
		p.section = "data count"
		p.counts = int(p.u32())
	case sectionCode:
		p.section = "code"
		p.readCode()
	case sectionData:
		p.section = "data"
		p.readData()
	}
}

// checkABI checks the exports, once everything has been read.
func (p *parser) checkABI() {
	// A program has _start instead, which is never called. Exports of Mono, and those that
	// clang makes for a program, start their runtime by themselves; Go's trap.
	if _, reactor := p.exported("_initialize"); !reactor && p.goBuilt {
		p.err = &LoadError{Kind: NoInitializer, Offset: -1,
			Detail: "the module exports no _initialize, so the runtime of Go cannot be started",
			Remedy: "build a library instead of a program: with Go add -buildmode=c-shared"}
		return
	}
	for _, name := range []string{abi.ExportDescribe, abi.ExportProvision, abi.ExportDeprovision} {
		p.checkExport(name)
		if !p.ok() {
			return
		}
	}
	for _, name := range []string{"_initialize", "__wasm_call_ctors"} {
		e, exists := p.exported(name)
		if exists && !e.typ.is(":") {
			p.err = &LoadError{Kind: WrongSignature, Section: "export", Offset: int64(e.offset),
				Detail: "the export " + name + " must be a function without parameters and results"}
			return
		}
	}
}

// exported finds an exported function.
func (p *parser) exported(name string) (export, bool) {
	i, found := slices.BinarySearchFunc(p.exports, []byte(name), func(e export, name []byte) int { return bytes.Compare(e.name, name) })
	if !found || !p.exports[i].callable {
		return export{}, false
	}
	return p.exports[i], true
}

// checkExport requires one function of the ABI.
func (p *parser) checkExport(name string) {
	const want = signature(":i")
	e, exists := p.exported(name)
	if !exists {
		p.err = &LoadError{Kind: MissingExport, Section: "export", Offset: -1,
			Detail: "the module exports no function " + strconv.Quote(name),
			Remedy: "export describe, provision and deprovision, each of type " + want.String() + "; with the Go SDK call guest.Register"}
		return
	}
	if !e.typ.is(want) {
		p.err = &LoadError{Kind: WrongSignature, Section: "export", Offset: int64(e.offset),
			Detail: "the export " + strconv.Quote(name) + " must be of type " + want.String()}
	}
}
