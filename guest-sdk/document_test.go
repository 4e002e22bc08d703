package guest

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocReads(t *testing.T) {
	document := `{
		"text": "a\u00e9\ud83d\ude80", "empty": "", "number": 42, "negative": -7, "fraction": 1.5, "exponent": 1e2, "huge": 1e999,
		"big": 9223372036854775807, "bigger": 9223372036854775808, "yes": true, "no": false, "none": null,
		"list": ["a", "b"], "mixed": ["a", 1, null], "nothing": [], "object": {"a": {"b": [{"c": "deep"}]}},
		"twice": 1, "twice": 2, "odd.name": {"": "x"}
	}`
	cases := map[string]struct {
		reason  string
		read    func(d Doc) any
		want    any
		problem string
	}{
		"String":          {reason: "escapes are resolved", read: func(d Doc) any { return d.Get("text").String() }, want: "aé🚀"},
		"StringAbsent":    {reason: "absent is the zero value", read: func(d Doc) any { return d.Get("x").String() }, want: ""},
		"StringOr":        {reason: "or the default", read: func(d Doc) any { return d.Get("x").StringOr("y") }, want: "y"},
		"StringNull":      {reason: "null is absent", read: func(d Doc) any { return d.Get("none").StringOr("y") }, want: "y"},
		"StringEmpty":     {reason: "an empty string asks for the default", read: func(d Doc) any { return d.Get("empty").StringOr("y") }, want: "y"},
		"StringMistyped":  {reason: "another type is noted", read: func(d Doc) any { return d.Get("number").StringOr("y") }, want: "y", problem: "doc.number is a number and must be a string"},
		"Int":             {reason: "a whole number", read: func(d Doc) any { return d.Get("number").IntOr(1) }, want: 42},
		"IntNegative":     {reason: "below zero", read: func(d Doc) any { return d.Get("negative").Int() }, want: -7},
		"IntBig":          {reason: "to the last bit", read: func(d Doc) any { return d.Get("big").Int() }, want: math.MaxInt},
		"IntBigger":       {reason: "and no further", read: func(d Doc) any { return d.Get("bigger").IntOr(3) }, want: 3, problem: "doc.bigger must be a whole number"},
		"IntFraction":     {reason: "a fraction is not rounded", read: func(d Doc) any { return d.Get("fraction").IntOr(3) }, want: 3, problem: "doc.fraction must be a whole number"},
		"IntExponent":     {reason: "as encoding/json", read: func(d Doc) any { return d.Get("exponent").Int() }, want: 0, problem: "doc.exponent must be a whole number"},
		"IntMistyped":     {reason: "text is no number", read: func(d Doc) any { return d.Get("text").Int() }, want: 0, problem: "doc.text is a string and must be a whole number"},
		"IntAbsent":       {reason: "the default", read: func(d Doc) any { return d.Get("x").IntOr(3) }, want: 3},
		"Float":           {reason: "a number", read: func(d Doc) any { return d.Get("fraction").Float() }, want: 1.5},
		"FloatExponent":   {reason: "an exponent is fine here", read: func(d Doc) any { return d.Get("exponent").Float() }, want: 100.0},
		"FloatHuge":       {reason: "beyond a float", read: func(d Doc) any { return d.Get("huge").FloatOr(2) }, want: 2.0, problem: "doc.huge is out of range"},
		"FloatMistyped":   {reason: "a boolean is no number", read: func(d Doc) any { return d.Get("yes").FloatOr(2) }, want: 2.0, problem: "doc.yes is a boolean and must be a number"},
		"FloatAbsent":     {reason: "the default", read: func(d Doc) any { return d.Get("x").FloatOr(2) }, want: 2.0},
		"Bool":            {reason: "true", read: func(d Doc) any { return d.Get("yes").Bool() }, want: true},
		"BoolFalse":       {reason: "false is not absent", read: func(d Doc) any { return d.Get("no").BoolOr(true) }, want: false},
		"BoolAbsent":      {reason: "the default", read: func(d Doc) any { return d.Get("x").BoolOr(true) }, want: true},
		"BoolMistyped":    {reason: "a list is no boolean", read: func(d Doc) any { return d.Get("list").BoolOr(true) }, want: true, problem: "doc.list is a list and must be a boolean"},
		"Strings":         {reason: "a list of strings", read: func(d Doc) any { return d.Get("list").Strings() }, want: []string{"a", "b"}},
		"StringsEmpty":    {reason: "an empty list is not absent", read: func(d Doc) any { return d.Get("nothing").Strings() }, want: []string{}},
		"StringsAbsent":   {reason: "an absent one is nil", read: func(d Doc) any { return d.Get("x").Strings() }, want: []string(nil)},
		"StringsMixed":    {reason: "the element is named", read: func(d Doc) any { return d.Get("mixed").Strings() }, want: []string{"a"}, problem: "doc.mixed[1] is a number and must be a string"},
		"StringsMistyped": {reason: "an object is no list", read: func(d Doc) any { return d.Get("object").Strings() }, want: []string(nil), problem: "doc.object is an object and must be a list"},
		"Deep":            {reason: "a path of names and elements", read: func(d Doc) any { return d.Get("object", "a", "b").Items()[0].Get("c").String() }, want: "deep"},
		"DeepMistyped":    {reason: "with its whole path", read: func(d Doc) any { return d.Get("object", "a", "b").Items()[0].Get("c").Int() }, want: 0, problem: "doc.object.a.b[0].c is a string and must be a whole number"},
		"ThroughText":     {reason: "there is nothing inside of a string", read: func(d Doc) any { return d.Get("text", "a").String() }, want: "", problem: "doc.text is a string and must be an object"},
		"ThroughNull":     {reason: "nor of null, which is absent", read: func(d Doc) any { return d.Get("none", "a", "b").String() }, want: ""},
		"Twice":           {reason: "the last one counts", read: func(d Doc) any { return d.Get("twice").Int() }, want: 2},
		"OddNames":        {reason: "a name with a dot is quoted", read: func(d Doc) any { return d.Get("odd.name", "").Int() }, want: 0, problem: `doc["odd.name"][""] is a string and must be a whole number`},
		"OneOf":           {reason: "one of a list", read: func(d Doc) any { return d.Get("list").Items()[1].OneOf("a", "b") }, want: "b"},
		"OneOfAbsent":     {reason: "the first is the default", read: func(d Doc) any { return d.Get("x").OneOf("a", "b") }, want: "a"},
		"OneOfOther":      {reason: "another is refused, and not repeated", read: func(d Doc) any { return d.Get("text").OneOf("a", "b") }, want: "a", problem: "doc.text must be one of a, b"},
		"Exists":          {reason: "a value exists", read: func(d Doc) any { return d.Get("no").Exists() }, want: true},
		"ExistsNull":      {reason: "null does not", read: func(d Doc) any { return d.Get("none").Exists() }, want: false},
		"Required":        {reason: "what is missing is noted", read: func(d Doc) any { return d.Get("object", "z").Required().String() }, want: "", problem: "doc.object.z is missing"},
		"RequiredThere":   {reason: "what is there is not", read: func(d Doc) any { return d.Get("text").Required().String() }, want: "aé🚀"},
		"Refuse":          {reason: "an author's own rule", read: func(d Doc) any { d.Get("number").Refuse("is odd"); return nil }, problem: "doc.number is odd"},
		"FirstProblem":    {reason: "the first problem counts", read: func(d Doc) any { _, _ = d.Get("text").Int(), d.Get("number").String(); return nil }, problem: "doc.text is a string and must be a whole number"},
		"Raw":             {reason: "raw parts stay as they stand", read: func(d Doc) any { return string(d.Get("object", "a").Raw()) }, want: `{"b": [{"c": "deep"}]}`},
		"RawAbsent":       {reason: "nil for none", read: func(d Doc) any { return d.Get("x").Raw() }, want: json.RawMessage(nil)},
		"FieldsOfAList":   {reason: "a list has no fields", read: func(d Doc) any { return names(d.Get("list")) }, want: "", problem: "doc.list is a list and must be an object"},
		"FieldsOfNothing": {reason: "nor has nothing", read: func(d Doc) any { return names(d.Get("x")) }, want: ""},
		"Fields":          {reason: "in their order", read: func(d Doc) any { return names(d)[:20] }, want: "text empty number ne"},
		"DecodeAbsent":    {reason: "nothing changes nothing", read: func(d Doc) any { n := 5; _ = d.Get("x").Decode(&n); return n }, want: 5},
		"Decode": {reason: "encoding/json for those who want it", read: func(d Doc) any {
			var v struct{ B []struct{ C string } }
			_ = d.Get("object", "a").Decode(&v)
			return v.B[0].C
		}, want: "deep"},
		"DecodeOtherShape": {reason: "its error is noted as well", read: func(d Doc) any { var n int; return d.Get("list").Decode(&n).Error()[:9] }, want: "doc.list:", problem: "doc.list cannot be decoded: json: cannot unmarshal array into Go value of type int"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := parseDoc("doc", []byte(document))
			require.NoError(t, d.Err())
			require.Equal(t, c.want, c.read(d), c.reason)
			if c.problem == "" {
				require.NoError(t, d.Err(), c.reason)
				return
			}
			require.EqualError(t, d.Err(), c.problem, c.reason)
			require.EqualError(t, d.Get("text").Err(), c.problem, "the parts share what was noted")
		})
	}
}

func names(d Doc) string {
	var all []string
	for name := range d.Fields() {
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestDocFieldsCanBeLeft(t *testing.T) {
	for name, part := range parseDoc("d", []byte(`{"a":1,"b":2}`)).Fields() {
		require.Equal(t, "a", name)
		require.Equal(t, "d.a", part.Path())
		break
	}
}

func TestZeroDoc(t *testing.T) {
	var d Doc
	require.False(t, d.Exists())
	require.Equal(t, 3, d.Get("a", "b").Required().IntOr(3))
	require.Empty(t, d.Items())
	require.NoError(t, d.Err(), "nobody listens")
}

// FuzzDoc reads documents in every way: what is not there must read as the default, what is
// there as encoding/json has it, and nothing may panic.
func FuzzDoc(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `{"a":"x","b":[1,{"a":null}]}`, `[]`, `null`, `"x"`, `{"a":{"a":{"a":true}},"a":1e5}`, `{"\u0061":"\ud83d"}`, `[[["a"]]]`, `-0`, `{"a":1.5}`, `1e999`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		d := parseDoc("d", raw)
		var theirs map[string]json.RawMessage
		isMap := json.Unmarshal(raw, &theirs) == nil
		a := d.Get("a")
		if isMap {
			value, there := theirs["a"]
			require.Equal(t, there, len(a.value.Raw()) > 0)
			require.Equal(t, string(value), string(a.value.Raw()))
			var s string
			if there && json.Unmarshal(value, &s) == nil && s != "" {
				require.Equal(t, s, a.String())
			}
			var n int
			if there && json.Unmarshal(value, &n) == nil {
				require.Equal(t, n, a.Int())
			}
			var x float64
			if there && json.Unmarshal(value, &x) == nil {
				require.InDelta(t, x, a.Float(), 0)
			}
		}
		_, _, _, _ = a.Bool(), d.Strings(), names(d), d.value.Unread()
		for _, item := range d.Items() {
			_, _ = item.Get("a", "b").Int(), item.Path()
		}
		out, err := encode(d, nil)
		require.NoError(t, err)
		want, err := json.Marshal(json.RawMessage(raw))
		require.NoError(t, err)
		require.Equal(t, string(want), string(out))
		require.Empty(t, d.value.Unread(), "what was taken as it is was read")
	})
}
