package differential_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
)

// sandboxDir is the directory of package sandbox, whose module is the root of the
// repository.
const sandboxDir = "../.."

// buildGo builds a std Go guest out of a directory of either Go module.
func buildGo(t *testing.T, dir, pkg string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	wasm, err := os.ReadFile(out)
	require.NoError(t, err)
	return wasm
}

// requireSame gives both hosts the same inputs, one call each, and requires the same
// observations but for the named differences.
func requireSame(t *testing.T, wasm []byte, inputs map[string]string, known map[string]difference) {
	t.Helper()
	h := load(t, wasm)
	for name, input := range inputs {
		for _, export := range []string{abi.ExportProvision, abi.ExportDeprovision} {
			t.Run(name+" "+export, func(t *testing.T) {
				s := subject{wasm: wasm, input: input, export: export}
				found := h.deviations(t, s)
				if export == abi.ExportDeprovision {
					require.Empty(t, found)
					return
				}
				require.Equal(t, known[name].deviations, found, "a difference that is not explained, or is no more; the reason given is %q", known[name].reason)
			})
		}
	}
	for name := range known {
		require.Contains(t, inputs, name, "a difference of an input that there is not")
	}
}

// TestGoGuest runs the std Go guest of the sandbox's own tests, which binds Extism by
// hand: what a Go runtime does when it panics, exits or deadlocks.
func TestGoGuest(t *testing.T) {
	inputs := map[string]string{}
	for _, do := range []string{"", "panic", "exit", "deadlock", "leak", "keep"} {
		inputs["do "+do] = fmt.Sprintf(`{"do":%q,"calls":2}`, do)
	}
	inputs["garbage"] = "no JSON"
	inputs["much"] = fmt.Sprintf(`{"do":"","extra":{"a":%q}}`, strings.Repeat("größe", 4_000))
	requireSame(t, buildGo(t, sandboxDir, "./testdata/guest"), inputs, goGuestDifferences())
}

// vectors are all envelopes of the conformance vectors, and those of the benchmark.
var vectors = sync.OnceValues(func() (map[string]string, error) {
	set, err := abitest.Vectors()
	if err != nil {
		return nil, err
	}
	inputs := map[string]string{"nothing": "", "no JSON": "{"}
	for _, v := range set.Inputs {
		inputs[v.Name] = string(v.Envelope)
	}
	for _, c := range leaf.Cases() {
		envelope, err := leaf.Envelope(c)
		if err != nil {
			return nil, err
		}
		inputs[c.String()] = string(envelope)
	}
	return inputs, nil
})

// TestSDKGuest runs a module of the Go SDK on every envelope.
func TestSDKGuest(t *testing.T) {
	inputs, err := vectors()
	require.NoError(t, err)
	requireSame(t, buildGo(t, "..", "./testdata/guests/go"), inputs, nil)
}

// TestFirstPartyModule runs a module that installs an application.
func TestFirstPartyModule(t *testing.T) {
	inputs, err := vectors()
	require.NoError(t, err)
	requireSame(t, buildGo(t, filepath.Join(sandboxDir, "..", ".."), "./modules/ingress"), inputs, nil)
}
