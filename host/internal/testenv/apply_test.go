package testenv

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecode(t *testing.T) {
	t.Parallel()

	cases := map[string]struct {
		reason    string
		documents string
		want      []string
		err       string
	}{
		"Empty":        {"nothing is nothing", "", nil, ""},
		"OnlyComments": {"comments and separators hold no object", "# a\n---\n# b\n---\n", nil, ""},
		"Order":        {"namespaces and CRDs go first, the rest keeps its order", "{apiVersion: v1, kind: B, metadata: {name: b}}\n---\n{apiVersion: v1, kind: A, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: nn}}\n", []string{"Namespace", "B", "A"}, ""},
		"JSON":         {"JSON is accepted too", `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`, []string{"A"}, ""},
		"NoKind":       {"an object without a kind cannot be applied", "{apiVersion: v1, metadata: {name: a}}", nil, "manifest 1 lacks"},
		"NoName":       {"nor one without a name", "{apiVersion: v1, kind: A}", nil, "manifest 1 lacks"},
		"NotAnObject":  {"a list is no object", "[1, 2]", nil, "parse manifest 1"},
		"NotYAML":      {"text is not YAML", "a: b: c", nil, "parse manifest 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			objects, err := decode(c.documents)
			if c.err != "" {
				require.ErrorContains(t, err, c.err, c.reason)

				return
			}
			require.NoError(t, err, c.reason)
			var kinds []string
			for _, object := range objects {
				kinds = append(kinds, object.GetKind())
			}
			require.Equal(t, c.want, kinds, c.reason)
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", widgets, web, "---\n---", `{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}`, "metadata: 3\nkind: A\napiVersion: v1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, documents string) {
		objects, err := decode(documents)
		if err != nil {
			require.Empty(t, objects)
		}
		for _, object := range objects {
			require.NotEmpty(t, object.GetKind())
			require.NotEmpty(t, object.GetName())
		}
	})
}

func TestReadDocuments(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "2.yaml"), "two")
	writeFile(t, filepath.Join(dir, "1.yml"), "one")
	writeFile(t, filepath.Join(dir, "README.md"), "three")
	writeFile(t, filepath.Join(dir, "below", "4.yaml"), "four")

	all, err := readDocuments(dir)
	require.NoError(t, err)
	require.Equal(t, "one\n---\ntwo\n---\n", all, "sorted, manifests only, not below")
	one, err := readDocuments(filepath.Join(dir, "2.yaml"))
	require.NoError(t, err)
	require.Equal(t, "two\n---\n", one)
	_, err = readDocuments(filepath.Join(dir, "absent"))
	require.ErrorContains(t, err, "find manifests")
}
