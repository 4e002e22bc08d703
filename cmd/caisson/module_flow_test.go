package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// TestAuthorsDay is what a module author does in a row, on the real compiler, the real
// sandbox and a registry: build, inspect, push, look at what was pushed, push again.
func TestAuthorsDay(t *testing.T) {
	r := registrytest.New(t)
	s := newSession(t)
	s.env.describe = describeInSandbox
	ref := r.Ref("acme/raw:0.2.0_go")

	require.Zero(t, s.run("module", "build", filepath.Join(s.sources, "testdata", "module")), s.errOut.String())
	next := s.out.String()[strings.Index(s.out.String(), "Next: caisson ")+len("Next: caisson "):]
	words := strings.Fields(strings.Replace(next, "REGISTRY", r.Host+"/acme", 1))
	require.Contains(t, s.ok(words...), "pushed  "+ref, "the next step that was printed works as it stands")

	file, err := os.ReadFile("raw.wasm")
	require.NoError(t, err)
	var byFile, byRef inspection
	require.NoError(t, json.Unmarshal([]byte(s.ok("module", "inspect", "raw.wasm", "-o", "json")), &byFile))
	require.NoError(t, json.Unmarshal([]byte(s.ok("module", "inspect", ref, "-o", "json")), &byRef))
	require.Equal(t, digestOf(file), byRef.Digest)
	require.NotEmpty(t, byRef.ArtifactDigest)
	require.Equal(t, []abi.Function{abi.AppEnsure}, byRef.Functions)
	require.Equal(t, []abi.Function{abi.SecretRead}, byRef.Unused)
	require.Contains(t, byRef.Exports, "_initialize")
	byRef.Source, byRef.ArtifactDigest = byFile.Source, ""
	require.Equal(t, byFile, byRef, "a module is the same in a registry as on disk")

	first := s.ok(append(words, "-o", "yaml")...)
	require.Equal(t, first, s.ok(append(words, "-o", "yaml")...), "pushing again gives the same digest")
}

func TestBuildInTheCurrentDirectory(t *testing.T) {
	s := newSession(t)
	source, err := os.ReadFile(filepath.Join(s.sources, "testdata", "module", "main.go"))
	require.NoError(t, err)
	s.write("main.go", source)
	s.write("go.mod", []byte("module example.com/mine\n\ngo 1.26.0\n"))
	t.Setenv("GOWORK", "off")
	s.env.describe = func(_ context.Context, wasm []byte) ([]byte, error) {
		require.NoError(t, wasmfile.Check(wasm))
		return []byte(`{"abi":1,"name":"mine","version":"0.1.0","capabilities":["app_ensure"]}`), nil
	}
	require.Contains(t, s.ok("module", "build"), "mine.wasm", "the file is named after the module, not after the directory")
	require.FileExists(t, "mine.wasm")

	s.env.describe = func(context.Context, []byte) ([]byte, error) {
		return []byte(`{"abi":1,"name":"../../escape","version":"0.1.0"}`), nil
	}
	require.Contains(t, s.fails("module", "build"), "is not a DNS label", "a name never decides on another directory")
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, entries, 3)
}

func TestSandboxRefusals(t *testing.T) {
	s := newSession(t)
	s.env.describe = describeInSandbox
	s.write("tiny.wasm", demoWasm())
	text := s.failsPlainly("module", "build", "tiny.wasm")
	require.Contains(t, text, "the module cannot be loaded", "the sandbox's own words are shown")
	var refused *sandbox.LoadError
	_, err := describeInSandbox(t.Context(), demoWasm())
	require.ErrorAs(t, err, &refused)
	require.Contains(t, s.fails("module", "inspect", "tiny.wasm"), "would refuse")
	require.Contains(t, s.out.String(), "kube_list", "an inspection shows what it can of a module that cannot run")
}

func TestReadModule(t *testing.T) {
	s := newSession(t)
	s.write("a.wasm", demoWasm())
	got, err := readModule("a.wasm")
	require.NoError(t, err)
	require.True(t, bytes.Equal(demoWasm(), got))

	huge, err := os.Create("huge.wasm")
	require.NoError(t, err)
	require.NoError(t, huge.Truncate(maxFileBytes+1))
	require.NoError(t, huge.Close())
	_, err = readModule("huge.wasm")
	require.ErrorContains(t, err, "has more than the 268435456 bytes")

	require.NoError(t, os.Symlink("a.wasm", "link.wasm"))
	_, err = readModule("link.wasm")
	require.NoError(t, err, "a link to a module is a module")
	_, err = readModule(os.DevNull)
	require.ErrorContains(t, err, "is not a file")
}
