package wasmtest

import "maps"

// Containment says what stops an attack.
type Containment string

// The ways in which attacks end.
const (
	// ByPreflight: the parser refuses the file, before anything else sees it.
	ByPreflight Containment = "preflight"
	// ByManifest: the manifest is no manifest, or not what describe says. The sandbox does
	// not read manifests, so that here such a module loads.
	ByManifest Containment = "manifest"
	// ByCompiler: the compiler refuses the types of the code.
	ByCompiler Containment = "compiler"
	// ByCompileLimit: the worker that compiles is killed, for its time or its memory.
	ByCompileLimit Containment = "compile limit"
	// ByDescribe: the first call, while the module is loaded, ends in a fault.
	ByDescribe Containment = "describe"
	// ByTimeout: the worker is killed at the deadline of the call.
	ByTimeout Containment = "timeout"
	// ByCPU: the worker is killed when it has computed for as long as a call may, which is
	// 100 ms for these, before the deadline.
	ByCPU Containment = "processor time"
	// ByMemory: the guest is refused more memory.
	ByMemory Containment = "memory"
	// ByTable: the guest is refused a larger table.
	ByTable Containment = "table limit"
	// ByCrash: the worker dies of its own limits, and the module is quarantined for it.
	ByCrash Containment = "quarantine"
	// ByHostCalls: the guest is told that it has used up its host functions, and its call is
	// ended when it goes on.
	ByHostCalls Containment = "host calls"
	// ByTrap: the guest traps or exits, which harms its own call.
	ByTrap Containment = "trap"
	// ByOutput: the output is over its limit.
	ByOutput Containment = "output limit"
	// ByValue: the host answers with a value, drops what is over a limit, or has nothing to
	// fear; the call returns. What the code and output are worth is judged by who called.
	ByValue Containment = "value"
)

// Attack is a module that attacks whoever loads or runs it, with its provision.
type Attack struct {
	// Name is unique, and made of lower-case letters, digits and dashes.
	Name string
	// Tries says what would happen if nobody stopped it.
	Tries string
	// By is what stops it.
	By Containment
	// Node is the reason that a node with it has where By is ByValue, or empty if that node
	// is simply done. For other ways it follows from By.
	Node string
	// Tables is how many elements of a table it is allowed to have, or 0 for the default.
	Tables int
	// Wasm is the module without a manifest.
	Wasm []byte
	// Slow says that it takes a minute or more to be stopped with default limits.
	Slow bool

	build func(*Builder) []byte
}

// With returns the module with the manifest in its section, if it is one that a manifest
// can be given to, and with a describe that returns it.
func (a Attack) With(manifest string) []byte { return a.build(New().Describing(manifest)) }

// Attacks lists all attacks.
func Attacks() []Attack {
	var all []Attack
	for _, part := range [][]Attack{files(), stalls(), hogs(), ends(), names(), manifests(), answers(), floods(), offsets()} {
		all = append(all, part...)
	}
	for i := range all {
		all[i].Wasm = all[i].build(New())
	}
	return all
}

// raw is an attack by a file as a whole.
func raw(name, tries string, wasm []byte) Attack {
	return Attack{Name: name, Tries: tries, By: ByPreflight, build: func(*Builder) []byte { return wasm }}
}

// code is an attack by what provision does.
func code(name, tries string, by Containment, body func(b *Builder) []byte) Attack {
	return Attack{Name: name, Tries: tries, By: by, build: func(b *Builder) []byte { return b.Provisioner(body(b)) }}
}

// plain is code that needs nothing of the builder.
func plain(name, tries string, by Containment, body ...[]byte) Attack {
	return code(name, tries, by, func(*Builder) []byte { return Join(body...) })
}

// files are attacks by the file, on whoever decodes or compiles it.
func files() []Attack {
	tries := map[string]string{
		"importcount": "30 GB for imports that are not there", "elemcount": "19 GB for element segments that are not there",
		"elemvector": "6 GB for elements that are not there", "datalie": "4 GB for data that is not there",
		"funccount": "1 GB for functions that are not there", "typecount": "four billion types that are not there",
		"globals": "GBs for globals that are not there", "exportcount": "GBs for exports that are not there",
		"codecount": "GBs for code that is not there", "namesec": "GBs for names that are not there",
		"namesec_local": "GBs for names of locals that are not there", "sectionlie": "a section longer than the file",
		"leblong": "a number that does not end", "locals_4g": "34 GB of locals in 14 bytes", "locals_10m": "240 MB of locals in 14 bytes",
		"nest": "minutes of compiling 40,000 nested blocks", "brtable": "900 MB for one branch table", "tables": "20 tables of 1 GiB",
		"tablebig": "a table of 32 GiB", "mem4g": "a memory of 4 GiB", "manyfn": "300,000 functions",
	}
	var all []Attack
	for _, name := range sorted(maps.Keys(tries)) {
		all = append(all, raw(dashed(name), tries[name], Bombs()[name]))
	}
	h := Header
	vectors := Repeat(12_000, []byte{0xfd, 0x80, 0, 0x02, 0x40})
	hidden := func() []byte {
		b := New()
		b.RawFunc(Join([]byte{0}, vectors, []byte{0x0b}))
		return b.Provisioner(I32Const(0))
	}
	memory := func() []byte {
		b := New()
		b.ImportMemory(Env, "memory")
		return b.Provisioner(I32Const(0))
	}
	importing := func(module, name string, params, results []byte) []byte {
		b := New()
		b.Import(module, name, params, results)
		return b.Provisioner(I32Const(0))
	}
	all = append(all,
		raw("locals-together", "40 GB of locals, each function within its limit", ManyLocals(120, 50_000)),
		raw("names-hidden", "GBs of names behind a list that ends early", New().Custom("name", "\x01\x08\x00\x01\x00\xff\xff\xff\x7f\x00").Provisioner(I32Const(0))),
		raw("nest-hidden", "nested blocks in what could be numbers of vector instructions", hidden()),
		raw("component", "another format behind the same magic number", []byte("\x00asm\x0d\x00\x01\x00")),
		raw("not-wasm", "a program of the host", []byte("\x7fELF\x02\x01\x01 is not a module")),
		raw("empty", "nothing at all", nil),
		raw("truncated", "a download that broke off", New().Provisioner(I32Const(0))[:40]),
		raw("tags", "a section of a proposal", Join(h(), []byte{13, 1, 0})),
		raw("atomics", "instructions of threads", New().Provisioner([]byte{0xfe, 0, 2, 0}, I32Const(0))),
		raw("shared-memory", "a memory that outlives its instance", Join(h(), Section(Memory, []byte{1, 3, 1, 1}))),
		raw("import-memory", "the memory of the host's kernel", memory()),
		raw("import-unknown", "a host function that does not exist", importing(User, "kube_exec", i64(), i64())),
		raw("import-signature", "a host function of another type", importing(User, "event", none(), none())),
		raw("import-socket", "a WASI function of sockets beyond preview 1", importing(WASI, "sock_open", i32(), i32())),
		raw("import-global", "a function of JavaScript's host", importing("env", "eval", i32(), i32())),
		raw("start-import", "a start function before there is an instance", StartsImport()),
		raw("start-parameters", "a start function with a parameter", startsWith(i64())),
		Attack{Name: "type-mismatch", Tries: "an i64 where an i32 is meant", By: ByCompiler, build: func(b *Builder) []byte { return b.Provisioner(I64Const(0)) }},
		Attack{Name: "compile-bomb", Tries: "minutes of compiling within every cap", By: ByCompileLimit, Slow: true, build: compileBomb},
	)
	return all
}

func startsWith(params []byte) []byte {
	b := New()
	return b.Start(b.Func(params, none(), 0)).Provisioner(I32Const(0))
}

// compileBomb nests as deep as it may, in as many functions as take some minutes.
func compileBomb(b *Builder) []byte {
	for range 560 {
		b.RawFunc(Join([]byte{0}, Repeat(9_000, []byte{0x02, 0x40}), Repeat(9_001, []byte{0x0b})))
	}
	return b.Provisioner(I32Const(0))
}
