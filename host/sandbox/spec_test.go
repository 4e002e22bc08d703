package sandbox

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// specSection returns a part of abi/SPEC.md, from a heading to the next one that begins
// with until.
func specSection(t *testing.T, heading, until string) string {
	t.Helper()
	text, err := os.ReadFile("../../abi/SPEC.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "\n"+heading+"\n")
	require.True(t, found, "SPEC.md has no %q", heading)
	before, _, found := strings.Cut(after, "\n"+until)
	require.True(t, found)
	return before
}

// TestSpecImports holds the table of Extism's functions against the signatures that the
// preflight enforces, in both directions.
func TestSpecImports(t *testing.T) {
	text := specSection(t, "### `extism:host/env`", "#")
	quoted := regexp.MustCompile("`([^`]+)`")
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		names := quoted.FindAllStringSubmatch(cells[0], -1)
		types := quoted.FindAllStringSubmatch(cells[1], -1)
		for i, name := range names {
			typ := types[min(i, len(types)-1)][1]
			want, known := envSignature(name[1])
			require.True(t, known, "%s is in SPEC.md and not linked", name[1])
			require.Equal(t, strings.ReplaceAll(want.String(), "-> (i32)", "-> i32"), strings.ReplaceAll(strings.ReplaceAll(typ, "-> i64", "-> (i64)"), "-> (i32)", "-> i32"), name[1])
			seen[name[1]] = true
		}
	}
	for name := range envFunctions(func() *call { return nil }, levelInfo) {
		require.True(t, seen[name], "%s is linked and not in SPEC.md", name)
	}
	for name := range seen {
		_, known := envSignature(name)
		require.True(t, known)
	}
}

// TestSpecLimits holds the table of limits against the defaults.
func TestSpecLimits(t *testing.T) {
	text := specSection(t, "## 10. Limits", "## ")
	l := DefaultLimits()
	require.Equal(t, 30*time.Second, l.Timeout)
	require.Equal(t, []int{l.InputBytes, l.InputBytes}, []int{l.OutputBytes, l.HostCallBytes}, "they share a row")
	for row, ok := range map[string]bool{
		"| time of a call, host functions included | 30 s |":         l.Timeout == 30*time.Second,
		"| linear memory | 128 MiB |":                                l.MemoryBytes == 128*mib,
		"| the file | 32 MiB |":                                      l.ModuleBytes == 32*mib,
		"| the manifest | 256 KiB |":                                 wasmfile.MaxManifestBytes == 256*kib,
		"| all Extism blocks of a call together | 64 MiB |":          l.ArenaBytes == 64*mib,
		"| Extism variables of a call | 1 MiB |":                     maxVariableBytes == 1*mib,
		"| input, output, request, response, each | 4 MiB |":         l.InputBytes == 4*mib,
		"| host functions in a call | 1000 |":                        l.HostCalls == 1000,
		"| lines, and bytes, in the log of a call | 1000, 256 KiB |": l.LogLines == 1000 && l.LogBytes == 256*kib,
	} {
		require.Contains(t, text, row)
		require.True(t, ok, "the default is another than SPEC.md says: %s", row)
	}
}
