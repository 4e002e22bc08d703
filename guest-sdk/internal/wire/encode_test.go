package wire

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// encoded writes a message with this package; ok is false for one that it does not write.
func encoded(message any) (out []byte, err error, ok bool) {
	switch m := message.(type) {
	case *abi.AppSpec:
		out, err = EncodeAppSpec(m)
	case *abi.AppRef:
		out = EncodeAppRef(m)
	case *abi.KubeGetRequest:
		out = EncodeKubeGet(m)
	case *abi.KubeListRequest:
		out = EncodeKubeList(m)
	case *abi.KubeApplyRequest:
		out, err = EncodeKubeApply(m)
	case *abi.KubeDeleteRequest:
		out = EncodeKubeDelete(m)
	case *abi.SecretReadRequest:
		out = EncodeSecret(m)
	case *abi.EventRequest:
		out = EncodeEvent(m)
	case *abi.Output:
		out, err = EncodeOutput(m)
	case *abi.Manifest:
		out, err = EncodeManifest(m)
	default:
		return nil, nil, false
	}
	return out, err, true
}

// messages are a zero value of each type that is written.
func messages() []any {
	return []any{
		&abi.AppSpec{}, &abi.AppRef{}, &abi.KubeGetRequest{}, &abi.KubeListRequest{}, &abi.KubeApplyRequest{},
		&abi.KubeDeleteRequest{}, &abi.SecretReadRequest{}, &abi.EventRequest{}, &abi.Output{}, &abi.Manifest{},
	}
}

// filler fills a message with what a fuzzer chose, so that each field is written at some
// time, whatever its type.
type filler struct {
	data []byte
}

func (f *filler) byte() byte {
	if len(f.data) == 0 {
		return 0
	}
	b := f.data[0]
	f.data = f.data[1:]
	return b
}

func (f *filler) text() string {
	n := min(int(f.byte()%16), len(f.data))
	s := string(f.data[:n])
	f.data = f.data[n:]
	return s
}

func (f *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.byte()%2 == 1)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(int8(f.byte())))
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.byte() % 4 {
			element := reflect.New(v.Type().Elem()).Elem()
			f.fill(element)
			v.SetMapIndex(reflect.ValueOf(f.text()), element)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes(f.document())
			return
		}
		for range f.byte() % 4 {
			element := reflect.New(v.Type().Elem()).Elem()
			f.fill(element)
			v.Set(reflect.Append(v, element))
		}
	default:
		panic("a kind of field that the filler does not know: " + v.Kind().String())
	}
}

// document is nothing, JSON, or whatever the fuzzer says.
func (f *filler) document() []byte {
	switch f.byte() % 6 {
	case 0:
		return nil
	case 1:
		return []byte(`{ "a" : [1, "<x>", null] }`)
	case 2:
		return []byte(`null`)
	case 3:
		return []byte{}
	default:
		return []byte(f.text())
	}
}

// FuzzEncode compares what is written with encoding/json.
func FuzzEncode(f *testing.F) {
	f.Add([]byte{})
	for _, seed := range []string{"\x03abc\x02xy\x01\x01\x01\x05hello\x02<>\x01", "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", "\x04\x04{\"a\"\x05\x031\x02\x03\xff\xfe\x00\x07\x02\x02\x02\x02\x03\x03\x03"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, message := range messages() {
			(&filler{data: data}).fill(reflect.ValueOf(message).Elem())
			want, wantErr := json.Marshal(message)
			got, err, ok := encoded(message)
			require.True(t, ok)
			require.Equal(t, wantErr == nil, err == nil, "%T: encoding/json says %v, we say %v", message, wantErr, err)
			if err == nil {
				require.Equal(t, string(want), string(got), "%T", message)
			}
		}
	})
}

// TestEncodeEveryField sets each field of each message, one at a time.
func TestEncodeEveryField(t *testing.T) {
	for _, zero := range messages() {
		typ := reflect.TypeOf(zero).Elem()
		for i := range typ.NumField() {
			t.Run(typ.Name()+"/"+typ.Field(i).Name, func(t *testing.T) {
				message := reflect.New(typ)
				(&filler{data: []byte("\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01")}).fill(message.Elem().Field(i))
				require.False(t, message.Elem().Field(i).IsZero())
				want, err := json.Marshal(message.Interface())
				require.NoError(t, err)
				got, err, _ := encoded(message.Interface())
				require.NoError(t, err)
				require.Equal(t, string(want), string(got))
			})
		}
	}
}

func TestEncodeSaysWhichDocumentIsBroken(t *testing.T) {
	cases := map[string]struct {
		reason  string
		message any
		want    string
	}{
		"Values": {"the values of an application", &abi.AppSpec{Values: json.RawMessage(`{`)}, "values: unexpected end of JSON input"},
		"Object": {"an object", &abi.KubeApplyRequest{Object: json.RawMessage(``)}, "object: unexpected end of JSON input"},
		"Fact":   {"a fact by its name", &abi.Output{Facts: map[string]json.RawMessage{"a": json.RawMessage(`1`), "b": json.RawMessage(`x`)}}, "fact b: invalid character 'x' instead of a value at offset 0"},
		"Schema": {"the schema of a manifest", &abi.Manifest{ConfigSchema: json.RawMessage(`{} {}`)}, "configSchema: invalid character '{' after the document at offset 3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err, _ := encoded(c.message)
			require.EqualError(t, err, c.want, c.reason)
		})
	}
}
