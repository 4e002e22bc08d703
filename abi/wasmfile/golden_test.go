package wasmfile_test

import (
	"encoding/hex"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// TestEmbedBytes spells the section out: other tools read it, so it must not drift.
func TestEmbedBytes(t *testing.T) {
	out, err := wasmfile.Embed([]byte(header), []byte(`{}`))
	require.NoError(t, err)
	want := "0061736d" + "01000000" + // magic and version
		"00" + // a custom section
		"13" + // of 19 bytes
		"10" + hex.EncodeToString([]byte("caisson.manifest")) + // its name of 16 bytes
		hex.EncodeToString([]byte("{}"))
	require.Equal(t, want, hex.EncodeToString(out))
}

// TestEmbedSizes crosses the borders at which a length takes one byte more.
func TestEmbedSizes(t *testing.T) {
	for _, border := range []int{0x7f, 0x80, 0x3fff, 0x4000} {
		for _, around := range []int{-20, -19, -18, -17, -16, -1, 0, 1} {
			size := border + around
			t.Run(strconv.Itoa(size), func(t *testing.T) {
				manifest := []byte(strings.Repeat("m", size))
				out, err := wasmfile.Embed(module(), manifest)
				require.NoError(t, err)
				require.Equal(t, string(module())+custom(abi.ManifestSection, string(manifest)), string(out), "lengths are written as short as they can be")
				got, found, err := wasmfile.Manifest(out)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, manifest, got)
			})
		}
	}
	largest := make([]byte, wasmfile.MaxManifestBytes)
	out, err := wasmfile.Embed(module(), largest)
	require.NoError(t, err, "a limit includes itself")
	got, _, err := wasmfile.Manifest(out)
	require.NoError(t, err)
	require.Len(t, got, wasmfile.MaxManifestBytes)
}

func TestEmbedLeavesTheRestAlone(t *testing.T) {
	ours := custom(abi.ManifestSection, `{"old":true}`)
	foreign := custom("producers", "go") + custom("name", "\x00\x01") + custom(abi.ManifestSection+"2", "x") + custom("", "y")
	code := sect(1, "\x01\x60\x00\x00") + sect(10, "\x00")
	cases := map[string]struct {
		reason, file, rest string
	}{
		"First":  {reason: "a section before all others is replaced", file: ours + foreign + code, rest: foreign + code},
		"Middle": {reason: "so is one in the middle", file: code + ours + foreign, rest: code + foreign},
		"Last":   {reason: "and one at the end", file: code + foreign + ours, rest: code + foreign},
		"Many":   {reason: "however many there are", file: ours + code + ours + foreign + ours, rest: code + foreign},
		"None":   {reason: "sections of a similar name are not ours", file: code + foreign, rest: code + foreign},
		"Empty":  {reason: "a file without sections is a module", file: "", rest: ""},
		"Padded": {reason: "a size that is longer than needed is kept as it was", file: "\x00\x83\x80\x00\x01ab" + code, rest: "\x00\x83\x80\x00\x01ab" + code},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, err := wasmfile.Embed([]byte(header+tc.file), []byte("{}"))
			require.NoError(t, err)
			require.Equal(t, header+tc.rest+custom(abi.ManifestSection, "{}"), string(out), tc.reason)
		})
	}
}

func TestLists(t *testing.T) {
	functions := func(names ...string) string {
		body := leb(len(names))
		for _, name := range names {
			body += str("extism:host/user") + str(name) + "\x00\x00"
		}
		return sect(2, body)
	}
	names := func(file string) []string {
		imports, err := wasmfile.Imports([]byte(header + file))
		require.NoError(t, err)
		var got []string
		for _, i := range imports {
			got = append(got, i.Name)
		}
		return got
	}
	require.Empty(t, names(""), "no section is no import")
	require.Empty(t, names(functions()), "an empty one neither")
	require.Equal(t, []string{"b", "a", "b"}, names(functions("b", "a", "b")), "the file's order and repetitions are kept")
	require.Equal(t, []string{"a", "b"}, names(functions("a")+functions("b")), "nothing hides in a second section")
	require.Equal(t, []string{""}, names(functions("")), "an empty name is a name")

	many := make([]string, 300)
	for i := range many {
		many[i] = "f" + strconv.Itoa(i)
	}
	require.Equal(t, many, names(functions(many...)), "counts and sizes may take several bytes")

	exports, err := wasmfile.Exports([]byte(header + sect(7, leb(2)+str("a")+"\x00\x80\x01"+str("b")+"\x03\x00")))
	require.NoError(t, err)
	require.Equal(t, []wasmfile.Export{{Name: "a", Kind: wasmfile.KindFunc}, {Name: "b", Kind: wasmfile.KindGlobal}}, exports)

	_, err = wasmfile.Imports([]byte("hello"))
	require.ErrorIs(t, err, wasmfile.ErrNotWasm)
	_, err = wasmfile.Exports([]byte("\x00asm\x0d\x00\x01\x00"))
	require.ErrorIs(t, err, wasmfile.ErrComponent)
}

// TestEveryCut cuts a module at each byte: every reader fails or sees whole sections,
// and none panics.
func TestEveryCut(t *testing.T) {
	whole, err := wasmfile.Embed(module(), []byte(`{"a":1}`))
	require.NoError(t, err)
	borders := map[int]bool{}
	for cut := range whole {
		part := whole[:cut]
		_, found, manifestErr := wasmfile.Manifest(part)
		_, importErr := wasmfile.Imports(part)
		_, exportErr := wasmfile.Exports(part)
		require.False(t, found, "a cut manifest is none")
		require.Equal(t, manifestErr == nil, importErr == nil, "cut at %d", cut)
		require.Equal(t, manifestErr == nil, exportErr == nil, "cut at %d", cut)
		if manifestErr == nil {
			borders[cut] = true
		}
	}
	require.Len(t, borders, 5, "a file can end after its header and after each of four sections")
}
