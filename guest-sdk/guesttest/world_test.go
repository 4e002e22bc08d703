package guesttest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

// within runs do as a Provision against a prepared world.
func within(t *testing.T, h func(h *guesttest.Harness), do func(call *guest.Call), options ...guesttest.Option) *guesttest.Harness {
	t.Helper()
	harness := guesttest.New(t, doing(func(call *guest.Call) error {
		do(call)
		return nil
	}), options...)
	if h != nil {
		h(harness)
	}
	require.Equal(t, "OK", harness.Provision(nil).String())
	return harness
}

func object(kind, namespace, name string, labels map[string]any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": namespace, "name": name, "labels": labels}}
}

func ref(kind, namespace, name string) abi.ObjectRef {
	return abi.ObjectRef{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}
}

type named struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

func TestGet(t *testing.T) {
	put := func(h *guesttest.Harness) {
		h.PutObject("home", object("Service", "n", "at-home", nil))
		h.PutObject("w", object("Service", "n", "there", nil))
	}
	within(t, put, func(call *guest.Call) {
		var got named
		require.NoError(t, call.Kube().Get(ref("Service", "n", "there"), &got))
		require.Equal(t, "there", got.Metadata.Name)
		require.True(t, guest.IsAbsent(call.Kube().Get(ref("Service", "n", "at-home"), &got)), "clusters are apart")
		home := ref("Service", "n", "at-home")
		home.Scope = abi.ScopeHome
		require.NoError(t, call.Kube().Get(home, &got))
		home.Scope = "moon"
		require.True(t, guest.HasCode(call.Kube().Get(home, &got), abi.CodeInvalid))
		require.True(t, guest.HasCode(call.Kube().Get(abi.ObjectRef{Name: "x"}, &got), abi.CodeInvalid))
		require.True(t, guest.IsDenied(call.Kube().Get(ref("Secret", "n", "x"), &got)), "whatever the rules say")
	}, guesttest.Remote("w", "h", 1))
}

func TestScopeThatDoesNotAnswer(t *testing.T) {
	do := func(call *guest.Call) {
		err := call.Kube().Get(ref("Service", "n", "x"), &named{})
		require.True(t, guest.HasCode(err, abi.CodeUnavailable), "no answer is not absence")
		require.True(t, guest.HasCode(call.App("").Ensure(spec), abi.CodeUnavailable), "nothing can be installed there")
	}
	within(t, nil, do, guesttest.Remote("w", "h", 1), guesttest.ScopeState(abi.ScopePending))
}

func TestListSelectsAndPages(t *testing.T) {
	put := func(h *guesttest.Harness) {
		h.PutObject("home", object("Service", "n", "a", map[string]any{"app": "x", "tier": "web"}))
		h.PutObject("home", object("Service", "n", "b", map[string]any{"app": "y"}))
		h.PutObject("home", object("Service", "m", "c", map[string]any{"app": "x"}))
		h.PutObject("home", object("Service", "n", "d", nil))
		h.PutObject("home", object("ConfigMap", "n", "e", map[string]any{"app": "x"}))
	}
	cases := map[string]struct {
		reason   string
		selector string
		want     string
	}{
		"All":        {reason: "no selector selects all", want: "a b d"},
		"Equal":      {reason: "app=x", selector: "app=x", want: "a"},
		"Double":     {reason: "== is =", selector: "app == y", want: "b"},
		"NotEqual":   {reason: "!= also selects what has no such label", selector: "app!=x", want: "b d"},
		"Exists":     {reason: "a key alone", selector: "app", want: "a b"},
		"Missing":    {reason: "a key with !", selector: "!app", want: "d"},
		"In":         {reason: "one of", selector: "app in (x, y)", want: "a b"},
		"NotIn":      {reason: "none of", selector: "app notin (x,z)", want: "b d"},
		"And":        {reason: "a comma is and", selector: "app in (x,y),tier=web", want: "a"},
		"AndMissing": {reason: "with a negation", selector: "app, !tier", want: "b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			within(t, put, func(call *guest.Call) {
				for _, limit := range []int{0, 1, 2} {
					var got []named
					query := abi.KubeListRequest{ObjectRef: ref("Service", "n", ""), LabelSelector: c.selector, Limit: limit}
					require.NoError(t, call.Kube().List(query, &got), c.reason)
					names := make([]string, 0, len(got))
					for _, g := range got {
						names = append(names, g.Metadata.Name)
					}
					require.Equal(t, c.want, strings.Join(names, " "), c.reason)
				}
			})
		})
	}
	within(t, put, func(call *guest.Call) {
		var got []named
		require.NoError(t, call.Kube().List(abi.KubeListRequest{ObjectRef: ref("Service", "", "")}, &got))
		require.Len(t, got, 4, "no namespace is every namespace")
		require.True(t, guest.HasCode(call.Kube().List(abi.KubeListRequest{ObjectRef: ref("Service", "n", "a")}, &got), abi.CodeInvalid), "a list has no name")
		for _, bad := range []abi.KubeListRequest{{LabelSelector: "a=b=c"}, {LabelSelector: "!a=b"}, {LabelSelector: "a in x"}, {Limit: 501}, {Limit: -1}, {Continue: "x"}, {Continue: "-1"}} {
			bad.ObjectRef = ref("Service", "n", "")
			require.True(t, guest.HasCode(call.Kube().List(bad, &got), abi.CodeInvalid), "%+v", bad)
		}
	})
}

func TestApply(t *testing.T) {
	put := func(h *guesttest.Harness) {
		h.PutObject("home", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "a", "uid": "u"}, "data": map[string]any{"k": "1", "l": "2"}})
	}
	h := within(t, put, func(call *guest.Call) {
		var after struct {
			Data     map[string]string `json:"data"`
			Metadata struct{ UID string }
		}
		change := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "a"}, "data": map[string]any{"k": "3"}}
		require.NoError(t, call.Kube().Apply("", change, &after))
		require.Equal(t, map[string]string{"k": "3", "l": "2"}, after.Data, "fields of others stay")
		require.Equal(t, "u", after.Metadata.UID)
		require.NoError(t, call.Kube().Apply(abi.ScopeHome, object("ConfigMap", "n", "b", nil), nil))

		bad := []map[string]any{
			{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "x-"}},
			{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "x-", "name": "x"}},
			{"kind": "ConfigMap", "metadata": map[string]any{"name": "x"}},
			{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"k": "caisson-secret:" + strings.Repeat("0", 32) + ":"}},
		}
		for _, b := range bad {
			require.True(t, guest.HasCode(call.Kube().Apply("", b, nil), abi.CodeInvalid), "%v", b)
		}
	})
	_, made := h.Object("home", ref("ConfigMap", "n", "b"))
	require.True(t, made)
}

func TestDelete(t *testing.T) {
	put := func(h *guesttest.Harness) {
		h.PutObject("home", map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": "n", "name": "held", "finalizers": []string{"x/y"}}})
		h.PutObject("home", map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": "n", "name": "free", "uid": "u"}})
	}
	h := within(t, put, func(call *guest.Call) {
		gone, err := call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: ref("Service", "n", "held")})
		require.NoError(t, err)
		require.False(t, gone, "a finalizer holds it")
		_, err = call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: ref("Service", "n", "free"), UID: "other"})
		require.True(t, guest.IsConflict(err), "another object of that name is not ours")
		for _, want := range []bool{false, true} {
			gone, err = call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: ref("Service", "n", "free"), UID: "u"})
			require.NoError(t, err)
			require.Equal(t, want, gone, "triggering a deletion is not seeing it done")
		}
		gone, err = call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: ref("Service", "n", "never")})
		require.NoError(t, err)
		require.True(t, gone)
	})
	held, ok := h.Object("home", ref("Service", "n", "held"))
	require.True(t, ok)
	require.Contains(t, held["metadata"], "deletionTimestamp")
	h.DeleteObject("home", ref("Service", "n", "held"))
	_, ok = h.Object("home", ref("Service", "n", "held"))
	require.False(t, ok)
}

func TestSecrets(t *testing.T) {
	put := func(h *guesttest.Harness) {
		h.PutSecret("home", "default", "s", map[string]string{"k": "value one"})
		h.PutSecret("w", "kube-system", "s", map[string]string{"k": "value one", "l": "value two"})
	}
	h := within(t, put, func(call *guest.Call) {
		home, err := call.Secret(abi.SecretReadRequest{Scope: abi.ScopeHome, Name: "s", Key: "k"})
		require.NoError(t, err, "at home the Stack's namespace is meant")
		there, err := call.Secret(abi.SecretReadRequest{Namespace: "kube-system", Name: "s", Key: "k", Encoding: abi.EncodingBase64})
		require.NoError(t, err)
		other, err := call.Secret(abi.SecretReadRequest{Namespace: "kube-system", Name: "s", Key: "l"})
		require.NoError(t, err)
		require.Regexp(t, `^caisson-secret:[0-9a-f]{32}:$`, home.Handle)
		require.NotEqual(t, home.Handle, there.Handle, "each answer has a handle of its own")
		require.Equal(t, home.Digest, there.Digest, "equal bytes have equal digests")
		require.NotEqual(t, there.Digest, other.Digest)
		require.Nil(t, home.Value)

		failing := map[abi.ErrorCode]abi.SecretReadRequest{
			abi.CodeAbsent: {Namespace: "kube-system", Name: "s", Key: "none"},
			abi.CodeDenied: {Namespace: "kube-system", Name: "s", Key: "k", Raw: true},
		}
		for code, request := range failing {
			_, err := call.Secret(request)
			require.True(t, guest.HasCode(err, code), "%s", code)
		}
		for _, bad := range []abi.SecretReadRequest{{Name: "s", Key: "k"}, {Namespace: "n", Key: "k"}, {Namespace: "n", Name: "s"}, {Namespace: "n", Name: "s", Key: "k", Encoding: "hex"}} {
			_, err := call.Secret(bad)
			require.True(t, guest.HasCode(err, abi.CodeInvalid), "%+v", bad)
		}
	}, guesttest.Remote("w", "h", 1))
	h.DeleteSecret("w", "kube-system", "s")
	require.Contains(t, h.Trace(), "# Secret w/kube-system/s is deleted")
	require.NotContains(t, h.Trace(), "value one", "a trace is committed")
}

func TestRawSecrets(t *testing.T) {
	put := func(h *guesttest.Harness) {
		h.GrantRawSecrets()
		h.PutSecret("home", "n", "s", map[string]string{"k": "value one"})
	}
	h := within(t, put, func(call *guest.Call) {
		s, err := call.Secret(abi.SecretReadRequest{Namespace: "n", Name: "s", Key: "k", Raw: true})
		require.NoError(t, err)
		require.Equal(t, "value one", string(s.Value))
		require.NotEmpty(t, s.Digest)
		require.Empty(t, s.Handle)
	})
	require.Contains(t, h.Trace(), "secret_read")
	require.NotContains(t, h.Trace(), "dmFsdWUgb25l", "the bytes are not in the record, which is committed")
}

func TestNewHandleForTheSameSecretIsNoUpgrade(t *testing.T) {
	h := guesttest.New(t, doing(func(call *guest.Call) error {
		s, err := call.Secret(abi.SecretReadRequest{Namespace: "n", Name: "s", Key: "k"})
		if err != nil {
			return err
		}
		app := spec
		app.Values = guest.Values{"conf": "password=" + s.Handle}
		return call.App("").Ensure(app)
	}))
	h.PutSecret("home", "n", "s", map[string]string{"k": "value one"})
	h.Provision(nil)
	h.AppReady("")
	require.Equal(t, "OK", h.Provision(nil).String())
	h.PutSecret("home", "n", "s", map[string]string{"k": "value two"})
	require.Equal(t, "Yield application_upgrading", h.Provision(nil).String(), "another secret is one")
}

func TestEvents(t *testing.T) {
	within(t, nil, func(call *guest.Call) {
		require.NoError(t, call.Event(guest.Warning, "own_reason"))
		require.NoError(t, call.Event(guest.Normal, abi.ReasonSecretMissing))
		require.True(t, guest.HasCode(call.Event("Loud", "own_reason"), abi.CodeInvalid))
	})
}
