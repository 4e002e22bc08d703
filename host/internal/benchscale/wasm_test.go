package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/internal/testenv"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// TestSmallModules runs the modules in the sandbox that runs everybody's.
func TestSmallModules(t *testing.T) {
	box, err := sandbox.New(sandbox.Options{Worker: []string{testenv.BuildBinary(t, "./cmd/caisson-worker", "caisson-worker")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, box.Close()) })
	cases := map[string]struct {
		reason string
		module small
		code   int32
		output string
		fault  sandbox.FaultKind
		crash  bool
	}{
		"answers": {reason: "one that is well", module: small{name: "a", answer: `{}`}, output: `{}`},
		"waits":   {reason: "one that yields", module: small{name: "b", answer: `{"reason":"waiting","retryAfterSeconds":1}`, code: 1}, code: 1, output: `{"reason":"waiting","retryAfterSeconds":1}`},
		"hangs":   {reason: "one that is killed at its deadline", module: small{name: "c", body: loops()}, fault: sandbox.FaultTimeout},
		"crashes": {reason: "one that takes its worker along", module: small{name: "d", body: growsTable()}, fault: sandbox.FaultMemory, crash: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			wasm, err := c.module.wasm()
			require.NoError(t, err)
			loaded, err := box.Load(t.Context(), wasm, sandbox.Limits{Timeout: 2 * time.Second, TableElements: tableOfTheModule})
			require.NoError(t, err)
			t.Cleanup(loaded.Close)
			require.JSONEq(t, string(loaded.Manifest()), string(loaded.Described()), "it says of itself what the file does")
			code, output, err := loaded.Call(t.Context(), "tenant", "provision", []byte(`{}`), func(context.Context, string, []byte) []byte { return nil })
			if c.fault != "" {
				var fault *sandbox.Fault
				require.ErrorAs(t, err, &fault)
				require.Equal(t, c.fault, fault.Kind, c.reason)
				require.Equal(t, c.crash, fault.Crashed(), c.reason)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.code, code, c.reason)
			require.Equal(t, c.output, string(output), c.reason)
		})
	}
}

func TestSmallModulesDiffer(t *testing.T) {
	one, err := small{name: "one", answer: `{}`}.wasm()
	require.NoError(t, err)
	two, err := small{name: "two", answer: `{}`}.wasm()
	require.NoError(t, err)
	require.NotEqual(t, one, two, "each has a digest of its own")
	manifest, ok, err := wasmfile.Manifest(one)
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, json.Valid(manifest))
}

func TestLEB128(t *testing.T) {
	for n, want := range map[int][]byte{0: {0}, 63: {63}, 64: {0xc0, 0}, -1: {0x7f}, -64: {0x40}, 128: {0x80, 1}, 624485: {0xe5, 0x8e, 0x26}} {
		require.Equal(t, want, signed(n), "%d", n)
	}
	for n, want := range map[int][]byte{0: {0}, 127: {0x7f}, 128: {0x80, 1}, 624485: {0xe5, 0x8e, 0x26}} {
		require.Equal(t, want, unsigned(n), "%d", n)
	}
}
