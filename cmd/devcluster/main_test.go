package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/caisson-dev/caisson/cmd/devcluster/statedir"
)

const (
	// roleVariable makes the test binary behave as another program, so that the tests need not link a second one.
	roleVariable = "DEVCLUSTER_TEST_ROLE"
	// roleDevcluster is devcluster itself.
	roleDevcluster = "devcluster"
	// roleParent starts a devcluster that is to end with it, and waits for ever.
	roleParent = "parent"

	// patience is the deadline of everything that is waited for; machines that run many tests at once are slow.
	patience = 2 * time.Minute
	// pollEvery is how often a condition is looked at.
	pollEvery = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case roleDevcluster:
		main()
	case roleParent:
		beParent()
	default:
		os.Exit(m.Run())
	}
}

// beParent starts devcluster with this program's own arguments, and hangs until it is killed.
func beParent() {
	command := exec.Command(os.Args[0], append(os.Args[1:], "--parent-pid", strconv.Itoa(os.Getpid()))...) // it ends by a kill
	command.Env = append(os.Environ(), roleVariable+"="+roleDevcluster)
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is a started program.
type process struct {
	command *exec.Cmd
	output  *lockedBuffer
	errors  *lockedBuffer
	ended   chan struct{}
}

// launch starts this test binary in a role, and kills it at the end of the test.
func launch(t *testing.T, role string, arguments ...string) *process {
	t.Helper()

	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], arguments...)
	started := &process{command: command, output: &lockedBuffer{}, errors: &lockedBuffer{}, ended: make(chan struct{})}
	command.Env = append(os.Environ(), roleVariable+"="+role)
	command.Stdout, command.Stderr = started.output, started.errors
	require.NoError(t, command.Start())
	go func() {
		defer close(started.ended)
		_ = command.Wait() // the state is read from ProcessState
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-started.ended
	})

	return started
}

// awaitFile waits for a file to appear, or for the process to end without it.
func (p *process) awaitFile(t *testing.T, path string) {
	t.Helper()

	require.Eventually(t, func() bool {
		_, err := os.Stat(path)
		select {
		case <-p.ended:
			return true
		default:
			return err == nil
		}
	}, patience, pollEvery)
	require.FileExists(t, path, "stderr: %s", p.errors)
}

// awaitAnnouncement waits for the line that says that the cluster is ready.
func (p *process) awaitAnnouncement(t *testing.T) {
	t.Helper()

	require.Eventually(t, func() bool { return p.output.String() != "" }, patience, pollEvery, "stderr: %s", p.errors)
}

// awaitEnd waits for the process to end and returns its exit code.
func (p *process) awaitEnd(t *testing.T) int {
	t.Helper()

	select {
	case <-p.ended:
	case <-time.After(patience):
		require.Fail(t, "the process goes on")
	}

	return p.command.ProcessState.ExitCode()
}

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()

	return b.buffer.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()

	return b.buffer.String()
}

func TestLife(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary) // so that what is left behind can be seen
	path := filepath.Join(t.TempDir(), "sub", "kubeconfig")
	cluster := launch(t, roleDevcluster, "--kubeconfig", path, "--name", "life")
	cluster.awaitFile(t, path)

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	requireSelfContained(t, data)

	cluster.awaitAnnouncement(t)
	var said announcement
	require.NoError(t, json.Unmarshal([]byte(cluster.output.String()), &said), "exactly one JSON value")
	require.Equal(t, "life", said.Name)
	require.Equal(t, path, said.Kubeconfig)
	require.Positive(t, said.StartSeconds)

	t.Run("SomeoneElsesKubeconfigIsLeftAlone", func(t *testing.T) {
		foreign := filepath.Join(t.TempDir(), "config")
		require.NoError(t, os.WriteFile(foreign, []byte("current-context: production\n"), 0o600))
		refused := launch(t, roleDevcluster, "--kubeconfig", foreign)
		require.Equal(t, 1, refused.awaitEnd(t))
		require.Contains(t, refused.errors.String(), "was not written by devcluster")
		require.FileExists(t, foreign)
	})

	require.NoError(t, cluster.command.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, cluster.awaitEnd(t))
	require.NoFileExists(t, path)
	left, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, left, "the temporary state directory")
	require.Empty(t, cluster.errors.String(), "a healthy life is quiet")
}

func TestStateSurvives(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "kubeconfig")
	tokens := make([]string, 0, 2)
	for range 2 {
		cluster := launch(t, roleDevcluster, "--dir", dir)
		cluster.awaitAnnouncement(t) // the first run's kubeconfig may still be there
		config, err := clientcmd.LoadFromFile(path)
		require.NoError(t, err)
		tokens = append(tokens, config.AuthInfos[config.CurrentContext].Token)

		if len(tokens) == 1 {
			second := launch(t, roleDevcluster, "--dir", dir)
			require.Equal(t, 1, second.awaitEnd(t))
			require.Contains(t, second.errors.String(), "in use by another devcluster")
			createNamespace(t, connect(t, path), "kept")
		} else {
			requireNamespace(t, connect(t, path), "kept")
		}

		require.NoError(t, cluster.command.Process.Kill()) // the rougher end: nothing is closed
		cluster.awaitEnd(t)
		require.FileExists(t, path, "left by the kill, and removed by the next start")
	}
	require.NotEqual(t, tokens[0], tokens[1], "each start makes its own token")
}

func TestEndsWithItsParent(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "kubeconfig")
	parent := launch(t, roleParent, "--dir", dir)
	parent.awaitFile(t, path)
	require.NoError(t, parent.command.Process.Kill())
	parent.awaitEnd(t)

	// The lock is the process's own: whoever gets it, knows that the process has ended.
	require.Eventually(t, func() bool {
		opened, err := statedir.Open(dir)
		if err != nil {
			return false
		}

		return opened.Close() == nil
	}, patience, pollEvery)
	require.NoFileExists(t, path)
}

func TestFailedStartSaysWhy(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	cases := map[string]struct {
		reason    string
		arguments []string
		want      string
	}{
		"DirIsAFile":   {"state needs a directory", []string{"--dir", file}, "create state directory"},
		"BadPort":      {"a port has 16 bits", []string{"--port", "70000"}, "is not a port"},
		"PortIsTaken":  {"a privileged or taken port cannot be had", []string{"--port", takenPort(t)}, "listen for the API"},
		"UnknownFlags": {"typos must not be ignored", []string{"--prot", "1"}, "not defined"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			refused := launch(t, roleDevcluster, c.arguments...)
			require.Equal(t, 1, refused.awaitEnd(t), c.reason)
			require.Contains(t, refused.errors.String(), c.want, c.reason)
			require.Empty(t, refused.output.String(), c.reason)
		})
	}
}
