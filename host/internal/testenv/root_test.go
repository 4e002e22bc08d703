package testenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeFile writes a file and the directories above it.
func writeFile(t *testing.T, path, content string) {
	t.Helper()

	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
}

func TestModuleRoot(t *testing.T) {
	t.Parallel()

	root, err := ModuleRoot()
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(root, "host", "internal", "testenv"))
	require.FileExists(t, filepath.Join(root, "cmd", "devcluster", "go.mod"))
}

func TestRootAbove(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		reason string
		files  map[string]string
		from   string
		want   string
		err    string
	}{
		"InTheRoot":     {"the directory itself counts", map[string]string{"go.mod": "module " + modulePath + "\n"}, ".", ".", ""},
		"Below":         {"tests run in their package", map[string]string{"go.mod": "// hi\nmodule " + modulePath + " // why\n"}, "a/b", ".", ""},
		"NestedModule":  {"a nested module is not the root", map[string]string{"go.mod": "module " + modulePath, "a/go.mod": "module " + modulePath + "/a\n"}, "a/b", ".", ""},
		"OtherProject":  {"a foreign module is not the root", map[string]string{"go.mod": "module example.com/x\n"}, "a", "", "has the go.mod of"},
		"EmptyGoMod":    {"a broken go.mod is passed over", map[string]string{"go.mod": "module " + modulePath, "a/go.mod": ""}, "a", ".", ""},
		"NoModuleAtAll": {"nothing is found, and said so", nil, "a", "", "has the go.mod of"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := t.TempDir()
			for path, content := range c.files {
				writeFile(t, filepath.Join(dir, path), content)
			}
			root, err := rootAbove(filepath.Join(dir, c.from))
			if c.err != "" {
				require.ErrorContains(t, err, c.err, c.reason)

				return
			}
			require.NoError(t, err, c.reason)
			require.Equal(t, filepath.Join(dir, c.want), root, c.reason)
		})
	}
}
