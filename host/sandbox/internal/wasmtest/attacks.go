package wasmtest

// huge is a count that no module has room for.
const huge = 0x0fffffff

// Bombs are modules that a decoder must refuse before it believes a number in them.
// Most have killed a decoder that did not, by allocating what they claim.
func Bombs() map[string][]byte {
	h := Header
	return map[string][]byte{
		"importcount":   Join(h(), Section(Import, Leb(huge))),
		"elemcount":     Join(h(), Section(Element, Leb(huge))),
		"elemvector":    Join(h(), Section(Element, []byte{1, 0, 0x41, 0, 0x0b}, Leb(huge))),
		"datalie":       Join(h(), Section(Memory, []byte{1, 0, 1}), Section(Data, []byte{1, 0, 0x41, 0, 0x0b}, Leb(0xf0000000))),
		"funccount":     Join(h(), Section(Type, []byte{1, 0x60, 0, 0}), Section(Function, Leb(huge))),
		"typecount":     Join(h(), Section(Type, Leb(0xffffffff))),
		"globals":       Join(h(), Section(Global, Leb(0x07ffffff))),
		"exportcount":   Join(h(), Section(Export, Leb(huge))),
		"codecount":     Join(h(), Section(Code, Leb(huge))),
		"namesec":       Join(h(), Section(Custom, Name("name"), []byte{1}, Leb(5), Leb(huge))),
		"namesec_local": Join(h(), Section(Custom, Name("name"), []byte{2}, Leb(7), []byte{1, 0}, Leb(huge))),
		"sectionlie":    Join(h(), []byte{Type}, Leb(huge)),
		"leblong":       Join(h(), []byte{Type, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0}),
		"locals_4g":     body(Join(Leb(1), Leb(0xffffffff), []byte{I64, 0x0b})),
		"locals_10m":    body(Join(Leb(1), Leb(10_000_000), []byte{I64, 0x0b})),
		"nest":          body(Join([]byte{0}, Repeat(40_000, []byte{0x02, 0x40}), Repeat(40_001, []byte{0x0b}))),
		"brtable":       body(branches(200_000)),
		"tables":        manyTables(),
		"tablebig":      New().Table(0x70, 0xffffffff).Provisioner(I32Const(0)),
		"mem4g":         New().Memory(65536, 0).Provisioner(I32Const(0)),
		"manyfn":        manyFunctions(),
	}
}

// body is a module with one function more than it needs.
func body(code []byte) []byte {
	b := New()
	b.RawFunc(code)
	return b.Provisioner(I32Const(0))
}

// branches is a function with one br_table of n entries.
func branches(n int) []byte {
	table := make([]byte, n)
	for i := range table {
		table[i] = byte(i % 50)
	}
	return Join([]byte{0}, Repeat(50, []byte{0x02, 0x40}), I32Const(0), []byte{0x0e}, Leb(uint64(n)), table, []byte{0}, Repeat(51, []byte{0x0b}))
}

// ManyLocals is a module of n functions with so many locals each.
func ManyLocals(n, locals int) []byte {
	b := New()
	for range n {
		b.RawFunc(Join(Leb(1), Leb(uint64(locals)), []byte{I64, 0x0b}))
	}
	// provision has four locals of its own, which would be too many.
	ok := b.Func(none(), i32(), 0, I32Const(0))
	return b.Export("describe", ok).Export("deprovision", ok).Export("provision", ok).Bytes()
}

func manyTables() []byte {
	b := New()
	for range 20 {
		b.Table(0x70, 1<<27)
	}
	return b.Provisioner(I32Const(0))
}

func manyFunctions() []byte {
	const n = 300_000
	return Join(Header(), Section(Type, []byte{1, 0x60, 0, 0}), Section(Function, Leb(n), make([]byte, n)),
		Section(Code, Leb(n), Repeat(n, []byte{2, 0, 0x0b})))
}

// Stallers are modules that are well-formed and never come back: in the process that
// runs them they would stop the garbage collector, or any timer, or both.
func Stallers() map[string][]byte {
	return map[string][]byte{
		"loop":      New().Provisioner(Loop(), I32Const(0)),
		"expo":      exponential(),
		"memfill":   fills(),
		"sleep":     Sleeps(1 << 50),
		"growloop":  New().Memory(1, 0).Provisioner(Loop(I32Const(1), GrowMemory(), Drop()), I32Const(0)),
		"startloop": startLoops(),
	}
}

// exponential calls itself apart: 45 functions, no loop, 2^45 calls.
func exponential() []byte {
	b := New()
	g := b.Global(0)
	f := b.Func(none(), none(), 0, GetGlobal(g), I32Const(1), AddI32(), SetGlobal(g))
	for range 44 {
		f = b.Func(none(), none(), 0, Call(f), Call(f))
	}
	return b.Provisioner(Call(f), I32Const(0))
}

// fills writes 16 MiB of memory 2,000 times over, without a loop.
func fills() []byte {
	fill := Join(I32Const(0), I32Const(1), I32Const(16<<20), []byte{0xfc, 0x0b, 0})
	return New().Memory(256, 0).Provisioner(Repeat(2_000, fill), I32Const(0))
}

func startLoops() []byte {
	b := New()
	b.Start(b.Func(none(), none(), 0, Loop()))
	return b.Provisioner(I32Const(0))
}

// GrowsTable is a module that asks for a table of a gigabyte, which no limit of
// memories covers.
func GrowsTable() []byte {
	return New().Table(0x6f, 1).Provisioner([]byte{0xd0, 0x6f}, I32Const(134_217_000), []byte{0xfc, 0x0f, 0})
}

// Recurses is a module that calls itself until the stack is full.
func Recurses() []byte {
	b := New()
	return b.Provisioner(Call(1), I32Const(1), AddI32())
}

// StartsImport is a module whose start function is an imported one.
func StartsImport() []byte {
	b := New()
	b.Import(WASI, "sched_yield", none(), i32())
	return b.Start(0).Provisioner(I32Const(0))
}

// Hijacks is a module that calls itself like a module that others import from.
func Hijacks(name string) []byte {
	return New().Custom("name", string(Join([]byte{0}, Name(string(Name(name)))))).Provisioner(I32Const(0))
}
