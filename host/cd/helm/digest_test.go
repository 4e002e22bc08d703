package helm

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/scope"
)

func demo(values map[string]any) *cd.Application {
	return &cd.Application{
		ID:   scope.ResourceIdentifier{Owner: scope.Owner{Kind: "Stack", Name: "s", UID: "u"}, Path: "all/app"},
		Repo: "https://charts.example", Chart: "demo", Version: "1.0.0", Values: values,
	}
}

func digestOfValues(t *testing.T, values map[string]any) string {
	t.Helper()
	id, err := identify(demo(values))
	require.NoError(t, err)
	return id.values
}

func TestEqualValuesHaveOneDigest(t *testing.T) {
	cases := map[string]struct {
		reason string
		a, b   map[string]any
	}{
		"IntAndFloat":  {"B55", map[string]any{"n": 1}, map[string]any{"n": 1.0}},
		"IntAndNumber": {"JSON decodes to Number or float64", map[string]any{"n": 1}, map[string]any{"n": json.Number("1.0")}},
		"Exponent":     {"1e3 is 1000", map[string]any{"n": json.Number("1e3")}, map[string]any{"n": 1000}},
		"Nested":       {"at every depth", map[string]any{"a": []any{map[string]any{"n": 2}}}, map[string]any{"a": []any{map[string]any{"n": 2.0}}}},
		"NilAndEmpty":  {"no values are no values", nil, map[string]any{}},
		"Order":        {"maps have none", map[string]any{"a": 1, "b": 2}, map[string]any{"b": 2, "a": 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, digestOfValues(t, tc.a), digestOfValues(t, tc.b), tc.reason)
		})
	}
}

func TestDifferentValuesHaveDifferentDigests(t *testing.T) {
	values := []map[string]any{
		nil, {"n": 1}, {"n": 1.5}, {"n": "1"}, {"n": true}, {"n": nil}, {"n": []any{}}, {"n": map[string]any{}}, {"m": 1},
		{"n": int64(math.MaxInt64)}, {"n": int64(math.MaxInt64 - 1)}, {"n": json.Number("1e400")}, {"n": 0.1}, {"n": []any{1, 2}}, {"n": []any{2, 1}},
	}
	seen := map[string]int{}
	for i, v := range values {
		digest := digestOfValues(t, v)
		require.NotContains(t, seen, digest, "%v and %v", v, values[seen[digest]])
		seen[digest] = i
	}
}

func TestIdentity(t *testing.T) {
	id, err := identify(demo(nil))
	require.NoError(t, err)
	for key, value := range id.labels() {
		require.Empty(t, validation.IsQualifiedName(key))
		require.Empty(t, validation.IsValidLabelValue(value))
	}
	require.True(t, id.owns(id.labels()))
	require.True(t, id.describes(id.labels()))
	for name, change := range map[string]func(*cd.Application){
		"Repo":       func(a *cd.Application) { a.Repo = "https://other.example" },
		"Chart":      func(a *cd.Application) { a.Chart = "other" },
		"Version":    func(a *cd.Application) { a.Version = "1.0.1" },
		"Values":     func(a *cd.Application) { a.Values = map[string]any{"a": 1} },
		"Parameters": func(a *cd.Application) { a.Parameters = []cd.Parameter{{Name: "a", Value: "1"}} },
		"Digest":     func(a *cd.Application) { a.ValuesDigest = "sha256:with/odd characters" },
	} {
		app := demo(nil)
		change(app)
		changed, err := identify(app)
		require.NoError(t, err)
		require.True(t, changed.owns(id.labels()), name)
		require.False(t, changed.describes(id.labels()), name)
		require.NotEqual(t, id.digest(), changed.digest(), name)
		for _, value := range changed.labels() {
			require.Empty(t, validation.IsValidLabelValue(value), name)
		}
	}
	for name, change := range map[string]func(*cd.Application){
		"Owner": func(a *cd.Application) { a.ID.Owner.UID = "another" },
		"Path":  func(a *cd.Application) { a.ID.Path = "all/other" },
	} {
		app := demo(nil)
		change(app)
		changed, err := identify(app)
		require.NoError(t, err)
		require.False(t, changed.owns(id.labels()), name)
	}
	same := demo(nil)
	same.AllowDegraded, same.CreateNamespace, same.ID.Name, same.ID.Owner.Generation = true, true, "n", 7
	again, err := identify(same)
	require.NoError(t, err)
	require.Equal(t, id, again, "how it is judged is no part of what is installed")
	_, err = identify(demo(map[string]any{"f": func() {}}))
	require.Error(t, err)
}

func FuzzCanonicalNumber(f *testing.F) {
	for _, seed := range []string{"0", "-1", "1.0", "1e3", "1e999999999", "9223372036854775808", "0.1", "-0", "1E-400"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var n json.Number
		if json.Unmarshal([]byte(text), &n) != nil || n == "" {
			return
		}
		once := canonicalNumber(n)
		require.Equal(t, once, canonicalNumber(once), "canonical is a fixed point")
		require.True(t, json.Valid([]byte(once)), "%q became %q", text, once)
	})
}
