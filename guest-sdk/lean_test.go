package guest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

type leanConfig struct {
	Host     string
	Replicas int
	Ports    []int
	Labels   map[string]string
	Extra    json.RawMessage
	Tier     string
}

func readLean(in Doc) leanConfig {
	cfg := leanConfig{
		Host:     in.Get("host").Required().String(),
		Replicas: in.Get("replicas").IntOr(2),
		Extra:    in.Get("extra").Raw(),
		Tier:     in.Get("tls", "tier").OneOf("low", "high"),
		Labels:   map[string]string{},
	}
	for _, port := range in.Get("ports").Items() {
		cfg.Ports = append(cfg.Ports, port.Get("number").Int())
	}
	for name, value := range in.Get("labels").Fields() {
		cfg.Labels[name] = value.String()
	}
	return cfg
}

func TestLeanConfig(t *testing.T) {
	full := `{"host":"h","replicas":3,"ports":[{"number":1},{"number":2}],"labels":{"a":"b"},"extra":{"any":[{"thing":1}]},"tls":{"tier":"high"}}`
	cases := map[string]struct {
		reason string
		config string
		why    string
		want   leanConfig
	}{
		"Full": {reason: "every field is read", config: full,
			want: leanConfig{Host: "h", Replicas: 3, Ports: []int{1, 2}, Labels: map[string]string{"a": "b"}, Extra: json.RawMessage(`{"any":[{"thing":1}]}`), Tier: "high"}},
		"Least":         {reason: "defaults", config: `{"host":"h"}`, want: leanConfig{Host: "h", Replicas: 2, Labels: map[string]string{}, Tier: "low"}},
		"Empty":         {reason: "a field that is needed", config: `{}`, why: "config.host is missing"},
		"Null":          {reason: "null is as good as absent", config: `null`, why: "config.host is missing"},
		"List":          {reason: "a list is no config", config: `[1]`, why: "config is a list and must be an object"},
		"Unknown":       {reason: "a spelling mistake is named", config: `{"host":"h","replica":3}`, why: "config.replica is unknown"},
		"Misspelt":      {reason: "beside what is missing because of it", config: `{"hots":"h"}`, why: "config.host is missing; config.hots is unknown"},
		"OtherCase":     {reason: "names are compared to the letter", config: `{"Host":"h"}`, why: "config.host is missing; config.Host is unknown"},
		"UnknownDeep":   {reason: "also deep", config: `{"host":"h","tls":{"tier":"low","teir":"low"}}`, why: "config.tls.teir is unknown"},
		"UnknownInList": {reason: "and in lists", config: `{"host":"h","ports":[{"number":1},{"number":2,"name":"x"}]}`, why: "config.ports[1].name is unknown"},
		"Twice":         {reason: "what is overridden cannot be read, and is nobody's mistake", config: `{"host":"h","tls":{"teir":"low"},"tls":{"tier":"high"}}`, want: leanConfig{Host: "h", Replicas: 2, Labels: map[string]string{}, Tier: "high"}},
		"TwiceUnknown":  {reason: "the one that counts is looked at", config: `{"host":"h","tls":{"tier":"high"},"tls":{"teir":"low"}}`, why: "config.tls.teir is unknown"},
		"Escaped":       {reason: "a name is the same however it is written", config: `{"\u0068ost":"h","n\u006f":1}`, why: "config.no is unknown"},
		"UnknownInRaw":  {reason: "but not in what is taken as it is", config: `{"host":"h","extra":{"x":{"y":1}}}`, want: leanConfig{Host: "h", Replicas: 2, Labels: map[string]string{}, Extra: json.RawMessage(`{"x":{"y":1}}`), Tier: "low"}},
		"Mistyped":      {reason: "another type", config: `{"host":"h","labels":{"a":1}}`, why: "config.labels.a is a number and must be a string"},
		"NotOneOf":      {reason: "another word", config: `{"host":"h","tls":{"tier":"mid"}}`, why: "config.tls.tier must be one of low, high"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got leanConfig
			called := false
			handler := func(_ *Call, cfg leanConfig) error {
				got, called = cfg, true
				return nil
			}
			p := Lean[leanConfig]{Config: readLean, Provision: handler, Deprovision: handler}
			set := func(in *abi.Input) { in.Config = json.RawMessage(c.config) }

			d, out := run(t, p, abi.ExportProvision, set, nil)
			if c.why == "" {
				require.Equal(t, abi.OK, d, out.Why)
				require.Equal(t, c.want, got, c.reason)
			} else {
				require.Equal(t, abi.Terminal, d, c.reason)
				require.Equal(t, abi.Output{Reason: abi.ReasonInvalidConfig, Why: c.why}, out, c.reason)
				require.False(t, called, "the handler must not see half a config")
			}

			d, _ = run(t, p, abi.ExportDeprovision, set, nil)
			require.Equal(t, abi.OK, d, "a removal does not depend on a correct config")
			require.True(t, called)
		})
	}
}

func TestLeanWithoutConfig(t *testing.T) {
	p := Lean[struct{}]{Provision: func(*Call, struct{}) error { return nil }}
	d, _ := run(t, p, abi.ExportProvision, nil, nil)
	require.Equal(t, abi.OK, d)
	d, out := run(t, p, abi.ExportProvision, func(in *abi.Input) { in.Config = json.RawMessage(`{"a":1}`) }, nil)
	require.Equal(t, abi.Terminal, d, "as with Module[struct{}]")
	require.Equal(t, "config.a is unknown", out.Why)
	d, out = run(t, p, abi.ExportDeprovision, nil, nil)
	require.Equal(t, abi.Retry, d)
	require.Equal(t, "the module has no handler for deprovision", out.Why)
}

func TestLeanRegisters(t *testing.T) {
	t.Cleanup(func() { registered = nil })
	m := Register(Lean[leanConfig]{Manifest: abi.Manifest{Name: "lean"}})
	require.Equal(t, "lean", m.Manifest.Name)
	require.Equal(t, "lean", Describe(registered).Name)
}

// inLean runs f as the provision of a lean module.
func inLean(t *testing.T, change func(in *abi.Input), host Host, f func(call *Call) error) (abi.Disposition, abi.Output) {
	t.Helper()
	return run(t, Lean[Doc]{
		Config:    func(in Doc) Doc { in.Raw(); return in },
		Provision: func(call *Call, _ Doc) error { return f(call) },
	}, abi.ExportProvision, change, host)
}

func TestLeanDocuments(t *testing.T) {
	change := func(in *abi.Input) {
		in.Config = json.RawMessage(`{"a":"b"}`)
		in.Facts = map[string]json.RawMessage{"pool": json.RawMessage(`{"size":3}`)}
		in.State, in.StickyState = json.RawMessage(`{"n":1}`), json.RawMessage(`7`)
	}
	host := &scriptHost{answers: []string{
		`{"result":{"object":{"metadata":{"name":"s"}}}}`,
		`{"result":{"items":[{"n":1}],"continue":"c"}}`, `{"result":{"items":[{"n":2}]}}`,
		`{"result":{"object":{"metadata":{"uid":"u"}}}}`,
		`{"result":{}}`, `{"result":{"items":7}}`, `{"error":{"code":"denied"}}`, `{"result":{}}`,
	}}
	d, out := inLean(t, change, host, func(call *Call) error {
		require.Equal(t, "b", call.Config().Get("a").String())
		fact, err := call.FactDoc("pool")
		require.NoError(t, err)
		require.Equal(t, 3, fact.Get("size").Int())
		require.Zero(t, fact.Get("size", "x").Int())
		require.EqualError(t, fact.Err(), "pool.size is a number and must be an object")
		_, err = call.FactDoc("none")
		require.EqualError(t, err, "Yield facts_missing: fact none")
		require.Equal(t, 1, call.StateDoc().Get("n").Int())
		require.False(t, call.GenerationStateDoc().Exists())
		require.Equal(t, 7, call.StickyStateDoc().Int())

		object, err := call.Kube().GetDoc(abi.ObjectRef{APIVersion: "v1", Kind: "Service", Name: "s"})
		require.NoError(t, err)
		require.Equal(t, "s", object.Get("metadata", "name").String())
		require.Equal(t, "Service.metadata", object.Get("metadata").Path())
		list, err := call.Kube().ListDocs(abi.KubeListRequest{ObjectRef: abi.ObjectRef{APIVersion: "v1", Kind: "Thing"}})
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, 2, list[1].Get("n").Int())
		after, err := call.Kube().ApplyDoc("", Values{"kind": "Thing", "list": []string{"a"}})
		require.NoError(t, err)
		require.Equal(t, "u", after.Get("metadata", "uid").String())

		_, err = call.Kube().GetDoc(abi.ObjectRef{})
		require.EqualError(t, err, "Retry unexpected: kube_get: the host answered without an object")
		_, err = call.Kube().ListDocs(abi.KubeListRequest{})
		require.ErrorContains(t, err, "kube_list: decode the host's answer: the value at offset 19 is a number and must be a list")
		_, err = call.Kube().ApplyDoc("", nil)
		require.True(t, IsDenied(err))
		_, err = call.Kube().ApplyDoc("", nil)
		require.ErrorContains(t, err, "kube_apply: the host answered without an object")

		require.NoError(t, call.Publish("fact", Values{"b": 1, "a": []any{nil, true}}))
		require.NoError(t, call.SetState(call.StateDoc()))
		return nil
	})
	require.Equal(t, abi.OK, d, out.Why)
	require.JSONEq(t, `{"a":[null,true],"b":1}`, string(out.Facts["fact"]))
	require.JSONEq(t, `{"n":1}`, string(out.State))
}

func TestLeanRefusesWhatItCannotEncode(t *testing.T) {
	type other struct{ A int }
	const hint = "is of a type that guest.Values does not list; encode it first, for instance with json.Marshal"
	_, _ = inLean(t, nil, &scriptHost{}, func(call *Call) error {
		require.EqualError(t, call.Publish("x", other{}), "publish fact x: "+hint)
		require.EqualError(t, call.SetState(map[string]any{"a": []any{1, other{}}}), "encode the state: a[1]: "+hint)
		err := call.App("").Ensure(AppSpec{Values: Values{"a.b": Values{"c": abi.ScopeHome}}})
		require.EqualError(t, err, `Terminal invalid_config: encode the values: ["a.b"].c: `+hint)
		_, err = call.Kube().ApplyDoc("", func() {})
		require.EqualError(t, err, "encode the object: "+hint)
		return nil
	})
	_, out := run(t, returning(func(call *Call, _ testConfig) error { return call.Publish("x", other{A: 1}) }), abi.ExportProvision, nil, nil)
	require.JSONEq(t, `{"A":1}`, string(out.Facts["x"]), "a Module takes what encoding/json takes")
}

func TestLeanHandlerVerdict(t *testing.T) {
	d, out := inLean(t, nil, nil, func(*Call) error { return errors.New("oops") })
	require.Equal(t, abi.Retry, d)
	require.Equal(t, "unexpected", out.Reason)
}
