package differential_test

import (
	"fmt"
	"maps"
	"slices"

	wt "github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// script writes the provision export of a module and imports whatever it calls.
type script struct {
	builder *wt.Builder
	known   map[string]uint32
	// used counts imports of Extism's own module over all scripts.
	used map[string]int
}

// signatures are Extism's own functions: a letter for each parameter and result, i is i32
// and I is i64.
func signatures() map[string]string {
	return map[string]string{
		"alloc": "I:I", "free": "I:", "length": "I:I", "length_unsafe": "I:I", "load_u8": "I:i", "load_u64": "I:I",
		"store_u8": "Ii:", "store_u64": "II:", "input_length": ":I", "input_offset": ":I", "input_load_u8": "I:i", "input_load_u64": "I:I",
		"output_set": "II:", "error_set": "I:", "config_get": "I:I", "var_get": "I:I", "var_set": "II:",
		"http_request": "II:I", "http_status_code": ":i", "http_headers": ":I",
		"log_trace": "I:", "log_debug": "I:", "log_info": "I:", "log_warn": "I:", "log_error": "I:", "get_log_level": ":i",
		// What no PDK imports.
		"input_set": "II:", "output_offset": ":I", "output_length": ":I", "error_get": ":I", "reset": ":", "memory_bytes": ":I",
	}
}

// system are functions of WASI.
func system() map[string]string {
	return map[string]string{
		"proc_exit": "i:", "random_get": "ii:i", "clock_time_get": "iIi:i", "environ_sizes_get": "ii:i",
		"args_sizes_get": "ii:i", "fd_write": "iiii:i", "path_open": "iiiiiIIii:i", "fd_prestat_get": "ii:i",
	}
}

func types(letters string) []byte {
	out := make([]byte, 0, len(letters))
	for _, l := range letters {
		out = append(out, map[rune]byte{'i': wt.I32, 'I': wt.I64}[l])
	}
	return out
}

// call is the call of a function by its name.
func (s *script) call(name string) []byte {
	if index, ok := s.known[name]; ok {
		return wt.Call(index)
	}
	module, signature := wt.User, "I:I"
	if own, ok := signatures()[name]; ok {
		module, signature = wt.Env, own
		s.used[name]++
	} else if wasi, ok := system()[name]; ok {
		module, signature = wt.WASI, wasi
	}
	i := slices.Index([]byte(signature), ':')
	s.known[name] = s.builder.Import(module, name, types(signature[:i]), types(signature[i+1:]))
	return wt.Call(s.known[name])
}

// Instructions that package wasmtest has no need for.
var (
	add    = []byte{0x7c}
	sub    = []byte{0x7d}
	equal  = []byte{0x51, 0xad} // i64.eq, as an i64
	extend = []byte{0xad}       // i32 as an i64
)

// text is the offset of a block with a text, which is kept in a local.
func (s *script) text(local uint32, text string) []byte {
	code := wt.Join(wt.I64Const(int64(len(text))), s.call("alloc"), wt.Set(local))
	for i := range len(text) {
		code = wt.Join(code, wt.Get(local), wt.I64Const(int64(i)), add, wt.I32Const(int32(text[i])), s.call("store_u8"))
	}
	return wt.Join(code, wt.Get(local))
}

// block is the offset of a block of n bytes, which is kept in a local.
func (s *script) block(local uint32, n int64) []byte {
	return wt.Join(wt.I64Const(n), s.call("alloc"), wt.Set(local), wt.Get(local))
}

// number loads a word at an offset from a local.
func (s *script) number(local uint32, at int64) []byte {
	return wt.Join(wt.Get(local), wt.I64Const(at), add, s.call("load_u64"))
}

// numbers makes an output of numbers, which are made one after the other, and returns 0.
// It uses local 3.
func (s *script) numbers(values ...[]byte) []byte {
	code := wt.Join(s.block(3, int64(8*len(values))), wt.Drop())
	for i, value := range values {
		code = wt.Join(code, wt.Get(3), wt.I64Const(int64(8*i)), add, value, s.call("store_u64"))
	}
	return wt.Join(code, wt.Get(3), wt.I64Const(int64(8*len(values))), s.call("output_set"), wt.I32Const(0))
}

// output makes an output of a block that is on the stack and keeps it in local 2.
func (s *script) output() []byte {
	return wt.Join(wt.Set(2), wt.Get(2), wt.Get(2), s.call("length"), s.call("output_set"))
}

// subject is one module and what it is called with.
type subject struct {
	wasm []byte
	// input is that of every call, calls how many there are; 0 means one.
	input string
	calls int
	// numbers says that the output is numbers, to be shown as such.
	numbers bool
	// export is what is called; empty means provision.
	export string
}

// catalogue collects subjects.
type catalogue struct {
	subjects map[string]subject
	used     map[string]int
}

// add adds a module that is written by a script.
func (c *catalogue) add(name, input string, write func(s *script) []byte) {
	c.put(name, subject{wasm: c.write(write), input: input})
}

// numbers adds a module whose output is numbers.
func (c *catalogue) numbers(name, input string, write func(s *script) [][]byte) {
	c.put(name, subject{wasm: c.write(func(s *script) []byte { return s.numbers(write(s)...) }), input: input, numbers: true})
}

func (c *catalogue) write(write func(s *script) []byte) []byte {
	s := &script{builder: wt.New(), known: map[string]uint32{}, used: c.used}
	s.builder.Memory(1, 0)
	body := write(s)
	return s.builder.Provisioner(body)
}

func (c *catalogue) put(name string, s subject) {
	if _, taken := c.subjects[name]; taken {
		panic(fmt.Sprintf("two subjects are named %s", name))
	}
	c.subjects[name] = s
}

func (c *catalogue) names() []string { return slices.Sorted(maps.Keys(c.subjects)) }
