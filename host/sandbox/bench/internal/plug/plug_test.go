package plug_test

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/plug"
)

// TestMain makes the test binary its own plug-in.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 {
		plug.Serve()
		return
	}
	os.Exit(m.Run())
}

func TestPlugin(t *testing.T) {
	program, err := os.Executable()
	require.NoError(t, err)
	var calls atomic.Int64
	p, err := plug.Start(program, func(f abi.Function, request []byte) []byte {
		calls.Add(1)
		return leaf.Answer(f, request)
	})
	require.NoError(t, err)
	defer p.Close()
	require.Positive(t, p.PID())
	for _, c := range leaf.Cases() {
		envelope, err := leaf.Envelope(c)
		require.NoError(t, err)
		before := calls.Load()
		disposition, output, err := p.Provision(t.Context(), envelope)
		require.NoError(t, err)
		require.Equal(t, abi.OK, disposition, "%s", output)
		require.Contains(t, string(output), `"count":42`)
		require.Equal(t, int64(c.Calls), calls.Load()-before, "%s: every host call comes back over the connection", c)
	}
	disposition, output, err := p.Provision(t.Context(), []byte("{"))
	require.NoError(t, err)
	require.NotEqual(t, abi.OK, disposition, "%s", output)
}

func TestStartFails(t *testing.T) {
	_, err := plug.Start("/nonexistent", nil)
	require.ErrorContains(t, err, "start the plug-in")
}
