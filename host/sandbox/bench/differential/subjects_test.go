package differential_test

import (
	"strings"

	wt "github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// byteBuilt are the modules that use every function of Extism and of WASI that matters, in
// the right way and in wrong ways.
func byteBuilt() *catalogue {
	c := &catalogue{subjects: map[string]subject{}, used: map[string]int{}}
	memory(c)
	input(c)
	output(c)
	variables(c)
	network(c)
	logs(c)
	hostCalls(c)
	endings(c)
	surroundings(c)
	kernelOnly(c)
	return c
}

func memory(c *catalogue) {
	c.numbers("alloc nothing", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(0), s.call("alloc"))}
	})
	c.numbers("alloc and length", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.block(0, 37), s.call("length")), wt.Join(wt.Get(0), s.call("length_unsafe"))}
	})
	c.numbers("new block is zero", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.block(0, 64), wt.Drop(), s.number(0, 0)), s.number(0, 56)}
	})
	c.numbers("length inside of a block", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.block(0, 37), wt.I64Const(8), add, s.call("length"))}
	})
	c.numbers("length of nothing", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(0), s.call("length")), wt.Join(wt.I64Const(0), s.call("length_unsafe"))}
	})
	c.numbers("length after free", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.block(0, 37), s.call("free"), wt.Get(0), s.call("length"))}
	})
	c.numbers("free twice and nothing", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.block(0, 16), s.call("free"), wt.Get(0), s.call("free"), wt.I64Const(0), s.call("free"), s.block(1, 24), s.call("length"))}
	})
	c.numbers("offset after free", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.block(0, 1<<16), s.call("free"), s.block(1, 1<<16), wt.Get(0), equal)}
	})
	c.numbers("bytes and words", "", func(s *script) [][]byte {
		return [][]byte{
			wt.Join(s.block(0, 16), wt.I64Const(0x1122334455667788), s.call("store_u64"), wt.Get(0), s.call("load_u64")),
			wt.Join(wt.Get(0), wt.I64Const(1), add, s.call("load_u8"), extend),
			wt.Join(wt.Get(0), wt.I64Const(9), add, wt.I32Const(0x1ff), s.call("store_u8"), s.number(0, 2)),
		}
	})
	c.numbers("word across the end", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.block(0, 12), wt.Drop(), s.number(0, 5))}
	})
	for name, offset := range map[string]int64{"0": 0, "1": 1, "2^31": 1 << 31, "-1": -1} {
		c.numbers("load a byte at "+name, "", func(s *script) [][]byte {
			return [][]byte{wt.Join(wt.I64Const(offset), s.call("load_u8"), extend)}
		})
		c.numbers("load a word at "+name, "", func(s *script) [][]byte {
			return [][]byte{wt.Join(wt.I64Const(offset), s.call("load_u64"))}
		})
		c.numbers("store at "+name, "", func(s *script) [][]byte {
			return [][]byte{wt.Join(wt.I64Const(offset), wt.I32Const(7), s.call("store_u8"), wt.I64Const(1))}
		})
		c.numbers("store a word at "+name, "", func(s *script) [][]byte {
			return [][]byte{wt.Join(wt.I64Const(offset), wt.I64Const(0), s.call("store_u64"), wt.I64Const(1))}
		})
	}
	c.numbers("alloc too much", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(1<<33), s.call("alloc"))}
	})
}

func input(c *catalogue) {
	c.put("echo", subject{wasm: wt.Echo(), input: "größe \x00 \xff"})
	c.put("echo much", subject{wasm: wt.Echo(), input: strings.Repeat("0123456789", 20_000)})
	c.put("echo nothing", subject{wasm: wt.Echo()})
	c.numbers("read the input", "0123456789", func(s *script) [][]byte {
		return [][]byte{
			s.call("input_length"),
			wt.Join(wt.I64Const(0), s.call("input_load_u64")), wt.Join(wt.I64Const(1), s.call("input_load_u64")),
			wt.Join(wt.I64Const(9), s.call("input_load_u8"), extend),
			wt.Join(s.call("input_offset"), s.call("length")), wt.Join(s.call("input_offset"), s.call("length_unsafe")),
			wt.Join(s.call("input_offset"), s.call("load_u64")),
		}
	})
	c.numbers("read a byte after the input", "0123456789", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(10), s.call("input_load_u8"), extend)}
	})
	c.numbers("read a word across the end of the input", "0123456789", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(5), s.call("input_load_u64"))}
	})
	c.numbers("read far after the input", "0123456789", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(1<<30), s.call("input_load_u64"))}
	})
	c.numbers("no input", "", func(s *script) [][]byte {
		return [][]byte{s.call("input_length"), s.call("input_offset"), wt.Join(wt.I64Const(0), s.call("input_load_u8"), extend)}
	})
	c.numbers("free the input", "0123456789", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.call("input_offset"), s.call("free"), s.call("input_length"))}
	})
}

func output(c *catalogue) {
	c.add("no output", "x", func(*script) []byte { return wt.I32Const(0) })
	c.add("output of a part", "abcdef", func(s *script) []byte {
		return wt.Join(s.call("input_offset"), wt.I64Const(2), add, wt.I64Const(3), s.call("output_set"), wt.I32Const(0))
	})
	c.add("output twice", "abcdef", func(s *script) []byte {
		return wt.Join(s.text(0, "first"), s.output(), s.text(0, "second"), s.output(), wt.I32Const(0))
	})
	c.add("output and then none", "abcdef", func(s *script) []byte {
		return wt.Join(s.text(0, "first"), s.output(), wt.I64Const(0), wt.I64Const(0), s.call("output_set"), wt.I32Const(0))
	})
	c.add("output that is not there", "abcdef", func(s *script) []byte {
		return wt.Join(s.text(0, "first"), s.output(), wt.I64Const(1<<40), wt.I64Const(5), s.call("output_set"), wt.I32Const(0))
	})
	c.add("output changed afterwards", "", func(s *script) []byte {
		return wt.Join(s.text(0, "first"), s.output(), wt.Get(0), wt.I32Const('F'), s.call("store_u8"), wt.I32Const(0))
	})
	for name, code := range map[string]int32{"1": 1, "4": 4, "-1": -1, "max": 1<<31 - 1} {
		c.add("output and code "+name, "", func(s *script) []byte { return wt.Join(s.text(0, "so"), s.output(), wt.I32Const(code)) })
	}
	c.add("error and code 0", "", func(s *script) []byte {
		return wt.Join(s.text(0, "so"), s.output(), s.text(1, "sad"), s.call("error_set"), wt.I32Const(0))
	})
	c.add("error and code 4", "", func(s *script) []byte {
		return wt.Join(s.text(1, "sad"), s.call("error_set"), wt.I32Const(4))
	})
	c.add("error taken back", "", func(s *script) []byte {
		return wt.Join(s.text(1, "sad"), s.call("error_set"), wt.I64Const(0), s.call("error_set"), wt.I32Const(0))
	})
	c.add("error that is not there", "", func(s *script) []byte {
		return wt.Join(wt.I64Const(1<<40), s.call("error_set"), wt.I32Const(2))
	})
}

func variables(c *catalogue) {
	c.add("variable set and read", "", func(s *script) []byte {
		return wt.Join(s.text(0, "k"), s.text(1, "value"), s.call("var_set"), s.text(0, "k"), s.call("var_get"), s.output(), wt.I32Const(0))
	})
	c.numbers("variable missing", "", func(s *script) [][]byte { return [][]byte{wt.Join(s.text(0, "k"), s.call("var_get"))} })
	c.numbers("variable deleted", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, "k"), s.text(1, "v"), s.call("var_set"), s.text(0, "k"), wt.I64Const(0), s.call("var_set"), s.text(0, "k"), s.call("var_get"))}
	})
	c.add("variable too large", "", func(s *script) []byte {
		return wt.Join(s.text(0, "k"), s.block(1, 1<<20), s.call("var_set"), wt.I32Const(0))
	})
	c.add("variable nearly too large", "", func(s *script) []byte {
		return wt.Join(s.text(0, "k"), s.block(1, 1<<20-1024), s.call("var_set"), wt.I32Const(0))
	})
	c.numbers("key is the host's", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, "k"), s.call("var_get"), wt.Drop(), wt.Get(0), s.call("length"))}
	})
	later := c.write(func(s *script) []byte {
		return s.numbers(wt.Join(s.text(0, "k"), s.call("var_get"), s.call("length"), s.text(0, "k"), s.text(1, "v"), s.call("var_set")))
	})
	c.put("variable in a later call", subject{wasm: later, calls: 2, numbers: true})
	c.numbers("config", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, "key"), s.call("config_get"), s.call("length"))}
	})
	c.numbers("config missing", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, "other"), s.call("config_get"))}
	})
	c.numbers("key of config is the host's", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, "other"), s.call("config_get"), wt.Drop(), wt.Get(0), s.call("length"))}
	})
}

func network(c *catalogue) {
	c.numbers("http status before", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.call("http_status_code"), extend), s.call("http_headers")}
	})
	c.numbers("http", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, `{"url":"http://127.0.0.1:1/"}`), wt.I64Const(0), s.call("http_request")), wt.Join(s.call("http_status_code"), extend)}
	})
}

func logs(c *catalogue) {
	for _, level := range []string{"trace", "debug", "info", "warn", "error"} {
		c.add("log "+level, "", func(s *script) []byte {
			return wt.Join(s.text(0, "the tide is high"), s.call("log_"+level), wt.I32Const(0))
		})
	}
	c.add("log nothing", "", func(s *script) []byte { return wt.Join(wt.I64Const(0), s.call("log_info"), wt.I32Const(0)) })
	c.add("log what is no text", "", func(s *script) []byte {
		return wt.Join(s.text(0, "a\nb\x1b[2J\xff"), s.call("log_info"), wt.I32Const(0))
	})
	c.numbers("log and length", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, "mine"), s.call("log_info"), wt.Get(0), s.call("length"))}
	})
	c.numbers("log level", "", func(s *script) [][]byte { return [][]byte{wt.Join(s.call("get_log_level"), extend)} })
	c.put("standard output", subject{wasm: wt.Writes(1, "said\n", wt.I32Const(0))})
	c.put("standard error", subject{wasm: wt.Writes(2, "said\n", wt.I32Const(0))})
}

func hostCalls(c *catalogue) {
	c.put("ask once", subject{wasm: wt.Asks("kube_get", 1), input: `{"name":"a"}`})
	c.put("ask three times", subject{wasm: wt.Asks("app_list", 3), input: `{}`})
	c.numbers("ask with nothing", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(0), s.call("event"), s.call("length"))}
	})
	c.numbers("ask with what is not there", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(wt.I64Const(1<<31), s.call("event"), s.call("length"))}
	})
	c.numbers("request after asking", "", func(s *script) [][]byte {
		return [][]byte{wt.Join(s.text(0, `{"name":"b"}`), s.call("kube_get"), wt.Drop(), wt.Get(0), s.call("length"))}
	})
	c.numbers("every function", "", func(s *script) [][]byte {
		var lengths [][]byte
		for _, name := range []string{"app_ensure", "app_remove", "app_list", "kube_get", "kube_list", "kube_apply", "kube_delete", "secret_read", "event"} {
			lengths = append(lengths, wt.Join(s.text(0, name), s.call(name), s.call("length")))
		}
		return lengths
	})
}

func endings(c *catalogue) {
	c.add("trap", "", func(*script) []byte { return wt.Unreachable() })
	c.add("error and trap", "", func(s *script) []byte { return wt.Join(s.text(0, "sad"), s.call("error_set"), wt.Unreachable()) })
	c.add("output and trap", "", func(s *script) []byte { return wt.Join(s.text(0, "so"), s.output(), wt.Unreachable()) })
	c.add("load out of memory", "", func(*script) []byte { return wt.Join(wt.I32Const(-4), wt.LoadI32()) })
	c.put("recursion", subject{wasm: wt.Recurses()})
	for name, code := range map[string]int32{"0": 0, "3": 3, "of a deadline": -0x10000001} { // 0xefffffff
		c.put("exit "+name, subject{wasm: wt.Exits(code)})
	}
	c.add("error and exit 0", "", func(s *script) []byte {
		return wt.Join(s.text(0, "sad"), s.call("error_set"), wt.I32Const(0), s.call("proc_exit"), wt.I32Const(0))
	})
	c.put("no such export", subject{wasm: wt.Returns(0), export: "plan"})
	c.put("memory refused", subject{wasm: wt.Allocates()})
}

func surroundings(c *catalogue) {
	c.numbers("environment and arguments", "", func(s *script) [][]byte {
		return [][]byte{
			wt.Join(wt.I32Const(0), wt.I32Const(8), s.call("environ_sizes_get"), extend), wt.Join(wt.I32Const(0), wt.LoadI32(), extend),
			wt.Join(wt.I32Const(0), wt.I32Const(8), s.call("args_sizes_get"), extend), wt.Join(wt.I32Const(0), wt.LoadI32(), extend),
		}
	})
	c.numbers("no file", "", func(s *script) [][]byte {
		open := wt.Join(wt.I32Const(3), wt.I32Const(0), wt.I32Const(0), wt.I32Const(1), wt.I32Const(0), wt.I64Const(0), wt.I64Const(0), wt.I32Const(0), wt.I32Const(8), s.call("path_open"), extend)
		return [][]byte{open, wt.Join(wt.I32Const(3), wt.I32Const(0), s.call("fd_prestat_get"), extend)}
	})
	for name, wasm := range wt.Leavers() {
		// The second call finds what the first one left, or does not.
		c.put("twice: "+name, subject{wasm: wasm, calls: 2, input: "in"})
	}
}

// kernelOnly are the functions that Extism's kernel has for its hosts, and that no PDK
// imports.
func kernelOnly(c *catalogue) {
	c.add("import input_set", "", func(s *script) []byte {
		return wt.Join(wt.I64Const(0), wt.I64Const(0), s.call("input_set"), wt.I32Const(0))
	})
	for _, name := range []string{"output_offset", "output_length", "error_get", "memory_bytes"} {
		c.add("import "+name, "", func(s *script) []byte { return wt.Join(s.call(name), wt.Drop(), wt.I32Const(0)) })
	}
	c.add("import reset", "", func(s *script) []byte { return wt.Join(s.call("reset"), wt.I32Const(0)) })
}
