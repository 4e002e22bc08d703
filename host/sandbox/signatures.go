package sandbox

import (
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-dev/caisson/abi"
)

// signature writes a function type: a letter for each parameter, a colon, a letter
// for each result; i is i32 and I is i64.
type signature string

// matches reports whether value types of the binary format spell the signature.
func (s signature) matches(params, results []byte) bool {
	want, wantResults, _ := strings.Cut(string(s), ":")
	return spells(params, want) && spells(results, wantResults)
}

func spells(types []byte, letters string) bool {
	if len(types) != len(letters) {
		return false
	}
	for i, t := range types {
		if (t == typeI32) != (letters[i] == 'i') || (t == typeI64) != (letters[i] == 'I') {
			return false
		}
	}
	return true
}

// String writes the signature as Wasm's text format would.
func (s signature) String() string {
	params, results, _ := strings.Cut(string(s), ":")
	spell := func(letters string) string {
		names := make([]string, 0, len(letters))
		for _, l := range letters {
			names = append(names, map[rune]string{'i': "i32", 'I': "i64"}[l])
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return spell(params) + " -> " + spell(results)
}

// userSignature is the type of every host function of [abi.ImportUser].
const userSignature = signature("I:I")

// envSignature returns the type of a function of [abi.ImportEnv], the interface of
// Extism: memory, input, output, configuration, variables, HTTP and logs.
func envSignature(name string) (signature, bool) {
	switch name {
	case "alloc", "length", "length_unsafe", "load_u64", "input_load_u64", "config_get", "var_get":
		return "I:I", true
	case "free", "error_set", "log_trace", "log_debug", "log_info", "log_warn", "log_error":
		return "I:", true
	case "load_u8", "input_load_u8":
		return "I:i", true
	case "store_u8":
		return "Ii:", true
	case "store_u64", "output_set", "var_set":
		return "II:", true
	case "input_length", "input_offset", "http_headers":
		return ":I", true
	case "http_request":
		return "II:I", true
	case "http_status_code", "get_log_level":
		return ":i", true
	default:
		return "", false
	}
}

// wasiSignature returns the type of a function of [abi.ImportWASI]: all of preview 1.
// What needs a file, a socket or an environment fails when it is called.
func wasiSignature(name string) (signature, bool) {
	switch name {
	case "sched_yield":
		return ":i", true
	case "proc_exit":
		return "i:", true
	case "fd_close", "fd_datasync", "fd_sync", "proc_raise":
		return "i:i", true
	case "args_get", "args_sizes_get", "clock_res_get", "environ_get", "environ_sizes_get", "fd_fdstat_get",
		"fd_fdstat_set_flags", "fd_filestat_get", "fd_prestat_get", "fd_renumber", "fd_tell", "random_get", "sock_shutdown":
		return "ii:i", true
	case "fd_filestat_set_size":
		return "iI:i", true
	case "fd_prestat_dir_name", "path_create_directory", "path_remove_directory", "path_unlink_file", "sock_accept":
		return "iii:i", true
	case "clock_time_get":
		return "iIi:i", true
	case "fd_allocate", "fd_fdstat_set_rights":
		return "iII:i", true
	case "fd_read", "fd_write", "poll_oneoff":
		return "iiii:i", true
	case "fd_seek":
		return "iIii:i", true
	case "fd_advise", "fd_filestat_set_times":
		return "iIIi:i", true
	case "path_filestat_get", "path_symlink", "sock_send":
		return "iiiii:i", true
	case "fd_pread", "fd_pwrite", "fd_readdir":
		return "iiiIi:i", true
	case "path_readlink", "path_rename", "sock_recv":
		return "iiiiii:i", true
	case "path_filestat_set_times":
		return "iiiiIIi:i", true
	case "path_link":
		return "iiiiiii:i", true
	case "path_open":
		return "iiiiiIIii:i", true
	default:
		return "", false
	}
}

// checkImport reports why a function cannot be imported, or nil; the caller adds
// where it stands.
func checkImport(module, name string, typ function) *LoadError {
	var want signature
	var known bool
	remedy := ""
	switch module {
	case abi.ImportUser:
		want, known = userSignature, abi.Function(name).Known()
		remedy = "this host speaks ABI version " + strconv.Itoa(abi.Version) + " and offers " + functionNames() + " in " + abi.ImportUser
	case abi.ImportEnv:
		want, known = envSignature(name)
		remedy = "the module was built with a PDK that is newer than this host"
	case abi.ImportWASI:
		want, known = wasiSignature(name)
		remedy = "preview 1 of WASI has no such function"
	case "env":
		remedy = "nothing can be imported from env; link the symbol statically, with AssemblyScript compile with --use abort=<your function>"
	default:
		remedy = "imports are possible from " + abi.ImportUser + ", " + abi.ImportEnv + " and " + abi.ImportWASI
	}
	if !known {
		return &LoadError{Kind: UnknownImport, Remedy: remedy,
			Detail: "the import " + quoteName(name) + " of module " + quoteName(module) + " is unknown"}
	}
	if !typ.is(want) {
		return &LoadError{Kind: WrongSignature,
			Detail: "the import " + quoteName(name) + " of module " + quoteName(module) + " must be of type " + want.String()}
	}
	return nil
}

// functionNames lists the host functions for a person.
func functionNames() string {
	var names []string
	for _, f := range abi.Functions() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// valueTypes returns the signature in wazero's terms.
func (s signature) valueTypes() (params, results []api.ValueType) {
	list := func(letters string) []api.ValueType {
		types := make([]api.ValueType, 0, len(letters))
		for _, l := range letters {
			types = append(types, map[rune]api.ValueType{'i': api.ValueTypeI32, 'I': api.ValueTypeI64}[l])
		}
		return types
	}
	want, wantResults, _ := strings.Cut(string(s), ":")
	return list(want), list(wantResults)
}
