package wire

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
)

// decoders are the functions of this package with the type that encoding/json decodes the
// same message into.
func decoders() map[string]func(data []byte) (ours any, oursErr error, theirs any, theirsErr error) {
	return map[string]func(data []byte) (any, error, any, error){
		"Input": compared(func(data []byte) (abi.Input, error) {
			in, config, err := DecodeInput(data)
			if err == nil && string(config.Raw()) != string(in.Config) {
				err = errors.New("there are two configs")
			}
			return in, err
		}),
		"Response": compared(func(data []byte) (abi.Response, error) {
			response, err := DecodeResponse(data)
			return abi.Response{Result: response.Result.Raw(), Error: response.Error}, err
		}),
		"AppStatus": compared(parsed(DecodeAppStatus)),
		"AppList":   compared(parsed(DecodeAppList)),
		"Object": compared(parsed(func(v Value) (abi.KubeGetResult, error) {
			object, err := DecodeObject(v)
			return abi.KubeGetResult{Object: object.Raw()}, err
		})),
		"KubeList": compared(parsed(func(v Value) (abi.KubeListResult, error) {
			page, err := DecodeKubeList(v)
			result := abi.KubeListResult{Continue: page.Continue}
			if page.Items != nil {
				result.Items = []json.RawMessage{}
			}
			for _, item := range page.Items {
				result.Items = append(result.Items, item.Raw())
			}
			return result, err
		})),
		"KubeDelete": compared(parsed(DecodeKubeDelete)),
		"Secret":     compared(parsed(DecodeSecret)),
		"Event":      compared(parsed(DecodeEvent)),
	}
}

// parsed makes a decoder of a document of one of a value.
func parsed[T any](decode func(Value) (T, error)) func([]byte) (T, error) {
	return func(data []byte) (T, error) {
		v, err := Parse(data)
		if err != nil {
			var none T
			return none, err
		}
		return decode(v)
	}
}

func compared[T any](decode func([]byte) (T, error)) func([]byte) (any, error, any, error) {
	return func(data []byte) (any, error, any, error) {
		ours, oursErr := decode(data)
		var theirs T
		theirsErr := json.Unmarshal(data, &theirs)
		return ours, oursErr, theirs, theirsErr
	}
}

// requireSame compares this package with encoding/json on one document.
func requireSame(t *testing.T, data []byte) {
	t.Helper()
	for name, decode := range decoders() {
		before := string(data)
		ours, oursErr, theirs, theirsErr := decode(data)
		require.Equal(t, before, string(data), "%s changes its input", name)
		require.Equal(t, theirsErr == nil, oursErr == nil, "%s of %q: encoding/json says %v, we say %v", name, data, theirsErr, oursErr)
		if oursErr == nil {
			require.Equal(t, theirs, ours, "%s of %q", name, data)
		}
	}
}

// documents that are hard, each with what is hard about them.
func hard() map[string]string {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	return map[string]string{
		"Nothing":            ``,
		"Spaces":             " \t\r\n",
		"OtherSpace":         "\u00a0{}",
		"ByteOrderMark":      "\ufeff{}",
		"Null":               `null`,
		"NotAnObject":        `[]`,
		"Number":             `1`,
		"Trailing":           `{} {}`,
		"TrailingBracket":    `{}]`,
		"TrailingSpace":      "{}\n\n",
		"TrailingComma":      `{"abi":1,}`,
		"LeadingComma":       `{,"abi":1}`,
		"NoColon":            `{"abi" 1}`,
		"NoQuotes":           `{abi:1}`,
		"SingleQuotes":       `{'abi':1}`,
		"Comment":            `{"abi":1/*x*/}`,
		"CutOff":             `{"abi":1`,
		"CutOffString":       `{"now":"`,
		"CutOffEscape":       `{"now":"\`,
		"CutOffUnicode":      `{"now":"\u00`,
		"DuplicateScalar":    `{"abi":1,"abi":2,"now":"a","now":"b"}`,
		"DuplicateNull":      `{"abi":1,"abi":null,"now":"a","now":null,"state":1,"state":null,"installed":true,"installed":null}`,
		"DuplicateStruct":    `{"node":{"name":"a"},"node":{"path":"b"},"node":null}`,
		"DuplicateMap":       `{"facts":{"a":1},"facts":{"b":2}}`,
		"DuplicateFact":      `{"facts":{"a":1,"a":2,"\u0061":3}}`,
		"DuplicateMapNull":   `{"facts":{"a":1},"facts":null}`,
		"DuplicateList":      `{"capabilities":["a","b"],"capabilities":["c"],"capabilities":["d",null]}`,
		"DuplicateEmptyList": `{"capabilities":["a","b"],"capabilities":[]}`,
		"DuplicateEntries":   `{"applications":[{"name":"a","release":"r"}],"applications":[{"name":"b"},{"version":"v"}]}`,
		"DuplicateError":     `{"error":{"code":"a"},"error":{"message":"b"}}`,
		"ErrorNull":          `{"error":{"code":"a"},"error":null,"result":null}`,
		"OtherCase":          `{"ABI":1,"OPERATION":"x","deadlinemillis":5,"Node":{"NAME":"n"}}`,
		"ExactAfterCase":     `{"ABI":1,"abi":2,"Abi":3}`,
		"FoldedSigns":        "{\"\u212and\":1,\"\u017fcope\":{\"id\":\"x\"},\"\u017ftate\":5}",
		"KeyEscaped":         `{"\u0061bi":7}`,
		"KeyInvalid":         "{\"ab\xff\":1,\"facts\":{\"\xff\":1,\"\ufffd\":2}}",
		"Unknown":            `{"new":{"a":[1,{"b":null}]},"abi":1}`,
		"UnknownBroken":      `{"new":{"a":[1,{"b":nul}]},"abi":1}`,
		"Fraction":           `{"abi":1.0}`,
		"Exponent":           `{"abi":1e0}`,
		"MinusZero":          `{"abi":-0,"deadlineMillis":-0}`,
		"LeadingZero":        `{"abi":01}`,
		"Plus":               `{"abi":+1}`,
		"BigNumber":          `{"abi":9223372036854775807,"deadlineMillis":-9223372036854775808}`,
		"TooBigNumber":       `{"abi":9223372036854775808}`,
		"TooBigDisposition":  `{"disposition":2147483648}`,
		"BigDisposition":     `{"disposition":-2147483648}`,
		"RawNumbers":         `{"config":[1e999,-0.0,123456789012345678901234567890,1E+2]}`,
		"RawSpaces":          "{\"config\" :\t{ \"a\" : 1 } \n, \"state\":\r[ ]}",
		"NumberGarbage":      `{"config":1x}`,
		"NumberDot":          `{"config":1.}`,
		"NumberExponent":     `{"config":1e}`,
		"NumberMinus":        `{"config":-}`,
		"StringForNumber":    `{"abi":"1"}`,
		"NumberForString":    `{"now":1}`,
		"StringForBool":      `{"installed":"true"}`,
		"ObjectForList":      `{"capabilities":{}}`,
		"ListForObject":      `{"node":[]}`,
		"ListForMap":         `{"facts":[]}`,
		"NullInList":         `{"capabilities":[null,"a"]}`,
		"Escapes":            `{"now":"\"\\\/\b\f\n\r\t\u00e9"}`,
		"BadEscape":          `{"now":"\x"}`,
		"BadUnicode":         `{"now":"\u12g4"}`,
		"Pair":               `{"now":"\ud83d\ude80"}`,
		"HalfPair":           `{"now":"\ud83d"}`,
		"HalfPairThenText":   `{"now":"\ud83dx\u0041"}`,
		"HalfPairTwice":      `{"now":"\ud83d\ud83d\ude80"}`,
		"LowHalf":            `{"now":"\ude80\ud83d"}`,
		"InvalidUTF8":        "{\"now\":\"a\xff\xc3(\xe2\x82\",\"config\":\"\xff\"}",
		"SurrogateBytes":     "{\"now\":\"\xed\xa0\x80\"}",
		"Control":            "{\"now\":\"a\nb\"}",
		"Delete":             "{\"now\":\"\x7f\"}",
		"ZeroByte":           "{\"now\":\"\x00\"}",
		"Deep":               `{"config":` + deep(9999) + `}`,
		"TooDeep":            `{"config":` + deep(10000) + `}`,
		"TooDeepUnknown":     `{"x":` + deep(10001) + `}`,
		"Base64":             `{"value":"aGk="}`,
		"Base64Lines":        `{"value":"aG\nk="}`,
		"Base64Bad":          `{"value":"aGk"}`,
		"Base64Numbers":      `{"value":[104,105,null]}`,
		"Base64TooBig":       `{"value":[256]}`,
		"Base64Negative":     `{"value":[-1]}`,
		"Base64Null":         `{"value":"aGk=","value":null}`,
		"Base64Empty":        `{"value":""}`,
		"Items":              `{"items":[{"a":1},null,[],"x"],"continue":"c"}`,
		"ItemsNull":          `{"items":null}`,
		"Literals":           `{"config":[true,false,null]}`,
		"LiteralCut":         `{"config":tru}`,
		"LiteralLong":        `{"config":nulll}`,
	}
}

func TestHardDocuments(t *testing.T) {
	for name, document := range hard() {
		t.Run(name, func(t *testing.T) {
			requireSame(t, []byte(document))
			requireSame(t, []byte(`{"result":`+document+`}`))
		})
	}
}

// TestVectors compares on the documents of the contract.
func TestVectors(t *testing.T) {
	set, err := abitest.Vectors()
	require.NoError(t, err)
	for _, v := range set.Inputs {
		requireSame(t, v.Envelope)
		for cut := range len(v.Envelope) {
			requireSame(t, v.Envelope[:cut])
		}
	}
	for _, v := range set.Exchanges {
		requireSame(t, v.Response)
		response, err := DecodeResponse(v.Response)
		require.NoError(t, err)
		requireSame(t, response.Result.Raw())
	}
}

// FuzzDecode looks for a document that encoding/json and this package do not agree on.
func FuzzDecode(f *testing.F) {
	for _, document := range hard() {
		if len(document) < 1000 {
			f.Add([]byte(document))
		}
	}
	set, err := abitest.Vectors()
	require.NoError(f, err)
	for _, v := range set.Inputs {
		f.Add([]byte(v.Envelope))
	}
	for _, v := range set.Exchanges {
		f.Add([]byte(v.Response))
	}
	f.Fuzz(func(t *testing.T, data []byte) { requireSame(t, data) })
}

// TestFieldNames keeps the lists of names complete: without it a new field of package abi
// would be read by nobody.
func TestFieldNames(t *testing.T) {
	cases := map[string]struct {
		value any
		names string
	}{
		"Input":      {abi.Input{}, inputFields},
		"Node":       {abi.Node{}, nodeFields},
		"Owner":      {abi.Owner{}, ownerFields},
		"Scope":      {abi.Scope{}, scopeFields},
		"Response":   {abi.Response{}, responseFields},
		"CallError":  {abi.CallError{}, errorFields},
		"AppStatus":  {abi.AppStatus{}, statusFields},
		"AppList":    {abi.AppListResult{}, appListFields},
		"AppEntry":   {abi.AppEntry{}, appEntryFields},
		"KubeGet":    {abi.KubeGetResult{}, objectFields},
		"KubeApply":  {abi.KubeApplyResult{}, objectFields},
		"KubeList":   {abi.KubeListResult{}, kubeListFields},
		"KubeDelete": {abi.KubeDeleteResult{}, deleteFields},
		"Secret":     {abi.SecretReadResult{}, secretFields},
		"Event":      {abi.EventResult{}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, field := range reflect.VisibleFields(reflect.TypeOf(c.value)) {
				tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				want = append(want, tag)
			}
			require.Equal(t, want, append([]string(nil), strings.Fields(c.names)...))
		})
	}
}

func TestErrorsSayWhereAndNotWhat(t *testing.T) {
	cases := map[string]struct {
		reason, document, want string
	}{
		"CutOff":    {"the words of encoding/json", `{"abi":1`, "unexpected end of JSON input"},
		"Character": {"one character, not what it stands in", `{"now":"hunter2"!}`, `invalid character '!' after a value at offset 16`},
		"Type":      {"the kinds, not the value", `{"abi":"hunter2"}`, "the value at offset 7 is a string and must be a whole number"},
		"Range":     {"nor a number", `{"abi":99999999999999999999}`, "the number at offset 7 is no whole number of its range"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := DecodeInput([]byte(c.document))
			require.EqualError(t, err, c.want, c.reason)
		})
	}
}

func TestStringsAndRawPartsAlias(t *testing.T) {
	document := []byte(`{"now":"plain","config":{"a":1}}`)
	allocations := testing.AllocsPerRun(100, func() {
		if _, _, err := DecodeInput(document); err != nil {
			t.Error(err)
		}
	})
	require.LessOrEqual(t, allocations, 8.0, "one copy of the text, and none for each string")
	in, _, err := DecodeInput(document)
	require.NoError(t, err)
	require.Equal(t, len(in.Config), cap(in.Config), "appending to a raw part must not write into the next one")
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "<a href=\"x\">&</a>", "\u2028\u2029\u2027", "\xff\xc3(", "\x00\x1f\x7f\b\f\n\r\t\\", "ü🚀", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, string(want), string(AppendText(nil, s)))
		v, err := Parse(want)
		require.NoError(t, err)
		back := v.Text()
		require.Equal(t, strings.ToValidUTF8(s, "\ufffd") == s, back == s, "valid text comes back as it went")
	})
}

// TestPlainUntil tries every byte at every place of the eight that are looked at together.
func TestPlainUntil(t *testing.T) {
	for c := range 256 {
		for length := range 19 {
			for at := range length {
				text := []byte(strings.Repeat("a", length))
				text[at] = byte(c)
				want := length
				if c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
					want = at
				}
				for from := 0; from <= at; from++ {
					require.Equal(t, want, plainUntil(text, from), "byte %#x at %d of %d, from %d", c, at, length, from)
				}
				if at+1 < length {
					text[at+1] = '"' // what comes after the first one must not hide it
					require.Equal(t, min(want, at+1), plainUntil(text, 0), "byte %#x at %d of %d before a quote", c, at, length)
				}
			}
		}
	}
}

func FuzzFloat(f *testing.F) {
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1.5, 1e-6, 9.99e-7, 1e21, 1e20, 1e-9, 1e300, math.MaxFloat32, math.SmallestNonzeroFloat64, math.Inf(1), math.NaN()} {
		f.Add(x)
	}
	f.Fuzz(func(t *testing.T, x float64) {
		for bits, value := range map[int]any{64: x, 32: float32(x)} {
			want, wantErr := json.Marshal(value)
			wide := x
			if bits == 32 {
				wide = float64(float32(x))
			}
			got, err := AppendFloat(nil, wide, bits)
			require.Equal(t, wantErr == nil, err == nil)
			if err == nil {
				require.Equal(t, string(want), string(got))
			}
		}
	})
}

func FuzzDocument(f *testing.F) {
	for _, document := range hard() {
		if len(document) < 1000 {
			f.Add([]byte(document))
		}
	}
	f.Add([]byte("{\"a\" : \"<\u2028>&\\\"  \" , \"b<\":[ 1 , 2 ]}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, wantErr := json.Marshal(json.RawMessage(raw))
		if raw == nil {
			return
		}
		got, err := AppendDocument([]byte("x"), raw)
		require.Equal(t, wantErr == nil, err == nil, "%q: encoding/json says %v, we say %v", raw, wantErr, err)
		if err == nil {
			require.Equal(t, "x"+string(want), string(got))
		} else {
			require.Equal(t, "x", string(got))
		}
	})
}
