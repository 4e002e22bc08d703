package guest

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
)

// inCall runs f as a Provision and fails the test unless the outcome is OK.
func inCall(t *testing.T, change func(in *abi.Input), host Host, f func(call *Call)) abi.Output {
	t.Helper()
	p := returning(func(call *Call, _ testConfig) error {
		f(call)
		return nil
	})
	d, out := run(t, p, abi.ExportProvision, change, host)
	require.Equal(t, abi.OK, d)
	return out
}

func TestWhatTheEnvelopeSays(t *testing.T) {
	change := func(in *abi.Input) {
		in.Scope = abi.Scope{ID: "abc", Remote: true, Host: "203.0.113.7", Port: 6443, State: abi.ScopeReady}
		in.Teardown = abi.Discard
		in.Node = abi.Node{Name: "cni", Path: "all/cni"}
		in.Owner = abi.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "demo", UID: "u", Generation: 3}
		in.Installed = true
		in.Capabilities = []abi.Function{abi.AppEnsure}
	}
	inCall(t, change, nil, func(call *Call) {
		require.Equal(t, abi.Scope{ID: "abc", Remote: true, Host: "203.0.113.7", Port: 6443, State: abi.ScopeReady}, call.Scope())
		require.Equal(t, abi.Discard, call.Teardown())
		require.Equal(t, abi.Node{Name: "cni", Path: "all/cni"}, call.Node())
		require.Equal(t, int64(3), call.Owner().Generation)
		require.Equal(t, "demo", call.Owner().Name)
		require.True(t, call.Installed())
		require.True(t, call.Granted(abi.AppEnsure))
		require.False(t, call.Granted(abi.SecretRead))
		require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), call.Now())
	})
}

func TestNowWithoutAClock(t *testing.T) {
	inCall(t, func(in *abi.Input) { in.Now = "" }, nil, func(call *Call) { require.True(t, call.Now().IsZero()) })
}

func TestUnknownEnvelopeFieldsAreIgnored(t *testing.T) {
	raw := []byte(`{"abi":1,"operation":"provision","config":{"size":4},"scope":{"id":"home","remote":false,"state":"ready","zone":"x"},"newField":{"a":[1]},"teardown":"Drain","now":"","deadlineMillis":1}`)
	size := 0
	p := returning(func(_ *Call, cfg testConfig) error {
		size = cfg.Size
		return nil
	})
	d, _ := Run(p, abi.ExportProvision, raw, nil)
	require.Equal(t, abi.OK, d, "a newer host of the same version may say more")
	require.Equal(t, 4, size)
}

func TestFacts(t *testing.T) {
	change := func(in *abi.Input) {
		in.Facts = map[string]json.RawMessage{"address": json.RawMessage(`"198.51.100.9"`), "pool": json.RawMessage(`{"size":3}`)}
	}
	inCall(t, change, nil, func(call *Call) {
		var address string
		require.NoError(t, call.Fact("address", &address))
		require.Equal(t, "198.51.100.9", address)
		var pool struct{ Size int }
		require.NoError(t, call.Fact("pool", &pool))
		require.Equal(t, 3, pool.Size)

		missing := verdict(call.Fact("nobody", &address))
		require.Equal(t, "Yield facts_missing: fact nobody", missing.Error())
		mistyped := verdict(call.Fact("pool", &address))
		require.Equal(t, abi.Terminal, mistyped.Disposition(), "waiting does not change a shape")
		require.Equal(t, abi.ReasonInvalidConfig, mistyped.Reason())
	})
}

func TestPublish(t *testing.T) {
	p := returning(func(call *Call, _ testConfig) error {
		require.NoError(t, call.Publish("address", "198.51.100.9"))
		require.NoError(t, call.Publish("none", nil))
		require.NoError(t, call.Publish("address", "198.51.100.10"))
		require.ErrorContains(t, call.Publish("infinite", math.Inf(1)), "publish fact infinite")
		return Yield("waiting", "")
	})
	d, out := run(t, p, abi.ExportProvision, nil, nil)
	require.Equal(t, abi.Yield, d)
	require.Equal(t, map[string]json.RawMessage{"address": json.RawMessage(`"198.51.100.10"`), "none": json.RawMessage(`null`)}, out.Facts,
		"facts travel with every disposition, the last word counts, and null is a value")
}

func TestState(t *testing.T) {
	type state struct{ Attempts int }
	cases := map[string]struct {
		reason string
		before string
		do     func(t *testing.T, call *Call)
		want   string
	}{
		"Absent": {reason: "nothing was left, nothing is left", do: func(t *testing.T, call *Call) {
			var s state
			found, err := call.State(&s)
			require.NoError(t, err)
			require.False(t, found)
		}},
		"Kept": {reason: "what is not touched is not sent", before: `{"Attempts":2}`, do: func(t *testing.T, call *Call) {
			var s state
			found, err := call.State(&s)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, 2, s.Attempts)
		}},
		"Replaced": {reason: "the new one is sent", before: `{"Attempts":2}`, want: `{"Attempts":3}`, do: func(t *testing.T, call *Call) {
			require.NoError(t, call.SetState(state{Attempts: 3}))
		}},
		"Dropped": {reason: "null drops it", before: `{"Attempts":2}`, want: `null`, do: func(_ *testing.T, call *Call) { call.DropState() }},
		"OtherShape": {reason: "an older version may have left another shape", before: `["x"]`, do: func(t *testing.T, call *Call) {
			var s state
			found, err := call.State(&s)
			require.ErrorContains(t, err, "decode the state")
			require.False(t, found)
		}},
		"NotJSON": {reason: "what JSON cannot express is refused", do: func(t *testing.T, call *Call) {
			require.ErrorContains(t, call.SetState(func() {}), "encode the state")
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out := inCall(t, func(in *abi.Input) { in.State = json.RawMessage(c.before) }, nil, func(call *Call) { c.do(t, call) })
			require.Equal(t, c.want, string(out.State), c.reason)
		})
	}
}

// logHost keeps log lines and answers nothing.
type logHost struct{ lines []string }

func (h *logHost) Call(abi.Function, []byte) []byte { return nil }
func (h *logHost) Log(level Level, line string)     { h.lines = append(h.lines, level.String()+" "+line) }

func TestLog(t *testing.T) {
	host := &logHost{}
	inCall(t, nil, host, func(call *Call) {
		call.Log().Debug("looking", "name", "a b")
		call.Log().Info("two\nlines", "value", "x\ny", "odd")
		call.Log().Warn("plain")
		call.Log().Error("bad", "code", `"7"`)
	})
	require.Equal(t, []string{
		`debug looking name="a b"`,
		`info two lines value="x\ny" odd="(missing)"`,
		`warn plain`,
		`error bad code="\"7\""`,
	}, host.lines, "one entry stays one line, whatever is in it")
	require.Equal(t, "level0", Level(0).String())

	inCall(t, nil, nil, func(call *Call) { call.Log().Info("nobody listens") })
}

// The kinds of state do not get into each other's way.
func TestKindsOfState(t *testing.T) {
	type kind struct {
		get  func(into any) (bool, error)
		set  func(any) error
		drop func()
	}
	kinds := func(call *Call) map[string]kind {
		return map[string]kind{
			"state":           {get: call.State, set: call.SetState, drop: call.DropState},
			"generationState": {get: call.GenerationState, set: call.SetGenerationState, drop: call.DropGenerationState},
			"stickyState":     {get: call.StickyState, set: call.SetStickyState, drop: call.DropStickyState},
		}
	}
	run := func(change func(*abi.Input), do func(call *Call)) string {
		_, out := Run(returning(func(call *Call, _ testConfig) error { do(call); return nil }), abi.ExportProvision, envelope(t, abi.ExportProvision, change), nil)
		return string(out)
	}
	filled := func(in *abi.Input) {
		in.State, in.GenerationState, in.StickyState = json.RawMessage(`"state"`), json.RawMessage(`"generationState"`), json.RawMessage(`"stickyState"`)
	}
	for _, name := range []string{"state", "generationState", "stickyState"} {
		t.Run(name, func(t *testing.T) {
			require.JSONEq(t, `{"`+name+`":7}`, run(nil, func(call *Call) {
				var into string
				found, err := kinds(call)[name].get(&into)
				require.NoError(t, err)
				require.False(t, found)
				require.NoError(t, kinds(call)[name].set(7))
			}))
			require.JSONEq(t, `{"`+name+`":null}`, run(filled, func(call *Call) {
				var into string
				found, err := kinds(call)[name].get(&into)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, name, into)
				var other int
				_, err = kinds(call)[name].get(&other)
				require.ErrorContains(t, err, "decode the ")
				require.ErrorContains(t, kinds(call)[name].set(func() {}), "encode the ")
				kinds(call)[name].drop()
			}))
		})
	}
}
