package guest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// scriptHost answers with what it was given, in order, and keeps what it was asked.
type scriptHost struct {
	answers []string
	asked   []string
}

func (h *scriptHost) Log(Level, string) {}
func (h *scriptHost) Call(f abi.Function, request []byte) []byte {
	h.asked = append(h.asked, string(f)+" "+string(request))
	answer := h.answers[0]
	h.answers = h.answers[1:]
	return []byte(answer)
}

func TestEnsure(t *testing.T) {
	cases := map[string]struct {
		reason string
		name   string
		spec   AppSpec
		asked  string
		answer string
		want   string
		after  time.Duration
	}{
		"Ready": {
			reason: "a ready application is nil; null in values survives",
			spec:   AppSpec{Repo: "oci://r", Chart: "c", Version: "1.0.0", Values: Values{"a": nil, "b": Values{"c": []int{1}}}},
			asked:  `app_ensure {"repo":"oci://r","chart":"c","version":"1.0.0","values":{"a":null,"b":{"c":[1]}}}`,
			answer: `{"result":{"phase":"ready","disposition":0}}`,
		},
		"Everything": {
			reason: "every field travels",
			name:   "db",
			spec: AppSpec{Catalogue: "pg", Version: "1.x", Release: "r", Namespace: "n", CreateNamespace: true,
				Parameters: []abi.AppParameter{{Name: "a.b", Value: "1"}}, AllowDegraded: true, Values: Values{}},
			asked:  `app_ensure {"name":"db","catalogue":"pg","version":"1.x","release":"r","namespace":"n","createNamespace":true,"values":{},"parameters":[{"name":"a.b","value":"1"}],"allowDegraded":true}`,
			answer: `{"result":{"phase":"progressing","disposition":1,"reason":"application_installing","retryAfterSeconds":5}}`,
			want:   "Yield application_installing: application db progressing", after: 5 * time.Second,
		},
		"Blocked": {
			reason: "the host's verdict is passed on", asked: `app_ensure {}`,
			answer: `{"result":{"phase":"blocked","disposition":3,"reason":"application_stuck"}}`,
			want:   "UserActionRequired application_stuck: application blocked",
		},
		"Failed": {
			reason: "a terminal one, too", asked: `app_ensure {}`,
			answer: `{"result":{"phase":"failed","disposition":4,"reason":"render_failed"}}`,
			want:   "Terminal render_failed: application failed",
		},
		"OddDisposition": {
			reason: "a number that is none is not passed on", asked: `app_ensure {}`,
			answer: `{"result":{"phase":"ready","disposition":7}}`,
			want:   "Retry unexpected: app_ensure: the host answered Disposition(7) for application ready",
		},
		"Empty": {
			reason: "an empty answer must not read as ready", asked: `app_ensure {}`, answer: `{}`,
			want: "Retry unexpected: app_ensure: the host answered neither a result nor an error",
		},
		"NoPhase": {
			reason: "nor an empty result", asked: `app_ensure {}`, answer: `{"result":{}}`,
			want: "Retry unexpected: app_ensure: the host answered without a phase",
		},
		"NullResult": {
			reason: "nor null", asked: `app_ensure {}`, answer: `{"result":null}`,
			want: "Retry unexpected: app_ensure: the host answered neither a result nor an error",
		},
		"NoAnswer": {
			reason: "nor no bytes at all", asked: `app_ensure {}`, answer: ``,
			want: "Retry unexpected: app_ensure: decode the host's answer: ",
		},
		"OddResult": {
			reason: "nor another shape", asked: `app_ensure {}`, answer: `{"result":"ready"}`,
			want: "Retry unexpected: app_ensure: decode the host's answer: ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			host := &scriptHost{answers: []string{c.answer}}
			inCall(t, nil, host, func(call *Call) {
				err := call.App(c.name).Ensure(c.spec)
				if c.want == "" {
					require.NoError(t, err, c.reason)
					return
				}
				require.ErrorContains(t, err, c.want, c.reason)
				require.Equal(t, c.after, verdict(err).RetryAfter())
			})
			require.Equal(t, []string{c.asked}, host.asked)
		})
	}
}

func TestEnsureValuesThatAreNoJSON(t *testing.T) {
	host := &scriptHost{}
	inCall(t, nil, host, func(call *Call) {
		err := call.App("").Ensure(AppSpec{Values: Values{"f": func() {}}})
		require.Equal(t, abi.ReasonInvalidConfig, verdict(err).Reason())
	})
	require.Empty(t, host.asked, "nothing is asked for")
}

func TestRemoveAndList(t *testing.T) {
	host := &scriptHost{answers: []string{
		`{"result":{"phase":"deleting","disposition":1,"reason":"application_deleting"}}`,
		`{"result":{"phase":"gone","disposition":0}}`,
		`{"error":{"code":"forbidden","message":"no"}}`,
		`{"result":{"applications":[{"name":"a","release":"r","namespace":"n"}]}}`,
		`{"error":{"code":"unavailable"}}`,
	}}
	inCall(t, nil, host, func(call *Call) {
		require.EqualError(t, call.App("a").Remove(), "Yield application_deleting: application a deleting")
		require.NoError(t, call.App("a").Remove())
		require.EqualError(t, call.App("").Remove(), "UserActionRequired forbidden: app_remove: forbidden: no")
		apps, err := call.Apps()
		require.NoError(t, err)
		require.Equal(t, []abi.AppEntry{{Name: "a", Release: "r", Namespace: "n"}}, apps)
		apps, err = call.Apps()
		require.Error(t, err)
		require.Nil(t, apps, "a failure is not an empty list")
	})
	require.Equal(t, []string{`app_remove {"name":"a"}`, `app_remove {"name":"a"}`, `app_remove {}`, `app_list {}`, `app_list {}`}, host.asked)
}

func TestFailures(t *testing.T) {
	cases := map[string]struct {
		reason string
		code   abi.ErrorCode
		get    string
		secret string
	}{
		"Absent":      {reason: "an object may come, a secret must be made", code: abi.CodeAbsent, get: "Yield awaiting_dependency", secret: "UserActionRequired secret_missing"},
		"Denied":      {reason: "the grant is the admin's", code: abi.CodeDenied, get: "UserActionRequired not_granted", secret: "UserActionRequired not_granted"},
		"Forbidden":   {reason: "rights are the tenant's", code: abi.CodeForbidden, get: "UserActionRequired forbidden", secret: "UserActionRequired forbidden"},
		"Conflict":    {reason: "a conflict may pass", code: abi.CodeConflict, get: "Retry unexpected", secret: "Retry unexpected"},
		"TooLarge":    {reason: "the log has the numbers", code: abi.CodeTooLarge, get: "Retry unexpected", secret: "Retry unexpected"},
		"Invalid":     {reason: "the log has the mistake", code: abi.CodeInvalid, get: "Retry unexpected", secret: "Retry unexpected"},
		"Unavailable": {reason: "the cluster may come back", code: abi.CodeUnavailable, get: "Retry unexpected", secret: "Retry unexpected"},
		"Unsupported": {reason: "the host may be upgraded", code: abi.CodeUnsupported, get: "Retry unexpected", secret: "Retry unexpected"},
		"Unknown":     {reason: "a code of a later host is like unavailable", code: "quota", get: "Retry unexpected", secret: "Retry unexpected"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			answer := `{"error":{"code":"` + string(c.code) + `","message":"m"}}`
			host := &scriptHost{answers: []string{answer, answer}}
			inCall(t, nil, host, func(call *Call) {
				get := call.Kube().Get(abi.ObjectRef{}, &struct{}{})
				require.EqualError(t, get, c.get+": kube_get: "+string(c.code)+": m", c.reason)
				_, secret := call.Secret(abi.SecretReadRequest{})
				require.EqualError(t, secret, c.secret+": secret_read: "+string(c.code)+": m", c.reason)

				var ce *abi.CallError
				require.ErrorAs(t, get, &ce)
				require.Equal(t, c.code, ce.Code)
				require.True(t, HasCode(get, c.code))
				require.Equal(t, c.code == abi.CodeAbsent, IsAbsent(get))
				require.Equal(t, c.code == abi.CodeConflict, IsConflict(get))
				require.Equal(t, c.code == abi.CodeDenied, IsDenied(get))
			})
		})
	}
	require.False(t, IsAbsent(nil))
	require.False(t, IsAbsent(Yield("x", "")))
}

func TestKube(t *testing.T) {
	ref := abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: "n", Name: "s"}
	host := &scriptHost{answers: []string{
		`{"result":{"object":{"metadata":{"name":"s"},"spec":{"x":1}}}}`,
		`{"result":{"object":{"a":1}}}`,
		`{"result":{"object":{"metadata":{"name":"after"}}}}`,
		`{"result":{"object":{}}}`,
		`{"result":{"gone":false}}`,
		`{"result":{"gone":true}}`,
		`{"error":{"code":"absent"}}`,
		`{"error":{"code":"conflict"}}`,
	}}
	type named struct {
		Metadata struct{ Name string }
	}
	inCall(t, nil, host, func(call *Call) {
		var s named
		require.NoError(t, call.Kube().Get(ref, &s))
		require.Equal(t, "s", s.Metadata.Name)
		var raw json.RawMessage
		require.NoError(t, call.Kube().Get(ref, &raw))
		require.JSONEq(t, `{"a":1}`, string(raw))

		object := map[string]any{"kind": "ConfigMap"}
		require.NoError(t, call.Kube().Apply(abi.ScopeHome, object, &s))
		require.Equal(t, "after", s.Metadata.Name)
		require.NoError(t, call.Kube().Apply(abi.ScopeCurrent, object, nil), "who does not want the object need not take it")
		require.ErrorContains(t, call.Kube().Apply(abi.ScopeCurrent, func() {}, nil), "encode the object")

		gone, err := call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: ref, UID: "u"})
		require.NoError(t, err)
		require.False(t, gone)
		for range 2 {
			gone, err = call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: ref})
			require.NoError(t, err)
			require.True(t, gone, "an object that never existed is gone as well")
		}
		gone, err = call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: ref})
		require.True(t, IsConflict(err))
		require.False(t, gone)
	})
	require.Equal(t, []string{
		`kube_get {"apiVersion":"v1","kind":"Service","namespace":"n","name":"s"}`,
		`kube_get {"apiVersion":"v1","kind":"Service","namespace":"n","name":"s"}`,
		`kube_apply {"scope":"home","object":{"kind":"ConfigMap"}}`,
		`kube_apply {"scope":"current","object":{"kind":"ConfigMap"}}`,
		`kube_delete {"apiVersion":"v1","kind":"Service","namespace":"n","name":"s","uid":"u"}`,
		`kube_delete {"apiVersion":"v1","kind":"Service","namespace":"n","name":"s"}`,
		`kube_delete {"apiVersion":"v1","kind":"Service","namespace":"n","name":"s"}`,
		`kube_delete {"apiVersion":"v1","kind":"Service","namespace":"n","name":"s"}`,
	}, host.asked)
}

func TestList(t *testing.T) {
	cases := map[string]struct {
		reason string
		pages  []string
		want   []int
		fails  string
	}{
		"One":        {reason: "a page", pages: []string{`{"result":{"items":[{"n":1},{"n":2}]}}`}, want: []int{1, 2}},
		"Empty":      {reason: "no object is no failure", pages: []string{`{"result":{"items":[]}}`}, want: []int{}},
		"Null":       {reason: "nor is null", pages: []string{`{"result":{"items":null}}`}, want: []int{}},
		"Pages":      {reason: "pages are put together", pages: []string{`{"result":{"items":[{"n":1}],"continue":"x"}}`, `{"result":{"items":[{"n":2}],"continue":"y"}}`, `{"result":{"items":[{"n":3}]}}`}, want: []int{1, 2, 3}},
		"EmptyPages": {reason: "an empty page in between leaves no gap", pages: []string{`{"result":{"items":[ ],"continue":"x"}}`, `{"result":{"items":[{"n":2}],"continue":"y"}}`, `{"result":{"items":[]}}`}, want: []int{2}},
		"Broken":     {reason: "half a list is no list", pages: []string{`{"result":{"items":[{"n":1}],"continue":"x"}}`, `{"error":{"code":"unavailable"}}`}, fails: "kube_list: unavailable"},
		"OtherShape": {reason: "an object of another shape is named by kind", pages: []string{`{"result":{"items":[{"n":"x"}]}}`}, fails: "decode the list of Thing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			host := &scriptHost{answers: c.pages}
			inCall(t, nil, host, func(call *Call) {
				var things []struct{ N int }
				query := abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Thing"}, LabelSelector: "a=b", Limit: 1}
				err := call.Kube().List(query, &things)
				if c.fails != "" {
					require.ErrorContains(t, err, c.fails, c.reason)
					return
				}
				require.NoError(t, err, c.reason)
				got := []int{}
				for _, thing := range things {
					got = append(got, thing.N)
				}
				require.Equal(t, c.want, got, c.reason)
			})
			require.Len(t, host.asked, len(c.pages))
			require.Equal(t, `kube_list {"apiVersion":"v1","kind":"Thing","labelSelector":"a=b","limit":1}`, host.asked[0])
			if len(host.asked) > 1 {
				require.Contains(t, host.asked[1], `"continue":"x"`)
			}
		})
	}
}

func TestSecretAndEvent(t *testing.T) {
	host := &scriptHost{answers: []string{
		`{"result":{"handle":"caisson-secret:0123456789abcdef0123456789abcdef:","digest":"d"}}`,
		`{"result":{"digest":"d","value":"aGk="}}`,
		`{"result":{}}`,
	}}
	inCall(t, nil, host, func(call *Call) {
		s, err := call.Secret(abi.SecretReadRequest{Scope: abi.ScopeHome, Namespace: "n", Name: "s", Key: "k", Encoding: abi.EncodingBase64})
		require.NoError(t, err)
		require.Equal(t, "caisson-secret:0123456789abcdef0123456789abcdef:", s.Handle)
		require.Equal(t, "d", s.Digest)
		s, err = call.Secret(abi.SecretReadRequest{Name: "s", Key: "k", Raw: true})
		require.NoError(t, err)
		require.Equal(t, "hi", string(s.Value))
		require.NoError(t, call.Event(Warning, "quota"))
	})
	require.Equal(t, []string{
		`secret_read {"scope":"home","namespace":"n","name":"s","key":"k","encoding":"base64"}`,
		`secret_read {"name":"s","key":"k","raw":true}`,
		`event {"type":"Warning","reason":"quota"}`,
	}, host.asked)
}

func TestWithoutAHost(t *testing.T) {
	inCall(t, nil, nil, func(call *Call) {
		failing := map[abi.Function]error{
			abi.AppEnsure: call.App("").Ensure(AppSpec{}), abi.AppRemove: call.App("").Remove(),
			abi.KubeGet: call.Kube().Get(abi.ObjectRef{}, nil), abi.KubeList: call.Kube().List(abi.KubeListRequest{}, nil),
			abi.KubeApply: call.Kube().Apply("", nil, nil), abi.Event: call.Event(Normal, "x"),
		}
		_, failing[abi.AppList] = call.Apps()
		_, failing[abi.KubeDelete] = call.Kube().Delete(abi.KubeDeleteRequest{})
		_, failing[abi.SecretRead] = call.Secret(abi.SecretReadRequest{})
		require.Len(t, failing, len(abi.Functions()), "every function of the ABI has a method")
		for f, err := range failing {
			require.True(t, HasCode(err, abi.CodeUnsupported), "%s", f)
			require.ErrorContains(t, err, string(f)+" needs a host")
		}
	})
}
