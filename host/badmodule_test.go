package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

// anyGrant is the rest of a Module's spec.
const anyGrant = `
allowedNamespaces: ["*"]
grant: {capabilities: []}
`

// TestBadModules: what a registry serves and what is in a file are told apart, in the
// condition of the Module and in words that say what to do.
func TestBadModules(t *testing.T) {
	r := needRig(t)
	exports := []string{abi.ExportDescribe, abi.ExportProvision, abi.ExportDeprovision}
	file := func(wasm []byte) func(*testing.T, *registrytest.Registry) {
		return func(t *testing.T, shelf *registrytest.Registry) { publishRaw(t, shelf, wasm) }
	}
	broken := func(faults ...registrytest.Fault) func(*testing.T, *registrytest.Registry) {
		return func(t *testing.T, shelf *registrytest.Registry) {
			// Bytes of its own: what is in the cache already is not fetched again.
			publishRaw(t, shelf, rawModule("", "", append(exports, t.Name())...))
			for _, f := range faults {
				shelf.Inject(f)
			}
		}
	}
	// What Go's linker leaves in each file that it makes.
	goBuilt := func(wasm []byte) []byte { return append(wasm, "\x00\x0b\x0ago:buildid"...) }
	chart := func(t *testing.T, shelf *registrytest.Registry) {
		shelf.Put(t, "modules/bad", "1", registrytest.Artifact{
			ConfigType: "application/vnd.cncf.helm.config.v1+json",
			Layers:     []registrytest.Layer{{MediaType: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Content: []byte("a chart")}},
		})
	}
	cases := map[string]struct {
		reason  string
		publish func(*testing.T, *registrytest.Registry)
		tag     string
		want    string
		says    string
	}{
		"not-wasm":          {reason: "any other file", publish: file([]byte("#!/bin/sh\necho hello\n")), want: "False/LoadFailed", says: "not a Wasm module"},
		"chart":             {reason: "another kind of artifact", publish: chart, want: "False/NotAModule"},
		"component":         {reason: "the other kind of Wasm file", publish: file([]byte("\x00asm\x0d\x00\x01\x00")), want: "False/LoadFailed", says: "component model"},
		"no-initialize":     {reason: "a program of Go instead of a library", publish: file(goBuilt(rawModule("", "", append(exports, "_start")...))), want: "False/LoadFailed", says: "_initialize"},
		"unknown-import":    {reason: "there is no such host function", publish: file(rawModule("extism:host/user", "kube_exec", exports...)), want: "False/LoadFailed", says: "kube_exec"},
		"no-export":         {reason: "a function of the ABI is missing", publish: file(rawModule("", "", abi.ExportDescribe, abi.ExportProvision)), want: "False/LoadFailed", says: "deprovision"},
		"truncated":         {reason: "the file ends in the middle", publish: file(rawModule("", "", exports...)[:20]), want: "False/LoadFailed", says: "cannot be loaded"},
		"no-manifest":       {reason: "not built with the CLI", publish: file(rawModule("", "", exports...)), want: "False/InvalidManifest", says: "caisson module build"},
		"no-tag":            {reason: "never pushed", publish: broken(), tag: "2", want: "False/NotFound", says: ":2"},
		"wrong-digest":      {reason: "somebody between us and the registry", publish: broken(registrytest.WrongBytes(registrytest.Blobs)), want: "False/DigestMismatch", says: "sha256:"},
		"registry-error":    {reason: "it has trouble of its own", publish: broken(registrytest.Status(registrytest.Everything, 503, 0)), want: "False/RegistryUnavailable", says: "503"},
		"registry-down":     {reason: "nobody answers", publish: func(_ *testing.T, shelf *registrytest.Registry) { shelf.Down() }, want: "False/RegistryUnavailable"},
		"login":             {reason: "it wants to know who asks", publish: broken(registrytest.Login("user", "hunter2")), want: "False/Unauthorized"},
		"invalid-reference": {reason: "no such thing as a space in a name", tag: "1 or 2", publish: broken(), want: "False/InvalidReference"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			shelf := registrytest.New(t)
			c.publish(t, shelf)
			if c.tag == "" {
				c.tag = "1"
			}
			object := "bad-" + name
			r.module(t, object, "reference: "+shelf.Ref("modules/bad:"+c.tag)+anyGrant)
			message := r.awaitModule(t, object, c.want)
			require.Contains(t, message, c.says, c.reason)
			require.NotContains(t, message, "hunter2")
			require.NotContains(t, message, "\n", "one line, and no page of a proxy")
		})
	}
}

// publishRaw pushes bytes as a module without judging them.
func publishRaw(t *testing.T, shelf *registrytest.Registry, wasm []byte) {
	t.Helper()
	shelf.Put(t, "modules/bad", "1", registrytest.Artifact{
		ConfigType: "application/vnd.wasm.config.v0+json",
		Layers:     []registrytest.Layer{{MediaType: "application/wasm", Content: wasm}},
	})
}

// TestModuleRecovers: a registry that comes back, and a tag that moves, are noticed by
// polling; what is in use stays so meanwhile.
func TestModuleRecovers(t *testing.T) {
	r := needRig(t)
	shelf := registrytest.New(t)
	push, err := registry.New(registry.Options{})
	require.NoError(t, err)
	ref, err := registry.ParseReference(shelf.Ref("modules/hostile:1"))
	require.NoError(t, err)
	shelf.Down()
	r.module(t, "recovers", "reference: "+shelf.Ref("modules/hostile:1")+`
pollInterval: 1s
allowedNamespaces: ["*"]
grant: {capabilities: [secret_read]}
`)
	r.awaitModule(t, "recovers", "False/RegistryUnavailable")
	shelf.Up()
	_, err = push.Push(t.Context(), ref, r.wasm["hostile"], nil)
	require.NoError(t, err)
	r.awaitModule(t, "recovers", "True/Loaded")

	shelf.Down()
	require.Contains(t, r.awaitModule(t, "recovers", "True/RegistryUnavailable"), "stays in use at sha256:")
}
