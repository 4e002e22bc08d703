package abi_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

var fullRef = abi.ObjectRef{Scope: abi.ScopeHome, APIVersion: "v1", Kind: "Service", Namespace: "n", Name: "s"}

// wire is one value of every type that crosses the boundary, with the JSON that it is.
// The JSON is the contract: a change here breaks modules that exist.
var wire = map[string]struct {
	value any
	json  string
}{
	"Input": {
		value: abi.Input{
			ABI: 1, Operation: "provision", Node: abi.Node{Name: "n", Path: "a/n"},
			Owner:  abi.Owner{APIVersion: "g/v1", Kind: "K", Namespace: "ns", Name: "o", UID: "u", Generation: 3},
			Config: raw(`{"a":null}`), Facts: map[string]json.RawMessage{"f": raw(`null`), "g": raw(`1`)}, State: raw(`[1]`),
			Scope:    abi.Scope{ID: "x", Remote: true, Host: "h", Port: 6443, State: abi.ScopePending},
			Teardown: abi.Orphan, Installed: true, Capabilities: []abi.Function{abi.AppEnsure, abi.Event},
			Now: "2026-01-02T03:04:05Z", DeadlineMillis: 30000,
		},
		json: `{"abi":1,"operation":"provision","node":{"name":"n","path":"a/n"},` +
			`"owner":{"apiVersion":"g/v1","kind":"K","namespace":"ns","name":"o","uid":"u","generation":3},` +
			`"config":{"a":null},"facts":{"f":null,"g":1},"state":[1],` +
			`"scope":{"id":"x","remote":true,"host":"h","port":6443,"state":"pending"},` +
			`"teardown":"Orphan","installed":true,"capabilities":["app_ensure","event"],"now":"2026-01-02T03:04:05Z","deadlineMillis":30000}`,
	},
	"InputLeast": {
		value: abi.Input{ABI: 1, Operation: "deprovision", Config: raw(`{}`), Scope: abi.Scope{ID: "home", State: abi.ScopeReady}, Teardown: abi.Drain},
		json: `{"abi":1,"operation":"deprovision","node":{"name":"","path":""},"owner":{"apiVersion":"","kind":"","name":"","uid":"","generation":0},` +
			`"config":{},"scope":{"id":"home","remote":false,"state":"ready"},"teardown":"Drain","installed":false,"now":"","deadlineMillis":0}`,
	},
	"Output": {
		value: abi.Output{Reason: "r", Why: "w", RetryAfterSeconds: 2, Facts: map[string]json.RawMessage{"f": raw(`null`)}, State: raw(`null`)},
		json:  `{"reason":"r","why":"w","retryAfterSeconds":2,"facts":{"f":null},"state":null}`,
	},
	"OutputLeast": {value: abi.Output{}, json: `{}`},
	"Manifest": {
		value: abi.Manifest{
			ABI: 1, Name: "m", Version: "1.0.0", Description: "d", Capabilities: []abi.Function{abi.KubeList},
			Kube:         []abi.KubeRule{{APIGroup: "", Kinds: []string{"Service"}, Verbs: []string{"list"}, Namespaces: []string{"n"}}},
			Reasons:      []abi.ReasonText{{Code: "c", Sentence: "s"}},
			ConfigSchema: raw(`{"type":"object"}`), RequiresDrain: true,
		},
		json: `{"abi":1,"name":"m","version":"1.0.0","description":"d","capabilities":["kube_list"],` +
			`"kube":[{"apiGroup":"","kinds":["Service"],"verbs":["list"],"namespaces":["n"]}],` +
			`"reasons":[{"code":"c","sentence":"s"}],"configSchema":{"type":"object"},"requiresDrain":true}`,
	},
	"ManifestLeast":  {value: abi.Manifest{ABI: 1, Name: "m", Version: "1.0.0"}, json: `{"abi":1,"name":"m","version":"1.0.0"}`},
	"ResponseResult": {value: abi.Response{Result: raw(`{"phase":"ready"}`)}, json: `{"result":{"phase":"ready"}}`},
	"ResponseError": {
		value: abi.Response{Error: &abi.CallError{Code: abi.CodeAbsent, Message: "m"}},
		json:  `{"error":{"code":"absent","message":"m"}}`,
	},
	"AppSpec": {
		value: abi.AppSpec{
			Name: "n", Catalogue: "c", Repo: "oci://r", Chart: "ch", Version: "1.0.0", Release: "rel", Namespace: "ns", CreateNamespace: true,
			Values: raw(`{"a":null,"b":[null,{"c":null}]}`), Parameters: []abi.AppParameter{{Name: "p", Value: "v"}}, AllowDegraded: true,
		},
		json: `{"name":"n","catalogue":"c","repo":"oci://r","chart":"ch","version":"1.0.0","release":"rel","namespace":"ns","createNamespace":true,` +
			`"values":{"a":null,"b":[null,{"c":null}]},"parameters":[{"name":"p","value":"v"}],"allowDegraded":true}`,
	},
	"AppSpecLeast": {value: abi.AppSpec{}, json: `{}`},
	"AppRef":       {value: abi.AppRef{Name: "n"}, json: `{"name":"n"}`},
	"AppStatus": {
		value: abi.AppStatus{Phase: abi.AppBlocked, Disposition: abi.UserActionRequired, Reason: "r", RetryAfterSeconds: 5},
		json:  `{"phase":"blocked","disposition":3,"reason":"r","retryAfterSeconds":5}`,
	},
	"AppStatusReady": {value: abi.AppStatus{Phase: abi.AppReady}, json: `{"phase":"ready","disposition":0}`},
	"AppListRequest": {value: abi.AppListRequest{}, json: `{}`},
	"AppListResult": {
		value: abi.AppListResult{Applications: []abi.AppEntry{{Name: "n", Release: "r", Namespace: "ns", Version: "1.0.0"}, {}}},
		json:  `{"applications":[{"name":"n","release":"r","namespace":"ns","version":"1.0.0"},{"name":"","release":"","namespace":""}]}`,
	},
	"KubeGetRequest": {value: abi.KubeGetRequest{ObjectRef: fullRef}, json: `{"scope":"home","apiVersion":"v1","kind":"Service","namespace":"n","name":"s"}`},
	"KubeGetResult":  {value: abi.KubeGetResult{Object: raw(`{"a":null}`)}, json: `{"object":{"a":null}}`},
	"KubeListRequest": {
		value: abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Pod"}, LabelSelector: "a=b", Limit: 5, Continue: "c"},
		json:  `{"apiVersion":"v1","kind":"Pod","labelSelector":"a=b","limit":5,"continue":"c"}`,
	},
	"KubeListResult":    {value: abi.KubeListResult{Items: []json.RawMessage{raw(`{}`)}, Continue: "c"}, json: `{"items":[{}],"continue":"c"}`},
	"KubeApplyRequest":  {value: abi.KubeApplyRequest{Scope: abi.ScopeCurrent, Object: raw(`{"a":null}`)}, json: `{"scope":"current","object":{"a":null}}`},
	"KubeApplyResult":   {value: abi.KubeApplyResult{Object: raw(`{}`)}, json: `{"object":{}}`},
	"KubeDeleteRequest": {value: abi.KubeDeleteRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Pod", Name: "p"}, UID: "u"}, json: `{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}`},
	"KubeDeleteResult":  {value: abi.KubeDeleteResult{Gone: true}, json: `{"gone":true}`},
	"SecretReadRequest": {
		value: abi.SecretReadRequest{Scope: abi.ScopeHome, Namespace: "n", Name: "s", Key: "k", Encoding: abi.EncodingBase64, Raw: true},
		json:  `{"scope":"home","namespace":"n","name":"s","key":"k","encoding":"base64","raw":true}`,
	},
	"SecretReadResult": {value: abi.SecretReadResult{Handle: "h", Digest: "d", Value: []byte{0, 255}}, json: `{"handle":"h","digest":"d","value":"AP8="}`},
	"EventRequest":     {value: abi.EventRequest{Type: "Normal", Reason: "r"}, json: `{"type":"Normal","reason":"r"}`},
	"EventResult":      {value: abi.EventResult{}, json: `{}`},
}

func TestWire(t *testing.T) {
	for name, c := range wire {
		t.Run(name, func(t *testing.T) {
			encoded, err := json.Marshal(c.value)
			require.NoError(t, err)
			require.Equal(t, c.json, string(encoded))

			decoded := reflect.New(reflect.TypeOf(c.value))
			d := json.NewDecoder(bytes.NewReader(encoded))
			d.DisallowUnknownFields()
			require.NoError(t, d.Decode(decoded.Interface()))
			require.Equal(t, c.value, decoded.Elem().Interface())
		})
	}
}

// TestStateIsThreeValued guards the difference between "keep" and "drop".
func TestStateIsThreeValued(t *testing.T) {
	for text, want := range map[string]json.RawMessage{`{}`: nil, `{"state":null}`: raw(`null`), `{"state":{}}`: raw(`{}`)} {
		var out abi.Output
		require.NoError(t, json.Unmarshal([]byte(text), &out))
		require.Equal(t, want, out.State, text)
	}
}

func FuzzOutput(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"reason":"a","why":"b","retryAfterSeconds":1,"facts":{"x":null},"state":null}`, `[]`, `null`,
		`{"retryAfterSeconds":1e3}`, `{"retryAfterSeconds":-1}`, `{"facts":{"":{}}}`, `{"facts":[]}`, `{} {}`, `{"state":"\ud800"}`, "{\"why\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first abi.Output
		if json.Unmarshal(text, &first) != nil {
			return
		}
		encoded, err := json.Marshal(&first)
		require.NoError(t, err, "what was decoded can be encoded")
		var second abi.Output
		require.NoError(t, json.Unmarshal(encoded, &second))
		again, err := json.Marshal(&second)
		require.NoError(t, err)
		require.Equal(t, string(encoded), string(again), "and nothing is lost on the way")
		require.Equal(t, len(first.State) == 0, len(second.State) == 0)
	})
}
