package helm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestPlaces(t *testing.T) {
	many := map[string]any{}
	for i := range maxPlaces + 1 {
		many[fmt.Sprint(i)] = "hunter2"
	}
	for name, tc := range map[string]struct {
		reason  string
		values  map[string]any
		secrets []string
		want    []string
	}{
		"None":    {"what came from nowhere secret is not recorded", map[string]any{"a": "hunter2"}, nil, nil},
		"Nested":  {"in maps and lists", map[string]any{"a": map[string]any{"b": []any{"x", "hunter2"}}}, []string{"hunter2"}, []string{"/a/b/1"}},
		"Within":  {"a text that holds one", map[string]any{"url": "https://u:hunter2@h"}, []string{"hunter2"}, []string{"/url"}},
		"Number":  {"a number looks as it is quoted", map[string]any{"pin": json.Number("1234567")}, []string{"1234567"}, []string{"/pin"}},
		"Escaped": {"keys may look like pointers", map[string]any{"a/b~c": "hunter2"}, []string{"hunter2"}, []string{"/a~1b~0c"}},
		"Short":   {"what is not hidden is not recorded", map[string]any{"a": "on"}, []string{"on"}, nil},
		"Neither": {"booleans and nulls are no secrets", map[string]any{"a": true, "b": nil}, []string{"true", "<nil>"}, nil},
		"Many":    {"beyond the bound everything is", many, []string{"hunter2"}, []string{everything}},
		"Long":    {"in bytes as well", map[string]any{strings.Repeat("k", maxPlacesSize): "hunter2"}, []string{"hunter2"}, []string{everything}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, places(tc.values, tc.secrets), tc.reason) })
	}
	require.Equal(t, []string{"/a", "/b"}, mergePlaces([]string{"/b"}, []string{"/a", "/b"}))
	require.Equal(t, []string{everything}, mergePlaces([]string{everything}, []string{"/a"}), "what is everything stays everything")
	require.Empty(t, mergePlaces(nil, nil))
}

// A release is read by whoever knows the places only, as JSON.
func TestTextsAtPlacesAreHidden(t *testing.T) {
	stored := func(values map[string]any) map[string]any {
		raw, err := json.Marshal(values)
		require.NoError(t, err)
		var read map[string]any
		require.NoError(t, json.Unmarshal(raw, &read))
		return read
	}
	values := stored(map[string]any{"url": "https://u:hunter2@db/x", "pin": 1234567, "plain": "x-ray", "list": []any{"open", "sesame"}})
	for name, tc := range map[string]struct {
		reason     string
		at         []string
		text, want string
	}{
		"Whole":      {"as it stands", []string{"/url"}, "bad https://u:hunter2@db/x", "bad [secret]"},
		"Piece":      {"a chart may have taken the password out", []string{"/url"}, `password "hunter2"`, `password "[secret]"`},
		"ShortPiece": {"but a scheme is none", []string{"/url"}, "https://api", "https://api"},
		"Number":     {"JSON makes a float of it", []string{"/pin"}, "pin 1234567", "pin [secret]"},
		"Item":       {"of a list", []string{"/list/1"}, "open sesame", "open [secret]"},
		"Elsewhere":  {"what is no secret stays", []string{"/url"}, "x-ray sesame", "x-ray sesame"},
		"Everything": {"if there were too many", []string{everything}, "x-ray sesame", "[secret] [secret]"},
		"Gone":       {"a place that this revision lacks", []string{"/other"}, "x-ray", "x-ray"},
		"None":       {"nothing is secret", nil, "hunter2", "hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			last := &revision{values: []map[string]any{nil, values}}
			require.Equal(t, tc.want, hiding(last.secrets(tc.at))(tc.text), tc.reason)
		})
	}
	require.Empty(t, (*revision)(nil).secrets([]string{"/url"}))
	without := &removal{entry: entry{Secrets: []string{"/url"}}}
	require.NotContains(t, without.hide("hunter2"), "hunter2", "without the values nobody knows what to hide")
	without.entry.Secrets = nil
	require.Equal(t, "hunter2", without.hide("hunter2"), "and without secrets there is nothing to hide")
}

func TestVeiledErrorsKeepTheirMeaning(t *testing.T) {
	hide := hiding([]string{"hunter2"})
	require.NoError(t, veil(nil, hide))
	err := veil(apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("the password hunter2 is denied")), hide)
	require.True(t, apierrors.IsForbidden(err))
	require.NotContains(t, err.Error(), "hunter2")
	require.Contains(t, err.Error(), hidden)
}
