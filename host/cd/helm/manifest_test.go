package helm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const sampleManifest = `---
# Source: demo/templates/a.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
---
# only a comment
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: elsewhere}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  annotations: {"helm.sh/resource-policy": " Keep "}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {ttlSecondsAfterFinished: 0}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: many-}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: s1}}
- {apiVersion: v1, kind: Secret, metadata: {name: s2, annotations: {"helm.sh/resource-policy": delete}}}
`

func TestParseManifest(t *testing.T) {
	got, err := parseManifest(sampleManifest)
	require.NoError(t, err)
	require.Equal(t, []manifestObject{
		{object: object{Version: "v1", Kind: "ConfigMap", Name: "a"}},
		{object: object{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "elsewhere", Name: "d"}},
		{object: object{Version: "v1", Kind: "PersistentVolumeClaim", Name: "data"}, keep: true},
		{object: object{Group: "batch", Version: "v1", Kind: "Job", Name: "once"}, vanishes: true},
		{object: object{Version: "v1", Kind: "Secret", Name: "s1"}},
		{object: object{Version: "v1", Kind: "Secret", Name: "s2"}},
	}, got)
	owned, kept := split(got)
	require.Len(t, owned, 5)
	require.Equal(t, []string{"PersistentVolumeClaim/data"}, kept)
	require.Equal(t, "Deployment/elsewhere/d", got[1].String())
}

func TestParseManifestRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"Scalar":   "just text",
		"Broken":   "a: [",
		"BadItems": "apiVersion: v1\nkind: List\nitems: [1]",
	} {
		_, err := parseManifest(text)
		require.Error(t, err, name)
	}
	for name, text := range map[string]string{"Empty": "", "Comments": "# a\n---\n# b", "NoName": "apiVersion: v1\nkind: Pod", "OddMetadata": "apiVersion: v1\nkind: Pod\nmetadata: text"} {
		got, err := parseManifest(text)
		require.NoError(t, err, name)
		require.Empty(t, got, name)
	}
}

func TestUnion(t *testing.T) {
	a := object{Version: "v1", Kind: "ConfigMap", Name: "a"}
	b := object{Version: "v1", Kind: "ConfigMap", Name: "b"}
	c := object{Version: "v1", Kind: "ConfigMap", Namespace: "z", Name: "a"}
	require.Equal(t, []object{a, b, c}, union([]object{c, b}, []object{a, b}))
	require.Equal(t, union([]object{a, c}, []object{b}), union([]object{b}, []object{c, a}), "in whatever order")
	require.Nil(t, union(nil, []object{}))
}

func FuzzParseManifest(f *testing.F) {
	for _, seed := range []string{sampleManifest, "", "---\n---", "a: &x [*x]", "kind: List\nitems: {}", "{}", "\x00", "- 1\n- 2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := parseManifest(text)
		if err != nil {
			require.Empty(t, objects)
			return
		}
		owned, kept := split(objects)
		require.Equal(t, len(objects), len(owned)+len(kept))
		for _, o := range objects {
			require.NotEmpty(t, o.Name)
			require.NotEmpty(t, o.Kind)
		}
		require.Equal(t, union(owned, nil), union(union(owned, nil), owned))
	})
}
