package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

func TestFormat(t *testing.T) {
	type data struct {
		Name string   `json:"name"`
		List []string `json:"list"`
	}
	cases := map[string]struct {
		reason string
		format format
		want   string
	}{
		"JSON":  {reason: "angle brackets are not escaped: nobody puts this into a page", format: formatJSON, want: "{\n  \"name\": \"a<b\",\n  \"list\": [\n    \"x\"\n  ]\n}\n"},
		"YAML":  {reason: "the names are those of JSON", format: formatYAML, want: "list:\n- x\nname: a<b\n"},
		"Table": {reason: "the table is the caller's", format: formatTable, want: "the table"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := tc.format.print(&out, data{Name: "a<b", List: []string{"x"}}, func(w io.Writer) error {
				_, err := io.WriteString(w, "the table")
				return err
			})
			require.NoError(t, err)
			require.Equal(t, tc.want, out.String(), tc.reason)

			var f format
			v := formatValue{into: &f, people: formatTable}
			require.NoError(t, v.Set(string(tc.format)))
			require.Equal(t, string(tc.format), v.String())
			require.Equal(t, tc.format, f)
		})
	}
	var f format
	v := formatValue{into: &f, people: formatText}
	require.EqualError(t, v.Set("JSON"), "must be text, json or yaml")
	require.EqualError(t, v.Set("table"), "must be text, json or yaml")
	require.Empty(t, v.String(), "a bad value changes nothing")
	require.Empty(t, formatValue{}.String(), "the flag library asks the zero value")
	failed := errors.New("the pipe is gone")
	require.ErrorIs(t, formatTable.print(io.Discard, nil, func(io.Writer) error { return failed }), failed)
	for _, f := range []format{formatJSON, formatYAML} {
		require.Error(t, f.print(io.Discard, make(chan int), nil), "what cannot be printed is an error")
	}
}

func TestProperties(t *testing.T) {
	var out bytes.Buffer
	p := newProperties(&out)
	p.add("short", "one")
	p.add("rather long", "two", "three")
	p.add("nothing")
	p.add("hostile", "a\tb\nc\x1b[2Jd\u202ee\xff")
	require.NoError(t, p.flush())
	require.Equal(t, "short        one\nrather long  two\n             three\nnothing      -\nhostile      a\uFFFDb\uFFFDc\uFFFD[2Jd\uFFFDe\uFFFD\n", out.String())
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int]string{
		0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB (1000 bytes)", 999_999: "1000.0 kB (999999 bytes)",
		1_000_000: "1.0 MB (1000000 bytes)", 3_412_345: "3.4 MB (3412345 bytes)",
	} {
		require.Equal(t, want, sizeText(n))
	}
}

func TestJoin(t *testing.T) {
	require.Equal(t, "none", join[string](nil))
	require.Equal(t, "app_ensure", join([]abi.Function{abi.AppEnsure}))
	require.Equal(t, "a, b", join([]string{"a", "b"}))
}

func TestFailure(t *testing.T) {
	cause := errors.New("the cause")
	err := failure("do this", "read %s: %w", "x", cause)
	require.EqualError(t, err, "read x: the cause; do this")
	require.ErrorIs(t, err, cause)
}

func TestReadManifest(t *testing.T) {
	m, err := readManifest([]byte(" " + manifestJSON + "\n"))
	require.NoError(t, err)
	require.Equal(t, "demo", m.Name)
	for _, broken := range []string{"", "null", "[]", "{}", "{", `"x"`, manifestJSON + "x", manifestJSON + manifestJSON} {
		_, err := readManifest([]byte(broken))
		require.Error(t, err, broken)
	}
}

func TestSameJSON(t *testing.T) {
	cases := map[string]struct {
		reason string
		a, b   string
		want   bool
	}{
		"Layout":    {reason: "white space and order say nothing", a: `{"a":1,"b":[1,2]}`, b: "{ \"b\": [1, 2],\n\"a\": 1 }", want: true},
		"Escapes":   {reason: "nor do escapes", a: `"\u0041"`, b: `"A"`, want: true},
		"Order":     {reason: "the order of a list does", a: `[1,2]`, b: `[2,1]`},
		"Value":     {reason: "a value does", a: `{"a":1}`, b: `{"a":2}`},
		"Missing":   {reason: "a missing field is not null", a: `{"a":null}`, b: `{}`},
		"Broken":    {reason: "what is not JSON equals nothing", a: `x`, b: `x`},
		"HalfEmpty": {reason: "nothing is not JSON", a: `{}`, b: ``},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, sameJSON([]byte(tc.a), []byte(tc.b)), tc.reason)
			require.Equal(t, tc.want, sameJSON([]byte(tc.b), []byte(tc.a)), tc.reason)
		})
	}
}

func TestSurface(t *testing.T) {
	s, err := readSurface(demoWasm(abi.KubeList, abi.AppEnsure, abi.KubeList))
	require.NoError(t, err)
	require.Equal(t, []abi.Function{abi.AppEnsure, abi.KubeList}, s.functions, "functions are a sorted set")
	require.Equal(t, map[string]int{"extism:host/env": 1, "wasi_snapshot_preview1": 1}, s.others)
	require.Equal(t, []string{"describe", "provision"}, s.exports, "a memory is no function")

	m := &abi.Manifest{Name: "m", Capabilities: []abi.Function{abi.AppEnsure, abi.Event}}
	require.Equal(t, []abi.Function{abi.KubeList}, s.undeclared(m))
	require.Equal(t, []abi.Function{abi.Event}, s.unused(m))
	require.ErrorContains(t, s.checkDeclared(m), "the module m imports kube_list without declaring it")
	require.Equal(t, []abi.Function{abi.AppEnsure, abi.Event}, m.Capabilities, "the manifest is left alone")
	require.Equal(t, []abi.Function{abi.AppEnsure, abi.KubeList}, s.functions, "and so is the surface")

	m.Capabilities = append(m.Capabilities, abi.KubeList)
	require.NoError(t, s.checkDeclared(m))
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.wasm")
	require.NoError(t, os.WriteFile(path, []byte("old and longer"), 0o600))
	require.NoError(t, writeFile(path, []byte("new")))
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(got))

	dir := t.TempDir()
	require.ErrorContains(t, writeFile(dir, []byte("new")), "write "+dir, "a directory is not replaced")
	entries, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	for _, entry := range entries {
		require.False(t, strings.HasPrefix(entry.Name(), "."), "no temporary file is left")
	}
}

func TestTagOf(t *testing.T) {
	require.Equal(t, "1.2.3", tagOf("1.2.3"))
	require.Equal(t, "1.2.3-rc.1_build.5", tagOf("1.2.3-rc.1+build.5"))
}

func FuzzInspect(f *testing.F) {
	f.Add(demoWasm())
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Add(demoWasm("\x1b[2J"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		s, err := readSurface(wasm)
		if err != nil {
			return
		}
		i := &inspection{Source: "x", Functions: s.functions, OtherImports: s.others, Exports: s.exports}
		i.judge([]byte(manifestJSON), s)
		var out bytes.Buffer
		require.NoError(t, i.table(&out))
		for _, r := range out.String() {
			require.True(t, r == '\n' || r >= ' ', "a stranger's names cannot drive the terminal")
		}
	})
}
