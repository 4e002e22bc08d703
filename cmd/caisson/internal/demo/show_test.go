package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/golden"
)

// timeless takes the times out of what a show prints.
func timeless(s string) string {
	return regexp.MustCompile(`\d+\.\ds`).ReplaceAllString(s, "0.0s")
}

func TestShow(t *testing.T) {
	var out strings.Builder
	s := &show{out: &out, start: time.Now()}
	total := counters{}
	count := func(context.Context) (counters, error) { return total, nil }
	steps := []step{
		{name: "build 100% of it", do: func(context.Context) error { return s.timed("build one thing", func() error { return nil }) }},
		{name: "work", counted: true, do: func(context.Context) error {
			total = counters{calls: 12, yields: 9, passes: 4, requests: 80}
			return nil
		}},
		{name: "rest", counted: true, do: func(context.Context) error { return nil }},
	}
	for _, st := range steps {
		require.NoError(t, s.run(t.Context(), st, count))
	}
	for i := range s.rows {
		s.rows[i].took = time.Duration(i+1) * 1500 * time.Millisecond
	}
	s.table()
	golden.Equal(t, "show", timeless(out.String()))
}

func TestShowFails(t *testing.T) {
	failed := errors.New("failed")
	s := &show{out: &strings.Builder{}, start: time.Now()}
	none := func(context.Context) (counters, error) { return counters{}, nil }
	bad := step{name: "x", do: func(context.Context) error { return failed }}
	require.ErrorIs(t, s.run(t.Context(), bad, none), failed)
	require.EqualError(t, s.timed("do it", func() error { return failed }), "do it: failed")

	done := 0
	counted := step{name: "x", counted: true, do: func(context.Context) error { done++; return nil }}
	calls := 0
	second := func(context.Context) (counters, error) {
		calls++
		return counters{}, map[int]error{2: failed}[calls]
	}
	require.ErrorIs(t, s.run(t.Context(), counted, second), failed, "an operator that is gone after a step")
	require.Equal(t, 1, done)
	require.ErrorIs(t, s.run(t.Context(), counted, func(context.Context) (counters, error) { return counters{}, failed }), failed)
	require.Equal(t, 1, done, "and before one")
	require.Empty(t, s.rows, "what failed is in no table")
}

// Lines of concurrent parts are not mixed.
func TestShowConcurrently(t *testing.T) {
	var out strings.Builder
	s := &show{out: &out, start: time.Now()}
	const many, each = 8, 50
	var group sync.WaitGroup
	for i := range many {
		group.Go(func() {
			for range each {
				s.sayf("line of %d", i)
				s.line("    another")
			}
		})
	}
	group.Wait()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 2*many*each)
	whole := regexp.MustCompile(`^( +\d+\.\ds  line of \d|    another)$`)
	for _, l := range lines {
		require.Regexp(t, whole, l)
	}
}

func TestLogs(t *testing.T) {
	dir := t.TempDir()
	var long strings.Builder
	for i := range 30 {
		fmt.Fprintln(&long, "line", i)
	}
	write(t, dir, map[string]string{"operator.log": long.String(), "home.log": "only one\n"})
	var out strings.Builder
	(&show{out: &out}).logs(&devenv.State{Processes: []*devenv.Process{
		{Name: "home", Log: filepath.Join(dir, "home.log")},
		{Name: "gone", Log: filepath.Join(dir, "missing.log")},
		{Name: "operator", Log: filepath.Join(dir, "operator.log")},
	}})
	golden.Equal(t, "logs", out.String())
}

func newDemo(t *testing.T, keep bool) (*demo, *strings.Builder) {
	t.Helper()
	env, err := devenv.New(filepath.Join(t.TempDir(), "env"), devenv.WithParent)
	require.NoError(t, err)
	var out strings.Builder
	return &demo{Options: Options{Keep: keep}, env: env, show: &show{out: &out, start: time.Now()}}, &out
}

func TestEnd(t *testing.T) {
	failed := errors.New("failed")
	cases := map[string]struct {
		reason string
		keep   bool
		err    error
		want   string
	}{
		"Done":        {reason: "everything is stopped", want: "stop what was started"},
		"Failed":      {reason: "the logs are shown before they are removed", err: failed, want: "it failed; the logs of what ran:"},
		"KeptFailed":  {reason: "a demo that failed is not kept", keep: true, err: failed, want: "it failed; the logs of what ran:"},
		"Interrupted": {reason: "nobody who presses Ctrl-C wants to read logs", err: fmt.Errorf("step: %w", context.Canceled), want: "interrupted: stopping what was started"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d, out := newDemo(t, tc.keep)
			require.ErrorIs(t, d.end(tc.err), tc.err, tc.reason)
			require.Contains(t, out.String(), tc.want, tc.reason)
			require.NoDirExists(t, d.env.Dir())
		})
	}
}

func TestEndKeeps(t *testing.T) {
	d, out := newDemo(t, true)
	d.home, d.workload = &cluster{kubeconfig: "/d/home.kubeconfig"}, &cluster{kubeconfig: "/d/workload.kubeconfig"}
	require.NoError(t, d.end(nil))
	require.DirExists(t, d.env.Dir())
	golden.Equal(t, "look-around", timeless(strings.ReplaceAll(out.String(), d.env.Dir(), "/d")))
	require.NoError(t, d.env.Stop())
}

func TestRunEndsWhatItBegan(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Run(ctx, Options{Root: t.TempDir(), Self: "/does/not/exist", Out: &out})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "build the programs and the modules: ", "the step is named")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestCommand(t *testing.T) {
	d := &demo{Options: Options{Root: t.TempDir()}}
	require.NoError(t, d.command(t.Context(), "pwd"))
	err := d.command(t.Context(), "sh", "-c", "echo $PWD; echo to-stderr >&2; exit 3")
	require.EqualError(t, err, "sh -c echo $PWD; echo to-stderr >&2; exit 3: exit status 3\n"+d.Root+"\nto-stderr", "it runs in the source tree, and what it said is shown")
	require.ErrorContains(t, d.command(t.Context(), "/does/not/exist"), "exist : ")

	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	require.ErrorIs(t, d.command(ctx, "sleep", "600"), enough)
}

// Interrupting lets a command clean up.
func TestCommandIsInterrupted(t *testing.T) {
	d := &demo{Options: Options{Root: t.TempDir()}}
	ctx, cancel := context.WithCancel(t.Context())
	started, cleaned := filepath.Join(d.Root, "started"), filepath.Join(d.Root, "cleaned")
	go func() {
		for {
			if _, err := os.Stat(started); err == nil {
				cancel()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	err := d.command(ctx, "sh", "-c", "trap 'touch cleaned; exit 1' INT; touch started; while :; do sleep 0.05; done")
	require.ErrorIs(t, err, context.Canceled)
	require.FileExists(t, cleaned)
}

func TestWhat(t *testing.T) {
	require.Equal(t, "start the home control plane", what("home", ""))
	require.Equal(t, "connect to the given workload cluster", what("workload", "/k"))
}
