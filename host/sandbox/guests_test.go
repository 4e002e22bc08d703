package sandbox_test

import (
	"context"
	"errors"
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

// conformer runs a conformance module in a real worker.
type conformer struct {
	tb     testing.TB
	module *sandbox.Module
	logs   *logBuffer
}

var _ abitest.Host = (*conformer)(nil)

// Describe implements abitest.Host.
func (c *conformer) Describe() ([]byte, error) { return c.module.Described(), nil }

// Call implements abitest.Host.
func (c *conformer) Call(operation string, envelope []byte, answer func(abi.Function, []byte) []byte) (abitest.Run, error) {
	c.logs.reset()
	code, output, err := c.module.Call(c.tb.Context(), "tenant", operation, envelope, func(_ context.Context, name string, request []byte) []byte {
		return answer(abi.Function(name), request)
	})
	run := abitest.Run{Code: code, Output: output, Log: strings.Split(c.logs.String(), "\n")}
	var fault *sandbox.Fault
	if errors.As(err, &fault) && fault.Kind == sandbox.FaultTrap {
		run.Trapped, run.ErrorText, err = true, fault.GuestError, nil
	}
	return run, err
}

// requireConformance checks a conformance module both ways: with an instance whose state
// is put back after a call, and with one for each call.
func requireConformance(t *testing.T, wasm []byte) {
	t.Helper()
	for name, ways := range map[string]struct {
		reason string
		fresh  bool
	}{
		"Restored": {reason: "memory and globals are put back"},
		"Fresh":    {reason: "the initialiser runs each time", fresh: true},
	} {
		t.Run(name, func(t *testing.T) {
			logs := &logBuffer{}
			s := open(t, sandbox.Options{Logger: logs.logger()})
			m := load(t, s, wasm, sandbox.Limits{})
			require.Empty(t, m.FreshReason(), "every PDK makes modules whose state can be put back")
			if ways.fresh {
				sandbox.ServeFresh(m)
				sandbox.KillWorkers(t, s)
			}
			abitest.CheckGuest(t, &conformer{tb: t, module: m, logs: logs})
			require.Equal(t, ways.fresh, s.Stats().RestoredCalls == 0, ways.reason)
		})
	}
}

// TestConformanceGo checks std Go with Extism's PDK; what needs other compilers is in
// pdks_test.go.
func TestConformanceGo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "conformance.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, "../../examples/module-go/conformance")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, string(text))
	wasm, err := os.ReadFile(out)
	require.NoError(t, err)
	requireConformance(t, wasm)
}
