package wasmtest

// The Wasm modules of the Extism interface and of WASI.
const (
	Env  = "extism:host/env"
	User = "extism:host/user"
	WASI = "wasi_snapshot_preview1"
)

func none() []byte   { return nil }
func i32() []byte    { return []byte{I32} }
func i64() []byte    { return []byte{I64} }
func i64i64() []byte { return []byte{I64, I64} }

// Provisioner completes a module: describe and deprovision return 0, and provision is
// the given code of type () -> i32 with four i64 locals.
func (b *Builder) Provisioner(provision ...[]byte) []byte {
	ok := b.Func(none(), i32(), 0, I32Const(0))
	run := b.Func(none(), i32(), 4, provision...)
	describe := ok
	if b.describes != "" {
		i := b.describeImports
		describe = b.Func(none(), i32(), 4, text(i[0], i[1], b.describes), Get(0), I64Const(int64(len(b.describes))), Call(i[2]), I32Const(0))
	}
	if b.declares != "" {
		b.Custom(manifestSection, b.declares)
	}
	return b.Export("describe", describe).Export("deprovision", ok).Export("provision", run).Bytes()
}

// Returns is a module whose provision returns a code.
func Returns(code int32) []byte { return New().Provisioner(I32Const(code)) }

// Echo is a module whose output is its input.
func Echo() []byte {
	b := New()
	offset := b.Import(Env, "input_offset", none(), i64())
	length := b.Import(Env, "input_length", none(), i64())
	set := b.Import(Env, "output_set", i64i64(), none())
	return b.Provisioner(Call(offset), Call(length), Call(set), I32Const(0))
}

// Asks is a module that passes its input to a host function as often as asked and
// whose output is the last response.
func Asks(function string, times int) []byte {
	b := New()
	offset := b.Import(Env, "input_offset", none(), i64())
	length := b.Import(Env, "length", i64(), i64())
	set := b.Import(Env, "output_set", i64i64(), none())
	ask := b.Import(User, function, i64(), i64())
	return b.Provisioner(Repeat(times, Call(offset), Call(ask), Set(0)), Get(0), Get(0), Call(length), Call(set), I32Const(0))
}

// AsksAndTraps is Asks, and then a trap.
func AsksAndTraps(function string, times int) []byte {
	b := New()
	offset := b.Import(Env, "input_offset", none(), i64())
	ask := b.Import(User, function, i64(), i64())
	return b.Provisioner(Repeat(times, Call(offset), Call(ask), Drop()), Unreachable())
}

// Computes is a module that counts down from n, asks a host function once, and returns.
func Computes(n int64, function string) []byte {
	b := New()
	offset := b.Import(Env, "input_offset", none(), i64())
	ask := b.Import(User, function, i64(), i64())
	count := Join(Get(1), I64Const(1), []byte{0x7d}, Set(1), Get(1), I64Const(0), []byte{0x52, 0x0d, 0}) // -, !=, br_if
	return b.Provisioner(I64Const(n), Set(1), []byte{0x03, 0x40}, count, []byte{0x0b}, Call(offset), Call(ask), Drop(), I32Const(0))
}

// Counts is a module whose provision returns how often its instance has been called.
func Counts() []byte {
	b := New()
	g := b.Global(0)
	return b.Provisioner(GetGlobal(g), I32Const(1), AddI32(), SetGlobal(g), GetGlobal(g))
}

// Says is a module that writes a text with an Extism function of type (i64()) -> (),
// log_info or error_set for instance, and then runs more code.
func Says(function, text string, then ...[]byte) []byte {
	b := New()
	alloc := b.Import(Env, "alloc", i64(), i64())
	store := b.Import(Env, "store_u8", []byte{I64, I32}, none())
	say := b.Import(Env, function, i64(), none())
	code := Join(I64Const(int64(len(text))), Call(alloc), Set(0))
	for i := range len(text) {
		code = Join(code, Get(0), I64Const(int64(i)), []byte{0x7c}, I32Const(int32(text[i])), Call(store))
	}
	return b.Provisioner(code, Get(0), Call(say), Join(then...))
}

// Writes is a module that writes a text to a file descriptor and then runs more code.
func Writes(fd int32, text string, then ...[]byte) []byte {
	b := New()
	write := b.Import(WASI, "fd_write", []byte{I32, I32, I32, I32}, i32())
	b.Memory(1+uint32(len(text)/65536), 0).Data(16, text)
	return b.Provisioner(
		I32Const(0), I32Const(16), StoreI32(), I32Const(4), I32Const(int32(len(text))), StoreI32(),
		I32Const(fd), I32Const(0), I32Const(1), I32Const(8), Call(write), Drop(), Join(then...))
}

// Outputs is a module whose output is a block of n zero bytes.
func Outputs(n int64) []byte {
	b := New()
	alloc := b.Import(Env, "alloc", i64(), i64())
	set := b.Import(Env, "output_set", i64i64(), none())
	return b.Provisioner(I64Const(n), Call(alloc), I64Const(n), Call(set), I32Const(0))
}

// Exits is a module that leaves by WASI's proc_exit.
func Exits(code int32) []byte {
	b := New()
	exit := b.Import(WASI, "proc_exit", i32(), none())
	return b.Memory(1, 0).Provisioner(I32Const(code), Call(exit), I32Const(0))
}

// Sleeps is a module that sleeps by WASI's poll_oneoff.
func Sleeps(nanoseconds int64) []byte {
	b := New()
	poll := b.Import(WASI, "poll_oneoff", []byte{I32, I32, I32, I32}, i32())
	return b.Memory(1, 0).Provisioner(
		I32Const(16), I32Const(1), StoreI32(), I32Const(24), I64Const(nanoseconds), StoreI64(),
		I32Const(0), I32Const(256), I32Const(1), I32Const(512), Call(poll))
}

// Allocates is a module that grows its memory for ever and traps when it is refused.
func Allocates() []byte {
	refused := []byte{0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b} // == -1, if, unreachable, end
	return New().Memory(1, 0).Provisioner(Loop(I32Const(16), GrowMemory(), refused), I32Const(0))
}
