package devenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startCluster starts what plays a cluster of a name.
func startCluster(t *testing.T, env *Env, name string) *Process {
	t.Helper()
	_, err := env.StartCluster(t.Context(), name, self(t))
	require.NoError(t, err)
	processes := env.State().Processes
	return processes[len(processes)-1]
}

func TestStopInOrder(t *testing.T) {
	p := startCluster(t, newEnv(t, WithParent), "home")
	require.NoError(t, p.Stop())
	<-p.Ended()
	log, err := os.ReadFile(p.Log)
	require.NoError(t, err)
	require.Equal(t, "ended in order\n", string(log), "it had the time to end by itself")
	require.NoError(t, p.Stop(), "what has ended is stopped")
	require.NoError(t, p.Kill(), "and killed")
	require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
}

func TestStopWhatIgnoresIt(t *testing.T) {
	p := startCluster(t, newEnv(t, WithParent), "stubborn")
	began := time.Now()
	require.NoError(t, p.Stop())
	require.GreaterOrEqual(t, time.Since(began), stopGrace, "it had its grace")
	require.False(t, p.running())
}

func TestKill(t *testing.T) {
	p := startCluster(t, newEnv(t, WithParent), "stubborn")
	require.NoError(t, p.Kill())
	require.False(t, p.running())
}

// What uses others ends before them: an operator still has its API server to give up its
// lease.
func TestUsersEndFirst(t *testing.T) {
	env := newEnv(t, WithParent)
	startCluster(t, env, "home")
	_, err := env.StartOperator(t.Context(), OperatorOptions{Program: self(t)})
	require.NoError(t, err)
	startCluster(t, env, "workload")
	require.NoError(t, env.Stop())
	raw, err := os.ReadFile(endsFile(env.Dir()))
	require.NoError(t, err)
	ends := strings.Fields(string(raw))
	require.Equal(t, "operator", ends[0])
	require.ElementsMatch(t, []string{"home", "workload"}, ends[1:])
}

// The processes of a detached environment outlive who made it; whoever has the directory
// ends them.
func TestDetached(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "env")
	maker := exec.CommandContext(t.Context(), self(t), "maker", dir, "detached")
	out, err := maker.CombinedOutput()
	require.NoError(t, err, string(out))

	state, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, state.Processes, 2)
	for _, p := range state.Processes {
		require.True(t, p.running(), "%s outlives who started it", p.Name)
		require.NotEqual(t, maker.Process.Pid, p.PID)
	}
	require.NoError(t, state.Processes[1].Kill(), "the stubborn one")
	require.NoError(t, state.Stop(dir))
	for _, p := range state.Processes {
		require.False(t, p.running(), p.Name)
	}
	require.NoDirExists(t, dir)
	_, err = Load(dir)
	require.ErrorIs(t, err, ErrNotRunning)
}

// A program that was built anew meanwhile is still the one that was started.
func TestProgramIsReplaced(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cluster")
	content, err := os.ReadFile(self(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, content, 0o700))
	env := newEnv(t, WithParent)
	_, err = env.StartCluster(t.Context(), "home", program)
	require.NoError(t, err)
	require.NoError(t, os.Remove(program))
	p := env.State().Processes[0]
	require.True(t, p.running())
	require.NoError(t, env.Stop())
	require.False(t, p.running())
}

func TestTail(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p := &Process{Log: log}
	require.Empty(t, p.tail(), "no log, no end")
	for text, want := range map[string]string{
		"":                                    "",
		"one\n":                               "one",
		"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n": "4\n5\n6\n7\n8\n9\n10\n11",
	} {
		require.NoError(t, os.WriteFile(log, []byte(text), 0o600))
		require.Equal(t, want, p.tail())
	}
	require.LessOrEqual(t, strings.Count(p.tail(), "\n"), 7)
}
