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
)

func TestChildOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		stat   string
		want   int
	}{
		"Worker":      {reason: "ours", stat: "42 (caisson-worker) S 7 42 7 0 -1", want: 42},
		"Zombie":      {reason: "it has ended", stat: "42 (caisson-worker) Z 7 42"},
		"OtherParent": {reason: "of another operator", stat: "42 (caisson-worker) S 8 42"},
		"OtherName":   {reason: "another program", stat: "42 (caisson) S 7 42"},
		"Parentheses": {reason: "a name may hold anything", stat: "42 (x) S 7 (caisson-worker) S 8 1"},
		"Truncated":   {reason: "it ended while it was read", stat: "42 (caisson-worker) S"},
		"Empty":       {reason: "it ended before it was read", stat: ""},
		"NoNumber":    {reason: "no stat file", stat: "x (caisson-worker) S 7"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pid, ok := childOf([]byte(tc.stat), 7, "caisson-worker")
			require.Equal(t, tc.want != 0, ok, tc.reason)
			if ok {
				require.Equal(t, tc.want, pid)
			}
		})
	}
	_, ok := childOf([]byte("42 (a-name-that-is-) S 7 42"), 7, "a-name-that-is-longer-than-the-kernel-keeps")
	require.True(t, ok, "the kernel keeps 15 bytes of a name")
}

// A worker that is found is held up, and killed a little later; nobody else is.
func TestHunt(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "caisson-worker")
	require.NoError(t, os.Symlink(self, program))
	prey, other := exec.Command(program, "--wait"), exec.Command(self, "--wait")
	require.NoError(t, prey.Start())
	require.NoError(t, other.Start())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	killed := make(chan int, 1)
	go func() { killed <- hunt(ctx, os.Getpid()) }()
	require.ErrorContains(t, prey.Wait(), "killed")
	stop()
	require.Positive(t, <-killed)
	require.Nil(t, other.ProcessState)
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
