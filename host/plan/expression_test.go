package plan

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testVariables are the variables of the tables below.
func testVariables(t testing.TB) map[string]any {
	t.Helper()
	decode := func(text string) any {
		value, err := plainDocument([]byte(text))
		require.NoError(t, err)
		return value
	}
	return map[string]any{
		variableResource:   decode(`{"metadata": {"name": "demo"}, "spec": {"root": "all"}}`),
		variableParameters: decode(`{"gpu": false, "n": 7, "half": 0.5, "cidr": "10.0.0.0/8", "none": null, "names": ["a", "b"], "big": 9007199254740993, "deep": {"a": {"b": 1}}, "key": "absent"}`),
		variableFacts:      decode(`{"net": {"id": "n-1", "zones": ["z1"], "empty": {}}, "text": "t"}`),
		variableScope:      map[string]any{"id": "home", "host": "", "port": int64(0), "remote": false},
	}
}

func newTestCompiler(t testing.TB) *compiler {
	t.Helper()
	c, err := newCompiler()
	require.NoError(t, err)
	return c
}

func TestExpression(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		source  string
		want    string // JSON
		compile string
		missing bool
		fails   string
	}{
		"Bool":            {reason: "a bool stays one", source: "parameters.gpu", want: "false"},
		"Int":             {reason: "an integer stays one", source: "parameters.n", want: "7"},
		"Arithmetic":      {reason: "integers compute as integers", source: "parameters.n * 2 + 1", want: "15"},
		"BigInt":          {reason: "64 bits are kept, where a float would lose one", source: "parameters.big", want: "9007199254740993"},
		"Uint":            {reason: "an unsigned integer beyond int64 is kept", source: "18446744073709551615u", want: "18446744073709551615"},
		"Double":          {reason: "a float stays one", source: "parameters.half", want: "0.5"},
		"Null":            {reason: "null is a value", source: "parameters.none", want: "null"},
		"String":          {reason: "texts concatenate", source: `"a" + parameters.cidr`, want: `"a10.0.0.0/8"`},
		"List":            {reason: "lists are exported", source: "parameters.names.map(n, n + '!')", want: `["a!","b!"]`},
		"Map":             {reason: "maps are exported", source: `{"a": [1, null], "b": facts.net.id}`, want: `{"a":[1,null],"b":"n-1"}`},
		"Bytes":           {reason: "bytes become base64, as in protobuf's JSON", source: `b"hi"`, want: `"aGk="`},
		"Timestamp":       {reason: "a time becomes RFC 3339", source: `timestamp("2026-01-02T03:04:05Z")`, want: `"2026-01-02T03:04:05Z"`},
		"Duration":        {reason: "a duration becomes its text", source: `duration("90s")`, want: `"1m30s"`},
		"HTML":            {reason: "no character is escaped that JSON does not ask for", source: `"<a&b>"`, want: `"<a&b>"`},
		"Resource":        {reason: "the owner can be read", source: "resource.metadata.name", want: `"demo"`},
		"Scope":           {reason: "the scope can be read", source: "scope.remote ? scope.host : scope.id", want: `"home"`},
		"CrossType":       {reason: "an int compares with a float", source: "parameters.n > 6.5", want: "true"},
		"HasFact":         {reason: "has asks without waiting", source: "has(facts.absent)", want: "false"},
		"OptionalFact":    {reason: "so does an optional selection", source: `facts.?absent.orValue("x")`, want: `"x"`},
		"Absorbed":        {reason: "what does not matter is not missed", source: "true || facts.absent", want: "true"},
		"Fact":            {reason: "an absent fact is waited for", source: "facts.absent", missing: true},
		"FactDeep":        {reason: "and so is what is below one", source: "facts.absent.a.b", missing: true},
		"FactPart":        {reason: "a fact may be there in part", source: "facts.net.empty.id", missing: true},
		"FactIndex":       {reason: "a list may be too short yet", source: "facts.net.zones[1]", missing: true},
		"FactDynamic":     {reason: "the name may be computed", source: "facts[parameters.key]", missing: true},
		"FactInCall":      {reason: "a call passes the failure on", source: "size(facts.absent) > 0", missing: true},
		"FactInHas":       {reason: "has asks for its last step only", source: "has(facts.absent.a)", missing: true},
		"FactElement":     {reason: "an element of a fact is part of it", source: "facts.net.zones.map(z, {'a': z}).map(m, m.b)", missing: true},
		"FactUndecided":   {reason: "an or that could still be true waits", source: "parameters.gpu || facts.absent", missing: true},
		"Parameter":       {reason: "an absent parameter is a fault of the spec", source: "parameters.absent", fails: "no such key: absent"},
		"ParameterBeside": {reason: "also when the expression reads facts", source: "parameters.absent == facts.net.id", fails: "no such key: absent"},
		"ScopeTypo":       {reason: "so is a misspelt field of the scope", source: "scope.hots", fails: "no such key: hots"},
		"LocalKey":        {reason: "and a key of a map in the expression", source: `{"a": 1}.b`, fails: "no such key: b"},
		"ElementTypo":     {reason: "and one of an element that is no fact", source: "[{'a': 1}].map(m, m.b)", fails: "no such key: b"},
		"Overload":        {reason: "types must fit", source: "parameters.cidr + 1", fails: "no such overload"},
		"DivideByZero":    {reason: "arithmetic can fail", source: "1 / (parameters.n - 7)", fails: "divi"},
		"NaN":             {reason: "JSON has no NaN", source: "0.0 / 0.0", fails: "not a number that JSON has"},
		"TypeValue":       {reason: "a type has no JSON form", source: "type(1)", fails: "has no JSON form"},
		"IntKeys":         {reason: "JSON keys are strings", source: "{1: 2}", fails: "keys that are not strings"},
		"OptionalResult":  {reason: "an optional must be unwrapped", source: "facts.?net", fails: "has no JSON form"},
		"Cost":            {reason: "the cost is limited", source: cube("facts.net.zones"), fails: "cost limit"},
		"Syntax":          {reason: "the place of a syntax error is told", source: "1 +", compile: "at character 4: "},
		"Undeclared":      {reason: "unknown names are found at once", source: "secrets.a", compile: "undeclared reference to 'secrets'"},
		"StaticType":      {reason: "so are operators that do not fit", source: `1 + "a"`, compile: "no matching overload"},
		"Blank":           {reason: "an empty expression means nothing", source: "  ", compile: "the expression is empty"},
		"TooLong":         {reason: "the length is limited", source: strings.Repeat(" ", maxExpressionLength) + "1", compile: "exceeds limit"},
		"TooManyLoops":    {reason: "comprehensions are limited", source: strings.Repeat("[1].map(x, ", maxComprehensions+1) + "1" + strings.Repeat(")", maxComprehensions+1), compile: "comprehensions"},
		"TooManyPlus":     {reason: "additions are limited", source: "1" + strings.Repeat("+1", maxAdditions+1), compile: "additions"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newTestCompiler(t).compile("p", tc.source)
			if tc.compile != "" {
				require.ErrorContains(t, err, tc.compile, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			value, err := newEvaluation(testVariables(t)).expression(t.Context(), e)
			if tc.missing {
				require.ErrorIs(t, err, errFactMissing, tc.reason)
				return
			}
			require.NotErrorIs(t, err, errFactMissing, tc.reason)
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails, tc.reason)
				require.ErrorContains(t, err, "p: ", "the path is told")
				return
			}
			require.NoError(t, err, tc.reason)
			got, err := encodeJSON(value)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(got), tc.reason)
		})
	}
}

// cube loops three times over a list of 150 elements made of item, which is far over
// the cost limit.
func cube(item string) string {
	list := "[" + strings.Repeat("1,", 150) + "1]"
	return list + ".all(a, " + list + ".all(b, " + list + ".all(c, size(" + item + ") == 1)))"
}

func TestExpressionOutputIsBounded(t *testing.T) {
	variables := testVariables(t)
	variables[variableParameters] = map[string]any{"text": strings.Repeat("x", 1024)}
	for name, tc := range map[string]struct {
		reason string
		source string
	}{
		"Copies":  {reason: "a list of references to one text grows cheaply", source: "[[" + strings.Repeat("parameters.text,", 100) + "]].map(x, [x, x, x])"},
		"Doubled": {reason: "so does one that is added to itself", source: "[[" + strings.Repeat("1,", 300) + "]].map(x, " + sum("x", 10) + ").map(x, " + sum("x", 10) + ").map(x, " + sum("x", 10) + ")"},
		"Square":  {reason: "so does one inside another", source: "[[" + strings.Repeat("1,", 300) + "]].map(x, [" + strings.Repeat("x,", 400) + "]).map(y, [" + strings.Repeat("y,", 100) + "])"},
		"Deep":    {reason: "nesting is limited", source: strings.Repeat("[", maxResultDepth+2) + strings.Repeat("]", maxResultDepth+2)},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := newTestCompiler(t).compile("p", tc.source)
			require.NoError(t, err)
			_, err = newEvaluation(variables).expression(t.Context(), e)
			require.Error(t, err, tc.reason)
		})
	}
}

func sum(x string, n int) string { return strings.TrimSuffix(strings.Repeat(x+"+", n), "+") }

func TestCondition(t *testing.T) {
	c := newTestCompiler(t)
	_, err := c.compileCondition("p", "parameters.n")
	require.NoError(t, err, "a dynamic value is judged when it is known")
	_, err = c.compileCondition("p", "1 + 1")
	require.ErrorContains(t, err, "must be true or false, and is of type int")
	_, err = c.compileCondition("p", "parameters.n > 3 && has(facts.net)")
	require.NoError(t, err)
}

func TestExpressionEndsWithItsContext(t *testing.T) {
	e, err := newTestCompiler(t).compile("p", cube("facts.net.zones"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.evaluate(ctx, testVariables(t))
	require.ErrorIs(t, err, context.Canceled)
}

func TestExpressionIsSafeForConcurrentUse(t *testing.T) {
	e, err := newTestCompiler(t).compile("p", "parameters.names.map(n, n + facts.net.id + string(parameters.n))")
	require.NoError(t, err)
	variables := testVariables(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				value, err := newEvaluation(variables).expression(t.Context(), e)
				if err != nil || len(value.([]any)) != 2 {
					t.Errorf("got %v, %v", value, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"parameters.n", "facts.net.id", "has(facts.a.b)", "[1,2].map(x, x+1)", `{"a": 1}`, "1/0", "facts.?a.?b.orValue(1)",
		`"a".matches("a+")`, "timestamp('2026-01-01T00:00:00Z')", "[[1]].map(x, x + x) == [[1]]", "facts[0]", "dyn(1) + 'a'", "duration('1s')", `r"\"`,
	} {
		f.Add(seed)
	}
	c := newTestCompiler(f)
	variables := testVariables(f)
	f.Fuzz(func(t *testing.T, source string) {
		e, err := c.compile("p", source)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		started := time.Now()
		value, err := newEvaluation(variables).expression(t.Context(), e)
		require.Less(t, time.Since(started), 10*maxExpressionTime, "the limits bound the time")
		if err != nil {
			return
		}
		encoded, err := encodeJSON(value)
		require.NoError(t, err, "every result has a JSON form")
		require.True(t, json.Valid(encoded))
	})
}
