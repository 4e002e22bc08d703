package differential_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// required finds the modules that a go.mod requires.
var required = regexp.MustCompile(`(?m)^\s*([a-z0-9.-]+\.[a-z]+/\S+) (v\S+)`)

func versionsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	versions := map[string]string{}
	for _, match := range required.FindAllStringSubmatch(string(content), -1) {
		versions[match[1]] = match[2]
	}
	return versions
}

// TestVersions holds this module to the product's versions: what is compared and measured
// is the engine that ships, and in the workspace nothing here may raise anything there.
func TestVersions(t *testing.T) {
	product, here := versionsIn(t, filepath.Join(sandboxDir, "..", "..")), versionsIn(t, "..")
	same := 0
	for module, version := range here {
		if shipped, ok := product[module]; ok {
			require.Equal(t, shipped, version, module)
			same++
		}
	}
	require.Greater(t, same, 10)
	require.Contains(t, here, "github.com/tetratelabs/wazero")
}
