package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// limitGuest is a module whose provision runs code with one local of type i64. Its
// functions are 0 alloc, 1 log_info, 2 length, 3 output_set, 4 event; it has a page of
// memory and a table.
func limitGuest(code ...[]byte) []byte {
	user := slices.Concat(wasmSized([]byte("extism:host/user")), wasmSized([]byte("event")), []byte{0, 1})
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	for _, section := range []struct {
		id      byte
		content []byte
	}{
		{1, wasmVector([]byte{0x60, 0, 1, wasmI32}, []byte{0x60, 1, wasmI64, 1, wasmI64}, []byte{0x60, 2, wasmI64, wasmI64, 0}, []byte{0x60, 1, wasmI64, 0})},
		{2, wasmVector(wasmImport("alloc", 1), wasmImport("log_info", 3), wasmImport("length", 1), wasmImport("output_set", 2), user)},
		{3, []byte{2, 0, 0}},
		{4, wasmVector([]byte{wasmExternref, 0, 1})},
		{5, wasmVector([]byte{0, 1})},
		{7, wasmVector(wasmExport(abi.ExportDescribe, 5), wasmExport(abi.ExportProvision, 6), wasmExport(abi.ExportDeprovision, 5))},
		{10, wasmVector(wasmFunction(), wasmFunction(code...))},
	} {
		wasm = slices.Concat(wasm, []byte{section.id}, wasmSized(section.content))
	}
	return wasm
}

func i64Const(v int64) []byte { return append([]byte{opConstI64}, sleb(v)...) }
func i32Const(v int64) []byte { return append([]byte{opConstI32}, sleb(v)...) }

// unlessRefused traps when what is on the stack is -1.
func unlessRefused() []byte { return []byte{opConstI32, 0x7f, 0x46, 0x04, 0x40, 0x00, opEnd} }

// askTimes asks event so often with so many bytes, and answers with the last response.
func askTimes(times int, size int64) []byte {
	return slices.Concat(i64Const(size), []byte{opCall, 0, opSet, 0}, bytes.Repeat([]byte{opGet, 0, opCall, 4, opDrop}, times-1),
		[]byte{opGet, 0, opCall, 4, opSet, 0, opGet, 0, opGet, 0, opCall, 2, opCall, 3})
}

// TestModulesAreHeldToTheirLimits: for each limit a real module that hits it when its
// Module says so, and not when it says more; that is capped by the operator's ceiling, and
// raised by its default.
func TestModulesAreHeldToTheirLimits(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	var logs syncBuffer
	box, err := sandbox.New(sandbox.Options{Worker: []string{program}, CacheDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&logs, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, box.Close()) })
	computes := slices.Concat(i64Const(1_000_000_000), []byte{opSet, 0, 0x03, 0x40, opGet, 0, opConstI64, 1, 0x7d, opSet, 0, opGet, 0, opConstI64, 0, 0x52, 0x0d, 0, opEnd})
	cases := map[string]struct {
		reason    string
		code      []byte
		input     int
		low, high string
		// says is what the call that hits the limit ends with: the reason of its fault, or a
		// part of its answer, or of the log.
		says string
	}{
		"timeout":       {reason: "the host takes a second", code: askTimes(1, 8), low: "200ms", high: "5m", says: abi.ReasonTimeout},
		"cpu":           {reason: "a billion steps", code: computes, low: "20ms", high: "10m", says: abi.ReasonCPUExceeded},
		"memory":        {reason: "ten pages more", code: slices.Concat(i32Const(10), []byte{0x40, 0}, unlessRefused()), low: "640Ki", high: "704Ki", says: abi.ReasonMemoryExceeded},
		"tableElements": {reason: "99 elements more", code: slices.Concat([]byte{opNull, wasmExternref}, i32Const(99), []byte{opTable, 0x0f, 0}, unlessRefused()), low: "99", high: "100", says: abi.ReasonTableExceeded},
		"input":         {reason: "1000 bytes of it", code: nil, input: 1000, low: "999", high: "1000", says: abi.ReasonInputTooLarge},
		"output":        {reason: "1000 bytes of it", code: slices.Concat(i64Const(1000), []byte{opCall, 0}, i64Const(1000), []byte{opCall, 3}), low: "999", high: "1000", says: abi.ReasonOutputTooLarge},
		"hostCalls":     {reason: "and 17 more, which nobody overlooks", code: askTimes(20, 8), low: "3", high: "20", says: abi.ReasonHostCallsExceeded},
		"hostCallSize":  {reason: "a request of 1000 bytes", code: askTimes(1, 1000), low: "999", high: "1000", says: "the request has 1000 bytes, the limit is 999"},
		"hostCallTotal": {reason: "20 requests of 1000 bytes, without end", code: askTimes(20, 1000), low: "3Ki", high: "21Ki", says: abi.ReasonHostBytesExceeded},
		"logLines":      {reason: "two lines", code: slices.Concat(i64Const(3), []byte{opCall, 0, opCall, 1}, i64Const(3), []byte{opCall, 0, opCall, 1}), low: "1", high: "2", says: "1 lines over the limits of this call's log were dropped; it has 1 of 1 lines and 3 of"},
		"logSize":       {reason: "of three bytes each", code: slices.Concat(i64Const(3), []byte{opCall, 0, opCall, 1}, i64Const(3), []byte{opCall, 0, opCall, 1}), low: "5", high: "6", says: "1 lines over the limits of this call's log were dropped; it has 1 of 1000 lines and 3 of 5 bytes"},
	}
	answer := func(context.Context, string, []byte) []byte { return []byte(`{"result":{}}`) }
	for _, field := range limitNames(t) {
		c, listed := cases[field]
		if field == "concurrency" {
			continue // TestConcurrencyOfAModule in host/controller
		}
		require.True(t, listed, "%s has no case", field)
		t.Run(field, func(t *testing.T) {
			wasm := limitGuest(c.code)
			call := func(o host.Options, own string) string {
				t.Helper()
				logs.reset()
				object := &v1alpha1.Module{}
				if own != "" {
					limits := limitsOf(t, field, own)
					object.Spec.Limits = &limits
				}
				m, err := host.LoadModuleObject(t.Context(), box, o, object, wasm)
				require.NoError(t, err)
				defer m.Close()
				respond := answer
				if field == "timeout" {
					respond = func(ctx context.Context, _ string, _ []byte) []byte {
						select {
						case <-time.After(time.Second):
						case <-ctx.Done():
						}
						return answer(ctx, "", nil)
					}
				}
				_, out, err := m.Call(t.Context(), "tenant", abi.ExportProvision, make([]byte, c.input), respond)
				return ending(t, out, err) + logs.String()
			}
			ceiling := host.Options{LimitCeilings: limitsOf(t, field, c.low)}
			require.Contains(t, call(host.Options{}, c.low), c.says, c.reason)
			require.NotContains(t, call(host.Options{}, c.high), c.says, "near miss")
			require.NotContains(t, call(host.Options{DefaultLimits: limitsOf(t, field, c.high)}, ""), c.says)
			require.Contains(t, call(host.Options{DefaultLimits: limitsOf(t, field, c.low)}, ""), c.says)
			require.NotContains(t, call(host.Options{DefaultLimits: limitsOf(t, field, c.low)}, c.high), c.says, "the Module's own wins")
			require.Contains(t, call(ceiling, ""), c.says, "a ceiling holds for who asks for nothing")
			require.Contains(t, call(ceiling, c.low), c.says)

			high := limitsOf(t, field, c.high)
			_, err := host.LoadModuleObject(t.Context(), box, ceiling, &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Limits: &high}}, wasm)
			var refused *host.ModuleError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, v1alpha1.ModuleReasonLimitTooHigh, refused.Reason)
			require.Regexp(t, `^spec\.limits\.`+field+` is .+, and this operator allows .+ at most; `, refused.Message)
		})
	}
}

// TestIsolation: where a module runs is what its Module says, if the operator may.
func TestIsolation(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	box, err := sandbox.New(sandbox.Options{Worker: []string{program}, AllowInProcess: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, box.Close()) })
	asks := limitGuest(askTimes(1, 8))
	for isolation, want := range map[v1alpha1.Isolation]bool{"": false, v1alpha1.IsolationWorker: false, v1alpha1.IsolationInProcess: true} {
		t.Run("Isolation"+string(isolation), func(t *testing.T) {
			require.Eventually(t, func() bool { return box.Workers() == 0 }, time.Minute, time.Millisecond)
			before, during := len(workersOf(os.Getpid())), 0
			m, err := host.LoadModuleObject(t.Context(), box, host.Options{}, &v1alpha1.Module{Spec: v1alpha1.ModuleSpec{Isolation: isolation}}, asks)
			require.NoError(t, err)
			defer m.Close()
			_, _, err = m.Call(t.Context(), "tenant", abi.ExportProvision, nil, func(context.Context, string, []byte) []byte {
				during = len(workersOf(os.Getpid()))
				return []byte(`{"result":{}}`)
			})
			require.NoError(t, err)
			require.Equal(t, want, during == before, "%d workers, and %d before", during, before)
		})
	}
}

// limitNames are the fields of spec.limits.
func limitNames(t *testing.T) []string {
	t.Helper()
	_, err := host.ParseModuleLimits(map[string]string{"?": ""})
	require.Error(t, err)
	_, names, _ := strings.Cut(err.Error(), "there are ")
	return strings.Split(names, ", ")
}

func limitsOf(t *testing.T, name, value string) v1alpha1.ModuleLimits {
	t.Helper()
	l, err := host.ParseModuleLimits(map[string]string{name: value})
	require.NoError(t, err)
	return l
}

// ending is how a call ended: the reason of its fault, or the error that it has as its
// output.
func ending(t *testing.T, out []byte, err error) string {
	t.Helper()
	var fault *sandbox.Fault
	if errors.As(err, &fault) {
		require.Positive(t, fault.Limit, "%v", err)
		require.GreaterOrEqual(t, fault.Got, fault.Limit, "both numbers: %v", err)
		return fault.Reason()
	}
	require.NoError(t, err)
	var response abi.Response
	if json.Unmarshal(out, &response) == nil && response.Error != nil {
		return response.Error.Message
	}
	return ""
}
