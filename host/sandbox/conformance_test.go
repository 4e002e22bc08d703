package sandbox_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// TestConformanceOfTheSDK runs the conformance vectors through the guest SDK in
// WebAssembly: the same checks that the SDK's own tests run natively.
func TestConformanceOfTheSDK(t *testing.T) {
	wasm, err := buildModule("./testdata/conformance")
	require.NoError(t, err)
	s := open(t, sandbox.Options{})
	m := load(t, s, wasm, sandbox.Limits{})
	set, err := abitest.Vectors()
	require.NoError(t, err)
	envelope := func(config map[string]any) []byte {
		in := set.Inputs[0].Want
		in.Config, err = json.Marshal(config)
		require.NoError(t, err)
		raw, err := json.Marshal(in)
		require.NoError(t, err)
		return raw
	}
	call := func(export string, input []byte, answer func(f abi.Function, request []byte) []byte) (int32, []byte) {
		code, output, err := m.Call(t.Context(), "tenant", export, input, func(_ context.Context, name string, request []byte) []byte {
			return answer(abi.Function(name), request)
		})
		require.NoError(t, err)
		return code, output
	}

	abitest.CheckRead(t, func(input []byte) (abi.Input, error) {
		// The module has no use for these and does not tell them.
		var seen abi.Input
		var untold struct {
			ABI            int    `json:"abi"`
			Operation      string `json:"operation"`
			DeadlineMillis int64  `json:"deadlineMillis"`
		}
		require.NoError(t, json.Unmarshal(input, &untold))
		code, raw := call(untold.Operation, input, nil)
		require.Zero(t, code, "%s", raw)
		var output abi.Output
		require.NoError(t, json.Unmarshal(raw, &output))
		require.NoError(t, json.Unmarshal(output.State, &seen), "%s", raw)
		seen.ABI, seen.Operation, seen.DeadlineMillis = untold.ABI, untold.Operation, untold.DeadlineMillis
		for _, kind := range []*json.RawMessage{&seen.State, &seen.GenerationState, &seen.StickyState} {
			if string(*kind) == "null" {
				*kind = nil // how the module tells that there is none
			}
		}
		return seen, nil
	})
	abitest.CheckWrite(t, func(c abitest.Conclusion) (int32, []byte) {
		return call(abi.ExportProvision, envelope(map[string]any{"conclude": c}), nil)
	})
	abitest.CheckExchanges(t, func(name string, answer func(abi.Function, []byte) []byte) bool {
		code, _ := call(abi.ExportProvision, envelope(map[string]any{"ask": name}), answer)
		return code != int32(abi.Terminal) // which is what the module answers for a name that it does not know
	})
}
