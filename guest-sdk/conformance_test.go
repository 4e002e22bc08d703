package guest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
)

// answerHost answers each call with a function.
type answerHost func(f abi.Function, request []byte) []byte

func (h answerHost) Call(f abi.Function, request []byte) []byte { return h(f, request) }
func (h answerHost) Log(Level, string)                          {}

func TestConformanceRead(t *testing.T) {
	abitest.CheckRead(t, func(envelope []byte) (abi.Input, error) {
		var operation struct{ Operation string }
		if err := json.Unmarshal(envelope, &operation); err != nil {
			return abi.Input{}, err
		}
		call, err := newCall(operation.Operation, envelope, nil)
		return call.input, err
	})
}

func TestConformanceWrite(t *testing.T) {
	abitest.CheckWrite(t, func(c abitest.Conclusion) (int32, []byte) {
		p := returning(func(call *Call, _ testConfig) error {
			for name, fact := range c.Facts {
				if err := call.Publish(name, fact); err != nil {
					return err
				}
			}
			leave(t, c.State, call.SetState, call.DropState)
			leave(t, c.GenerationState, call.SetGenerationState, call.DropGenerationState)
			leave(t, c.StickyState, call.SetStickyState, call.DropStickyState)
			after := time.Duration(c.RetryAfterSeconds) * time.Second
			switch c.Disposition {
			case abi.OK:
				return nil
			case abi.Yield:
				return Yield(c.Reason, c.Why).After(after)
			case abi.Retry:
				return Retry(c.Reason, c.Why).After(after)
			case abi.UserActionRequired:
				return UserActionRequired(c.Reason, c.Why)
			case abi.Terminal:
				return Terminal(c.Reason, c.Why)
			default:
				return errors.New("a vector with another disposition")
			}
		})
		d, out := Run(p, abi.ExportProvision, envelope(t, abi.ExportProvision, nil), nil)
		return int32(d), out
	})
}

// leave says what a conclusion says of one kind of state.
func leave(t *testing.T, raw json.RawMessage, set func(any) error, drop func()) {
	t.Helper()
	switch string(raw) {
	case "":
	case "null":
		drop()
	default:
		require.NoError(t, set(raw))
	}
}

// asks are the calls of the exchange vectors in the words of this SDK, each with what it
// makes of the answer.
func asks(t *testing.T) map[string]func(call *Call) {
	service := abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: "web", Name: "ingress"}
	type object struct {
		Metadata struct{ Name, UID string }
	}
	configMap := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "web"}}
	return map[string]func(call *Call){
		"app_ensure ready": func(call *Call) {
			require.NoError(t, call.App("").Ensure(AppSpec{
				Repo: "https://helm.cilium.io", Chart: "cilium", Version: "1.18.2", Namespace: "kube-system",
				Values: Values{"k8sServiceHost": "203.0.113.7", "tolerations": nil},
			}))
		},
		"app_ensure progressing": func(call *Call) {
			err := call.App("db").Ensure(AppSpec{
				Catalogue: "postgres", Version: "16.x", Release: "db", Namespace: "data", CreateNamespace: true, Values: Values{},
				Parameters: []abi.AppParameter{{Name: "primary.size", Value: "2"}}, AllowDegraded: true,
			})
			require.EqualError(t, err, "Yield application_installing: application db progressing")
			require.Equal(t, 5*time.Second, verdict(err).RetryAfter())
		},
		"app_ensure denied": func(call *Call) { require.True(t, IsDenied(call.App("").Ensure(AppSpec{Catalogue: "postgres"}))) },
		"app_remove deleting": func(call *Call) {
			require.EqualError(t, call.App("db").Remove(), "Yield application_deleting: application db deleting")
		},
		"app_remove gone": func(call *Call) { require.NoError(t, call.App("").Remove()) },
		"app_list": func(call *Call) {
			apps, err := call.Apps()
			require.NoError(t, err)
			require.Equal(t, []abi.AppEntry{{Release: "demo-1a2b3c4d", Namespace: "kube-system", Version: "1.18.2"}, {Name: "db", Release: "db", Namespace: "data"}}, apps)
		},
		"kube_get": func(call *Call) {
			var o object
			require.NoError(t, call.Kube().Get(service, &o))
			require.Equal(t, "ingress", o.Metadata.Name)
		},
		"kube_get absent": func(call *Call) {
			ref := abi.ObjectRef{Scope: abi.ScopeHome, APIVersion: "v1", Kind: "ConfigMap", Namespace: "team", Name: "none"}
			require.True(t, IsAbsent(call.Kube().Get(ref, &object{})))
		},
		"kube_list": func(call *Call) {
			var list []object
			query := abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Service", Namespace: "web"}, LabelSelector: "app=x", Limit: 2}
			require.NoError(t, call.Kube().List(query, &list))
			require.Len(t, list, 2)
			require.Equal(t, "b", list[1].Metadata.Name)
		},
		"kube_list unavailable": func(call *Call) {
			var list []object
			err := call.Kube().List(abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Service"}}, &list)
			require.True(t, HasCode(err, abi.CodeUnavailable))
		},
		"kube_apply": func(call *Call) {
			full := map[string]any{"data": map[string]any{"k": "v"}}
			for k, v := range configMap {
				full[k] = v
			}
			var o object
			require.NoError(t, call.Kube().Apply(abi.ScopeCurrent, full, &o))
			require.Equal(t, "u1", o.Metadata.UID)
		},
		"kube_apply conflict": func(call *Call) { require.True(t, IsConflict(call.Kube().Apply("", configMap, nil))) },
		"kube_delete": func(call *Call) {
			gone, err := call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: service, UID: "u1"})
			require.NoError(t, err)
			require.False(t, gone)
		},
		"kube_delete gone": func(call *Call) {
			never := service
			never.Name = "never"
			gone, err := call.Kube().Delete(abi.KubeDeleteRequest{ObjectRef: never})
			require.NoError(t, err)
			require.True(t, gone)
		},
		"secret_read": func(call *Call) {
			s, err := call.Secret(abi.SecretReadRequest{Scope: abi.ScopeHome, Namespace: "team", Name: "cloud", Key: "cloud.conf", Encoding: abi.EncodingBase64})
			require.NoError(t, err)
			require.Equal(t, "caisson-secret:0123456789abcdef0123456789abcdef:", s.Handle)
		},
		"secret_read raw": func(call *Call) {
			s, err := call.Secret(abi.SecretReadRequest{Name: "cloud", Key: "token", Raw: true})
			require.NoError(t, err)
			require.Equal(t, "hello", string(s.Value))
		},
		"secret_read absent": func(call *Call) {
			_, err := call.Secret(abi.SecretReadRequest{Scope: abi.ScopeHome, Namespace: "team", Name: "cloud", Key: "none"})
			require.True(t, IsAbsent(err))
			require.Equal(t, abi.ReasonSecretMissing, verdict(err).Reason())
		},
		"event": func(call *Call) { require.NoError(t, call.Event(Warning, "quota_exceeded")) },
	}
}

func TestConformanceExchanges(t *testing.T) {
	known := asks(t)
	abitest.CheckExchanges(t, func(name string, answer func(abi.Function, []byte) []byte) bool {
		ask, ok := known[name]
		if ok {
			inCall(t, nil, answerHost(answer), ask)
		}
		return ok
	})
}

// FuzzAnswer feeds a host's answers to each method: the host is trusted, and still no
// answer may panic, or read as success without a result.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"result":{}}`, `{"result":null}`, `{"error":null}`, `{"error":{"code":"absent"}}`, `{"result":{"items":[{}]}}`,
		`{"result":{"items":{}}}`, `{"result":{"items":" "}}`, `{"result":{"items":[1`, `{"result":{"object":7}}`, `[]`, `{"result":{"phase":"ready","disposition":0},"error":{"code":"denied"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		asked := 0
		host := answerHost(func(abi.Function, []byte) []byte {
			asked++
			if asked > 20 {
				return []byte(`{"error":{"code":"too_large"}}`) // an endless list of pages
			}
			return response
		})
		var decoded struct {
			Result json.RawMessage `json:"result"`
			Error  *abi.CallError  `json:"error"`
		}
		empty := json.Unmarshal(response, &decoded) != nil || len(decoded.Result) == 0 || string(decoded.Result) == "null"
		inCall(t, nil, host, func(call *Call) {
			var list []struct{ N int }
			_, listed := call.Apps()
			_, deleted := call.Kube().Delete(abi.KubeDeleteRequest{})
			results := []error{
				call.App("").Ensure(AppSpec{}), call.App("").Remove(), listed,
				call.Kube().Get(abi.ObjectRef{}, &struct{}{}), call.Kube().List(abi.KubeListRequest{}, &list), call.Kube().Apply("", 1, nil),
			}
			for i, err := range results {
				require.False(t, empty && err == nil, "method %d took nothing for success", i)
			}
			absent := decoded.Error != nil && decoded.Error.Code == abi.CodeAbsent
			require.False(t, empty && deleted == nil && !absent, "only what is absent is gone")
		})
	})
}
