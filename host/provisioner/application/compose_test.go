package application_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/application"
	"github.com/caisson-dev/caisson/host/scope"
)

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := application.DecodeValues([]byte(text))
	require.NoError(t, err)
	return v
}

func render(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// Case 86: what does not change between passes must not look changed.
func TestCase086ComposeIsDeterministic(t *testing.T) {
	version := &application.Version{Version: "1.0.0", Repo: "oci://r", Chart: "c",
		Values:     values(t, `{"a":1,"b":{"c":2,"d":3},"e":[1,2]}`),
		Parameters: []cd.Parameter{{Name: "p1", Value: "1"}, {Name: "p2", Value: "2"}}}
	node := application.Node{Values: values(t, `{"b":{"x":1},"y":2}`), Parameters: []cd.Parameter{{Name: "q4", Value: "4"}, {Name: "q3", Value: "3"}, {Name: "q2", Value: "2"}, {Name: "q1", Value: "1"}}}
	first, err := application.Compose(identity(), version, nil, node)
	require.NoError(t, err)
	require.Equal(t, []cd.Parameter{{Name: "p1", Value: "1"}, {Name: "p2", Value: "2"}, {Name: "q4", Value: "4"}, {Name: "q3", Value: "3"}, {Name: "q2", Value: "2"}, {Name: "q1", Value: "1"}}, first.Parameters)
	for range 200 {
		again, err := application.Compose(identity(), version, nil, node)
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.Equal(t, render(t, first.Values), render(t, again.Values))
	}
	require.JSONEq(t, `{"a":1,"b":{"c":2,"d":3},"e":[1,2]}`, render(t, version.Values), "the shared entry is not written to")
}

func TestCase087Precedence(t *testing.T) {
	version := &application.Version{Values: values(t, `{"who":"catalogue","a":"catalogue","nested":{"a":"catalogue","b":"catalogue","c":"catalogue"}}`),
		Parameters: []cd.Parameter{{Name: "p", Value: "catalogue"}}}
	from := []map[string]any{values(t, `{"who":"from0","b":"from0","nested":{"b":"from0","c":"from0"}}`), values(t, `{"who":"from1","nested":{"c":"from1"}}`)}
	node := application.Node{Values: values(t, `{"who":"node","nested":{"d":"node"}}`), Parameters: []cd.Parameter{{Name: "p", Value: "node"}}}
	app, err := application.Compose(identity(), version, from, node)
	require.NoError(t, err)
	require.JSONEq(t, `{"who":"node","a":"catalogue","b":"from0","nested":{"a":"catalogue","b":"from0","c":"from1","d":"node"}}`, render(t, app.Values))
	require.Equal(t, []cd.Parameter{{Name: "p", Value: "catalogue"}, {Name: "p", Value: "node"}}, app.Parameters, "the later --set wins")
}

func TestCase088Release(t *testing.T) {
	cases := map[string]struct {
		reason          string
		catalogue, node string
		want            string
		code            string
	}{
		"Catalogue": {reason: "an empty override keeps the catalogue's", catalogue: "cat", want: "cat"},
		"Node":      {reason: "an override wins", catalogue: "cat", node: "mine", want: "mine"},
		"Derived":   {reason: "nobody says: derived from the identity", want: "metrics-" + identity().Hash()[:8]},
		"Longest":   {reason: "Helm's limit is 53", node: strings.Repeat("a", 53), want: strings.Repeat("a", 53)},
		"TooLong":   {reason: "one more is refused, not cut", node: strings.Repeat("a", 54), code: abi.ReasonInvalidRelease},
		"Unfit":     {reason: "as is what Helm would refuse", catalogue: "Bad_Name", code: abi.ReasonInvalidRelease},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			app, err := application.Compose(identity(), &application.Version{Release: tc.catalogue}, nil, application.Node{Release: tc.node})
			if tc.code != "" {
				outcome := provisioner.OutcomeOf(err)
				require.Equal(t, abi.Terminal, outcome.Class, tc.reason)
				require.Equal(t, tc.code, outcome.Headline.Reason, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, app.Release, tc.reason)
		})
	}
}

func TestCase089NamespaceAndSwitches(t *testing.T) {
	cases := map[string]struct {
		reason  string
		version application.Version
		node    application.Node
		want    string
		create  bool
		allow   bool
	}{
		"Node":          {"the node wins", application.Version{Namespace: "cat"}, application.Node{Namespace: "node"}, "node", false, false},
		"Catalogue":     {"then the catalogue", application.Version{Namespace: "cat"}, application.Node{}, "cat", false, false},
		"Default":       {"then default", application.Version{}, application.Node{}, "default", false, false},
		"CatalogueOn":   {"a switch of the catalogue stays on", application.Version{CreateNamespace: true, AllowDegraded: true}, application.Node{}, "default", true, true},
		"NodeOn":        {"a switch of the node is on", application.Version{}, application.Node{CreateNamespace: true, AllowDegraded: true}, "default", true, true},
		"OneOfEachOnly": {"they are independent", application.Version{CreateNamespace: true}, application.Node{AllowDegraded: true}, "default", true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			app, err := application.Compose(identity(), &tc.version, nil, tc.node)
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, app.Namespace, tc.reason)
			require.Equal(t, tc.create, app.CreateNamespace, tc.reason)
			require.Equal(t, tc.allow, app.AllowDegraded, tc.reason)
		})
	}
}

func TestCase099NullIsKept(t *testing.T) {
	cases := map[string]struct {
		reason string
		layers []string
		want   string
	}{
		"Alone":        {"null in a map stays null", []string{`{"a":null,"b":{"c":null},"d":[null]}`}, `{"a":null,"b":{"c":null},"d":[null]}`},
		"OverValue":    {"null overrides a value", []string{`{"a":1}`, `{"a":null}`}, `{"a":null}`},
		"OverMap":      {"null overrides a map", []string{`{"a":{"b":1}}`, `{"a":null}`}, `{"a":null}`},
		"UnderMap":     {"a map overrides null", []string{`{"a":null}`, `{"a":{"b":1}}`}, `{"a":{"b":1}}`},
		"Untouched":    {"a layer that does not speak of it leaves it", []string{`{"a":null}`, `{"b":1}`}, `{"a":null,"b":1}`},
		"ListReplaced": {"lists are replaced, not merged", []string{`{"a":[1,2,3]}`, `{"a":[4]}`}, `{"a":[4]}`},
		"MapOverValue": {"kinds may change", []string{`{"a":1}`, `{"a":{"b":2}}`}, `{"a":{"b":2}}`},
		"Nothing":      {"no layers are an empty map", nil, `{}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var layers []map[string]any
			for _, text := range tc.layers {
				layers = append(layers, values(t, text))
			}
			merged := application.Merge(layers...)
			require.Equal(t, tc.want, render(t, merged), tc.reason)
			for i, text := range tc.layers {
				require.Equal(t, text, render(t, layers[i]), "layers are not written to")
			}
		})
	}
}

func TestMergeSharesNothing(t *testing.T) {
	layer := values(t, `{"a":{"b":[{"c":1}]}}`)
	merged := application.Merge(layer)
	merged["a"].(map[string]any)["b"].([]any)[0].(map[string]any)["c"] = "changed"
	require.JSONEq(t, `{"a":{"b":[{"c":1}]}}`, render(t, layer))
}

func TestDecodeValues(t *testing.T) {
	cases := map[string]struct {
		reason, text string
		want         map[string]any
		err          string
	}{
		"Whole":      {reason: "a template must not print 1e+06", text: `{"n":1000000}`, want: map[string]any{"n": int64(1000000)}},
		"Fraction":   {reason: "a fraction is a float", text: `{"n":1.5}`, want: map[string]any{"n": 1.5}},
		"Huge":       {reason: "what fits no number is not rounded to infinity", text: `{"n":1e999}`, want: map[string]any{"n": json.Number("1e999")}},
		"Deep":       {reason: "also inside", text: `{"a":[{"n":1}]}`, want: map[string]any{"a": []any{map[string]any{"n": int64(1)}}}},
		"Empty":      {reason: "nothing is no values", text: "", want: nil},
		"Null":       {reason: "so is null", text: " null ", want: nil},
		"List":       {reason: "values are an object", text: `[1]`, err: "is not a JSON object"},
		"Text":       {reason: "values are an object", text: `"x"`, err: "is not a JSON object"},
		"Broken":     {reason: "it must be JSON", text: `{"a":`, err: "decode values"},
		"TwoAtOnce":  {reason: "one document", text: `{} {}`, err: "after the JSON document"},
		"TrailingIt": {reason: "one document and nothing else", text: `{}]`, err: "after the JSON document"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := application.DecodeValues([]byte(tc.text))
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":null}`), []byte(`{"a":{"b":1}}`))
	f.Add([]byte(`{"a":{"b":[1]}}`), []byte(`{"a":{"b":null,"c":2}}`))
	f.Add([]byte(`null`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, under, over []byte) {
		a, errA := application.DecodeValues(under)
		b, errB := application.DecodeValues(over)
		if errA != nil || errB != nil {
			return
		}
		merged := application.Merge(a, b)
		for key := range a {
			require.Contains(t, merged, key, "no key is lost")
		}
		for key := range b {
			require.Contains(t, merged, key, "no key is lost")
		}
		require.Equal(t, render(t, merged), render(t, application.Merge(merged, b)), "merging again changes nothing")
	})
}

func TestBuild(t *testing.T) {
	catalogue := application.CatalogueFunc(func(_ context.Context, name string) (*application.Entry, error) {
		if name != "metrics-server" {
			return nil, provisioner.ErrNotFound
		}
		return entry("3.12.0", "3.13.0", "4.0.0"), nil
	})
	s := scope.NewHome(owner(), nil, nil)
	app, err := application.Build(t.Context(), catalogue, nil, s, identity(), "metrics-server", application.Node{Version: "3.x"})
	require.NoError(t, err)
	require.Equal(t, "3.13.0", app.Version)
	require.Equal(t, identity(), app.ID)

	for reason, step := range map[string]struct {
		ref  string
		node application.Node
	}{
		abi.ReasonApplicationNotFound: {ref: "unknown"},
		abi.ReasonVersionNotFound:     {ref: "metrics-server", node: application.Node{Version: "9.x"}},
		abi.ReasonInvalidRelease:      {ref: "metrics-server", node: application.Node{Release: "_"}},
		abi.ReasonUnexpected:          {ref: "metrics-server", node: application.Node{ValuesFrom: []application.ValuesReference{{Kind: "Secret", Name: "x"}}}},
	} {
		_, err := application.Build(t.Context(), catalogue, nil, s, identity(), step.ref, step.node)
		require.Equal(t, reason, provisioner.OutcomeOf(err).Headline.Reason)
	}
}

// What came from a Secret is named, so that a driver can keep it out of what it says; what
// came from anywhere else is not.
func TestBuildNamesWhatIsConfidential(t *testing.T) {
	catalogue := application.CatalogueFunc(func(context.Context, string) (*application.Entry, error) { return entry("1.0.0"), nil })
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team", Name: name} }
	c := fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: in("plain"), Data: map[string]string{"values.yaml": "host: example.com"}},
		&corev1.Secret{ObjectMeta: in("hidden"), Data: map[string][]byte{"values.yaml": []byte("db: {password: hunter2, again: [hunter2, {pin: 271828}], ratio: 0.5, tls: true, none: null}")}},
	).Build()
	app, err := application.Build(t.Context(), catalogue, nil, scope.NewHome(owner(), nil, c), identity(), "metrics-server", application.Node{
		ValuesFrom: []application.ValuesReference{{Kind: "ConfigMap", Name: "plain"}, {Kind: "Secret", Name: "hidden"}},
		Values:     map[string]any{"own": "text"},
	})
	require.NoError(t, err)
	require.Equal(t, "example.com", app.Values["host"])
	require.Equal(t, []string{"0.5", "271828", "hunter2"}, app.Confidential)
}
