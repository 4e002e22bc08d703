package wasmfile_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

const header = "\x00asm\x01\x00\x00\x00"

// leb writes unsigned LEB128, independently of the package under test.
func leb(n int) string {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 {
			return string(append(out, b))
		}
		out = append(out, b|0x80)
	}
}

func str(s string) string { return leb(len(s)) + s }

func sect(id byte, body string) string { return string(rune(id)) + leb(len(body)) + body }

func custom(name, content string) string { return sect(0, str(name)+content) }

// module is a file with a type, imports of every kind, exports and a foreign section.
func module() []byte {
	imports := leb(5) +
		str("extism:host/user") + str("app_ensure") + "\x00\x00" +
		str("env") + str("table") + "\x01\x70\x01\x01\x02" +
		str("env") + str("memory") + "\x02\x00\x01" +
		str("env") + str("global") + "\x03\x7f\x00" +
		str("env") + str("tag") + "\x04\x00\x00"
	exports := leb(2) + str("provision") + "\x00\x01" + str("memory") + "\x02\x00"
	return []byte(header + sect(1, "\x01\x60\x00\x00") + sect(2, imports) + sect(7, exports) + custom("producers", "go"))
}

func TestEmbedAndManifest(t *testing.T) {
	plain := module()
	before := bytes.Clone(plain)

	_, found, err := wasmfile.Manifest(plain)
	require.NoError(t, err)
	require.False(t, found, "a fresh module has no manifest")

	first, err := wasmfile.Embed(plain, []byte(`{"a":1}`))
	require.NoError(t, err)
	require.Equal(t, before, plain, "the argument is not written to")
	require.Equal(t, string(plain)+custom(abi.ManifestSection, `{"a":1}`), string(first), "the section is appended and nothing else changes")

	got, found, err := wasmfile.Manifest(first)
	require.NoError(t, err)
	require.True(t, found)
	require.JSONEq(t, `{"a":1}`, string(got))

	second, err := wasmfile.Embed(first, []byte(`{"b":2}`))
	require.NoError(t, err)
	require.Equal(t, string(plain)+custom(abi.ManifestSection, `{"b":2}`), string(second), "an existing section is replaced, not added to")

	again, err := wasmfile.Embed(second, []byte(`{"b":2}`))
	require.NoError(t, err)
	require.Equal(t, second, again, "embedding is idempotent, so that builds are reproducible")
}

func TestEmbedLongManifest(t *testing.T) {
	long := []byte(`"` + strings.Repeat("x", 70_000) + `"`)
	out, err := wasmfile.Embed(module(), long)
	require.NoError(t, err)
	got, _, err := wasmfile.Manifest(out)
	require.NoError(t, err)
	require.Equal(t, long, got)
}

func TestImportsAndExports(t *testing.T) {
	imports, err := wasmfile.Imports(module())
	require.NoError(t, err)
	require.Equal(t, []wasmfile.Import{
		{Module: "extism:host/user", Name: "app_ensure", Kind: wasmfile.KindFunc},
		{Module: "env", Name: "table", Kind: wasmfile.KindTable},
		{Module: "env", Name: "memory", Kind: wasmfile.KindMemory},
		{Module: "env", Name: "global", Kind: wasmfile.KindGlobal},
		{Module: "env", Name: "tag", Kind: wasmfile.KindTag},
	}, imports)

	exports, err := wasmfile.Exports(module())
	require.NoError(t, err)
	require.Equal(t, []wasmfile.Export{
		{Name: "provision", Kind: wasmfile.KindFunc},
		{Name: "memory", Kind: wasmfile.KindMemory},
	}, exports)
}

func TestKindString(t *testing.T) {
	for kind, want := range map[wasmfile.Kind]string{
		wasmfile.KindFunc: "func", wasmfile.KindTable: "table", wasmfile.KindMemory: "memory",
		wasmfile.KindGlobal: "global", wasmfile.KindTag: "tag", 9: "kind 9",
	} {
		require.Equal(t, want, kind.String())
	}
}

func TestDamagedFiles(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		want   string
	}{
		"Empty":         {reason: "nothing is not Wasm", file: "", want: "not a Wasm file"},
		"Text":          {reason: "a wrong file is named as such", file: "apiVersion: v1", want: "not a Wasm file"},
		"Component":     {reason: "the other Wasm is explained", file: "\x00asm\x0d\x00\x01\x00", want: "component model"},
		"OtherVersion":  {reason: "only version 1 is defined", file: "\x00asm\x02\x00\x00\x00", want: "version 1"},
		"ShortHeader":   {reason: "a cut header is no header", file: "\x00asm\x01", want: "not a Wasm file"},
		"NoSize":        {reason: "a section has a size", file: header + "\x00", want: "cut off or damaged"},
		"SizeTooBig":    {reason: "a size must lie in the file", file: header + "\x00\x7f", want: "cut off or damaged"},
		"SizeHuge":      {reason: "a size near 4 GiB must not overflow", file: header + "\x00\xff\xff\xff\xff\x0f", want: "cut off or damaged"},
		"NumberTooLong": {reason: "a size has 32 bits", file: header + "\x00\xff\xff\xff\xff\x1f", want: "longer than 32 bits"},
		"NumberEndless": {reason: "a number has five bytes at most", file: header + "\x00\x80\x80\x80\x80\x80\x00", want: "longer than 32 bits"},
		"NameTooLong":   {reason: "a name must lie in its section", file: header + sect(0, "\x7fabc"), want: "cut off or damaged"},
		"NameNotUTF8":   {reason: "names are UTF-8", file: header + sect(0, "\x01\xff"), want: "not UTF-8"},
		"NameHuge":      {reason: "names are bounded", file: header + custom(strings.Repeat("n", 70_000), ""), want: "are allowed"},
		"NoName":        {reason: "a custom section has a name", file: header + sect(0, ""), want: "cut off or damaged"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := wasmfile.Manifest([]byte(tc.file))
			require.ErrorContains(t, err, tc.want, tc.reason)
			_, err = wasmfile.Embed([]byte(tc.file), []byte(`{}`))
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

func TestDamagedEntries(t *testing.T) {
	cases := map[string]struct {
		reason string
		body   string
		want   string
	}{
		"Empty":       {reason: "a vector has a count", body: "", want: "cut off or damaged"},
		"CountLies":   {reason: "a count must have entries", body: leb(3), want: "cut off or damaged"},
		"CountHuge":   {reason: "a count costs nothing to claim, so it is capped", body: leb(1 << 30), want: "10000 are allowed"},
		"Trailing":    {reason: "nothing follows the last entry", body: leb(0) + "x", want: "1 bytes after its last entry"},
		"UnknownKind": {reason: "an unknown kind cannot be skipped", body: leb(1) + str("m") + str("n") + "\x09\x00", want: "unknown kind 9"},
		"CutKind":     {reason: "an import has a kind", body: leb(1) + str("m") + str("n"), want: "cut off or damaged"},
		"CutName":     {reason: "an import has two names", body: leb(1) + str("m"), want: "cut off or damaged"},
		"CutTable":    {reason: "a table has limits", body: leb(1) + str("m") + str("n") + "\x01\x70", want: "cut off or damaged"},
		"CutMaximum":  {reason: "flags announce a maximum", body: leb(1) + str("m") + str("n") + "\x02\x01\x01", want: "cut off or damaged"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := wasmfile.Imports([]byte(header + sect(2, tc.body)))
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
	_, err := wasmfile.Exports([]byte(header + sect(7, leb(1)+str("n")+"\x00")))
	require.ErrorContains(t, err, "export 0")
}

func TestManifestRefusals(t *testing.T) {
	two := string(module()) + custom(abi.ManifestSection, "{}") + custom(abi.ManifestSection, "{}")
	_, _, err := wasmfile.Manifest([]byte(two))
	require.ErrorContains(t, err, "more than one section")

	mended, err := wasmfile.Embed([]byte(two), []byte("{}"))
	require.NoError(t, err, "building again mends it, as the message says")
	require.Equal(t, string(module())+custom(abi.ManifestSection, "{}"), string(mended))

	huge := strings.Repeat("x", wasmfile.MaxManifestBytes+1)
	_, _, err = wasmfile.Manifest([]byte(header + custom(abi.ManifestSection, huge)))
	require.ErrorContains(t, err, "262145 bytes and 262144 are allowed")
	_, err = wasmfile.Embed(module(), []byte(huge))
	require.ErrorContains(t, err, "262145 bytes and 262144 are allowed")
	_, err = wasmfile.Embed(module(), nil)
	require.ErrorContains(t, err, "empty")
}

func FuzzFile(f *testing.F) {
	f.Add(module(), []byte("{}"))
	f.Add([]byte(header+custom(abi.ManifestSection, "{}")), []byte(`{"a":1}`))
	f.Add([]byte(header+"\x00\xff\xff\xff\xff\x0f"), []byte("x"))
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"), []byte("x"))
	f.Fuzz(func(t *testing.T, wasm, manifest []byte) {
		imports, _ := wasmfile.Imports(wasm)
		exports, _ := wasmfile.Exports(wasm)
		require.LessOrEqual(t, len(imports)+len(exports), len(wasm), "entries cost bytes")
		out, err := wasmfile.Embed(wasm, manifest)
		if err != nil {
			return
		}
		got, found, err := wasmfile.Manifest(out)
		require.NoError(t, err, "what was embedded can be read")
		require.True(t, found)
		require.Equal(t, manifest, got)
		after, err := wasmfile.Imports(out)
		if imports != nil {
			require.NoError(t, err)
		}
		require.Equal(t, imports, after, "embedding leaves the imports alone")
	})
}
