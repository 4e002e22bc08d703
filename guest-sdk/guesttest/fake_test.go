package guesttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// bare returns the fake host of a call of the module of the conformance vectors, to be
// asked directly.
func bare(t *testing.T) *host {
	t.Helper()
	set, err := abitest.Vectors()
	require.NoError(t, err)
	nothing := func(*guest.Call, struct{}) error { return nil }
	h := New(t, guest.Module[struct{}]{Manifest: set.Manifest, Provision: nothing, Deprovision: nothing})
	h.secrets.newCall()
	in := h.template
	return &host{h: h, in: &in}
}

// ask asks the fake and decodes the response strictly.
func ask(t *testing.T, s *host, f abi.Function, request string) abi.Response {
	t.Helper()
	var response abi.Response
	d := json.NewDecoder(bytes.NewReader(s.Call(f, []byte(request))))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&response))
	require.NotEqual(t, response.Result == nil, response.Error == nil, "a result or an error, and not both")
	return response
}

// TestFakeAnswersTheVectors puts the world of the conformance vectors before the fake and
// compares its answers with theirs.
func TestFakeAnswersTheVectors(t *testing.T) {
	set, err := abitest.Vectors()
	require.NoError(t, err)
	prepare := map[string]func(s *host){
		"app_ensure ready": func(s *host) {
			s.Call(abi.AppEnsure, []byte(`{"repo":"https://helm.cilium.io","chart":"cilium","version":"1.18.2","namespace":"kube-system","values":{"k8sServiceHost":"203.0.113.7","tolerations":null}}`))
			s.h.AppReady("")
		},
		"app_ensure progressing": func(s *host) {
			s.Call(abi.AppEnsure, []byte(`{"name":"db","catalogue":"postgres","version":"16.x","release":"db","namespace":"data","createNamespace":true,"values":{},"parameters":[{"name":"primary.size","value":"2"}],"allowDegraded":true}`))
			s.h.SetApp("db", abi.AppStatus{Phase: abi.AppProgressing, Disposition: abi.Yield, Reason: abi.ReasonApplicationInstalling, RetryAfterSeconds: 5})
		},
		"app_ensure denied":   func(s *host) { s.h.Fail(abi.AppEnsure, abi.CodeDenied) },
		"app_remove deleting": func(s *host) { s.Call(abi.AppEnsure, []byte(`{"name":"db","catalogue":"postgres"}`)) },
		"app_list": func(s *host) {
			s.Call(abi.AppEnsure, []byte(`{"catalogue":"c","release":"demo-1a2b3c4d","namespace":"kube-system","version":"1.18.2"}`))
			s.Call(abi.AppEnsure, []byte(`{"name":"db","catalogue":"c","release":"db","namespace":"data"}`))
		},
		"kube_get": func(s *host) {
			s.h.PutObject("home", json.RawMessage(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"ingress","namespace":"web"}}`))
		},
		"kube_list unavailable": func(s *host) { s.h.Fail(abi.KubeList, abi.CodeUnavailable) },
		"kube_apply": func(s *host) {
			s.h.PutObject("home", json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"web","uid":"u1"},"data":{}}`))
		},
		"kube_apply conflict": func(s *host) { s.h.Fail(abi.KubeApply, abi.CodeConflict) },
		"kube_delete": func(s *host) {
			s.h.PutObject("home", json.RawMessage(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"ingress","namespace":"web","uid":"u1"}}`))
		},
		"secret_read raw": func(s *host) {
			s.h.GrantRawSecrets()
			s.h.PutSecret("home", "default", "cloud", map[string]string{"token": "hello"})
		},
		"secret_read": func(s *host) {
			s.h.PutSecret("home", "team", "cloud", map[string]string{"cloud.conf": "[Global]"})
		},
	}
	// What a fake cannot know: the text of a message, a random handle, a keyed digest,
	// and objects of which the vector shows only a part.
	vague := map[string]string{"secret_read": "handle digest", "secret_read raw": "digest", "kube_list": "items"}
	for _, v := range set.Exchanges {
		t.Run(v.Name, func(t *testing.T) {
			s := bare(t)
			if p, ok := prepare[v.Name]; ok {
				p(s)
			}
			got := ask(t, s, v.Function, string(v.Request))
			var want abi.Response
			require.NoError(t, json.Unmarshal(v.Response, &want))
			if want.Error != nil {
				require.NotNil(t, got.Error, "%s", got.Result)
				require.Equal(t, want.Error.Code, got.Error.Code)
				return
			}
			require.Nil(t, got.Error)
			require.JSONEq(t, without(t, want.Result, vague[v.Name]), without(t, got.Result, vague[v.Name]))
		})
	}
}

// without drops the named fields of an object.
func without(t *testing.T, raw json.RawMessage, fields string) string {
	t.Helper()
	var object map[string]any
	require.NoError(t, json.Unmarshal(raw, &object))
	for _, field := range strings.Fields(fields) {
		require.Contains(t, object, field, "the field is there, with whatever value")
		delete(object, field)
	}
	out, err := json.Marshal(object)
	require.NoError(t, err)
	return string(out)
}

// TestFakeIsStrict: a module that sends what no host reads has a bug.
func TestFakeIsStrict(t *testing.T) {
	for _, f := range abi.Functions() {
		for _, request := range []string{``, `{`, `[]`, `7`, `{"unknown":1}`} {
			response := ask(t, bare(t), f, request)
			require.NotNil(t, response.Error, "%s %q", f, request)
			require.Equal(t, abi.CodeInvalid, response.Error.Code, "%s %q", f, request)
		}
	}
}

func TestFakeRefusesWhatTheABIDoesNotHave(t *testing.T) {
	r := &silent{}
	s := bare(t)
	s.h.t = r
	response := ask(t, s, "http_request", `{}`)
	require.Equal(t, abi.CodeDenied, response.Error.Code)
	require.Equal(t, []string{"guesttest: the module calls http_request, which its manifest does not declare; no host would load it"}, r.errors)
}

// silent keeps errors.
type silent struct{ errors []string }

func (r *silent) Helper() {}
func (r *silent) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestAllStrings(t *testing.T) {
	cases := map[string]struct {
		reason string
		raw    string
		want   string
	}{
		"Escapes": {reason: "an escape hides nothing", raw: `{"k":"a\nb\u0063"}`, want: "k\na\nbc\n"},
		"Deep":    {reason: "depth hides nothing", raw: `[{"a":[["x"]]},1,null,true]`, want: "a\nx\n"},
		"CutOff":  {reason: "what is before the damage counts", raw: `["x",`, want: "x\n"},
		"Nothing": {reason: "nothing holds nothing", raw: ``, want: ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, allStrings([]byte(c.raw)), c.reason) })
	}
}

func FuzzSelector(f *testing.F) {
	for _, seed := range []string{"", "a", "!a", "a=b", "a==b,c!=d", "a in (x,y),!z", "a notin ()", "a in (", "a=b=c", ",", "a,", " a ", "in in (in)", "a in(x)"} {
		f.Add(seed)
	}
	labels := map[string]any{"a": "b", "c": "d"}
	f.Fuzz(func(t *testing.T, selector string) {
		matches, err := parseSelector(selector)
		if err != nil {
			require.Nil(t, matches)
			return
		}
		matches(labels)
		matches(nil)
		again, err := parseSelector(selector + ",a=b")
		if err == nil && again(labels) {
			require.True(t, matches(labels), "one more requirement never selects more")
		}
	})
}

func FuzzFake(f *testing.F) {
	set, err := abitest.Vectors()
	require.NoError(f, err)
	for _, v := range set.Exchanges {
		f.Add(slices.Index(abi.Functions(), v.Function), []byte(v.Request))
	}
	f.Fuzz(func(t *testing.T, which int, request []byte) {
		if which < 0 || which >= len(abi.Functions()) {
			return
		}
		s := bare(t)
		s.h.t = &silent{} // what it finds in the fuzzer's requests is not the point
		s.h.PutSecret("home", "default", "cloud", map[string]string{"token": "secret value"})
		ask(t, s, abi.Functions()[which], string(request))
	})
}
