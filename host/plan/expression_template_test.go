package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemplate(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		in       string
		want     string
		missing  bool
		fails    string
		problems []string
		// removal is what a deprovision gets; the same as want if empty.
		removal string
	}{
		"Literal":     {reason: "a document without expressions is itself", in: `{"a":[1,null,"x",{"b":true}]}`, want: `{"a":[1,null,"x",{"b":true}]}`},
		"Numbers":     {reason: "numbers of the document are kept as written", in: `{"a":1.0,"b":123456789012345678901234567890,"c":1e3}`, want: `{"a":1.0,"b":123456789012345678901234567890,"c":1e3}`},
		"Null":        {reason: "null is preserved, written or computed", in: `{"a":null,"b":"${parameters.none}"}`, want: `{"a":null,"b":null}`},
		"Typed":       {reason: "a whole expression keeps its type", in: `{"a":"${parameters.n}","b":["${parameters.gpu}"],"c":"${parameters.deep}"}`, want: `{"a":7,"b":[false],"c":{"a":{"b":1}}}`},
		"Text":        {reason: "an embedded one becomes text", in: `{"a":"n=${parameters.n},${parameters.cidr},${parameters.none},${parameters.names}"}`, want: `{"a":"n=7,10.0.0.0/8,null,[\"a\",\"b\"]"}`},
		"Blank":       {reason: "a space makes it text", in: `{"a":" ${parameters.n}"}`, want: `{"a":" 7"}`},
		"Escape":      {reason: "an escape is undone", in: `{"a":"$${x} ${parameters.n}","b":"$${y}"}`, want: `{"a":"${x} 7","b":"${y}"}`},
		"Keys":        {reason: "keys are not evaluated", in: `{"${parameters.n}":1}`, want: `{"${parameters.n}":1}`},
		"NotTwice":    {reason: "a result is not evaluated again", in: `{"a":"${'$' + '{parameters.n}'}"}`, want: `{"a":"${parameters.n}"}`},
		"Document":    {reason: "the document may be one expression", in: `"${parameters.deep}"`, want: `{"a":{"b":1}}`},
		"Missing":     {reason: "one absent fact fails the document", in: `{"a":1,"b":{"c":"${facts.absent.x}","d":2}}`, missing: true, removal: `{"a":1,"b":{"d":2}}`},
		"MissingText": {reason: "also inside a text", in: `{"a":"x-${facts.absent}"}`, missing: true, removal: `{}`},
		"MissingItem": {reason: "in a removal the other elements keep their places", in: `{"a":["${facts.absent}",2]}`, missing: true, removal: `{"a":[null,2]}`},
		"MissingAll":  {reason: "in a removal an absent document is empty", in: `"${facts.absent}"`, missing: true, removal: `{}`},
		"Runtime":     {reason: "a fault of the spec cannot hold up a removal either", in: `{"a":"${parameters.absent}","b":1}`, fails: "p.a: no such key: absent", removal: `{"b":1}`},
		"Problems": {
			reason: "every problem is told with its path", in: `{"a":"${1 +}","b c":["x","${"],"ok":"${1}"}`,
			problems: []string{"p.a", `p["b c"][1]`},
		},
		"Empty": {reason: "text that is not JSON is told", in: `{`, problems: []string{"p"}},
		"Two":   {reason: "two documents are not one", in: `{} {}`, problems: []string{"p"}},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, problems := newTestCompiler(t).compileTemplate("p", []byte(tc.in))
			var paths []string
			for _, p := range problems {
				paths = append(paths, p.path)
			}
			require.Equal(t, tc.problems, paths, tc.reason)
			if len(problems) > 0 {
				return
			}
			value, err := newEvaluation(testVariables(t)).run(t.Context(), compiled)
			switch {
			case tc.missing:
				require.ErrorIs(t, err, errFactMissing, tc.reason)
			case tc.fails != "":
				require.ErrorContains(t, err, tc.fails, tc.reason)
			default:
				require.NoError(t, err, tc.reason)
				requireJSON(t, tc.want, value, tc.reason)
			}
			removal := tc.removal
			if removal == "" {
				removal = tc.want
			}
			value, err = newRemovalEvaluation(testVariables(t)).run(t.Context(), compiled)
			require.NoError(t, err, "a removal never fails")
			requireJSON(t, removal, value, tc.reason)
		})
	}
}

// requireJSON compares the text, because JSONEq reads numbers as floats.
func requireJSON(t *testing.T, want string, value any, reason string) {
	t.Helper()
	got, err := encodeJSON(value)
	require.NoError(t, err)
	require.Equal(t, want, string(got), reason)
}

func TestTemplateSharesItsBudget(t *testing.T) {
	variables := testVariables(t)
	text := make([]byte, maxResultBytes/2)
	for i := range text {
		text[i] = 'x'
	}
	variables[variableParameters] = map[string]any{"text": string(text)}
	c := newTestCompiler(t)
	one, problems := c.compileTemplate("p", []byte(`{"a":"${parameters.text}"}`))
	require.Empty(t, problems)
	_, err := newEvaluation(variables).run(t.Context(), one)
	require.NoError(t, err)
	three, problems := c.compileTemplate("p", []byte(`{"a":"${parameters.text}","b":"${parameters.text}","c":"${parameters.text}"}`))
	require.Empty(t, problems)
	_, err = newEvaluation(variables).run(t.Context(), three)
	require.ErrorIs(t, err, errResultTooLarge, "the expressions of a document share one budget")
}

func TestPlainNumbers(t *testing.T) {
	value, err := plainDocument([]byte(`{"a":1,"b":9223372036854775807,"c":9223372036854775808,"d":1.5,"e":-0}`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"a": int64(1), "b": int64(9223372036854775807), "c": float64(9223372036854775808), "d": 1.5, "e": int64(0),
	}, value)
	_, err = plainDocument([]byte(`{"a":[1e999]}`))
	require.ErrorContains(t, err, "the number 1e999 is out of range")
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":"${facts.x}"}`, `["${1}", "$${", null]`, `"${parameters}"`, `{"a":{"a":["x${1}"]}}`, `1e999`} {
		f.Add([]byte(seed))
	}
	c := newTestCompiler(f)
	variables := testVariables(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		compiled, problems := c.compileTemplate("p", raw)
		if len(problems) > 0 {
			return
		}
		value, err := newRemovalEvaluation(variables).run(t.Context(), compiled)
		require.NoError(t, err, "a removal never fails")
		encoded, err := encodeJSON(value)
		require.NoError(t, err)
		require.True(t, json.Valid(encoded))
	})
}
