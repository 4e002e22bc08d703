package modules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// sizeBudget is what a module whose config goes through encoding/json may weigh. A cluster
// compiles and keeps each distinct module, so growth is paid for everywhere.
const sizeBudget = 5_500_000

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
			require.LessOrEqual(t, len(wasm), sizeBudget, "size of %s", name)
			t.Logf("%s: %d bytes", name, len(wasm))

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

// TestEveryModuleIsBuilt keeps the table above complete.
func TestEveryModuleIsBuilt(t *testing.T) {
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	var found []string
	for _, e := range entries {
		if e.IsDir() {
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
	for _, dir := range []string{name, "../guest-sdk", "../abi"} {
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
