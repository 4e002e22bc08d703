package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/golden"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// TestMain lets the sandbox start this test program as its worker, and a local
// environment as its parts.
func TestMain(m *testing.M) {
	sandbox.RunWorkerIfRequested()
	playPartIfRequested()
	os.Exit(m.Run())
}

// session runs commands in a directory of its own.
type session struct {
	t      *testing.T
	env    *environment
	out    bytes.Buffer
	errOut bytes.Buffer
	// hidden maps what differs from run to run to what the golden files have instead.
	hidden []string
	// sources is this directory, which a session leaves.
	sources string
}

func newSession(t *testing.T) *session {
	t.Helper()
	sources, err := os.Getwd()
	require.NoError(t, err)
	s := &session{t: t, sources: sources}
	t.Chdir(t.TempDir())
	s.env = &environment{
		in: strings.NewReader(""), out: &s.out, errOut: &s.errOut, goCommand: "go",
		describe:    func(context.Context, []byte) ([]byte, error) { return []byte(manifestJSON), nil },
		credentials: registry.Anonymous(),
	}
	return s
}

// run runs a command line and returns the exit code.
func (s *session) run(args ...string) int {
	s.t.Helper()
	s.out.Reset()
	s.errOut.Reset()
	return run(s.t.Context(), s.env, args)
}

// ok runs a command line that must work without a word on standard error.
func (s *session) ok(args ...string) string {
	s.t.Helper()
	require.Zero(s.t, s.run(args...), "%s", s.errOut.String())
	require.Empty(s.t, s.errOut.String())
	return s.out.String()
}

// fails runs a command line that must fail, with one line on standard error.
func (s *session) fails(args ...string) string {
	s.t.Helper()
	require.Equal(s.t, 1, s.run(args...))
	text := s.errOut.String()
	require.True(s.t, strings.HasPrefix(text, "Error: "), text)
	require.Equal(s.t, 1, strings.Count(text, "\n"), "an error is one line: %q", text)
	require.Contains(s.t, text, "; ", "an error has a remedy: %s", text)
	require.NotContains(s.t, text, "goroutine", "an error has no stack trace")
	return text
}

func (s *session) write(name string, content []byte) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(name, content, 0o600))
}

// golden compares text with a file; UPDATE_GOLDEN=1 writes it.
func (s *session) golden(name, text string) {
	s.t.Helper()
	text = strings.NewReplacer(s.hidden...).Replace(text)
	golden.EqualFile(s.t, filepath.Join(s.sources, "testdata", "golden", name+".txt"), text)
}

const manifestJSON = `{
  "abi": 1, "name": "demo", "version": "1.2.3", "description": "Does things.",
  "capabilities": ["app_ensure", "app_remove", "kube_list", "secret_read"],
  "kube": [
    {"apiGroup": "", "kinds": ["Service"], "verbs": ["list"]},
    {"apiGroup": "apps", "kinds": ["Deployment"], "verbs": ["list"], "namespaces": ["kube-system"]}
  ],
  "reasons": [{"code": "no_address", "sentence": "There is no address yet."}]
}`

func section(id byte, body string) string { return string([]byte{id, byte(len(body))}) + body }

func text(s string) string { return string([]byte{byte(len(s))}) + s }

// demoWasm is a file with the imports and exports of a module, too small to run.
func demoWasm(functions ...abi.Function) []byte {
	if len(functions) == 0 {
		functions = []abi.Function{abi.KubeList, abi.AppEnsure, abi.AppRemove, abi.SecretRead}
	}
	imports := string([]byte{byte(len(functions) + 2)})
	for _, f := range functions {
		imports += text(abi.ImportUser) + text(string(f)) + "\x00\x00"
	}
	imports += text("extism:host/env") + text("alloc") + "\x00\x00" + text("wasi_snapshot_preview1") + text("fd_write") + "\x00\x00"
	exports := "\x03" + text("provision") + "\x00\x01" + text("describe") + "\x00\x01" + text("memory") + "\x02\x00"
	size := len(imports)
	head := "\x00asm\x01\x00\x00\x00" + "\x02" + string([]byte{byte(size&0x7f) | 0x80, byte(size >> 7)}) + imports
	return []byte(head + section(7, exports))
}

func TestErrorsAreOneSentenceAndARemedy(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"UnknownCommand": {reason: "a typo is named", args: []string{"modul"}, want: `there is no command "caisson modul"; see 'caisson --help'`},
		"UnknownVerb":    {reason: "also below a group", args: []string{"module", "biuld"}, want: `there is no command "caisson module biuld"; see 'caisson module --help'`},
		"UnknownFlag":    {reason: "a flag too", args: []string{"module", "inspect", "--nope"}, want: "unknown flag: --nope; see 'caisson module inspect --help'"},
		"BadFormat":      {reason: "the choices are listed", args: []string{"module", "inspect", "-o", "xml", "x"}, want: "must be table, json or yaml"},
		"NoArguments":    {reason: "what is missing is named", args: []string{"module", "push"}, want: "takes 2 arguments ([FILE REFERENCE]) and got 0"},
		"BuildTooMany":   {reason: "one thing is built at a time", args: []string{"module", "build", "a", "b"}, want: "takes one argument at most"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			require.Contains(t, s.fails(tc.args...), tc.want, tc.reason)
			require.Empty(t, s.out.String(), "nothing is printed that a script could take for a result")
		})
	}
}

func TestInterrupted(t *testing.T) {
	s := newSession(t)
	s.write("demo.wasm", demoWasm())
	ctx, cancel := context.WithCancel(t.Context())
	s.env.describe = func(ctx context.Context, _ []byte) ([]byte, error) {
		cancel()
		return nil, errors.Join(errors.New("killed"), ctx.Err())
	}
	require.Equal(t, 1, run(ctx, s.env, []string{"module", "inspect", "demo.wasm"}))
	require.Equal(t, "Interrupted.\n", s.errOut.String())
	require.Empty(t, s.out.String())
}
