//go:build pdks

package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// The tests of this file take the modules that `make examples` builds, with compilers that
// are not needed for anything else; `make test-pdks` runs them.

// built reads a module that examples/build.sh has built.
func built(tb testing.TB, name string) []byte {
	tb.Helper()
	wasm, err := os.ReadFile(filepath.Join("../../.build/examples", name+".wasm"))
	require.NoError(tb, err, "make examples builds it")
	return wasm
}

func TestConformancePDKs(t *testing.T) {
	for name, c := range map[string]struct{ reason string }{
		"go":             {"std Go with the PDK of Extism"},
		"c":              {"clang without a C library, with the imports by hand"},
		"rust":           {"rustc without WASI, with the imports by hand"},
		"assemblyscript": {"the AssemblyScript compiler with the PDK of Extism"},
		"javascript":     {"numbers that were floats, a full memory, a trap after error_set"},
		"python":         {"many megabytes, single bytes, i64 alone"},
		"dotnet":         {"a program that is never started, all of WASI, an exit after error_set"},
		"haskell":        {"hs_init, tail calls, input_offset, a part of a block as output"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Log(c.reason)
			requireConformance(t, built(t, "conformance-"+name))
		})
	}
}

// BenchmarkPDKs is one call that makes one host function, in each language.
func BenchmarkPDKs(b *testing.B) {
	input := []byte(`{"abi":1,"config":{"do":"ask","function":"app_ensure","request":{"repo":"oci://registry.example/charts","chart":"hello","version":"1.0.0"}}}`)
	for _, name := range []string{"go", "c", "rust", "assemblyscript", "javascript", "python", "dotnet", "haskell"} {
		wasm := built(b, "conformance-"+name)
		b.Run(name, func(b *testing.B) {
			bothWays(b, wasm, func(b *testing.B, m *sandbox.Module) {
				b.Helper()
				for b.Loop() {
					code, _, err := m.Call(b.Context(), "tenant", "provision", input, answerConfigMap)
					if err != nil || code != 0 {
						b.Fatal(code, err)
					}
				}
				b.ReportMetric(float64(len(wasm)), "file-bytes")
			})
		})
	}
}
