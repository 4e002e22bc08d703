package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// TestSchemasAreUpToDate compares the committed files with what the types say now.
func TestSchemasAreUpToDate(t *testing.T) {
	want, err := Generate("../..")
	require.NoError(t, err)
	entries, err := os.ReadDir("../../schema")
	require.NoError(t, err)
	require.Len(t, entries, len(want), "abi/schema has a file for each message; run make generate")
	for name, content := range want {
		got, err := os.ReadFile("../../schema/" + name)
		require.NoError(t, err)
		require.Equal(t, string(content), string(got), "%s is not up to date; run make generate", name)
	}
}

func TestEveryFunctionHasItsMessages(t *testing.T) {
	files, err := Generate("../..")
	require.NoError(t, err)
	for _, f := range abi.Functions() {
		request, result := typesOf(f)
		require.NotNil(t, request, "%s", f)
		require.NotNil(t, result, "%s", f)
		require.Contains(t, files, string(f)+".request.json")
		require.Contains(t, files, string(f)+".answer.json")
	}
	request, result := typesOf("other")
	require.Nil(t, request)
	require.Nil(t, result)
	require.Equal(t, "CallError", messages()[3].typ.Name(), "answers refer to it")
}

func TestSchemasSayWhatTheTypesSay(t *testing.T) {
	files, err := Generate("../..")
	require.NoError(t, err)
	for name, content := range files {
		require.False(t, bytes.Contains(content, []byte(`"no JSON type"`)), "%s has a field of a kind that the generator does not know", name)
		require.True(t, json.Valid(content), name)
	}
	for _, m := range messages() {
		if m.answers != nil {
			continue
		}
		var s struct {
			ID, Description string
			Properties      map[string]json.RawMessage
			Required        []string
		}
		content := bytes.Replace(files[m.name+".json"], []byte(`"$id"`), []byte(`"id"`), 1)
		require.NoError(t, json.Unmarshal(content, &s))
		require.Equal(t, base+m.name+".json", s.ID)
		require.NotEmpty(t, s.Description, "the comment of the type is its description")
		for _, field := range reflect.VisibleFields(m.typ) {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			require.Contains(t, s.Properties, name, m.name)
			if options == "" {
				require.Contains(t, s.Required, name, m.name)
			}
		}
	}
}

// TestRulesAreOfFields finds rules for fields that were renamed.
func TestRulesAreOfFields(t *testing.T) {
	fields := map[string]bool{}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Slice, reflect.Map, reflect.Pointer:
			walk(typ.Elem())
		case reflect.Struct:
			fields[typ.Name()] = true
			for _, field := range reflect.VisibleFields(typ) {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				fields[typ.Name()+"."+name] = true
				walk(field.Type)
			}
		default:
		}
	}
	for _, m := range messages() {
		walk(m.typ)
		if m.answers != nil {
			walk(m.answers)
		}
	}
	for name := range fieldRules() {
		require.True(t, fields[name], "the rule for %s is of no field", name)
	}
	for name := range typeRules() {
		require.True(t, fields[name], "the rule for %s is of no type", name)
	}
}

func TestListsOfValues(t *testing.T) {
	s, err := readSource("../..")
	require.NoError(t, err)
	require.Equal(t, []any{"app_ensure", "app_remove", "app_list", "kube_get", "kube_list", "kube_apply", "kube_delete", "secret_read", "event"}, s.values["Function"])
	require.Equal(t, []any{0, 1, 2, 3, 4}, s.values["Disposition"])
	require.Equal(t, []any{"", "base64"}, s.values["Encoding"])
	_, err = readSource("testdata/none\x00[")
	require.Error(t, err)
}
