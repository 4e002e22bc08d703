package module_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/capability"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
)

func TestDispatcherOrder(t *testing.T) {
	cases := map[string]struct {
		reason   string
		function string
		change   func(w *world)
		request  string
		code     abi.ErrorCode
	}{
		"Unknown":     {"a function of a later version", "app_rollback", nil, `{}`, abi.CodeUnsupported},
		"NoName":      {"nothing at all", "", nil, `{}`, abi.CodeUnsupported},
		"NotDeclared": {"the manifest is asked first", "event", func(w *world) { w.manifest.Capabilities = nil; w.grant.Capabilities = nil }, `{`, abi.CodeDenied},
		"NotGranted":  {"then the grant, and only then the request", "event", func(w *world) { w.grant.Capabilities = nil }, `{`, abi.CodeDenied},
		"Malformed":   {"a request is JSON", "event", nil, `{`, abi.CodeInvalid},
		"Trailing":    {"one document", "event", nil, `{} {}`, abi.CodeInvalid},
		"WrongType":   {"fields have types", "event", nil, `{"type":1}`, abi.CodeInvalid},
		"Array":       {"a request is an object", "event", nil, `[]`, abi.CodeInvalid},
		"Large":       {"a request is bounded", "event", nil, `{"x":"` + strings.Repeat("a", 4<<20) + `"}`, abi.CodeTooLarge},
		"UnknownMore": {"unknown fields are left alone", "app_list", nil, `{"later":true}`, ""},
		"Empty":       {"nothing is the same as {}", "app_list", nil, ``, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(nil)
			if tc.change != nil {
				tc.change(w)
			}
			w.once(t, func(ctx context.Context, host hostFunc) {
				var response abi.Response
				require.NoError(t, json.Unmarshal(host(ctx, tc.function, []byte(tc.request)), &response))
				if tc.code == "" {
					require.Nil(t, response.Error, tc.reason)
					return
				}
				require.NotNil(t, response.Error, tc.reason)
				require.Equal(t, tc.code, response.Error.Code, tc.reason)
			})
		})
	}
}

// Every function, with each of the two ways of not having it.
func TestEveryFunctionNeedsBoth(t *testing.T) {
	for _, f := range abi.Functions() {
		for name, change := range map[string]func(w *world){
			"undeclared": func(w *world) { w.manifest.Capabilities = without(f) },
			"ungranted":  func(w *world) { w.grant.Capabilities = without(f) },
		} {
			t.Run(string(f)+"/"+name, func(t *testing.T) {
				w := newWorld(nil)
				change(w)
				w.once(t, func(ctx context.Context, host hostFunc) {
					require.Equal(t, abi.CodeDenied, ask(t, ctx, host, f, struct{}{}, nil).Code)
				})
				require.Empty(t, w.driver.calls())
			})
		}
	}
}

func without(f abi.Function) []abi.Function {
	var rest []abi.Function
	for _, known := range abi.Functions() {
		if known != f {
			rest = append(rest, known)
		}
	}
	return rest
}

func TestEvents(t *testing.T) {
	w := newWorld(nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		require.Nil(t, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Warning", Reason: "pool_exhausted"}, nil))
		require.Nil(t, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Normal", Reason: abi.ReasonAwaitingDependency}, nil))
		require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Normal", Reason: "made_up"}, nil).Code, "users never read guest text")
		require.Equal(t, abi.CodeInvalid, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Loud", Reason: "pool_exhausted"}, nil).Code)
	})
	require.Equal(t, []module.Event{
		{Owner: owner(), Node: abi.Node{Name: "cni", Path: nodePath}, Type: "Warning", Reason: "pool_exhausted", Sentence: "No address is left."},
		{Owner: owner(), Node: abi.Node{Name: "cni", Path: nodePath}, Type: "Normal", Reason: "awaiting_dependency", Sentence: "Something that this node depends on is not there yet."},
	}, w.events)
	w.once(t, func(ctx context.Context, host hostFunc) {
		for range 16 {
			require.Nil(t, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Normal", Reason: "pool_exhausted"}, nil))
		}
		require.Equal(t, abi.CodeTooLarge, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Normal", Reason: "pool_exhausted"}, nil).Code)
	})
	w.options.Events = nil
	w.once(t, func(ctx context.Context, host hostFunc) {
		require.Equal(t, abi.CodeUnsupported, ask(t, ctx, host, abi.Event, abi.EventRequest{Type: "Normal", Reason: "pool_exhausted"}, nil).Code)
	})
}

func TestHostCallBudget(t *testing.T) {
	w := newWorld(nil)
	w.once(t, func(ctx context.Context, host hostFunc) {
		for range 1000 {
			require.Nil(t, ask(t, ctx, host, abi.AppList, abi.AppListRequest{}, nil))
		}
		require.Equal(t, abi.CodeTooLarge, ask(t, ctx, host, abi.AppList, abi.AppListRequest{}, nil).Code)
	})
}

// What an admin has allowed a module is allowed on both sides of the runtime, and no more.
func TestLimitsOfTheModule(t *testing.T) {
	w := newWorld(nil)
	w.limits = module.Limits{HostCalls: 1002}
	w.once(t, func(ctx context.Context, host hostFunc) {
		for range 1002 {
			require.Nil(t, ask(t, ctx, host, abi.AppList, abi.AppListRequest{}, nil), "more than by default")
		}
		refused := ask(t, ctx, host, abi.AppList, abi.AppListRequest{}, nil)
		require.Equal(t, abi.CodeTooLarge, refused.Code)
		require.Equal(t, "host function call 1003, and 1002 are allowed", refused.Message)
	})
	w.limits = module.Limits{HostCallBytes: 60}
	w.once(t, func(ctx context.Context, host hostFunc) {
		refused := ask(t, ctx, host, abi.AppRemove, abi.AppRef{Name: strings.Repeat("x", 100)}, nil)
		require.Equal(t, abi.CodeTooLarge, refused.Code)
		require.Equal(t, "the request has 111 bytes and 60 are allowed", refused.Message)
	})
	w.limits = module.Limits{OutputBytes: 10}
	w.guest = answers(0, `{"why":"1"}`)
	found := provisioner.OutcomeOf(w.provision(t))
	require.Equal(t, abi.ReasonOutputTooLarge, found.Headline.Reason)
	require.Contains(t, found.Headline.Why, "the output has 11 bytes and 10 are allowed")
	w.limits.OutputBytes = 11
	require.NoError(t, w.provision(t), "near miss")
}

// A runtime that is still answering frames of a call that has ended must get nowhere.
func TestHostAfterTheCall(t *testing.T) {
	w := newWorld(nil)
	var late hostFunc
	w.once(t, func(_ context.Context, host hostFunc) { late = host })
	require.Equal(t, abi.CodeUnavailable, ask(t, t.Context(), late, abi.AppEnsure, demoApp(), nil).Code)
	require.Empty(t, w.driver.calls())
}

func TestPanicOfADriverIsAnAnswer(t *testing.T) {
	w := newWorld(nil)
	w.driver.hook = func() { panic("driver") }
	w.once(t, func(ctx context.Context, host hostFunc) {
		got := ask(t, ctx, host, abi.AppEnsure, demoApp(), nil)
		require.Equal(t, abi.CodeUnavailable, got.Code)
		require.NotContains(t, got.Message, "goroutine")
	})
}

// FuzzDispatch is the whole surface that a guest can reach.
func FuzzDispatch(f *testing.F) {
	for _, function := range abi.Functions() {
		f.Add(string(function), []byte(`{}`))
		f.Add(string(function), []byte(`null`))
		f.Add(string(function), []byte(`{"scope":"home","apiVersion":"v1","kind":"ConfigMap","namespace":"kube-system","name":"who","key":"k"}`))
	}
	f.Add("app_ensure", []byte(`{"repo":"oci://r/c","chart":"c","version":"1","values":{"a":[null,{"b":1e999}]},"parameters":[{"name":"a.b\\.c","value":""}]}`))
	f.Add("kube_apply", []byte(`{"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"kube-system","labels":1}}}`))
	f.Add("kube_list", []byte(`{"apiVersion":"v1","kind":"ConfigMap","labelSelector":"a in (b","limit":1}`))
	f.Add("\x00", []byte("\xff"))
	home := cluster(nil, configMap("kube-system", "who", "home"), cloudSecret("kube-system", password), cloudSecret("team", password))
	f.Fuzz(func(t *testing.T, function string, request []byte) {
		w := kubeWorld(home, nil)
		w.grant.Secrets = []capability.SecretRule{{Namespace: capability.OwnerNamespace, Names: []string{"*"}}}
		w.driver.ensure = provisioner.Yield(abi.ReasonApplicationInstalling, "")
		w.once(t, func(ctx context.Context, host hostFunc) {
			raw := host(ctx, function, request)
			var response abi.Response
			require.NoError(t, json.Unmarshal(raw, &response))
			require.NotEqual(t, response.Error == nil, response.Result == nil, "exactly one of the two is set")
			require.NotContains(t, string(raw), password, "no bytes of a secret without raw")
			if response.Error != nil {
				require.LessOrEqual(t, len(response.Error.Message), 1024)
			}
		})
	})
}
