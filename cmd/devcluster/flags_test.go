package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

func TestParseFlags(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		reason    string
		arguments []string
		want      flags
		err       string
	}{
		"Defaults":     {"nothing is required", nil, flags{name: "devcluster"}, ""},
		"All":          {"every flag", []string{"--dir", "d", "--port=1234", "--kubeconfig", "k", "--name", "home", "--parent-pid", "7"}, flags{dir: "d", port: 1234, kubeconfig: "k", name: "home", parentPID: 7}, ""},
		"OneDash":      {"Go's own form", []string{"-port", "1"}, flags{port: 1, name: "devcluster"}, ""},
		"NegativePort": {"no port", []string{"--port", "-1"}, flags{}, "--port -1"},
		"LargePort":    {"no port", []string{"--port", "65536"}, flags{}, "--port 65536"},
		"NegativePID":  {"a process group, to kill(2)", []string{"--parent-pid", "-1"}, flags{}, "--parent-pid -1"},
		"BadName":      {"it names a node", []string{"--name", "My Cluster"}, flags{}, `--name "My Cluster"`},
		"EmptyName":    {"it names a node", []string{"--name="}, flags{}, `--name ""`},
		"Argument":     {"a directory without --dir", []string{"d"}, flags{}, `unexpected argument "d"`},
		"Unknown":      {"a typo", []string{"--potr", "1"}, flags{}, "potr"},
		"NotANumber":   {"a word", []string{"--port", "any"}, flags{}, "any"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			parsed, err := parseFlags(c.arguments, io.Discard)
			if c.err != "" {
				require.ErrorContains(t, err, c.err, c.reason)
			} else {
				require.NoError(t, err, c.reason)
			}
			require.Equal(t, c.want, parsed, c.reason)
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()

	var output bytes.Buffer
	_, err := parseFlags([]string{"--help"}, &output)
	require.ErrorIs(t, err, flag.ErrHelp)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, name := range []string{"dir", "port", "kubeconfig", "name", "parent-pid"} {
		require.Contains(t, output.String(), "-"+name)
		require.Contains(t, string(readme), "--"+name, "the README tells of every flag")
	}
}

// TestLog is not parallel: klog is one for the process.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	log, err := openLog(dir)
	require.NoError(t, err)
	defer func() {
		klog.SetOutput(io.Discard)
		require.NoError(t, log.Close())
	}()

	klog.Info("an information")
	klog.Warning("a warning")
	klog.Error("an error")
	klog.Flush()
	data, err := os.ReadFile(filepath.Join(dir, "errors.log"))
	require.NoError(t, err)
	require.Contains(t, string(data), "an error")
	require.Equal(t, 1, strings.Count(string(data), "\n"), "and nothing else")

	var tail bytes.Buffer
	require.NoError(t, copyTail(&tail, log))
	require.Equal(t, string(data), tail.String(), "a short log is copied whole")
	klog.Error(strings.Repeat("x", 2*tailBytes))
	klog.Error("the last")
	tail.Reset()
	require.NoError(t, copyTail(&tail, log))
	require.Equal(t, tailBytes, tail.Len(), "of a long one the end")
	require.True(t, strings.HasSuffix(tail.String(), "the last\n"))

	_, err = openLog(filepath.Join(dir, "absent"))
	require.ErrorContains(t, err, "create log")
}
