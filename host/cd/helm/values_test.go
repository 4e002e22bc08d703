package helm

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/cd"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const testHandle = "caisson-secret:0123456789abcdef0123456789abcdef:"

func TestRenderCopies(t *testing.T) {
	app := demo(map[string]any{"a": map[string]any{"b": []any{"x", nil, 1}}, "n": nil})
	got, err := render(app)
	require.NoError(t, err)
	require.Equal(t, app.Values, got.values)
	got.values["a"].(map[string]any)["b"].([]any)[0] = "changed"
	got.values["new"] = true
	require.Equal(t, map[string]any{"a": map[string]any{"b": []any{"x", nil, 1}}, "n": nil}, app.Values, "Helm writes into what it gets")
	require.Contains(t, got.values, "n", "a null stays")
	empty, err := render(demo(nil))
	require.NoError(t, err)
	require.NotNil(t, empty.values)
}

func TestNumbersAreWhatTheyWere(t *testing.T) {
	var decoded map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"big": 1000000, "list": [2.5, 3], "huge": 1e300}`), &decoded))
	decoded["number"], decoded["fraction"], decoded["endless"] = json.Number("7.0"), json.Number("0.5"), json.Number("1e999")
	got, err := render(demo(decoded))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"big": int64(1000000), "list": []any{2.5, int64(3)}, "huge": 1e300, "number": int64(7), "fraction": 0.5, "endless": "1e999",
	}, got.values)
}

func TestParameters(t *testing.T) {
	cases := map[string]struct {
		reason string
		given  []cd.Parameter
		want   map[string]any
	}{
		"Typed":     {"as --set does", []cd.Parameter{{Name: "a", Value: "1"}, {Name: "b", Value: "true"}, {Name: "c", Value: "x"}}, map[string]any{"a": int64(1), "b": true, "c": "x", "keep": "y"}},
		"Null":      {"as --set does", []cd.Parameter{{Name: "keep", Value: "null"}}, map[string]any{"keep": nil}},
		"Last":      {"in order", []cd.Parameter{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}, map[string]any{"a": int64(2), "keep": "y"}},
		"Path":      {"Helm's path syntax", []cd.Parameter{{Name: "a.b[1]", Value: "x"}}, map[string]any{"a": map[string]any{"b": []any{nil, "x"}}, "keep": "y"}},
		"Comma":     {"a value sets one parameter", []cd.Parameter{{Name: "a", Value: "1,keep=gone"}}, map[string]any{"a": "1,keep=gone", "keep": "y"}},
		"Backslash": {"and is taken literally", []cd.Parameter{{Name: "a", Value: `c:\dir`}}, map[string]any{"a": `c:\dir`, "keep": "y"}},
		"Equals":    {"so is an equals sign", []cd.Parameter{{Name: "a", Value: "b=c"}}, map[string]any{"a": "b=c", "keep": "y"}},
		"List":      {"except for the syntax of lists", []cd.Parameter{{Name: "a", Value: "{x,y}"}}, map[string]any{"a": []any{"x", "y"}, "keep": "y"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			app := demo(map[string]any{"keep": "y"})
			app.Parameters = tc.given
			got, err := render(app)
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got.values, tc.reason)
		})
	}
	app := demo(nil)
	app.Parameters = []cd.Parameter{{Name: "a[99999999]", Value: "very-secret"}}
	_, err := render(app)
	require.ErrorIs(t, err, provisioner.ErrTerminal)
	require.NotContains(t, err.Error(), "very-secret")
}

func TestSecretsAreReplacedAndHidden(t *testing.T) {
	expand := func(text string) (string, error) { return strings.ReplaceAll(text, testHandle, "hunter2"), nil }
	app := demo(map[string]any{"url": "https://u:" + testHandle + "@h", "list": []any{testHandle}, "plain": "x"})
	app.Parameters = []cd.Parameter{{Name: "p", Value: testHandle}}
	app.Secrets = expand
	got, err := render(app)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"url": "https://u:hunter2@h", "list": []any{"hunter2"}, "plain": "x", "p": "hunter2"}, got.values)
	for _, text := range []string{"bad hunter2 here", "bad https://u:hunter2@h", base64.StdEncoding.EncodeToString([]byte("hunter2"))} {
		require.NotContains(t, got.hide(text), "hunter2")
		require.Contains(t, got.hide(text), "[secret]")
	}
	require.Equal(t, "plain x", got.hide("plain x"))

	app.Secrets = func(string) (string, error) { return "", errors.New("unknown handle") }
	_, err = render(app)
	require.ErrorContains(t, err, "unknown handle")
	app.Secrets = nil
	got, err = render(app)
	require.NoError(t, err)
	require.Equal(t, testHandle, got.values["p"], "without a table a handle is text")
}

// What valuesFrom took from a Secret has no handle, and is hidden all the same.
func TestConfidentialTextsAreHidden(t *testing.T) {
	app := demo(map[string]any{"password": "hunter2"})
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----\n"
	app.Confidential = []string{"hunter2", "hunter2-longer", key, "no"}
	got, err := render(app)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"password": "hunter2"}, got.values, "what is rendered stays as it is")
	for reason, tc := range map[string][2]string{
		"as it is":                         {"invalid value hunter2!", "invalid value [secret]!"},
		"quoted":                           {`Invalid value: "hunter2"`, `Invalid value: "[secret]"`},
		"in base64":                        {"aHVudGVyMg==", "[secret]"},
		"the longer of two":                {"hunter2-longer", "[secret]"},
		"with its line breaks escaped":     {`spec.key: "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----\n" is wrong`, `spec.key: "[secret]" is wrong`},
		"one line of several":              {"line 2: MIIEvQIBADANBgkqhkiG9w0B", "line 2: [secret]"},
		"and what is too short is no harm": {"there is no such thing", "there is no such thing"},
	} {
		require.Equal(t, tc[1], got.hide(tc[0]), reason)
	}
}

func TestShortSecretsDoNotRiddleTexts(t *testing.T) {
	app := demo(map[string]any{"a": testHandle})
	app.Secrets = func(text string) (string, error) { return strings.ReplaceAll(text, testHandle, "e"), nil }
	got, err := render(app)
	require.NoError(t, err)
	require.Equal(t, "release failed", got.hide("release failed"))
}
