package blueprint

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// item is a condition as most CRDs have it.
const item = `{type: object, properties: {type: {type: string}, status: {type: string}, reason: {type: string}, message: {type: string}, lastTransitionTime: {type: string}, observedGeneration: {type: integer}}}`

func TestShapeOf(t *testing.T) {
	cases := map[string]struct {
		reason   string
		status   string
		want     list
		observes bool
		version  string
	}{
		"keyed":           {reason: "each entry has an owner", status: `{properties: {conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type], items: ` + item + `}}}`, want: listKeyed, observes: true},
		"default":         {reason: "a list is atomic unless it says otherwise", status: `{properties: {conditions: {type: array, items: ` + item + `}}}`, want: listPlain, observes: true},
		"atomic":          {reason: "it says so", status: `{properties: {conditions: {type: array, x-kubernetes-list-type: atomic, items: ` + item + `}}}`, want: listPlain, observes: true},
		"other keys":      {reason: "two entries of one type are possible", status: `{properties: {conditions: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [type, reason], items: ` + item + `}}}`, want: listPlain, observes: true},
		"old":             {reason: "a field that the schema does not have cannot be written", status: `{properties: {conditions: {type: array, items: {type: object, properties: {type: {type: string}, status: {type: string}}}}}}`, want: listPlain},
		"no status":       {reason: "an entry must be able to say yes or no", status: `{properties: {conditions: {type: array, items: {type: object, properties: {type: {type: string}}}}}}`, want: listNone},
		"open item":       {reason: "any field", status: `{properties: {conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}`, want: listPlain, observes: true},
		"open status":     {reason: "kept, though unknown", status: `{x-kubernetes-preserve-unknown-fields: true}`, want: listPlain, observes: true},
		"open conditions": {reason: "kept, though unknown", status: `{properties: {conditions: {x-kubernetes-preserve-unknown-fields: true}}}`, want: listPlain, observes: true},
		"no conditions":   {reason: "pruned", status: `{properties: {phase: {type: string}}}`, want: listNone},
		"an object":       {reason: "not a list", status: `{properties: {conditions: {type: object}}}`, want: listNone},
		"strings":         {reason: "not conditions", status: `{properties: {conditions: {type: array, items: {type: string}}}}`, want: listNone},
		"other version":   {reason: "near miss: the schema of another version", status: `{properties: {conditions: {type: array, items: ` + item + `}}}`, version: "v2", want: listNone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			require.NoError(t, yaml.Unmarshal([]byte(`{spec: {versions: [{name: v1, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {status: `+c.status+`}}}}]}}`), crd))
			version := "v1"
			if c.version != "" {
				version = c.version
			}
			got := shapeOf(crd, version)
			require.Equal(t, c.want, got.list, c.reason)
			if c.want != listNone {
				require.Equal(t, c.observes, got.observes(), c.reason)
			}
		})
	}
}

// TestShapeWithoutSubresource: there a write of conditions is a new generation, so that
// the number would chase itself.
func TestShapeWithoutSubresource(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, yaml.Unmarshal([]byte(`{spec: {versions: [{name: v1, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`), crd))
	got := shapeOf(crd, "v1")
	require.Equal(t, shape{list: listPlain}, got)
	require.False(t, got.observes())
}
