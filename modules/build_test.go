package modules_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// What a module may weigh, in bytes: one that reads its config itself, and one whose config
// goes through encoding/json. A cluster compiles and keeps each distinct module, so growth
// is paid for everywhere.
const (
	leanBudget    = 3_500_000
	decodedBudget = 5_500_000
)

// TestBuild builds each first-party module as `caisson module build` does. The imports
// are what a host enforces, so they must be exactly what the manifest declares.
func TestBuild(t *testing.T) {
	cases := map[string]struct {
		reason string
		want   []abi.Function
	}{
		"cilium":  {reason: "a module without questions only installs", want: []abi.Function{abi.AppEnsure, abi.AppRemove}},
		"storage": {reason: "a Secret is one import more", want: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.SecretRead}},
		"ingress": {reason: "listing does not drag in the other ways to objects", want: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.KubeList}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wasm := build(t, name)
			require.LessOrEqual(t, len(wasm), leanBudget, "size of %s", name)
			t.Logf("%s: %d bytes", name, len(wasm))
			for _, function := range heavy() {
				require.False(t, bytes.Contains(wasm, []byte(function)), "%s is linked in; does the module decode into a variable?", function)
			}

			imports, err := wasmfile.Imports(wasm)
			require.NoError(t, err)
			var functions []abi.Function
			for _, i := range imports {
				require.Contains(t, []string{abi.ImportEnv, abi.ImportUser, abi.ImportWASI}, i.Module)
				if i.Module == abi.ImportUser {
					functions = append(functions, abi.Function(i.Name))
				}
			}
			slices.Sort(functions)
			require.Equal(t, c.want, functions, c.reason)

			exports, err := wasmfile.Exports(wasm)
			require.NoError(t, err)
			var names []string
			for _, e := range exports {
				if e.Kind == wasmfile.KindFunc {
					names = append(names, e.Name)
				}
			}
			for _, want := range []string{"_initialize", abi.ExportDescribe, abi.ExportProvision, abi.ExportDeprovision} {
				require.Contains(t, names, want)
			}
		})
	}
}

// heavy are functions whose names are in a module if it links what lean modules do without.
func heavy() []string {
	return []string{"encoding/json.(*decodeState)", "encoding/json.Marshal", "fmt.(*pp)"}
}

// TestBuildDecoded builds a module whose config is decoded into a struct. That the heavy
// functions are found in it shows that the test above would find them.
func TestBuildDecoded(t *testing.T) {
	wasm := build(t, "testdata/decoded")
	require.LessOrEqual(t, len(wasm), decodedBudget)
	t.Logf("decoded: %d bytes", len(wasm))
	for _, function := range heavy() {
		require.True(t, bytes.Contains(wasm, []byte(function)), "%s", function)
	}
}

// TestEveryModuleIsBuilt keeps the table above complete.
func TestEveryModuleIsBuilt(t *testing.T) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var found []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "testdata" {
			found = append(found, e.Name())
			require.FileExists(t, filepath.Join(e.Name(), "README.md"))
		}
	}
	require.Equal(t, []string{"cilium", "ingress", "storage"}, found)
}

func build(t *testing.T, name string) []byte {
	t.Helper()
	// The go command remembers test results by the files that the test itself has read, so
	// it has to see the sources that its child compiles.
	for _, dir := range []string{name, "../guest-sdk", "../guest-sdk/internal/wire", "../abi"} {
		sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, source := range sources {
			_, err := os.ReadFile(source)
			require.NoError(t, err)
		}
	}
	out := filepath.Join(t.TempDir(), name+".wasm")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, "./"+name)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	wasm, err := os.ReadFile(out)
	require.NoError(t, err)
	return wasm
}
