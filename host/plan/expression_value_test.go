package plan

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/stretchr/testify/require"
)

func TestExport(t *testing.T) {
	adapt := types.DefaultTypeAdapter.NativeToValue
	for name, tc := range map[string]struct {
		reason string
		value  ref.Val
		want   any
		fails  string
	}{
		"Null":        {reason: "null is a value", value: types.NullValue, want: nil},
		"Bool":        {reason: "a bool is one", value: types.True, want: true},
		"Int":         {reason: "an int is one of 64 bits", value: types.Int(math.MinInt64), want: int64(math.MinInt64)},
		"SmallUint":   {reason: "an unsigned one as well, if it fits", value: types.Uint(7), want: int64(7)},
		"LargeUint":   {reason: "and stays exact if not", value: types.Uint(math.MaxUint64), want: json.Number("18446744073709551615")},
		"Double":      {reason: "a double is a float", value: types.Double(1.5), want: 1.5},
		"Infinity":    {reason: "JSON has no infinity", value: types.Double(math.Inf(1)), fails: "not a number that JSON has"},
		"String":      {reason: "a string is one", value: types.String("ä"), want: "ä"},
		"Bytes":       {reason: "bytes become text", value: types.Bytes{0xff}, want: "/w=="},
		"Time":        {reason: "times are in UTC", value: types.Timestamp{Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))}, want: "2026-01-02T02:04:05.000000006Z"},
		"Duration":    {reason: "durations are as Go and Kubernetes spell them", value: types.Duration{Duration: 90 * time.Minute}, want: "1h30m0s"},
		"EmptyList":   {reason: "an empty list is not null", value: adapt([]any{}), want: []any{}},
		"EmptyMap":    {reason: "nor is an empty map", value: adapt(map[string]any{}), want: map[string]any{}},
		"Nested":      {reason: "all of it is converted", value: adapt(map[string]any{"a": []any{uint64(1), nil, map[string]any{"b": true}}}), want: map[string]any{"a": []any{int64(1), nil, map[string]any{"b": true}}}},
		"IntKey":      {reason: "keys are strings", value: adapt(map[int64]any{1: 2}), fails: "keys that are not strings"},
		"InnerFault":  {reason: "a fault inside is one of the whole", value: adapt([]any{math.NaN()}), fails: "not a number that JSON has"},
		"InnerInMap":  {reason: "in a map too", value: adapt(map[string]any{"a": math.NaN()}), fails: "not a number that JSON has"},
		"Type":        {reason: "a type is none", value: types.StringType, fails: "of type type has no JSON form"},
		"Optional":    {reason: "an optional has to be unwrapped", value: types.OptionalOf(types.True), fails: "has no JSON form"},
		"LongString":  {reason: "text counts", value: types.String(strings.Repeat("x", maxResultBytes)), fails: errResultTooLarge.Error()},
		"LongBytes":   {reason: "so do bytes, as text", value: types.Bytes(make([]byte, maxResultBytes*3/4+3)), fails: errResultTooLarge.Error()},
		"LongKey":     {reason: "and keys", value: adapt(map[string]any{strings.Repeat("x", maxResultBytes): 1}), fails: errResultTooLarge.Error()},
		"LongList":    {reason: "and elements", value: adapt(make([]int64, maxResultBytes)), fails: errResultTooLarge.Error()},
		"LargestText": {reason: "the limit itself is allowed", value: types.String(strings.Repeat("x", maxResultBytes-1)), want: strings.Repeat("x", maxResultBytes-1)},
	} {
		t.Run(name, func(t *testing.T) {
			exporter := exporter{left: maxResultBytes}
			got, err := exporter.export(tc.value, 0)
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestExportDepth(t *testing.T) {
	nest := func(depth int) ref.Val {
		var value any = true
		for range depth {
			value = []any{value}
		}
		return types.DefaultTypeAdapter.NativeToValue(value)
	}
	allowed, refused := exporter{left: maxResultBytes}, exporter{left: maxResultBytes}
	_, err := allowed.export(nest(maxResultDepth), 0)
	require.NoError(t, err)
	_, err = refused.export(nest(maxResultDepth+1), 0)
	require.ErrorIs(t, err, errResultTooLarge)
}

func TestDecodeJSON(t *testing.T) {
	for text, want := range map[string]any{
		`null`: nil, ` true `: true, `1.50`: json.Number("1.50"), `"x"`: "x", `[]`: []any{},
	} {
		got, err := decodeJSON([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{``, `{`, `1 2`, `{}x`, `nul`} {
		_, err := decodeJSON([]byte(text))
		require.Error(t, err, "%q", text)
	}
}

func TestClip(t *testing.T) {
	require.Equal(t, "short", clip("short"))
	long := clip(strings.Repeat("ä", 80))
	require.Equal(t, strings.Repeat("ä", 40)+"…", long)
	require.Equal(t, "x"+strings.Repeat("ä", 39)+"…", clip("x"+strings.Repeat("ä", 80)), "a letter is not cut in two")
}
