package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

type testConfig struct {
	Size int    `json:"size"`
	Name string `json:"name"`
	Deep struct {
		Key string `json:"key"`
	} `json:"deep"`
}

// envelope is the least that a host sends, with one change.
func envelope(t *testing.T, operation string, change func(in *abi.Input)) []byte {
	t.Helper()
	in := abi.Input{ABI: abi.Version, Operation: operation, Config: json.RawMessage(`{}`), Teardown: abi.Drain,
		Scope: abi.Scope{ID: "home", State: abi.ScopeReady}, Now: "2026-01-02T03:04:05Z", DeadlineMillis: 1000}
	if change != nil {
		change(&in)
	}
	raw, err := json.Marshal(&in)
	require.NoError(t, err)
	return raw
}

// returning is a module whose two handlers do what they are told.
func returning(handler func(call *Call, cfg testConfig) error) Module[testConfig] {
	return Module[testConfig]{Manifest: abi.Manifest{Name: "test", Version: "1.0.0"}, Provision: handler, Deprovision: handler}
}

func run(t *testing.T, p Program, operation string, change func(in *abi.Input), host Host) (abi.Disposition, abi.Output) {
	t.Helper()
	d, raw := Run(p, operation, envelope(t, operation, change), host)
	var out abi.Output
	require.NoError(t, json.Unmarshal(raw, &out))
	return d, out
}

func TestVerdict(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		code   abi.Disposition
		want   abi.Output
	}{
		"Nil":      {reason: "nil is OK and says nothing", code: abi.OK},
		"Yield":    {reason: "a yield as it is", err: Yield("waiting", "for x"), code: abi.Yield, want: abi.Output{Reason: "waiting", Why: "for x"}},
		"Retry":    {reason: "a retry as it is", err: Retry("broken", ""), code: abi.Retry, want: abi.Output{Reason: "broken"}},
		"User":     {reason: "user action as it is", err: UserActionRequired("quota", "q"), code: abi.UserActionRequired, want: abi.Output{Reason: "quota", Why: "q"}},
		"Terminal": {reason: "terminal as it is", err: Terminal("bad", "b"), code: abi.Terminal, want: abi.Output{Reason: "bad", Why: "b"}},
		"After":    {reason: "a hint travels in seconds", err: Yield("waiting", "").After(90 * time.Second), code: abi.Yield, want: abi.Output{Reason: "waiting", RetryAfterSeconds: 90}},
		"AfterFraction": {reason: "a fraction is rounded up, so that it does not become no hint",
			err: Yield("waiting", "").After(10 * time.Millisecond), code: abi.Yield, want: abi.Output{Reason: "waiting", RetryAfterSeconds: 1}},
		"AfterNegative": {reason: "a hint in the past is none", err: Yield("waiting", "").After(-time.Second), code: abi.Yield, want: abi.Output{Reason: "waiting"}},
		"Untyped": {reason: "an error without a verdict is retried, its text is for operators",
			err: errors.New("disk on fire"), code: abi.Retry, want: abi.Output{Reason: "unexpected", Why: "disk on fire"}},
		"Wrapped": {reason: "wrapping keeps the verdict and adds to the why",
			err: fmt.Errorf("ensure the network: %w", Terminal("bad", "b")), code: abi.Terminal,
			want: abi.Output{Reason: "bad", Why: "ensure the network: Terminal bad: b"}},
		"JoinedYieldFirst": {reason: "a yield must not hide a failure",
			err: errors.Join(Yield("waiting", ""), Terminal("bad", "")), code: abi.Terminal,
			want: abi.Output{Reason: "bad", Why: "Yield waiting\nTerminal bad"}},
		"JoinedUntyped": {reason: "an untyped failure is more severe than a yield",
			err: errors.Join(Yield("waiting", ""), errors.New("oops")), code: abi.Retry,
			want: abi.Output{Reason: "unexpected", Why: "Yield waiting\noops"}},
		"JoinedInside": {reason: "wrapping around a join changes nothing",
			err: fmt.Errorf("both: %w", errors.Join(Retry("broken", ""), UserActionRequired("quota", ""))), code: abi.UserActionRequired,
			want: abi.Output{Reason: "quota", Why: "both: Retry broken\nUserActionRequired quota"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := returning(func(*Call, testConfig) error { return c.err })
			for _, operation := range []string{abi.ExportProvision, abi.ExportDeprovision} {
				d, out := run(t, p, operation, nil, nil)
				require.Equal(t, c.code, d, c.reason)
				require.Equal(t, c.want, out, c.reason)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	cases := map[string]struct {
		reason string
		config string
		why    string
		want   testConfig
	}{
		"Empty":   {reason: "a config may be empty", config: `{}`},
		"Null":    {reason: "null is as good as absent", config: `null`},
		"Full":    {reason: "fields arrive", config: `{"size":3,"name":"x"}`, want: testConfig{Size: 3, Name: "x"}},
		"Unknown": {reason: "an unknown field is named", config: `{"sise":3,"name":"x"}`, why: `"sise"`, want: testConfig{Name: "x"}},
		"Deep":    {reason: "also a deep one", config: `{"deep":{"kee":"x"},"size":1}`, why: `"kee"`, want: testConfig{Size: 1}},
		"Type": {reason: "a mistyped field is named", config: `{"size":"big","name":"x"}`,
			why: "size", want: testConfig{Name: "x"}},
		"NotAnObject": {reason: "a list is no config", config: `[1]`, why: "array"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got testConfig
			called := false
			p := returning(func(_ *Call, cfg testConfig) error {
				got, called = cfg, true
				return nil
			})
			set := func(in *abi.Input) { in.Config = json.RawMessage(c.config) }

			d, out := run(t, p, abi.ExportProvision, set, nil)
			if c.why == "" {
				require.Equal(t, abi.OK, d, c.reason)
				require.Equal(t, c.want, got, c.reason)
			} else {
				require.Equal(t, abi.Terminal, d, c.reason)
				require.Equal(t, abi.ReasonInvalidConfig, out.Reason, c.reason)
				require.Regexp(t, "^config: .*"+c.why, out.Why, c.reason)
				require.False(t, called, "the handler must not see half a config")
			}

			d, _ = run(t, p, abi.ExportDeprovision, set, nil)
			require.Equal(t, abi.OK, d, "a removal does not depend on a correct config")
			require.Equal(t, c.want, got, "what can be decoded is there")
		})
	}
}

func TestEnvelopeRefused(t *testing.T) {
	ok := returning(func(*Call, testConfig) error { return nil })
	cases := map[string]struct {
		reason   string
		program  Program
		envelope []byte
		why      string
	}{
		"NotJSON":   {reason: "a host that breaks the contract", program: ok, envelope: []byte("{"), why: "decode the envelope: unexpected end of JSON input"},
		"OtherABI":  {reason: "another version may mean anything", program: ok, envelope: envelope(t, "provision", func(in *abi.Input) { in.ABI = 2 }), why: "the host speaks another version of the ABI than the module"},
		"Operation": {reason: "export and envelope must agree", program: ok, envelope: envelope(t, "deprovision", nil), why: "the envelope asks for deprovision, the export is provision"},
		"NoHandler": {reason: "half a module", program: Module[testConfig]{}, envelope: envelope(t, "provision", nil), why: "the module has no handler for provision"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d, raw := Run(c.program, abi.ExportProvision, c.envelope, nil)
			var out abi.Output
			require.NoError(t, json.Unmarshal(raw, &out))
			require.Equal(t, abi.Retry, d, c.reason)
			require.Equal(t, abi.Output{Reason: "unexpected", Why: c.why}, out, c.reason)
		})
	}
}

func TestEachHandlerHasItsExport(t *testing.T) {
	p := Module[struct{}]{
		Provision:   func(*Call, struct{}) error { return Yield("up", "") },
		Deprovision: func(*Call, struct{}) error { return Yield("down", "") },
	}
	_, out := run(t, p, abi.ExportProvision, nil, nil)
	require.Equal(t, "up", out.Reason)
	_, out = run(t, p, abi.ExportDeprovision, nil, nil)
	require.Equal(t, "down", out.Reason)
}

func TestPanicComesThrough(t *testing.T) {
	p := returning(func(*Call, testConfig) error { panic("broken") })
	require.PanicsWithValue(t, "broken", func() { Run(p, "provision", envelope(t, "provision", nil), nil) },
		"a trap is for the host to see")
}

func TestDescribe(t *testing.T) {
	p := Module[struct{}]{Manifest: abi.Manifest{Name: "m", Version: "1.0.0", ConfigSchema: json.RawMessage(`{ "type": "object" }`)}}
	require.Equal(t, abi.Version, Describe(p).ABI, "the SDK knows what it speaks")
	raw, err := describe(p)
	require.NoError(t, err)
	require.Equal(t, `{"abi":1,"name":"m","version":"1.0.0","configSchema":{"type":"object"}}`, string(raw), "compact, so that it equals the section") //nolint:testifylint // It is about the bytes.

	p.Manifest.ABI = 9
	require.Equal(t, 9, Describe(p).ABI, "an author who names a version is taken at their word")

	p.Manifest.ConfigSchema = json.RawMessage(`{`)
	_, err = describe(p)
	require.ErrorContains(t, err, "encode the manifest")
	_, err = describe(nil)
	require.ErrorContains(t, err, "no module is registered")
}

func TestRegister(t *testing.T) {
	t.Cleanup(func() { registered = nil })
	m := Register(Module[testConfig]{Manifest: abi.Manifest{Name: "m"}})
	require.Equal(t, "m", m.Manifest.Name, "what was registered is returned")
	require.Equal(t, "m", registered.manifest().Name)
	require.Panics(t, func() { Register(Module[struct{}]{}) }, "a program is one module")
}

func TestError(t *testing.T) {
	e := UserActionRequired("quota", "three of three").After(time.Minute)
	require.Equal(t, abi.UserActionRequired, e.Disposition())
	require.Equal(t, "quota", e.Reason())
	require.Equal(t, "three of three", e.Why())
	require.Equal(t, time.Minute, e.RetryAfter())
	require.EqualError(t, e, "UserActionRequired quota: three of three")
	require.NoError(t, e.Unwrap())

	base := Yield("waiting", "")
	require.NotSame(t, base, base.After(time.Second))
	require.Zero(t, base.RetryAfter(), "After is a copy")
}
