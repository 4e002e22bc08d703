package sandbox_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// specified is one function of extism:host/env as abi/SPEC.md lists it.
type specified struct {
	name            string
	params, results []byte
}

// specifiedEnv reads the table of the section on imports.
func specifiedEnv(tb testing.TB) []specified {
	tb.Helper()
	text, err := os.ReadFile("../../abi/SPEC.md")
	require.NoError(tb, err)
	_, section, found := strings.Cut(string(text), "### `extism:host/env`")
	require.True(tb, found)
	section, _, _ = strings.Cut(section, "\n### ")
	code := regexp.MustCompile("`([^`]+)`")
	var functions []specified
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		names, types := code.FindAllStringSubmatch(cells[1], -1), code.FindAllStringSubmatch(cells[2], -1)
		require.NotEmpty(tb, types, line)
		for i, name := range names {
			// One type for all of the row, or one for each.
			params, results, ok := strings.Cut(types[min(i, len(types)-1)][1], " -> ")
			require.True(tb, ok, line)
			functions = append(functions, specified{name: name[1], params: valueTypes(tb, params), results: valueTypes(tb, results)})
		}
	}
	return functions
}

// valueTypes reads "(i64, i32)" or "i64".
func valueTypes(tb testing.TB, text string) []byte {
	tb.Helper()
	var types []byte
	for name := range strings.SplitSeq(strings.Trim(text, "()"), ", ") {
		switch name {
		case "i32":
			types = append(types, wasmtest.I32)
		case "i64":
			types = append(types, wasmtest.I64)
		default:
			require.Empty(tb, name)
		}
	}
	return types
}

// TestSpecImports loads a module that imports all that abi/SPEC.md offers, with the types
// that stand there, and calls each function of extism:host/env with nothing but zeros: what
// PDKs do when they are out of memory or have nothing to say must never be a trap.
func TestSpecImports(t *testing.T) {
	functions := specifiedEnv(t)
	require.Len(t, functions, 26, "the table has not been misread")
	b := wasmtest.New()
	var calls [][]byte
	for _, f := range functions {
		index := b.Import(wasmtest.Env, f.name, f.params, f.results)
		for _, p := range f.params {
			if p == wasmtest.I32 {
				calls = append(calls, wasmtest.I32Const(0))
				continue
			}
			calls = append(calls, wasmtest.I64Const(0))
		}
		calls = append(calls, wasmtest.Call(index))
		for range f.results {
			calls = append(calls, wasmtest.Drop())
		}
	}
	for _, f := range abi.Functions() {
		b.Import(wasmtest.User, string(f), []byte{wasmtest.I64}, []byte{wasmtest.I64})
	}
	wasm := b.Provisioner(append(calls, wasmtest.I32Const(0))...)

	m := load(t, open(t, sandbox.Options{}), wasm, sandbox.Limits{})
	require.Len(t, m.Imports(), len(abi.Functions()))
	code, output, err := provision(t, m, []byte("input"))
	require.NoError(t, err)
	require.Zero(t, code)
	require.Empty(t, output)
}

// TestSpecImportsRefused proves that the list is closed: what Extism's own kernel exports
// besides is imported by no PDK, and is refused by its name.
func TestSpecImportsRefused(t *testing.T) {
	s := open(t, sandbox.Options{})
	for _, name := range []string{"reset", "input_set", "output_offset", "output_length", "error_get", "memory_bytes", "alloc2"} {
		b := wasmtest.New()
		b.Import(wasmtest.Env, name, nil, nil)
		_, err := s.Load(t.Context(), b.Provisioner(wasmtest.I32Const(0)), sandbox.Limits{})
		var refused *sandbox.LoadError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, sandbox.UnknownImport, refused.Kind)
		require.ErrorContains(t, err, name)
	}
}
