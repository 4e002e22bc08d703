package wasmtest

import (
	"maps"
	"strings"
)

// manifests declare what is not so.
func manifests() []Attack {
	forge := func(name, tries, manifest string) Attack {
		return Attack{Name: name, Tries: tries, By: ByManifest, build: func(b *Builder) []byte {
			b.declares = manifest
			return b.Provisioner(I32Const(0))
		}}
	}
	return []Attack{
		forge("manifest-other", "declaring less than describe does", `{"abi":1,"name":"innocent","version":"1.0.0"}`),
		forge("manifest-empty", "a manifest without anything", ` `),
		forge("manifest-deep", "a manifest of 100,000 levels", strings.Repeat("[", 100_000)),
		forge("manifest-bytes", "a manifest that is no text", "{\"abi\":1,\"name\":\"\xff\xfe\"}"),
		forge("manifest-version", "an ABI of the future", `{"abi":99,"name":"attack","version":"1.0.0"}`),
		{Name: "manifest-twice", Tries: "two manifests, of which one was looked at", By: ByPreflight, build: func(*Builder) []byte {
			return New().Custom(manifestSection, "{}").Custom(manifestSection, "{}").Provisioner(I32Const(0))
		}},
		{Name: "manifest-large", Tries: "a manifest of a megabyte", By: ByPreflight, build: func(*Builder) []byte {
			return New().Custom(manifestSection, strings.Repeat(" ", 1<<20)).Provisioner(I32Const(0))
		}},
	}
}

// text makes a block of a text and leaves its offset in local 0; alloc and store are the
// numbers of the functions of Extism.
func text(alloc, store uint32, content string) []byte {
	parts := [][]byte{I64Const(int64(len(content))), Call(alloc), Set(0)}
	for at := 0; at < len(content); at += 8 {
		var word int64
		for i := range min(8, len(content)-at) {
			word |= int64(content[at+i]) << (8 * i)
		}
		if at+8 > len(content) { // the last word would not fit
			for i := range len(content) - at {
				parts = append(parts, Get(0), I64Const(int64(at+i)), []byte{0x7c}, I32Const(int32(content[at+i])), Call(store+1))
			}
			break
		}
		parts = append(parts, Get(0), I64Const(int64(at)), []byte{0x7c}, I64Const(word), Call(store))
	}
	return Join(parts...)
}

// importText imports what text needs.
func (b *Builder) importText() (alloc, store uint32) {
	alloc = b.Import(Env, "alloc", i64(), i64())
	store = b.Import(Env, "store_u64", i64i64(), none())
	b.Import(Env, "store_u8", []byte{I64, I32}, none())
	return alloc, store
}

// output is the code that returns a text as the output.
func (b *Builder) output(content string, then ...[]byte) []byte {
	alloc, store := b.importText()
	set := b.Import(Env, "output_set", i64i64(), none())
	return Join(text(alloc, store, content), Get(0), I64Const(int64(len(content))), Call(set), Join(then...))
}

// answers are outputs that are not what they should be.
func answers() []Attack {
	says := func(name, tries, node, content string, number int32) Attack {
		a := code(name, tries, ByValue, func(b *Builder) []byte { return b.output(content, I32Const(number)) })
		a.Node = node
		return a
	}
	filled := func(name, tries string, by Containment, size, claimed int64, fill byte) Attack {
		return code(name, tries, by, func(b *Builder) []byte {
			alloc := b.Import(Env, "alloc", i64(), i64())
			store := b.Import(Env, "store_u8", []byte{I64, I32}, none())
			set := b.Import(Env, "output_set", i64i64(), none())
			loop := Join(Get(0), Get(1), []byte{0x7c}, I32Const(int32(fill)), Call(store), Get(1), I64Const(1), []byte{0x7c}, Set(1),
				Get(1), I64Const(size), []byte{0x53, 0x0d, 0}) // i64.lt_s, br_if
			if fill == 0 {
				loop = nil
			}
			return Join(I64Const(size), Call(alloc), Set(0), []byte{0x03, 0x40}, loop, []byte{0x0b}, Get(0), I64Const(claimed), Call(set), I32Const(0))
		})
	}
	deep := filled("output-deep", "a million levels of JSON", ByValue, 1<<20, 1<<20, '[')
	deep.Node = "module_bad_output"
	return []Attack{
		filled("output-bomb", "an output over its limit", ByOutput, 5<<20, 5<<20, 0),
		filled("output-behind", "an output that reaches behind its block", ByValue, 64, 1<<40, 0),
		deep,
		says("output-bytes", "an output that is no text", "module_bad_output", "{\"why\":\"\xff\xfe\xc0\x80\"}", 2),
		says("output-half", "half of a JSON document", "module_bad_output", `{"reason":"x`, 2),
		says("output-types", "numbers where texts are meant", "module_bad_output", `{"reason":7,"facts":"none"}`, 2),
		says("output-number", "a number that no float holds", "module_bad_output", `{"retryAfterSeconds":1e999999999}`, 2),
		says("output-reason", "a reason that nobody could inspect", "unspecified", `{"reason":"give_me_your_password"}`, 3),
		says("output-markup", "a reason that controls a terminal", "unspecified", `{"reason":"\u001b[2J<script>"}`, 3),
		says("output-forged", "what only the host can say of a module", "unspecified", `{"reason":"module_faulted"}`, 4),
		says("output-later", "a retry in a billion years", "unspecified", `{"retryAfterSeconds":9223372036854775807}`, 2),
	}
}

// floods want more of the host than they are meant to have.
func floods() []Attack {
	logging := func(name, tries, content string, times int) Attack {
		return code(name, tries, ByValue, func(b *Builder) []byte {
			alloc, store := b.importText()
			say := b.Import(Env, "log_error", i64(), none())
			return Join(Repeat(times, text(alloc, store, content), Get(0), Call(say)), I32Const(0))
		})
	}
	asking := func(name, function, request string, times int) Attack {
		by := ByValue
		if times > 1_000 {
			by = ByHostCalls
		}
		return code("calls-"+dashed(function), name, by, func(b *Builder) []byte {
			alloc, store := b.importText()
			ask := b.Import(User, function, i64(), i64())
			return Join(text(alloc, store, request), Repeat(times, Get(0), Call(ask), Drop()), I32Const(0))
		})
	}
	return []Attack{
		code("logs-loop", "log lines without end", ByTimeout, func(b *Builder) []byte {
			alloc, store := b.importText()
			say := b.Import(Env, "log_warn", i64(), none())
			return Join(text(alloc, store, "there is no end to this"), Loop(Get(0), Call(say), text(alloc, store, "nor to this")), I32Const(0))
		}),
		logging("logs", "more log lines than there may be", "attack", 3_000),
		logging("logs-markup", "log lines that look like others, and control a terminal", "%s%n\n2026-01-01 ERROR forged\x1b[2J\xff", 3),
		code("stderr", "endless lines on standard error", ByTimeout, func(b *Builder) []byte {
			write := b.Import(WASI, "fd_write", []byte{I32, I32, I32, I32}, i32())
			b.Memory(2, 0)
			return Join(I32Const(0), I32Const(16), StoreI32(), I32Const(4), I32Const(65_536), StoreI32(),
				Loop(I32Const(2), I32Const(0), I32Const(1), I32Const(8), Call(write), Drop()), I32Const(0))
		}),
		code("calls-loop", "host calls without end", ByHostCalls, func(b *Builder) []byte {
			alloc, store := b.importText()
			ask := b.Import(User, "event", i64(), i64())
			return Join(text(alloc, store, "{}"), Loop(Get(0), Call(ask), Drop()), I32Const(0))
		}),
		asking("more host calls than there may be", "event", `{"type":"Normal","reason":"flood"}`, 2_000),
		asking("a list of everything, again and again", "kube_list", `{"apiVersion":"v1","kind":"Secret"}`, 50),
		asking("the secrets of the operator", "secret_read", `{"namespace":"caisson-system","name":"caisson-operator","key":"token"}`, 1),
		asking("rights for itself", "kube_apply", `{"object":{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"attack"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"default","namespace":"default"}]}}`, 1),
		asking("the operator's own namespace", "kube_delete", `{"apiVersion":"v1","kind":"Namespace","name":"caisson-system"}`, 1),
		asking("a request of 20,000 levels", "kube_get", strings.Repeat("[", 20_000), 1),
		asking("a request that is no text", "app_ensure", "{\"name\":\"\xff\xfe\"}", 1),
		asking("a request that is no JSON", "app_list", "<xml/>", 1),
		asking("a chart of the file system", "app_remove", `{"name":"../../../etc/passwd"}`, 1),
	}
}

// offsets are addresses that are not there, for every host function that takes one.
func offsets() []Attack {
	bad := []int64{-1, 1 << 40, 1<<32 - 1, 1 << 31, 12_345, 1}
	var all []Attack
	add := func(name string, module string, params, results []byte, code_ func(f uint32) []byte) {
		all = append(all, code("offset-"+dashed(name), "addresses that are not there, for "+name, ByValue, func(b *Builder) []byte {
			f := b.Import(module, name, params, results)
			b.Memory(1, 0)
			return Join(code_(f), I32Const(0))
		}))
	}
	calls := func(params, results []byte) func(f uint32) []byte {
		return func(f uint32) []byte {
			var parts [][]byte
			for _, offset := range bad {
				for _, p := range params {
					if p == I64 {
						parts = append(parts, I64Const(offset))
						continue
					}
					parts = append(parts, I32Const(int32(offset)))
				}
				parts = append(parts, Call(f))
				for range results {
					parts = append(parts, Drop())
				}
			}
			return Join(parts...)
		}
	}
	kernel := func(params, results []byte, names ...string) {
		for _, name := range names {
			add(name, Env, params, results, calls(params, results))
		}
	}
	kernel(i64(), i64(), "length", "length_unsafe", "load_u64", "input_load_u64", "config_get", "var_get")
	kernel(i64(), none(), "free", "error_set", "log_trace", "log_debug", "log_info", "log_warn", "log_error")
	kernel(i64(), i32(), "load_u8", "input_load_u8")
	kernel([]byte{I64, I32}, none(), "store_u8")
	kernel(i64i64(), none(), "store_u64", "output_set", "var_set")
	kernel(i64i64(), i64(), "http_request")
	for _, name := range []string{"app_ensure", "app_remove", "app_list", "kube_get", "kube_list", "kube_apply", "kube_delete", "secret_read", "event"} {
		add(name, User, i64(), i64(), calls(i64(), i64()))
	}
	wasi := map[string][]byte{
		"fd_write": {I32, I32, I32, I32}, "fd_read": {I32, I32, I32, I32}, "random_get": {I32, I32}, "clock_time_get": {I32, I64, I32},
		"args_get": {I32, I32}, "environ_sizes_get": {I32, I32}, "fd_prestat_get": {I32, I32}, "fd_seek": {I32, I64, I32, I32}, "poll_oneoff": {I32, I32, I32, I32},
		"path_open": {I32, I32, I32, I32, I32, I64, I64, I32, I32}, "fd_readdir": {I32, I32, I32, I64, I32}, "path_symlink": {I32, I32, I32, I32, I32},
	}
	for _, name := range sorted(maps.Keys(wasi)) {
		add(name, WASI, wasi[name], i32(), calls(wasi[name], i32()))
	}
	return all
}
