package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// buildModule builds the module in a directory: what the Go SDK makes of a guest.
var buildModule = onceByKey(func(dir string) ([]byte, error) {
	out := filepath.Join(sharedCache, filepath.Base(dir)+".wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, dir)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build module %s: %w: %s", dir, err, text)
	}
	return os.ReadFile(out)
})

// TestVectorsBothWays gives every input of the conformance vectors to a module of the Go
// SDK, with the vectors' own answers to its host functions, and compares a restored
// state with a fresh instance.
func TestVectorsBothWays(t *testing.T) {
	set, err := abitest.Vectors()
	require.NoError(t, err)
	answers := map[string][]byte{}
	for _, e := range set.Exchanges {
		if answers[string(e.Function)] == nil {
			answers[string(e.Function)] = e.Response
		}
	}
	wasm, err := buildModule("../../modules/ingress")
	require.NoError(t, err)
	s := open(t, sandbox.Options{})
	run := func(m *sandbox.Module) []string {
		var seen []string
		for _, input := range set.Inputs {
			for _, export := range []string{abi.ExportProvision, abi.ExportDeprovision} {
				var b strings.Builder
				code, output, err := m.Call(t.Context(), "tenant", export, input.Envelope, func(_ context.Context, name string, request []byte) []byte {
					fmt.Fprintf(&b, "%s %s\n", name, request)
					return answers[name]
				})
				var fault *sandbox.Fault
				if err != nil {
					require.ErrorAs(t, err, &fault)
				}
				fmt.Fprintf(&b, "%s of %s: %d %s %v", export, input.Name, code, output, errors.Unwrap(err))
				seen = append(seen, b.String())
			}
		}
		return seen
	}
	restored := load(t, s, wasm, sandbox.Limits{})
	require.Empty(t, restored.FreshReason())
	got := run(restored)
	require.GreaterOrEqual(t, s.Stats().RestoredCalls, uint64(len(got)/2), "most of them were restored")
	again := run(restored)
	require.Equal(t, got, again, "the second time is like the first")
	fresh := load(t, s, wasm, sandbox.Limits{})
	sandbox.ServeFresh(fresh)
	sandbox.KillWorkers(t, s)
	before := s.Stats().RestoredCalls
	require.Equal(t, run(fresh), got)
	require.Equal(t, before, s.Stats().RestoredCalls)
}
