package guesttest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/guest-sdk/guesttest"
)

// recorder stands in for a *testing.T, so that failures of the harness can be looked at.
type recorder struct{ errors []string }

// fatal is what recorder.Fatalf unwinds with.
type fatal string

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

// fatalOf runs f and returns what it ended the test with, or "".
func fatalOf(f func()) (message string) {
	defer func() {
		if r := recover(); r != nil {
			message = string(r.(fatal))
		}
	}()
	f()
	return ""
}

// doing is a module that declares everything and does what it is told.
func doing(handler func(call *guest.Call) error) guest.Module[map[string]any] {
	h := func(call *guest.Call, _ map[string]any) error { return handler(call) }
	return guest.Module[map[string]any]{
		Manifest: abi.Manifest{
			Name: "test", Version: "1.0.0", Capabilities: abi.Functions(),
			Kube: []abi.KubeRule{
				{Kinds: []string{"Service", "ConfigMap", "Secret"}, Verbs: []string{"get", "list", "apply", "delete"}},
				{APIGroup: "apps", Kinds: []string{"Deployment"}, Verbs: []string{"get"}, Namespaces: []string{"shop"}},
			},
			Reasons: []abi.ReasonText{{Code: "own_reason", Sentence: "A reason of the module's own."}},
		},
		Provision: h, Deprovision: h,
	}
}

var spec = guest.AppSpec{Repo: "oci://registry.example/charts", Chart: "c", Version: "1.0.0"}

func TestApplicationsLive(t *testing.T) {
	replicas := 1
	m := guest.Module[struct{}]{
		Manifest: abi.Manifest{Name: "test", Version: "1.0.0", Capabilities: []abi.Function{abi.AppEnsure, abi.AppRemove, abi.AppList}},
		Provision: func(call *guest.Call, _ struct{}) error {
			s := spec
			s.Namespace = "n"
			s.Values = guest.Values{"replicas": replicas}
			return call.App("web").Ensure(s)
		},
		Deprovision: func(call *guest.Call, _ struct{}) error {
			apps, err := call.Apps()
			if err != nil {
				return err
			}
			for _, app := range apps {
				if err := call.App(app.Name).Remove(); err != nil {
					return err
				}
			}
			return nil
		},
	}
	h := guesttest.New(t, m)
	require.Equal(t, "Yield application_installing", h.Provision(nil).String())
	require.Equal(t, "Yield application_installing", h.Provision(nil).String(), "it does not get ready by itself")
	h.AppReady("web")
	require.Equal(t, "OK", h.Provision(nil).String())
	replicas = 2
	require.Equal(t, "Yield application_upgrading", h.Provision(nil).String(), "the status of the old specification is not that of the new one")
	require.Equal(t, map[string]any{"replicas": 2.0}, h.AppValues("web"))
	h.SetApp("web", abi.AppStatus{Phase: abi.AppBlocked, Disposition: abi.UserActionRequired, Reason: abi.ReasonApplicationStuck})
	require.Equal(t, "UserActionRequired application_stuck", h.Provision(nil).String())

	require.Equal(t, "Yield application_deleting", h.Deprovision(nil).String())
	require.Equal(t, "Yield application_deleting", h.Provision(nil).String(), "what is being removed is not made at the same time")
	h.AppGone("web")
	_, exists := h.App("web")
	require.False(t, exists)
	require.Equal(t, "OK", h.Deprovision(nil).String())

	h.Provision(nil)
	require.Equal(t, "OK", h.Deprovision(nil, guesttest.Teardown(abi.Discard)).String(), "nobody waits on Discard")
}

func TestInstalled(t *testing.T) {
	var seen []bool
	m := doing(func(call *guest.Call) error {
		seen = append(seen, call.Installed())
		return call.App("").Ensure(spec)
	})
	h := guesttest.New(t, m)
	h.Provision(nil)
	h.Provision(nil)
	require.Equal(t, []bool{false, true}, seen)
}

func TestSpecsThatNoHostTakes(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   guest.AppSpec
	}{
		"NoChart":     {reason: "without a catalogue entry the chart must be named", spec: guest.AppSpec{Repo: "oci://r", Version: "1.0.0"}},
		"LongRelease": {reason: "Helm's limit", spec: guest.AppSpec{Catalogue: "c", Release: strings.Repeat("a", 54)}},
		"OldHandle":   {reason: "a handle is void after its call", spec: guest.AppSpec{Catalogue: "c", Values: guest.Values{"a": "caisson-secret:" + strings.Repeat("0", 32) + ":"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := guesttest.New(t, doing(func(call *guest.Call) error {
				err := call.App("").Ensure(c.spec)
				require.True(t, guest.HasCode(err, abi.CodeInvalid), c.reason)
				return err
			}))
			require.Equal(t, "Retry unexpected", h.Provision(nil).String())
			_, made := h.App("")
			require.False(t, made)
		})
	}
}

func TestStateAndFactsLive(t *testing.T) {
	m := doing(func(call *guest.Call) error {
		attempts := 0
		if _, err := call.State(&attempts); err != nil {
			return err
		}
		if attempts == 2 {
			call.DropState()
			return call.Publish("done", true)
		}
		if err := call.SetState(attempts + 1); err != nil {
			return err
		}
		return guest.Yield("own_reason", "")
	})
	h := guesttest.New(t, m)
	require.JSONEq(t, "1", string(h.Provision(nil).State))
	r := h.Provision(nil)
	require.Equal(t, "Yield own_reason", r.String())
	require.JSONEq(t, "2", string(r.State))
	r = h.Provision(nil)
	require.Equal(t, "OK", r.String())
	require.Nil(t, h.State(), "dropped is dropped")
	require.JSONEq(t, "true", string(r.Facts["done"]))
}

// patient gives up after three attempts of a generation, and for good after five of all.
func patient() guest.Program {
	return doing(func(call *guest.Call) error {
		attempts, all := 0, 0
		if _, err := call.GenerationState(&attempts); err != nil {
			return err
		}
		if _, err := call.StickyState(&all); err != nil {
			return err
		}
		if all >= 5 {
			return guest.Terminal("own_reason", "")
		}
		if err := call.SetStickyState(all + 1); err != nil {
			return err
		}
		if err := call.SetGenerationState(attempts + 1); err != nil {
			return err
		}
		if attempts+1 >= 3 {
			return guest.UserActionRequired("own_reason", "")
		}
		return guest.Retry("own_reason", "")
	})
}

func TestWhatDropsState(t *testing.T) {
	h := guesttest.New(t, patient())
	for _, want := range []string{"Retry", "Retry", "UserActionRequired"} {
		require.Equal(t, want+" own_reason", h.Provision(nil).String())
	}
	h.Edit()
	require.Nil(t, h.GenerationState(), "an edit makes its attempts new")
	require.JSONEq(t, "3", string(h.StickyState()), "but not those of all generations")
	require.Equal(t, "Retry own_reason", h.Provision(nil).String())
	r := h.Provision(nil)
	require.JSONEq(t, "2", string(r.GenerationState))
	require.JSONEq(t, "5", string(r.StickyState))
	require.Equal(t, "Terminal own_reason", h.Provision(nil).String())
	h.Edit()
	require.Equal(t, "Terminal own_reason", h.Provision(nil).String(), "nothing but a person's word helps")
	h.Retry()
	require.Nil(t, h.StickyState())
	require.Equal(t, "Retry own_reason", h.Provision(nil).String())
	require.Contains(t, h.Trace(), "# a retry is asked for\n")
	require.Contains(t, h.Trace(), "  generation state 1\n  sticky state 1\n")
}

func TestStateGoesWithTheNode(t *testing.T) {
	h := guesttest.New(t, doing(func(call *guest.Call) error { return errors.Join(call.SetState(1), call.SetStickyState(2)) }))
	h.Provision(nil)
	require.NotNil(t, h.State())
	require.Equal(t, "OK", h.Deprovision(nil).String())
	require.Nil(t, h.State())
	require.Nil(t, h.StickyState())
}

func TestOptions(t *testing.T) {
	var got abi.Scope
	var fact, now string
	m := doing(func(call *guest.Call) error {
		got, now = call.Scope(), call.Now().String()
		return call.Fact("f", &fact)
	})
	h := guesttest.New(t, m, guesttest.Remote("w", "203.0.113.7", 6443), guesttest.Fact("f", "x"))
	require.Equal(t, "OK", h.Provision(nil).String())
	require.Equal(t, abi.Scope{ID: "w", Remote: true, Host: "203.0.113.7", Port: 6443, State: abi.ScopeReady}, got)
	require.Equal(t, "x", fact)
	require.Equal(t, "OK", h.Deprovision(nil, guesttest.Fact("f", "y"), guesttest.ScopeState(abi.ScopeGone), guesttest.Now("2030-01-01T00:00:00Z")).String())
	require.Equal(t, abi.ScopeGone, got.State)
	require.Equal(t, "y", fact)
	require.Contains(t, now, "2030-01-01")
	h.Provision(nil)
	require.Equal(t, "x", fact, "options of a call end with it")
	require.Equal(t, abi.ScopeReady, got.State)
}

func TestRefusedAtOnce(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     func(tb guesttest.TB)
		want   string
	}{
		"Manifest": {reason: "a host would not load it", want: "a host would refuse this module", do: func(tb guesttest.TB) {
			guesttest.New(tb, guest.Module[struct{}]{Manifest: abi.Manifest{Name: "Not A Label", Version: "1.0.0"}})
		}},
		"Config": {reason: "the test is wrong", want: "encode the config", do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(func(*guest.Call) error { return nil })).Provision(math.Inf(1))
		}},
		"Fact": {reason: "the test is wrong", want: "encode fact f", do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(nil), guesttest.Fact("f", math.NaN()))
		}},
		"Option": {reason: "the test is wrong", want: "option: no", do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(nil), func(*abi.Input) error { return errors.New("no") })
		}},
		"App": {reason: "there is nothing to become ready", want: `has not ensured an application "x"`, do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(nil)).AppReady("x")
		}},
		"Values": {reason: "there are no values", want: `there is no application "x"`, do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(nil)).AppValues("x")
		}},
		"Object": {reason: "an object needs a name", want: "no metadata.name", do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(nil)).PutObject("home", map[string]any{"apiVersion": "v1", "kind": "X"})
		}},
		"NoObject": {reason: "a list is no object", want: "not a JSON object", do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(nil)).PutObject("home", []int{1})
		}},
		"Golden": {reason: "a missing file is not an empty one", want: "UPDATE_GOLDEN=1 go test writes it", do: func(tb guesttest.TB) {
			guesttest.New(tb, doing(nil)).Golden("testdata/absent.trace")
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, fatalOf(func() { c.do(&recorder{}) }), c.want, c.reason)
		})
	}
}

func TestWhatAHostWouldHide(t *testing.T) {
	const value = "correct horse\nbattery"
	cases := map[string]struct {
		reason string
		do     func(call *guest.Call) error
		want   string
	}{
		"Undeclared": {reason: "a reason without a sentence", want: `returns the reason "made_up"`,
			do: func(*guest.Call) error { return guest.Yield("made_up", "") }},
		"NoReason": {reason: "a verdict without a reason", want: `returns the reason ""`,
			do: func(*guest.Call) error { return guest.Terminal("", "") }},
		"EventReason": {reason: "an event without a sentence", want: `records an event with the reason "made_up"`,
			do: func(call *guest.Call) error { return call.Event(guest.Normal, "made_up") }},
		"Rule": {reason: "an object that no rule covers", want: `no rule of the manifest covers get Deployment of group "apps" in namespace "other"`,
			do: func(call *guest.Call) error {
				return call.Kube().Get(abi.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "other", Name: "x"}, &struct{}{})
			}},
		"SecretInValues": {reason: "a value instead of a handle", want: "in a request of app_ensure; use its handle",
			do: func(call *guest.Call) error {
				s := spec
				s.Values = guest.Values{"conf": "password=" + value}
				return call.App("").Ensure(s)
			}},
		"SecretInBase64": {reason: "base64 hides nothing", want: "in a request of app_ensure; use its handle",
			do: func(call *guest.Call) error {
				s := spec
				s.Parameters = []abi.AppParameter{{Name: "x", Value: "Y29ycmVjdCBob3JzZQpiYXR0ZXJ5"}}
				return call.App("").Ensure(s)
			}},
		"SecretInObject": {reason: "an object is no place for it", want: "in a request of kube_apply; use its handle",
			do: func(call *guest.Call) error {
				return call.Kube().Apply("", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"k": value}}, nil)
			}},
		"SecretInFact": {reason: "facts are public", want: "is in the module's output", do: func(call *guest.Call) error { return call.Publish("f", value) }},
		"StateTooLarge": {reason: "all kinds have one limit", want: "the module's state has 65540 bytes and 65536 are allowed", do: func(call *guest.Call) error {
			return errors.Join(call.SetState(strings.Repeat("x", 32<<10)), call.SetGenerationState(strings.Repeat("x", 32<<10)))
		}},
		"SecretInState": {reason: "state is not for secrets", want: "is in the module's output", do: func(call *guest.Call) error { return call.SetState([]string{value}) }},
		"SecretInWhy":   {reason: "the log is not for secrets", want: "is in the module's output", do: func(*guest.Call) error { return guest.Retry("own_reason", value) }},
		"SecretInLog": {reason: "the log is not for secrets", want: "is in the module's log", do: func(call *guest.Call) error {
			call.Log().Info(strings.ReplaceAll("battery short", "short", "staple"), "x", "y")
			return nil
		}},
		"HandleInFact": {reason: "a handle is void after the call", want: "a secret handle is in the module's output", do: func(call *guest.Call) error {
			s, err := call.Secret(abi.SecretReadRequest{Namespace: "n", Name: "s", Key: "k"})
			if err != nil {
				return err
			}
			return call.Publish("f", s.Handle)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			h := guesttest.New(r, doing(c.do))
			h.PutSecret("home", "n", "s", map[string]string{"k": value, "other": "battery staple", "short": "x"})
			h.Provision(nil)
			require.Len(t, r.errors, 1, c.reason)
			require.Contains(t, r.errors[0], c.want, c.reason)
			require.NotContains(t, r.errors[0], "correct", "a report of a leak must not leak")
		})
	}
}

func TestUndeclaredFunction(t *testing.T) {
	m := doing(func(call *guest.Call) error { return call.App("").Remove() })
	m.Manifest.Capabilities, m.Manifest.Kube = []abi.Function{abi.AppEnsure}, nil
	r := &recorder{}
	require.Equal(t, "UserActionRequired not_granted", guesttest.New(r, m).Provision(nil).String())
	require.Equal(t, []string{"guesttest: the module calls app_remove, which its manifest does not declare; no host would load it"}, r.errors)
}

func TestGrantsAndFailures(t *testing.T) {
	m := doing(func(call *guest.Call) error { return call.App("").Ensure(spec) })
	h := guesttest.New(t, m)
	require.Equal(t, "UserActionRequired not_granted", h.Provision(nil, guesttest.Without(abi.AppEnsure)).String())
	h.Fail(abi.AppEnsure, abi.CodeForbidden)
	require.Equal(t, "UserActionRequired forbidden", h.Provision(nil).String())
	h.Fail(abi.AppEnsure, "")
	require.Equal(t, "Yield application_installing", h.Provision(nil).String())
}

func TestRecord(t *testing.T) {
	m := doing(func(call *guest.Call) error {
		call.Log().Info("hello", "n", "1")
		if err := call.Publish("b", 2); err != nil {
			return err
		}
		if err := call.Publish("a", 1); err != nil {
			return err
		}
		return call.App("").Ensure(spec)
	})
	h := guesttest.New(t, m)
	r := h.Provision(json.RawMessage(`{"x":1}`))
	require.Len(t, r.Calls, 1)
	require.Equal(t, abi.AppEnsure, r.Calls[0].Function)
	require.JSONEq(t, `{"repo":"oci://registry.example/charts","chart":"c","version":"1.0.0"}`, string(r.Calls[0].Request))
	require.JSONEq(t, `{"result":{"phase":"progressing","disposition":1,"reason":"application_installing"}}`, string(r.Calls[0].Response))
	require.Equal(t, []guesttest.LogLine{{Level: guest.LevelInfo, Line: `hello n="1"`}}, h.Logs())
	h.AppReady("")
	require.Len(t, h.Provision(nil).Calls, 1, "each result has its own calls")

	require.Equal(t, `provision config={"x":1} scope=home teardown=Drain
  app_ensure {"repo":"oci://registry.example/charts","chart":"c","version":"1.0.0"}
    {"result":{"phase":"progressing","disposition":1,"reason":"application_installing"}}
= Yield application_installing (application progressing)
  fact a=1
  fact b=2
# application "" is ready
provision config={} scope=home teardown=Drain
  app_ensure {"repo":"oci://registry.example/charts","chart":"c","version":"1.0.0"}
    {"result":{"phase":"ready","disposition":0}}
= OK
  fact a=1
  fact b=2
`, h.Trace())
}

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "life.trace")
	r := &recorder{}
	h := guesttest.New(r, doing(func(*guest.Call) error { return nil }))
	h.Provision(nil)

	t.Setenv(guesttest.UpdateGolden, "1")
	h.Golden(path)
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, h.Trace(), string(written))

	t.Setenv(guesttest.UpdateGolden, "")
	h.Golden(path)
	require.Empty(t, r.errors)
	h.Provision(nil)
	h.Golden(path)
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "at line 3")
	require.Contains(t, r.errors[0], "got:  provision config={}")
}
