package devenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process that is not the program that was started is somebody else's.
func TestPIDsAreReused(t *testing.T) {
	stranger := exec.CommandContext(t.Context(), "sleep", "600")
	require.NoError(t, stranger.Start())
	dead := make(chan struct{})
	go func() { defer close(dead); _ = stranger.Wait() }()

	dir := t.TempDir()
	state := &State{Processes: []*Process{{Name: "home", PID: stranger.Process.Pid, Program: self(t), Log: "/l"}}}
	require.NoError(t, state.save(dir))
	loaded, err := Load(dir)
	require.NoError(t, err)
	p := loaded.Processes[0]
	require.False(t, p.running())
	require.ErrorIs(t, p.Signal(syscall.SIGKILL), os.ErrProcessDone)
	require.NoError(t, p.Kill())
	require.NoError(t, loaded.Stop(dir), "what does not run any more is stopped")
	require.NoDirExists(t, dir)
	require.NoError(t, syscall.Kill(stranger.Process.Pid, 0), "the stranger lives")
	select {
	case <-dead:
		require.Fail(t, "the stranger was killed")
	default:
	}
	require.NoError(t, stranger.Process.Kill())
	<-dead
}

// Whoever makes an environment and is killed leaves no process behind.
func TestChildrenDieWithTheirParent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "env")
	maker := exec.CommandContext(t.Context(), self(t), "maker", dir, "attached")
	require.NoError(t, maker.Start())
	var state *State
	require.Eventually(t, func() bool {
		var err error
		state, err = Load(dir)
		return err == nil && len(state.Kubeconfigs) == 2
	}, patience, 10*time.Millisecond)
	for _, p := range state.Processes {
		require.True(t, p.running(), p.Name)
	}
	require.NoError(t, maker.Process.Kill())
	_ = maker.Wait()
	for _, p := range state.Processes {
		requireGone(t, p)
	}
	require.NoError(t, state.Stop(dir), "the directory is what is left")
	require.NoDirExists(t, dir)
}
