package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// A worker that is found is held up, and killed a little later; nobody else is, the
// process that has started it among them.
func TestHunt(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	prey := exec.Command("/bin/sh", "-c", `"$0" --wait `+sandbox.WorkerArgument+`; echo $?`, self)
	out := &strings.Builder{}
	prey.Stdout = out
	other := exec.Command(self, "--wait", sandbox.WorkerArgument+"-fork-server")
	require.NoError(t, prey.Start())
	require.NoError(t, other.Start())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	killed := make(chan int, 1)
	go func() { killed <- hunt(ctx, os.Getpid()) }()
	require.NoError(t, prey.Wait())
	require.Equal(t, "137\n", out.String(), "128 and the number of the signal")
	stop()
	require.Positive(t, <-killed)
	require.NotContains(t, workers(os.Getpid()), other.Process.Pid)
	require.Contains(t, children(os.Getpid()), other.Process.Pid)
	require.NoError(t, other.Process.Kill())
	require.Error(t, other.Wait())
}

// Whatever comes of what is done meanwhile, the process goes on: one that is left stopped
// would not hear that it shall end.
func TestStopped(t *testing.T) {
	d, _ := staged(t)
	operator, err := d.startOperator(t.Context(), "operator")
	require.NoError(t, err)
	state := func() string {
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(operator.PID), "status"))
		require.NoError(t, err)
		for line := range strings.Lines(string(raw)) {
			if rest, ok := strings.CutPrefix(line, "State:"); ok {
				return strings.TrimSpace(rest)
			}
		}
		return ""
	}
	failed := errors.New("failed")
	err = d.stopped(d.env.Process("operator"), func() error {
		require.Eventually(t, func() bool { return strings.HasPrefix(state(), "T") }, soon, lookEvery)
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.Eventually(t, func() bool { return !strings.HasPrefix(state(), "T") }, soon, lookEvery)
	require.NoError(t, operator.Kill())
	require.ErrorIs(t, d.stopped(d.env.Process("operator"), func() error { return nil }), os.ErrProcessDone)
}
