package guest

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEncodeValues compares with encoding/json.
func TestEncodeValues(t *testing.T) {
	cases := map[string]struct {
		reason string
		value  any
	}{
		"Nil":       {"null", nil},
		"Strings":   {"escapes", []string{"", "<&>", "\u2028", "\xff", "\t\"\\", "ü🚀"}},
		"Booleans":  {"both", []any{true, false}},
		"Integers":  {"every size", []any{int(-1), int8(-8), int16(-16), int32(-32), int64(math.MinInt64), uint(1), uint8(8), uint16(16), uint32(32), uint64(math.MaxUint64)}},
		"Floats":    {"both sizes", []any{1.5, float32(0.1), 1e21, 1e-7, float32(1e-7), math.Copysign(0, -1), 100.0}},
		"Maps":      {"sorted by name", Values{"b": map[string]any{"z": 1, "a": nil}, "a": map[string]string{"y": "2", "x": "1"}, "": Values{}}},
		"NilMaps":   {"null", []any{Values(nil), map[string]any(nil), map[string]string(nil)}},
		"Lists":     {"of each type", []any{[]int{1, 2}, []Values{{"a": 1}}, []map[string]any{{"b": nil}}, []any{}}},
		"NilLists":  {"null", []any{[]any(nil), []string(nil), []int(nil), []Values(nil), []map[string]any(nil)}},
		"Raw":       {"spaces go", Values{"a": json.RawMessage(` { "b" : [ 1.10 , "< >" ] } `)}},
		"RawNil":    {"null", Values{"a": json.RawMessage(nil)}},
		"Infinite":  {"JSON has no infinity", Values{"a": math.Inf(1)}},
		"NotNumber": {"nor this", float32(math.NaN())},
		"RawBroken": {"nor half a document", []any{json.RawMessage(`{`)}},
		"RawEmpty":  {"nor none at all", []any{json.RawMessage{}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want, wantErr := json.Marshal(c.value)
			got, err := encode(c.value, nil)
			require.Equal(t, wantErr == nil, err == nil, "%s: %v", c.reason, err)
			require.Equal(t, string(want), string(got), c.reason)
		})
	}
}

func TestEncodeErrorsNameThePath(t *testing.T) {
	_, err := encode(Values{"a": []any{1, Values{"b c": math.Inf(1)}}}, nil)
	require.EqualError(t, err, `a[1]["b c"]: JSON has no +Inf`)
	_, err = encode(func() {}, json.Marshal)
	require.ErrorContains(t, err, "unsupported type", "what encoding/json says of it")

	loop := Values{}
	loop["a"] = loop
	_, err = encode(loop, nil)
	require.ErrorContains(t, err, "is nested too deep", "a value that contains itself ends")
}

// FuzzEncodeValues decodes a document into values and compares how they are written.
func FuzzEncodeValues(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5,"<x>",null,true],"b":{"c":{}}}`, `[]`, `"\u2028"`, `1e300`, `{"\ud83d":-0.0}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var value any
		if json.Unmarshal(raw, &value) != nil {
			return
		}
		want, err := json.Marshal(value)
		require.NoError(t, err)
		got, err := encode(value, nil)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	})
}
