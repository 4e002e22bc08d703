package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

func TestBuildRealModule(t *testing.T) {
	s := newSession(t)
	s.env.describe = describeInSandbox
	source := filepath.Join(s.sources, "testdata", "module")

	require.Zero(t, s.run("module", "build", source), s.errOut.String())
	require.Equal(t, "Warning: raw declares secret_read and never calls it; an admin would grant it for nothing.\n", s.errOut.String())
	require.Contains(t, s.out.String(), "raw.wasm")
	require.Contains(t, s.out.String(), "Next: caisson module push raw.wasm REGISTRY/raw:0.2.0_go\n", "a plus sign is no part of a tag")
	first, err := os.ReadFile("raw.wasm")
	require.NoError(t, err)

	manifest, found, err := wasmfile.Manifest(first)
	require.NoError(t, err)
	require.True(t, found)
	require.NotContains(t, string(manifest), "\n", "the manifest is compact")
	parsed, err := readManifest(manifest)
	require.NoError(t, err)
	require.Equal(t, "raw", parsed.Name)

	require.Zero(t, s.run("module", "build", source, "-o", "again.wasm", "--format", "json"), s.errOut.String())
	second, err := os.ReadFile("again.wasm")
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second), "the same sources give the same bytes")
	var result built
	require.NoError(t, json.Unmarshal(s.out.Bytes(), &result))
	require.Equal(t, built{File: "again.wasm", Size: len(first), Digest: digestOf(first), Name: "raw", Version: "0.2.0+go",
		Capabilities: []abi.Function{abi.AppEnsure, abi.SecretRead}}, result)

	require.Zero(t, s.run("module", "build", "again.wasm"), s.errOut.String())
	third, err := os.ReadFile("again.wasm")
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, third), "building a built file changes nothing")

	require.Contains(t, s.ok("module", "inspect", "raw.wasm"), "problems      none")

	changed, err := wasmfile.Embed(first, []byte(strings.Replace(string(manifest), "0.2.0+go", "0.3.0", 1)))
	require.NoError(t, err)
	s.write("changed.wasm", changed)
	require.Contains(t, s.fails("module", "inspect", "changed.wasm"), "would refuse")
	require.Contains(t, s.out.String(), "the manifest in the file differs from what describe returns")
}

func TestBuildThatDoesNotCompile(t *testing.T) {
	s := newSession(t)
	require.Equal(t, 1, s.run("module", "build", filepath.Join(s.sources, "testdata", "broken")))
	require.Contains(t, s.errOut.String(), "undefined: undefined", "what the go command says is shown")
	last := strings.Split(strings.TrimSpace(s.errOut.String()), "\n")
	require.Contains(t, last[len(last)-1], "Error: build ")
	require.Contains(t, last[len(last)-1], "the go command failed; correct what the go command reports above")

	s.env.goCommand = "no-such-go"
	require.Contains(t, s.fails("module", "build"), "there is no go command; install it")
}

func TestBuildPrebuilt(t *testing.T) {
	s := newSession(t)
	s.write("x.wasm", demoWasm())
	s.golden("build", s.ok("module", "build", "x.wasm"))
	s.golden("build-yaml", s.ok("module", "build", "x.wasm", "--format", "yaml"))
	info, err := os.Stat("x.wasm")
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestBuildRefuses(t *testing.T) {
	cases := map[string]struct {
		reason   string
		manifest string
		err      error
		wasm     []byte
		want     string
	}{
		"NotJSON":      {reason: "describe returns JSON", manifest: "hello", want: "read the manifest: "},
		"Misspelt":     {reason: "a misspelt field would silently do nothing", manifest: strings.Replace(manifestJSON, "description", "descripton", 1), want: `unknown field "descripton"`},
		"TwoDocuments": {reason: "one manifest is meant", manifest: manifestJSON + "{}", want: "something follows"},
		"Invalid":      {reason: "the manifest is validated", manifest: strings.Replace(manifestJSON, "1.2.3", "v1", 1), want: "manifest field version"},
		"Undeclared":   {reason: "an import that is not declared is refused at load", manifest: manifestJSON, wasm: demoWasm(abi.Event, abi.KubeGet), want: "the module demo imports event, kube_get without declaring it; add them"},
		"CannotLoad":   {reason: "what the sandbox says is passed on", err: errors.New("the module cannot be loaded: no; build it so"), want: "cannot be loaded"},
		"NotWasm":      {reason: "a wrong file is named as such", manifest: manifestJSON, wasm: []byte("# README"), want: "x.wasm is not a Wasm file"},
		"Component":    {reason: "the other Wasm is explained", manifest: manifestJSON, wasm: []byte("\x00asm\x0d\x00\x01\x00"), want: "component model"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.env.describe = func(context.Context, []byte) ([]byte, error) { return []byte(tc.manifest), tc.err }
			wasm := tc.wasm
			if wasm == nil {
				wasm = demoWasm()
			}
			s.write("x.wasm", wasm)
			require.Contains(t, s.fails("module", "build", "x.wasm"), tc.want, tc.reason)
			after, err := os.ReadFile("x.wasm")
			require.NoError(t, err)
			require.Equal(t, wasm, after, "the file is left alone")
		})
	}
	s := newSession(t)
	require.Contains(t, s.fails("module", "build", "nothing"), "there is no nothing")
	s.write("x.wasm", demoWasm())
	require.Contains(t, s.failsPlainly("module", "build", "x.wasm", "-o", "no/such/dir/x.wasm"), "write no/such/dir/x.wasm")
}

// failsPlainly is fails for errors of the operating system, which carry no remedy of ours.
func (s *session) failsPlainly(args ...string) string {
	s.t.Helper()
	require.Equal(s.t, 1, s.run(args...))
	return s.errOut.String()
}

// buildDemo leaves demo.wasm with its manifest.
func (s *session) buildDemo() {
	s.t.Helper()
	s.write("demo.wasm", demoWasm())
	s.ok("module", "build", "demo.wasm")
}

func TestInspectFile(t *testing.T) {
	s := newSession(t)
	s.buildDemo()
	s.golden("inspect", s.ok("module", "inspect", "demo.wasm"))
	asJSON := s.ok("module", "inspect", "demo.wasm", "-o", "json")
	s.golden("inspect-json", asJSON)
	fromYAML, err := yaml.YAMLToJSON([]byte(s.ok("module", "inspect", "demo.wasm", "-o", "yaml")))
	require.NoError(t, err)
	require.JSONEq(t, asJSON, string(fromYAML), "the two formats say the same")
}

func TestInspectProblems(t *testing.T) {
	s := newSession(t)
	s.write("plain.wasm", demoWasm(abi.AppEnsure, abi.Event))
	s.fails("module", "inspect", "plain.wasm")
	s.golden("inspect-problems", s.out.String())

	s.env.describe = func(context.Context, []byte) ([]byte, error) {
		return nil, errors.New("the module cannot be loaded: describe did not return")
	}
	require.Contains(t, s.fails("module", "inspect", "plain.wasm"), "would refuse plain.wasm for 2 reasons")
	require.Contains(t, s.out.String(), "describe did not return", "what can be said without running it is still said")
	require.Contains(t, s.out.String(), "app_ensure, event")

	s.write("damaged.wasm", demoWasm()[:20])
	require.Contains(t, s.failsPlainly("module", "inspect", "damaged.wasm"), "cut off or damaged")
	require.Contains(t, s.fails("module", "inspect", "missing.wasm"), "there is no file missing.wasm")
	require.Contains(t, s.fails("module", "inspect", "what is this"), "neither a file nor a reference")
	require.Contains(t, s.fails("module", "inspect", "."), ". is not a file")
}

func TestInspectOfAHostileModule(t *testing.T) {
	s := newSession(t)
	s.write("evil.wasm", demoWasm("\x1b[2Japp_ensure\r\nproblems none\t"))
	text := s.fails("module", "inspect", "evil.wasm") + s.out.String()
	for _, c := range "\x1b\r\t" {
		require.NotContains(t, text, string(c), "a name cannot drive the terminal")
	}
	require.Contains(t, text, "app_ensure\uFFFD\uFFFDproblems none", "and cannot start a line")
}

func TestPushAndInspectReference(t *testing.T) {
	r := registrytest.New(t)
	s := newSession(t)
	s.hidden = []string{r.Host, "registry.example.com"}
	s.buildDemo()
	ref := r.Ref("acme/demo:1.2.3")

	s.golden("push", s.ok("module", "push", "demo.wasm", "oci://"+ref))
	object := s.ok("module", "push", "demo.wasm", ref, "-o", "yaml")
	s.golden("push-yaml", object)
	var module v1alpha1.Module
	require.NoError(t, yaml.UnmarshalStrict([]byte(object), &module), "what is printed can be applied")
	pinned, err := registry.ParseReference(module.Spec.Reference)
	require.NoError(t, err)
	require.NotEmpty(t, pinned.Digest(), "the object is pinned to what was pushed")
	require.Empty(t, module.Spec.AllowedNamespaces, "nobody may use it yet")

	asJSON := s.ok("module", "push", "demo.wasm", ref, "-o", "json")
	fromYAML, err := yaml.YAMLToJSON([]byte(object))
	require.NoError(t, err)
	require.JSONEq(t, string(fromYAML), asJSON)

	s.golden("inspect-reference", s.ok("module", "inspect", ref))
	require.Contains(t, s.ok("module", "inspect", module.Spec.Reference), pinned.Digest())
}

func TestPushRefuses(t *testing.T) {
	s := newSession(t)
	s.write("plain.wasm", demoWasm())
	require.Contains(t, s.fails("module", "push", "plain.wasm", "127.0.0.1:1/a:1"), "plain.wasm holds no manifest; write one into it with 'caisson module build plain.wasm'")
	s.buildDemo()
	require.Contains(t, s.fails("module", "push", "demo.wasm", "acme/demo:1"), "host of a registry; write it like")
	require.Contains(t, s.fails("module", "push", "demo.wasm", "127.0.0.1:1/demo"), "neither a tag nor a digest")
	require.Contains(t, s.fails("module", "push", "missing.wasm", "127.0.0.1:1/demo:1"), "there is no file missing.wasm")

	undeclared, err := wasmfile.Embed(demoWasm(abi.KubeDelete), []byte(manifestJSON))
	require.NoError(t, err)
	s.write("undeclared.wasm", undeclared)
	require.Contains(t, s.fails("module", "push", "undeclared.wasm", "127.0.0.1:1/demo:1"), "imports kube_delete without declaring it")
	require.Empty(t, s.out.String())
}

func TestRegistryTrouble(t *testing.T) {
	r := registrytest.New(t)
	s := newSession(t)
	s.buildDemo()
	require.Contains(t, s.fails("module", "inspect", r.Ref("acme/demo:9")), "no such thing")
	r.Inject(registrytest.Login("u", "p"))
	require.Contains(t, s.fails("module", "push", "demo.wasm", r.Ref("acme/demo:1")), "refused access")
	s.env.credentials = registry.CredentialsFunc(func(context.Context, registry.Reference) (registry.Credential, error) {
		return registry.Credential{Username: "u", Password: "p"}, nil
	})
	s.ok("module", "push", "demo.wasm", r.Ref("acme/demo:1"))
	r.Down()
	require.Contains(t, s.fails("module", "push", "demo.wasm", r.Ref("acme/demo:1")), "does not answer")
}

func TestObjectOfAMinimalModule(t *testing.T) {
	ref, err := registry.ParseReference("ghcr.io/a:1")
	require.NoError(t, err)
	object := newModuleObject(ref, "sha256:x", &abi.Manifest{Name: "a"})
	require.NotNil(t, object.Spec.Grant.Capabilities, "an empty list is printed as one, for the API demands it")
	require.Len(t, object.notes(), 2)
}
