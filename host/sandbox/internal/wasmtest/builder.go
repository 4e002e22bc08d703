package wasmtest

import (
	"maps"
	"slices"
)

// Value types.
const (
	I32 byte = 0x7f
	I64 byte = 0x7e
)

// Section identifiers.
const (
	Custom   byte = 0
	Type     byte = 1
	Import   byte = 2
	Function byte = 3
	Table    byte = 4
	Memory   byte = 5
	Global   byte = 6
	Export   byte = 7
	Start    byte = 8
	Element  byte = 9
	Code     byte = 10
	Data     byte = 11
)

// Header is the magic number and the version of a core module.
func Header() []byte { return []byte{0, 'a', 's', 'm', 1, 0, 0, 0} }

// Leb writes an unsigned LEB128 number.
func Leb(n uint64) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// Signed writes a signed LEB128 number.
func Signed(n int64) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// Join concatenates.
func Join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// Section writes a section with the length that it has.
func Section(id byte, content ...[]byte) []byte {
	body := Join(content...)
	return Join([]byte{id}, Leb(uint64(len(body))), body)
}

// Name writes a name, or any other vector of bytes.
func Name(name string) []byte { return Join(Leb(uint64(len(name))), []byte(name)) }

// Builder puts a well-formed module together. Functions are numbered in the order in
// which they are added, and all imports must be added before the first function.
type Builder struct {
	types     [][]byte
	imports   [][]byte
	functions [][]byte
	bodies    [][]byte
	tables    [][]byte
	memories  [][]byte
	globals   [][]byte
	exports   map[string][]byte
	start     []byte
	elements  [][]byte
	data      [][]byte
	customs   [][]byte
	// describes is what describe returns, and declares what the manifest's section holds.
	describes, declares string
	describeImports     [3]uint32
}

// New returns an empty module.
func New() *Builder { return &Builder{exports: map[string][]byte{}} }

func (b *Builder) typeIndex(params, results []byte) []byte {
	typ := Join([]byte{0x60}, Name(string(params)), Name(string(results)))
	for i, known := range b.types {
		if slices.Equal(known, typ) {
			return Leb(uint64(i))
		}
	}
	b.types = append(b.types, typ)
	return Leb(uint64(len(b.types) - 1))
}

// manifestSection is the name of the section that holds a manifest.
const manifestSection = "caisson.manifest"

// Describing gives the module a manifest, and a describe that returns it. It comes before
// everything else, because it needs imports.
func (b *Builder) Describing(manifest string) *Builder {
	b.describes, b.declares = manifest, manifest
	alloc, store := b.importText()
	b.describeImports = [3]uint32{alloc, store, b.Import(Env, "output_set", i64i64(), none())}
	return b
}

// next is the number that the next function gets.
func (b *Builder) next() uint32 { return uint32(len(b.imports) + len(b.bodies)) }

// Import imports a function and returns its number.
func (b *Builder) Import(module, name string, params, results []byte) uint32 {
	b.imports = append(b.imports, Join(Name(module), Name(name), []byte{0}, b.typeIndex(params, results)))
	return uint32(len(b.imports) - 1)
}

// ImportMemory imports a memory.
func (b *Builder) ImportMemory(module, name string) {
	b.imports = append(b.imports, Join(Name(module), Name(name), []byte{2, 0, 1}))
}

// Func adds a function and returns its number. locals are as many i64; body is its
// code without the final end.
func (b *Builder) Func(params, results []byte, locals int, body ...[]byte) uint32 {
	b.functions = append(b.functions, b.typeIndex(params, results))
	declared := Leb(0)
	if locals > 0 {
		declared = Join(Leb(1), Leb(uint64(locals)), []byte{I64})
	}
	return b.raw(Join(declared, Join(body...), []byte{0x0b}))
}

// RawFunc adds a function of type () -> () whose body, locals included, is as given.
func (b *Builder) RawFunc(body []byte) uint32 {
	b.functions = append(b.functions, b.typeIndex(nil, nil))
	return b.raw(body)
}

func (b *Builder) raw(body []byte) uint32 {
	b.bodies = append(b.bodies, Join(Leb(uint64(len(body))), body))
	return uint32(len(b.imports) + len(b.bodies) - 1)
}

// Export exports a function.
func (b *Builder) Export(name string, function uint32) *Builder {
	b.exports[name] = Join([]byte{0}, Leb(uint64(function)))
	return b
}

// Memory gives the module a memory and exports it. A max of 0 means none.
func (b *Builder) Memory(low, high uint32) *Builder {
	b.memories = [][]byte{limits(nil, low, high)}
	b.exports["memory"] = []byte{2, 0}
	return b
}

// Table adds a table of a reference type, 0x70 for functions and 0x6f for externals.
func (b *Builder) Table(typ byte, low uint32) *Builder {
	b.tables = append(b.tables, limits([]byte{typ}, low, 0))
	return b
}

func limits(prefix []byte, low, high uint32) []byte {
	if high == 0 {
		return Join(prefix, []byte{0}, Leb(uint64(low)))
	}
	return Join(prefix, []byte{1}, Leb(uint64(low)), Leb(uint64(high)))
}

// Global adds a mutable i32 and returns its number.
func (b *Builder) Global(value int32) uint32 {
	b.globals = append(b.globals, Join([]byte{I32, 1}, I32Const(value), []byte{0x0b}))
	return uint32(len(b.globals) - 1)
}

// Start sets the start function.
func (b *Builder) Start(function uint32) *Builder {
	b.start = Leb(uint64(function))
	return b
}

// Elements adds an element segment, written as in the section.
func (b *Builder) Elements(segment []byte) *Builder {
	b.elements = append(b.elements, segment)
	return b
}

// Data puts bytes into memory at an offset.
func (b *Builder) Data(offset int32, content string) *Builder {
	b.data = append(b.data, Join([]byte{0}, I32Const(offset), []byte{0x0b}, Name(content)))
	return b
}

// Custom adds a custom section, after everything else.
func (b *Builder) Custom(name, content string) *Builder {
	b.customs = append(b.customs, Section(Custom, Name(name), []byte(content)))
	return b
}

// Bytes writes the module.
func (b *Builder) Bytes() []byte {
	out := Header()
	vector := func(id byte, items [][]byte) {
		if len(items) > 0 {
			out = append(out, Section(id, Leb(uint64(len(items))), Join(items...))...)
		}
	}
	vector(Type, b.types)
	vector(Import, b.imports)
	vector(Function, b.functions)
	vector(Table, b.tables)
	vector(Memory, b.memories)
	vector(Global, b.globals)
	var exports [][]byte
	for _, name := range slices.Sorted(maps.Keys(b.exports)) {
		exports = append(exports, Join(Name(name), b.exports[name]))
	}
	vector(Export, exports)
	if b.start != nil {
		out = append(out, Section(Start, b.start)...)
	}
	vector(Element, b.elements)
	vector(Code, b.bodies)
	vector(Data, b.data)
	return Join(out, Join(b.customs...))
}
