package devenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCluster(t *testing.T) {
	env := newEnv(t, WithParent)
	kubeconfig, err := env.StartCluster(t.Context(), "home", self(t))
	require.NoError(t, err)
	content, err := os.ReadFile(kubeconfig)
	require.NoError(t, err, "it is returned once it is there")
	require.Equal(t, "home", string(content))

	state := env.State()
	require.Equal(t, map[string]string{"home": kubeconfig}, state.Kubeconfigs)
	require.Len(t, state.Processes, 1)
	p := state.Processes[0]
	require.True(t, p.running())
	select {
	case <-p.Ended():
		require.Fail(t, "it has not ended")
	default:
	}

	require.NoError(t, env.Stop())
	<-p.Ended()
	require.NoDirExists(t, env.Dir())
}

func TestRegistry(t *testing.T) {
	env := newEnv(t, WithParent)
	address, err := env.StartRegistry(t.Context(), self(t))
	require.NoError(t, err)
	require.Equal(t, address, env.State().Registry)
	host, _, err := net.SplitHostPort(address)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host, "nobody else can reach it")
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err, "it answers already")
	require.NoError(t, connection.Close())
	require.NoError(t, env.Stop())
}

func TestOperator(t *testing.T) {
	t.Setenv("KUBECONFIG", "/somebody/elses")
	t.Setenv("HTTPS_PROXY", "http://proxy.example.com")
	env := newEnv(t, WithParent)
	for _, name := range []string{"", "second"} {
		operator, err := env.StartOperator(t.Context(), OperatorOptions{
			Name: name, Program: self(t), Worker: "/w", Kubeconfig: "/k", Namespace: "caisson-system", Args: []string{"--verbose"},
		})
		require.NoError(t, err)
		want := map[string]string{"": "operator", "second": "second"}[name]
		require.Equal(t, want, operator.Name)
		require.NotEqual(t, operator.Metrics, operator.Health)
		require.True(t, answers(operator.Health+"/readyz")(t.Context()))
		log, err := os.ReadFile(operator.Log)
		require.NoError(t, err)
		require.Contains(t, string(log), "HOME="+env.Dir())
		require.NotContains(t, string(log), "/somebody/elses", "an operator has no identity but its own")
		require.NotContains(t, string(log), "proxy.example.com")
		require.Contains(t, string(log), "--kubeconfig=/k --namespace=caisson-system --worker=/w --cache-dir="+filepath.Join(env.Dir(), want+"-cache"))
		require.Contains(t, string(log), "--verbose]")
		require.Equal(t, operator.PID, env.Process(want).PID)
	}
	again, err := env.StartOperator(t.Context(), OperatorOptions{Program: self(t)})
	require.NoError(t, err)
	require.Equal(t, again.PID, env.Process("operator").PID, "the last of a name")
	require.Nil(t, env.Process("nobody"))
	require.NoError(t, env.Stop())
}

func TestStartFails(t *testing.T) {
	cases := map[string]struct {
		reason  string
		name    string
		program string
		want    string
	}{
		"EndsEarly": {
			reason: "the log says why, and its end is in the error", name: "broken", program: self(t),
			want: "home/broken.log closes with:\nline 13\nline 14\nline 15\nline 16\nline 17\nline 18\nline 19\nthe port is taken",
		},
		"NoProgram":  {reason: "what is missing is named", name: "home", program: "/does/not/exist", want: "find the program of home: "},
		"NoRunnable": {reason: "a file that is no program", name: "home", program: "env_test.go", want: "start home: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, WithParent)
			_, err := env.StartCluster(t.Context(), tc.name, tc.program)
			require.Error(t, err)
			require.Contains(t, strings.ReplaceAll(err.Error(), filepath.Join(env.Dir(), "logs"), "home"), tc.want, tc.reason)
			require.NoError(t, env.Stop())
			require.NoDirExists(t, env.Dir(), "what failed leaves nothing behind")
		})
	}
}

func TestStartIsInterrupted(t *testing.T) {
	env := newEnv(t, WithParent)
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupt := errors.New("interrupt")
	go func() {
		for len(env.State().Processes) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel(interrupt)
	}()
	_, err := env.StartCluster(ctx, "silent", self(t))
	require.ErrorIs(t, err, interrupt)
	require.ErrorContains(t, err, "wait for its kubeconfig of silent: ")
	require.ErrorContains(t, err, filepath.Join(env.Dir(), "logs", "silent.log"))
	p := env.State().Processes[0]
	require.True(t, p.running(), "what was begun is known")
	require.NoError(t, env.Stop())
	require.False(t, p.running(), "and can be ended")
}

// What is started concurrently is all known afterwards, in memory and on disk.
func TestConcurrentStarts(t *testing.T) {
	env, program := newEnv(t, WithParent), self(t)
	const many = 4
	errs := make(chan error, 2*many)
	for i := range many {
		go func() {
			_, err := env.StartCluster(t.Context(), fmt.Sprintf("c%d", i), program)
			errs <- err
		}()
		go func() {
			_, err := env.StartOperator(t.Context(), OperatorOptions{Name: fmt.Sprintf("o%d", i), Program: program})
			errs <- err
			_ = env.State()
		}()
	}
	for range 2 * many {
		require.NoError(t, <-errs)
	}
	require.Len(t, env.State().Processes, 2*many)
	require.Len(t, env.State().Kubeconfigs, many)
	loaded, err := Load(env.Dir())
	require.NoError(t, err)
	require.Len(t, loaded.Processes, 2*many)
	require.Len(t, loaded.Kubeconfigs, many)
	require.NoError(t, env.Stop())
	for _, p := range loaded.Processes {
		require.False(t, p.running(), p.Name)
	}
}

func TestDirectoryIsInUse(t *testing.T) {
	env := newEnv(t, WithParent)
	_, err := New(env.Dir(), WithParent)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, env.Dir())
	require.NoError(t, env.Stop())
	again, err := New(env.Dir(), WithParent)
	require.NoError(t, err, "after the end it is free again")
	require.NoError(t, again.Stop())
}

func TestOneOfManyGetsTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	const many = 16
	errs := make(chan error, many)
	for range many {
		go func() {
			_, err := New(dir, Detached)
			errs <- err
		}()
	}
	won := 0
	for range many {
		if <-errs == nil {
			won++
		}
	}
	require.Equal(t, 1, won)
}

// The end of an environment removes its directory, which must not be somebody's home.
func TestDirectoryIsNotEmpty(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "thesis.tex")
	require.NoError(t, os.WriteFile(precious, nil, 0o600))
	_, err := New(dir, WithParent)
	require.ErrorContains(t, err, "is not empty, and would be removed in the end")
	require.NoFileExists(t, filepath.Join(dir, stateFile))
	_, err = Load(dir)
	require.ErrorIs(t, err, ErrNotRunning, "so nothing can be told to remove it")
	require.FileExists(t, precious)
}

func TestDirectoryCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := New(filepath.Join(file, "x"), WithParent)
	require.ErrorContains(t, err, "make environment: ")
	_, err = New(file, WithParent)
	require.ErrorContains(t, err, "make environment: ")
}

func TestPrivate(t *testing.T) {
	env := newEnv(t, WithParent)
	_, err := env.StartCluster(t.Context(), "home", self(t))
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(filepath.Join(env.Dir(), "logs"), func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is for its owner alone", path)
		return nil
	}))
	info, err := os.Stat(filepath.Join(env.Dir(), stateFile))
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077)
	require.NoError(t, env.Stop())
}

func TestFreeAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 20 {
		address, err := freeAddress()
		require.NoError(t, err)
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		require.NoError(t, err, "it is free")
		defer func() { _ = listener.Close() }()
		require.False(t, seen[address])
		seen[address] = true
	}
}

func TestAnswers(t *testing.T) {
	address, err := freeAddress()
	require.NoError(t, err)
	require.False(t, answers("http://"+address)(t.Context()), "nobody is there")
	require.False(t, answers("http://[::1")(t.Context()), "no URL")
}

func TestStateFileGolden(t *testing.T) {
	s := &State{
		Processes:   []*Process{{Name: "home", PID: 7, Program: "/bin/devcluster", Log: "/d/logs/home.log"}, {Name: "operator", PID: 8, Program: "/bin/o", Log: "/l", Stage: stageUser}},
		Kubeconfigs: map[string]string{"home": "/d/home.kubeconfig"}, Registry: "127.0.0.1:5000",
	}
	dir := t.TempDir()
	require.NoError(t, s.save(dir))
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	require.NoError(t, err)
	require.JSONEq(t, `{"processes": [
	  {"name": "home", "pid": 7, "program": "/bin/devcluster", "log": "/d/logs/home.log", "stage": 0},
	  {"name": "operator", "pid": 8, "program": "/bin/o", "log": "/l", "stage": 1}],
	  "kubeconfigs": {"home": "/d/home.kubeconfig"}, "registry": "127.0.0.1:5000"}`, string(raw))
	loaded, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, s, loaded)
	require.ErrorContains(t, s.save(filepath.Join(dir, "missing")), "write state: ")
}

func TestLoadFails(t *testing.T) {
	dir := t.TempDir()
	_, err := Load(dir)
	require.ErrorIs(t, err, ErrNotRunning)
	require.NoError(t, os.WriteFile(filepath.Join(dir, stateFile), []byte("{"), 0o600))
	_, err = Load(dir)
	var syntax *json.SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.ErrorContains(t, err, filepath.Join(dir, stateFile), "the broken file is named")
	require.NotErrorIs(t, err, ErrNotRunning)
}
