package wasmtest

// Leavers are modules that leave something behind in their instance, or behind it in the
// host, and whose provision returns what it finds of that. A call that comes after others
// must answer like the first one.
func Leavers() map[string][]byte {
	return map[string][]byte{
		"nothing":          Returns(3),
		"global":           Counts(),
		"data":             countsInData(),
		"grown memory":     growsTwice(1, 0),
		"full memory":      growsTwice(1, 2),
		"no memory":        growsTwice(0, 0),
		"refused memory":   Allocates(),
		"table":            setsTable(),
		"half of a call":   trapsHalfway(),
		"exit":             Exits(0),
		"closed stream":    closesStream(),
		"variable":         setsVariable(),
		"blocks":           fillsBlock(),
		"output and error": sometimesAnswers(),
		"input":            Echo(),
		"host call":        Asks("event", 2),
		"half a line":      Writes(1, "half a line", I32Const(0)),
		"start":            countsFromStart(),
		"printed early":    printsEarly(),
		"block made early": allocatesEarly(),
		"input read early": readsInputEarly(),
		"asked early":      asksEarly(),
		"trap early":       trapsEarly(),
	}
}

// hasInput pushes 1 if the call has an input, and 0 otherwise.
func hasInput(length uint32) []byte { return Join(Call(length), I64Const(0), []byte{0x52}) }

// If runs a body if the top of the stack is not 0.
func If(body ...[]byte) []byte { return Join([]byte{0x04, 0x40}, Join(body...), []byte{0x0b}) }

// LoadI32 pops an address and pushes what is there.
func LoadI32() []byte { return []byte{0x28, 2, 0} }

func countsInData() []byte {
	return New().Memory(1, 0).Data(16, "\x05").Provisioner(
		I32Const(16), I32Const(16), LoadI32(), I32Const(1), AddI32(), StoreI32(), I32Const(16), LoadI32())
}

// growsTwice returns the size of its memory, in pages, plus what is in the pages that it
// then adds; it writes there.
func growsTwice(low, high uint32) []byte {
	end := int32(low) * 65536
	grow := Join(I32Const(1), GrowMemory(), Drop())
	return New().Memory(low, high).Provisioner([]byte{0x3f, 0}, grow, grow,
		I32Const(end+8), LoadI32(), AddI32(), I32Const(end+8), I32Const(100), StoreI32())
}

// setsTable returns 1 while the first element of its table is null.
func setsTable() []byte {
	return New().Table(0x70, 1).Provisioner(I32Const(0), []byte{0x25, 0, 0xd1}, I32Const(0), []byte{0xd2, 0, 0x26, 0})
}

// trapsHalfway returns a global; with an input it changes that and its memory, and traps.
func trapsHalfway() []byte {
	b := New()
	length := b.Import(Env, "input_length", none(), i64())
	g := b.Global(7)
	return b.Memory(1, 0).Provisioner(
		hasInput(length), If(I32Const(8), SetGlobal(g), I32Const(0), I32Const(9), StoreI32(), I32Const(20), GrowMemory(), Drop(), Unreachable()),
		GetGlobal(g), I32Const(0), LoadI32(), AddI32(), []byte{0x3f, 0}, AddI32())
}

// closesStream returns the error number of writing to its standard output, and closes it.
func closesStream() []byte {
	b := New()
	write := b.Import(WASI, "fd_write", []byte{I32, I32, I32, I32}, i32())
	closes := b.Import(WASI, "fd_close", i32(), i32())
	return b.Memory(1, 0).Data(16, "text\n").Provisioner(
		I32Const(0), I32Const(16), StoreI32(), I32Const(4), I32Const(5), StoreI32(),
		I32Const(1), I32Const(0), I32Const(1), I32Const(8), Call(write), I32Const(1), Call(closes), Drop())
}

// setsVariable returns the length of a variable, and sets it.
func setsVariable() []byte {
	b := New()
	alloc := b.Import(Env, "alloc", i64(), i64())
	length := b.Import(Env, "length", i64(), i64())
	get := b.Import(Env, "var_get", i64(), i64())
	set := b.Import(Env, "var_set", i64i64(), none())
	key := Join(I64Const(3), Call(alloc))
	return b.Provisioner(key, Call(get), Call(length), []byte{0xa7}, key, I64Const(50), Call(alloc), Call(set))
}

// fillsBlock returns what is in a new block, plus its offset, and fills it.
func fillsBlock() []byte {
	b := New()
	alloc := b.Import(Env, "alloc", i64(), i64())
	load := b.Import(Env, "load_u64", i64(), i64())
	store := b.Import(Env, "store_u64", i64i64(), none())
	return b.Provisioner(I64Const(1000), Call(alloc), Set(0),
		Get(0), I64Const(992), []byte{0x7c}, Call(load), Get(0), []byte{0x7c, 0xa7},
		Get(0), I64Const(992), []byte{0x7c}, I64Const(-1), Call(store))
}

// sometimesAnswers gives an output and an error when it has an input.
func sometimesAnswers() []byte {
	b := New()
	length := b.Import(Env, "input_length", none(), i64())
	offset := b.Import(Env, "input_offset", none(), i64())
	output := b.Import(Env, "output_set", i64i64(), none())
	fail := b.Import(Env, "error_set", i64(), none())
	return b.Provisioner(hasInput(length), If(Call(offset), Call(length), Call(output), Call(offset), Call(fail)), I32Const(2))
}

func countsFromStart() []byte {
	b := New()
	g := b.Global(0)
	count := Join(GetGlobal(g), I32Const(1), AddI32(), SetGlobal(g))
	b.Start(b.Func(none(), none(), 0, count))
	return b.Provisioner(count, GetGlobal(g))
}

// printsEarly begins a line in its initialiser and ends it in the call.
func printsEarly() []byte {
	b := New()
	write := b.Import(WASI, "fd_write", []byte{I32, I32, I32, I32}, i32())
	say := func(fd, text, length int32) []byte {
		return Join(I32Const(0), I32Const(text), StoreI32(), I32Const(4), I32Const(length), StoreI32(),
			I32Const(fd), I32Const(0), I32Const(1), I32Const(8), Call(write), Drop())
	}
	b.Memory(1, 0).Data(16, "beginning").Data(32, " and end\n").Data(48, "warning\n")
	b.Export("_initialize", b.Func(none(), none(), 0, say(1, 16, 9), say(2, 48, 8)))
	return b.Provisioner(say(1, 32, 9), I32Const(0))
}

// allocatesEarly keeps a block that its initialiser makes, and returns what is in it.
func allocatesEarly() []byte {
	b := New()
	alloc := b.Import(Env, "alloc", i64(), i64())
	load := b.Import(Env, "load_u64", i64(), i64())
	store := b.Import(Env, "store_u64", i64i64(), none())
	g := b.Global(0)
	block := Join(GetGlobal(g), []byte{0xad})
	b.Export("_initialize", b.Func(none(), none(), 0,
		I64Const(8), Call(alloc), []byte{0xa7}, SetGlobal(g), block, I64Const(42), Call(store)))
	return b.Provisioner(block, Call(load), []byte{0xa7})
}

// readsInputEarly returns the first byte of the input, which its initialiser has read.
func readsInputEarly() []byte {
	b := New()
	load := b.Import(Env, "input_load_u8", i64(), i32())
	g := b.Global(0)
	b.Export("_initialize", b.Func(none(), none(), 0, I64Const(0), Call(load), SetGlobal(g)))
	return b.Provisioner(GetGlobal(g))
}

// asksEarly calls a host function in its initialiser.
func asksEarly() []byte {
	b := New()
	offset := b.Import(Env, "input_offset", none(), i64())
	ask := b.Import(User, "event", i64(), i64())
	g := b.Global(0)
	b.Export("_initialize", b.Func(none(), none(), 0, Call(offset), Call(ask), []byte{0xa7}, SetGlobal(g)))
	return b.Provisioner(GetGlobal(g))
}

func trapsEarly() []byte {
	b := New()
	b.Export("_initialize", b.Func(none(), none(), 0, Unreachable()))
	return b.Provisioner(I32Const(0))
}
