package wasmtest

import (
	"iter"
	"slices"
	"strings"
)

func sorted(names iter.Seq[string]) []string { return slices.Sorted(names) }

func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }

// stalls never come back.
func stalls() []Attack {
	nothing := none()
	initialize := func(name string, body []byte) func(b *Builder) []byte {
		return func(b *Builder) []byte {
			b.Export(name, b.Func(nothing, nothing, 0, body))
			return b.Provisioner(I32Const(0))
		}
	}
	start := func(body []byte) func(b *Builder) []byte {
		return func(b *Builder) []byte {
			return b.Start(b.Func(nothing, nothing, 0, body)).Provisioner(I32Const(0))
		}
	}
	return []Attack{
		plain("loop", "a loop without end", ByTimeout, Loop(), I32Const(0)),
		plain("compute", "all of the processor until the deadline", ByCPU, Loop(), I32Const(0)),
		code("compute-calls", "the same, with the kernel called now and then", ByCPU, func(b *Builder) []byte {
			length := b.Import(Env, "input_length", none(), i64())
			work := b.Func(nothing, nothing, 0, Repeat(1_000, I32Const(7), Drop()))
			return Join(Loop(Call(length), Drop(), Call(work), Call(work)), I32Const(0))
		}),
		code("expo", "2^45 calls without a loop, which stop a garbage collector", ByTimeout, func(b *Builder) []byte {
			g := b.Global(0)
			f := b.Func(nothing, nothing, 0, GetGlobal(g), I32Const(1), AddI32(), SetGlobal(g))
			for range 44 {
				f = b.Func(nothing, nothing, 0, Call(f), Call(f))
			}
			return Join(Call(f), I32Const(0))
		}),
		code("memfill", "writing 32 GB without a loop", ByTimeout, func(b *Builder) []byte {
			b.Memory(256, 0)
			return Join(Repeat(4_000, I32Const(0), I32Const(1), I32Const(16<<20), []byte{0xfc, 0x0b, 0}), I32Const(0))
		}),
		code("sleep", "a sleep of 13 days", ByTimeout, func(b *Builder) []byte {
			poll := b.Import(WASI, "poll_oneoff", []byte{I32, I32, I32, I32}, i32())
			b.Memory(1, 0)
			return Join(I32Const(16), I32Const(1), StoreI32(), I32Const(24), I64Const(1<<50), StoreI64(), I32Const(0), I32Const(256), I32Const(1), I32Const(512), Call(poll))
		}),
		code("grow-loop", "asking for memory without end, refused or not", ByTimeout, func(b *Builder) []byte {
			b.Memory(1, 0)
			return Join(Loop(I32Const(1), GrowMemory(), Drop()), I32Const(0))
		}),
		code("host-loop", "calling the kernel without end", ByTimeout, func(b *Builder) []byte {
			length := b.Import(Env, "input_length", none(), i64())
			return Join(Loop(Call(length), Drop()), I32Const(0))
		}),
		code("random-loop", "taking all of the host's randomness", ByTimeout, func(b *Builder) []byte {
			random := b.Import(WASI, "random_get", []byte{I32, I32}, i32())
			b.Memory(16, 0)
			return Join(Loop(I32Const(0), I32Const(1<<20), Call(random), Drop()), I32Const(0))
		}),
		{Name: "start-loop", Tries: "a loop in the start function", By: ByDescribe, build: start(Loop())},
		{Name: "start-trap", Tries: "a trap in the start function", By: ByDescribe, build: start(Unreachable())},
		{Name: "initialize-loop", Tries: "a loop in the initialiser", By: ByDescribe, build: initialize("_initialize", Loop())},
		{Name: "initialize-trap", Tries: "a trap in the initialiser", By: ByDescribe, build: initialize("__wasm_call_ctors", Unreachable())},
		{Name: "describe-exit", Tries: "an exit while it is loaded", By: ByDescribe, build: func(b *Builder) []byte {
			exit := b.Import(WASI, "proc_exit", i32(), none())
			return b.Start(b.Func(nothing, nothing, 0, I32Const(0), Call(exit))).Provisioner(I32Const(0))
		}},
	}
}

// hogs take what there is of memory.
func hogs() []Attack {
	refused := []byte{0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b} // == -1, if, unreachable, end
	memory := func(body ...[]byte) func(b *Builder) []byte {
		return func(b *Builder) []byte { b.Memory(1, 0); return Join(body...) }
	}
	table := func(typ byte, n int32) func(b *Builder) []byte {
		return func(b *Builder) []byte {
			b.Table(typ, 1)
			return Join([]byte{0xd0, typ}, I32Const(n), []byte{0xfc, 0x0f, 0})
		}
	}
	allowed := code("table-allowed", "a table of a GiB, which the admin has allowed and the process has not", ByCrash, table(0x6f, 134_217_000))
	allowed.Tables = 1 << 27
	return []Attack{
		code("memory", "all memory, bit by bit", ByMemory, memory(Loop(I32Const(16), GrowMemory(), refused), I32Const(0))),
		code("memory-at-once", "4 GiB in one step, and a trap when refused", ByMemory, memory(I32Const(65_535), GrowMemory(), refused, I32Const(0))),
		code("memory-refused", "4 GiB in one step, and going on when refused", ByValue, memory(I32Const(65_535), GrowMemory(), Drop(), I32Const(0))),
		code("memory-maximum", "a memory that may grow to 4 GiB", ByValue, func(b *Builder) []byte { b.Memory(1, 65_536); return I32Const(0) }),
		code("table", "a table of a GiB, which no limit of memories covers", ByTable, func(b *Builder) []byte { return Join(table(0x6f, 134_217_000)(b), refused, I32Const(0)) }),
		code("table-refused", "a table of a GiB, and going on when refused", ByValue, func(b *Builder) []byte { return Join(table(0x6f, 134_217_000)(b), Drop(), I32Const(0)) }),
		code("table-loop", "a table, bit by bit", ByTable, func(b *Builder) []byte {
			b.Table(0x70, 1)
			return Join(Loop([]byte{0xd0, 0x70}, I32Const(1000), []byte{0xfc, 0x0f, 0}, refused), I32Const(0))
		}),
		allowed,
		code("arena", "an Extism block larger than there can be", ByValue, func(b *Builder) []byte {
			alloc := b.Import(Env, "alloc", i64(), i64())
			return Join(I64Const(1<<50), Call(alloc), Drop(), I64Const(-1), Call(alloc), Drop(), I32Const(0))
		}),
		code("arena-loop", "Extism blocks without end", ByTimeout, func(b *Builder) []byte {
			alloc := b.Import(Env, "alloc", i64(), i64())
			return Join(Loop(I64Const(1<<20), Call(alloc), Drop()), I32Const(0))
		}),
		code("variables", "variables without end", ByTimeout, func(b *Builder) []byte {
			alloc := b.Import(Env, "alloc", i64(), i64())
			set := b.Import(Env, "var_set", i64i64(), none())
			return Join(Loop(I64Const(16), Call(alloc), I64Const(1<<16), Call(alloc), Call(set)), I32Const(0))
		}),
	}
}

// ends leave in every way but the right one.
func ends() []Attack {
	exit := func(name string, number int32) Attack {
		return code(name, "an exit with a code that could be taken for something else", ByTrap, func(b *Builder) []byte {
			leave := b.Import(WASI, "proc_exit", i32(), none())
			return Join(I32Const(number), Call(leave), I32Const(0))
		})
	}
	recursion := func(b *Builder) []byte {
		f := b.next()
		b.Func(none(), i32(), 0, Call(f), I32Const(1), AddI32())
		return Call(f)
	}
	forged := func(name string, number int32) Attack {
		a := plain(name, "a code that is no disposition", ByValue, I32Const(number))
		a.Node = "module_bad_code"
		return a
	}
	wide := func(b *Builder) []byte {
		f := b.next()
		b.Func(none(), i32(), 5_000, Call(f), Get(0), []byte{0xa7}, AddI32())
		return Call(f)
	}
	return []Attack{
		exit("exit-0", 0), exit("exit-1", 1), exit("exit-deadline", -0x10000001), exit("exit-closed", -0x10000002), exit("exit-minus", -1),
		code("recursion", "a stack without end", ByTrap, recursion),
		code("recursion-wide", "a stack without end, of large frames", ByTrap, wide),
		plain("unreachable", "a trap", ByTrap, Unreachable()),
		plain("divide", "a division by zero", ByTrap, I32Const(1), I32Const(0), []byte{0x6e}),
		plain("overflow", "a quotient that does not fit", ByTrap, I32Const(-1<<31), I32Const(-1), []byte{0x6d}),
		plain("truncate", "a number that is none as an integer", ByTrap, []byte{0x43, 0, 0, 0xc0, 0x7f, 0xa8}),
		code("out-of-bounds", "reading behind the memory", ByTrap, func(b *Builder) []byte { b.Memory(1, 0); return Join(I32Const(-16), LoadI32()) }),
		code("null-call", "a call of nothing", ByTrap, func(b *Builder) []byte {
			b.Table(0x70, 1)
			return Join(I32Const(0), []byte{0x11}, b.typeIndex(none(), i32()), []byte{0})
		}),
		code("table-bounds", "a call behind the table", ByTrap, func(b *Builder) []byte {
			b.Table(0x70, 1)
			return Join(I32Const(-1), []byte{0x11}, b.typeIndex(none(), i32()), []byte{0})
		}),
		forged("code-5", 5), forged("code-minus", -1), forged("code-largest", 1<<31-1),
	}
}

// names imitate what belongs to the host.
func names() []Attack {
	var all []Attack
	for _, name := range []string{WASI, Env, User, "env"} {
		all = append(all, Attack{Name: "named-" + strings.NewReplacer(":", "-", "/", "-", "_", "-").Replace(name), Tries: "being imported from in the place of the host", By: ByValue,
			build: func(b *Builder) []byte {
				return b.Custom("name", string(Join([]byte{0}, Name(string(Name(name)))))).Provisioner(I32Const(0))
			}})
	}
	exports := func(names ...string) func(b *Builder) []byte {
		return func(b *Builder) []byte {
			f := b.Func(none(), none(), 0, Unreachable())
			for _, name := range names {
				b.Export(name, f)
			}
			return b.Provisioner(I32Const(0))
		}
	}
	twice := func(*Builder) []byte {
		return Join(Header(), Section(Type, []byte{1, 0x60, 0, 1, 0x7f}), Section(Function, []byte{1, 0}),
			Section(Export, []byte{4}, Name("describe"), []byte{0, 0}, Name("provision"), []byte{0, 0}, Name("deprovision"), []byte{0, 0}, Name("provision"), []byte{0, 0}),
			Section(Code, []byte{1, 4, 0, 0x41, 0, 0x0b}))
	}
	return append(all,
		Attack{Name: "exports-of-the-host", Tries: "exports with names of host functions", By: ByValue, build: exports("alloc", "input_length", "app_ensure", "proc_exit", "memory")},
		Attack{Name: "exports-of-globals", Tries: "exports with the names that the host gives to globals", By: ByValue, build: func(b *Builder) []byte {
			b.Global(1)
			return exports("caisson_global_0", "caisson_global__0", "caisson_global_1")(b)
		}},
		Attack{Name: "export-odd-names", Tries: "exports whose names control a terminal", By: ByValue, build: exports("\x1b[2J", "a\nb", "../../etc/passwd", "")},
		Attack{Name: "export-twice", Tries: "two provisions, of which one was looked at", By: ByPreflight, build: twice},
	)
}
