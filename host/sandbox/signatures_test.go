package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/caisson-dev/caisson/abi"
)

// TestWASISignatures proves that preflight knows exactly what wazero links.
func TestWASISignatures(t *testing.T) {
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	linked, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, linked.ExportedFunctions())
	for name, function := range linked.ExportedFunctions() {
		s, known := wasiSignature(name)
		require.True(t, known, "%s is linked and refused", name)
		require.True(t, s.matches(function.ParamTypes(), function.ResultTypes()), "%s is %s", name, s)
	}
	_, known := wasiSignature("sock_open")
	require.False(t, known)
}

// TestEnvSignatures proves that everything that preflight lets through is linked, with
// the same type: link fails for a function that has no signature.
func TestEnvSignatures(t *testing.T) {
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	_, err := newKernel(ctx, r, envFunctions(func() *call { return nil }, levelInfo), kib)
	require.NoError(t, err)
	functions := r.Module(abi.ImportEnv).ExportedFunctionDefinitions()
	for _, name := range []string{"alloc", "free", "length", "length_unsafe", "load_u8", "load_u64", "store_u8", "store_u64",
		"input_length", "input_offset", "input_load_u8", "input_load_u64", "output_set", "error_set", "config_get", "var_get", "var_set",
		"http_request", "http_status_code", "http_headers", "log_trace", "log_debug", "log_info", "log_warn", "log_error", "get_log_level"} {
		require.Contains(t, functions, name)
		delete(functions, name)
	}
	require.Empty(t, functions)
}

func TestSignatureString(t *testing.T) {
	require.Equal(t, "(i32, i64) -> ()", signature("iI:").String())
	require.False(t, signature("i:").matches([]byte{typeI64}, nil))
	require.False(t, signature("i:").matches([]byte{typeI32}, []byte{typeI32}))
	require.False(t, signature("I:").matches([]byte{0x7d}, nil))
}
