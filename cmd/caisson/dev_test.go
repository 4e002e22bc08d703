package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
)

// playPartIfRequested makes this test program a part of a local environment, if it was
// started as one: a control plane that only says that it is there, or the CLI.
func playPartIfRequested() {
	if len(os.Args) < 2 {
		return
	}
	if os.Args[1] == "dev" {
		main()
	}
	if !strings.HasPrefix(os.Args[1], "--name=") {
		return
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	if os.Getenv("TEST_BROKEN") == strings.TrimPrefix(os.Args[1], "--name=") {
		_, _ = os.Stdout.WriteString("the port is taken\x1b[2J\n")
		os.Exit(1)
	}
	for _, arg := range os.Args {
		if path, ok := strings.CutPrefix(arg, "--kubeconfig="); ok && os.WriteFile(path, nil, 0o600) != nil {
			os.Exit(1)
		}
	}
	<-signals
	os.Exit(0)
}

func TestDevHelp(t *testing.T) {
	s := newSession(t)
	s.hidden = []string{defaultDevDir(), "/tmp/caisson-dev-1000"}
	for _, args := range [][]string{
		{"stack"}, {"stack", "tree", "--help"},
		{"dev"}, {"dev", "up", "--help"}, {"dev", "down", "--help"}, {"dev", "demo", "--help"}, {"dev", "registry", "--help"},
	} {
		name := "help-" + strings.Join(strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "--help", "")), "-")
		s.golden(name, s.ok(args...))
	}
}

// up starts an environment and ends it with the test.
func (s *session) up(args ...string) (dir string) {
	s.t.Helper()
	dir = filepath.Join(s.t.TempDir(), "env")
	program, err := os.Executable()
	require.NoError(s.t, err)
	require.Zero(s.t, s.run(append([]string{"dev", "up", "--dir", dir, "--devcluster", program}, args...)...), s.errOut.String())
	s.t.Cleanup(func() {
		if state, err := devenv.Load(dir); err == nil {
			require.NoError(s.t, state.Stop(dir))
		}
	})
	return dir
}

func TestDevUpAndDown(t *testing.T) {
	s := newSession(t)
	dir := s.up()
	state, err := devenv.Load(dir)
	require.NoError(t, err)
	require.Len(t, state.Processes, 3)
	s.hidden = []string{dir, "/tmp/env", state.Registry, "127.0.0.1:5000"}
	s.golden("dev-up", s.out.String())
	require.Equal(t, "starting the home control plane\nstarting the workload control plane\nstarting the registry\n", s.errOut.String())

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+state.Registry+"/v2/", http.NoBody)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	require.Contains(t, s.fails("dev", "up", "--dir", dir, "--devcluster", state.Processes[0].Program), "an environment is in "+dir+" already; end it first with 'caisson dev down --dir "+dir+"'")
	require.Equal(t, "ended 3 processes and removed "+dir+"\n", s.ok("dev", "down", "--dir", dir))
	require.NoDirExists(t, dir)
	for _, p := range state.Processes {
		require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
	}
	require.Contains(t, s.fails("dev", "down", "--dir", dir), "no environment is in "+dir+"; start one with 'caisson dev up'")
}

func TestDevUpAsJSON(t *testing.T) {
	s := newSession(t)
	dir := s.up("-o", "json")
	var state struct {
		Kubeconfigs map[string]string
		Registry    string
		Processes   []struct {
			Name string
			PID  int
		}
	}
	require.NoError(t, json.Unmarshal(s.out.Bytes(), &state), "nothing but JSON is on standard output")
	require.Equal(t, map[string]string{"home": filepath.Join(dir, "home.kubeconfig"), "workload": filepath.Join(dir, "workload.kubeconfig")}, state.Kubeconfigs)
	require.NotEmpty(t, state.Registry)
	require.Len(t, state.Processes, 3)
}

// Of an environment that does not come up nothing is left, and the log's end is shown.
func TestDevUpFails(t *testing.T) {
	t.Setenv("TEST_BROKEN", "workload")
	s := newSession(t)
	dir := filepath.Join(t.TempDir(), "env")
	program, err := os.Executable()
	require.NoError(t, err)
	require.Equal(t, 1, s.run("dev", "up", "--dir", dir, "--devcluster", program))
	s.hidden = []string{dir, "/tmp/env"}
	s.golden("dev-up-fails", s.errOut.String())
	require.NoDirExists(t, dir)
}

func TestDevErrors(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	cases := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"NoProgram": {reason: "how to get it is said", args: []string{"dev", "up", "--devcluster", "/does/not/exist"}, want: "there is no program /does/not/exist; build it with 'make build', or name it with --devcluster"},
		"FullDir":   {reason: "a directory with other things would be removed", args: []string{"dev", "up", "--devcluster", "/bin/sh", "--dir", full}, want: full + " is not empty, and would be removed in the end; name an empty directory with --dir"},
		"NoSource":  {reason: "the demo builds everything", args: []string{"dev", "demo", "--root", full}, want: "there is no source tree of Caisson in " + full + "; run it where Caisson's source is"},
		"Taken":     {reason: "a port is taken", args: []string{"dev", "registry", "--listen", taken.Addr().String()}, want: "cannot listen on " + taken.Addr().String() + ": "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, newSession(t).fails(tc.args...), tc.want, tc.reason)
		})
	}
}

func TestDevDownOfWhatHasEnded(t *testing.T) {
	s := newSession(t)
	dir := t.TempDir()
	s.write(filepath.Join(dir, "state.json"), []byte(`{"processes": [{"name": "home", "pid": 999999999, "program": "/x", "log": "/y"}]}`))
	require.Equal(t, "ended 1 processes and removed "+dir+"\n", s.ok("dev", "down", "--dir", dir), "after a restart of the machine")

	require.NoError(t, os.Mkdir(dir, 0o700))
	s.write(filepath.Join(dir, "state.json"), []byte(`{`))
	require.Equal(t, 1, s.run("dev", "down", "--dir", dir))
	require.Contains(t, s.errOut.String(), "read state "+dir)
	require.DirExists(t, dir, "what is not understood is not removed")
}

func TestDevRegistryEndsWithItsContext(t *testing.T) {
	s := newSession(t)
	probe, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := probe.Addr().String()
	require.NoError(t, probe.Close())
	ended := make(chan int, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- run(ctx, s.env, []string{"dev", "registry", "--listen", address, "--dir", "blobs"}) }()
	require.Eventually(t, func() bool {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		return err == nil && connection.Close() == nil
	}, 20*time.Second, 10*time.Millisecond)
	cancel()
	require.Zero(t, <-ended, "that is how one ends it")
	require.DirExists(t, "blobs")
}

func TestPrintableLines(t *testing.T) {
	require.Equal(t, "one\n  two\uFFFD[2J\n  Error: three", printableLines("one\ntwo\x1b[2J\nError: three"), "no line can pass for one of ours")
}

func TestSplitList(t *testing.T) {
	require.Empty(t, splitList(""))
	require.Equal(t, []string{"gpu", "drift"}, splitList("gpu, drift"))
}
