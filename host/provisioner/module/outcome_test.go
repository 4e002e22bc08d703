package module_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
	"github.com/caisson-dev/caisson/host/provisioner/module"
	"github.com/caisson-dev/caisson/host/scope"
)

func TestOutcomes(t *testing.T) {
	cases := map[string]struct {
		reason     string
		code       int32
		output     string
		fault      error
		class      abi.Disposition
		code2      string
		sentence   string
		why        string
		retryAfter time.Duration
	}{
		"OK":               {reason: "nothing to say", code: 0},
		"OKEmptyObject":    {reason: "an empty output is {}", code: 0, output: " {} "},
		"OKWithReason":     {reason: "a reason means nothing with OK", code: 0, output: `{"reason":"whatever"}`},
		"OKNewField":       {reason: "a newer guest may send more", code: 0, output: `{"later":1}`},
		"Yield":            {reason: "a host reason has the host's sentence", code: 1, output: `{"reason":"awaiting_dependency","why":"no pods"}`, class: abi.Yield, code2: "awaiting_dependency", sentence: "Something that this node depends on is not there yet.", why: "no pods"},
		"Retry":            {reason: "2 is a retry", code: 2, output: `{"reason":"unexpected"}`, class: abi.Retry, code2: "unexpected"},
		"UserAction":       {reason: "a declared reason has its declared sentence", code: 3, output: `{"reason":"pool_exhausted","why":"0 of 5"}`, class: abi.UserActionRequired, code2: "pool_exhausted", sentence: "No address is left.", why: "0 of 5"},
		"Terminal":         {reason: "4 is terminal", code: 4, output: `{"reason":"invalid_config"}`, class: abi.Terminal, code2: "invalid_config"},
		"Case006BadCode":   {reason: "a number that is no disposition is a retry", code: 7, output: `{"why":"seven"}`, class: abi.Retry, code2: "module_bad_code", why: "Disposition(7): seven"},
		"Case006Negative":  {reason: "negative numbers neither", code: -1, class: abi.Retry, code2: "module_bad_code"},
		"BadCodeAndOutput": {reason: "the number counts first", code: 99, output: `not json`, class: abi.Retry, code2: "module_bad_code"},
		"Case007NoReason":  {reason: "a verdict without a reason is not believed: DESIGN.md §6 decides", code: 4, class: abi.Retry, code2: "unspecified"},
		"NoReasonYield":    {reason: "also a yield", code: 1, output: `{}`, class: abi.Retry, code2: "unspecified"},
		"Verdict": {reason: "near miss: only the host knows whether a module has crashed", code: 3, output: `{"reason":"module_crashed","why":"w"}`, class: abi.UserActionRequired, code2: "unspecified",
			sentence: "The module gave no reason that it had declared; its operator finds more in the log.", why: `undeclared reason "module_crashed": w`},
		"Case008Undeclared": {reason: "an undeclared reason is for logs only", code: 3, output: `{"reason":"made_up","why":"w"}`, class: abi.UserActionRequired, code2: "unspecified",
			sentence: "The module gave no reason that it had declared; its operator finds more in the log.", why: `undeclared reason "made_up": w`},
		"ReasonPattern":   {reason: "text is no reason", code: 3, output: `{"reason":"Call +1-800 <b>now</b>"}`, class: abi.UserActionRequired, code2: "unspecified"},
		"NotJSON":         {reason: "the output is JSON", code: 0, output: `hello`, class: abi.Retry, code2: "module_bad_output"},
		"NotAnObject":     {reason: "of an object", code: 0, output: `[1]`, class: abi.Retry, code2: "module_bad_output"},
		"Null":            {reason: "null is no object", code: 0, output: `null`, class: abi.Retry, code2: "module_bad_output"},
		"HalfJSON":        {reason: "all of it", code: 1, output: `{"reason":"forbidden"`, class: abi.Retry, code2: "module_bad_output"},
		"TwoObjects":      {reason: "and one", code: 1, output: `{"reason":"forbidden"}{}`, class: abi.Retry, code2: "module_bad_output"},
		"WrongType":       {reason: "fields have types", code: 1, output: `{"retryAfterSeconds":"soon"}`, class: abi.Retry, code2: "module_bad_output"},
		"NotUTF8":         {reason: "JSON is UTF-8", code: 0, output: "{\"why\":\"\xff\"}", class: abi.Retry, code2: "module_bad_output"},
		"FactName":        {reason: "facts have names that expressions can spell", code: 0, output: `{"facts":{"a b":1}}`, class: abi.Retry, code2: "module_bad_output"},
		"FactsTooLarge":   {reason: "facts live in a status", code: 0, output: `{"facts":{"a":"` + strings.Repeat("x", 16<<10) + `"}}`, class: abi.Retry, code2: "output_too_large", why: "the facts have 16392 bytes and 16384 are allowed"},
		"StateTooLarge":   {reason: "states share a Secret", code: 0, output: `{"state":"` + strings.Repeat("x", 64<<10) + `"}`, class: abi.Retry, code2: "output_too_large", why: "the state has 65538 bytes and 65536 are allowed"},
		"Case010Short":    {reason: "a hint of nothing is no hint", code: 1, output: `{"reason":"unexpected","retryAfterSeconds":0}`, class: abi.Yield, code2: "unexpected"},
		"Case010Least":    {reason: "a second is the least", code: 1, output: `{"reason":"unexpected","retryAfterSeconds":1}`, class: abi.Yield, code2: "unexpected", retryAfter: time.Second},
		"Case010Long":     {reason: "ten minutes are the most", code: 2, output: `{"reason":"unexpected","retryAfterSeconds":86400}`, class: abi.Retry, code2: "unexpected", retryAfter: 10 * time.Minute},
		"Case010Overflow": {reason: "no number overflows", code: 2, output: `{"reason":"unexpected","retryAfterSeconds":9223372036854775807}`, class: abi.Retry, code2: "unexpected", retryAfter: 10 * time.Minute},
		"Case010Negative": {reason: "a negative hint is none", code: 1, output: `{"reason":"unexpected","retryAfterSeconds":-5}`, class: abi.Yield, code2: "unexpected"},
		"HintOfParked":    {reason: "what parks is not called again by the clock", code: 3, output: `{"reason":"unexpected","retryAfterSeconds":5}`, class: abi.UserActionRequired, code2: "unexpected"},
		"Case006Timeout":  {reason: "faults keep their reason", fault: fault{reason: "timeout", text: "killed after 30s"}, class: abi.Retry, code2: "timeout", why: "killed after 30s"},
		"Case006Memory":   {reason: "faults keep their reason", fault: fmt.Errorf("call: %w", fault{reason: "memory_exceeded", text: "x"}), class: abi.Retry, code2: "memory_exceeded"},
		"Case006Output":   {reason: "faults keep their reason", fault: fault{reason: "output_too_large", text: "x"}, class: abi.Retry, code2: "output_too_large"},
		"Case006Trap":     {reason: "a trap is a retry", fault: fault{reason: "module_trap", text: "unreachable\nat f"}, class: abi.Retry, code2: "module_trap"},
		"CPU":             {reason: "each limit has its reason", fault: fault{reason: "cpu_exceeded", text: "x"}, class: abi.Retry, code2: "cpu_exceeded"},
		"Table":           {reason: "each limit has its reason", fault: fault{reason: "table_exceeded", text: "x"}, class: abi.Retry, code2: "table_exceeded"},
		"Input":           {reason: "each limit has its reason", fault: fault{reason: "input_too_large", text: "x"}, class: abi.Retry, code2: "input_too_large"},
		"HostCalls":       {reason: "each limit has its reason", fault: fault{reason: "host_calls_exceeded", text: "x"}, class: abi.Retry, code2: "host_calls_exceeded"},
		"HostBytes":       {reason: "each limit has its reason", fault: fault{reason: "host_bytes_exceeded", text: "x"}, class: abi.Retry, code2: "host_bytes_exceeded"},
		"WorkerBusy":      {reason: "a busy operator is no fault of the module", fault: fault{reason: "worker_busy", text: "4 workers"}, class: abi.Yield, code2: "worker_busy", why: "4 workers", retryAfter: 5 * time.Second},
		"Case006Crash":    {reason: "faults keep their reason", fault: fault{reason: "module_crashed", text: "x"}, class: abi.Retry, code2: "module_crashed"},
		"OtherFault":      {reason: "no runtime gets to say what only the driver can", fault: fault{reason: "application_stuck", text: "x"}, class: abi.Retry, code2: "unexpected"},
		"PlainFault":      {reason: "an untyped fault is unexpected", fault: errors.New("pipe"), class: abi.Retry, code2: "unexpected", why: "pipe"},
		"TypedFault":      {reason: "whoever runs the module may speak our language", fault: provisioner.Retry(abi.ReasonModuleFaulted, "open").WithRetryAfter(time.Minute), class: abi.Retry, code2: "module_faulted", retryAfter: time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
				return tc.code, []byte(tc.output), tc.fault
			})
			err := w.provision(t)
			outcome := provisioner.OutcomeOf(err)
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.code2, outcome.Headline.Reason, tc.reason)
			require.Equal(t, tc.retryAfter, outcome.RetryAfter, tc.reason)
			require.Contains(t, outcome.Headline.Why, tc.why, tc.reason)
			if tc.sentence != "" {
				require.Equal(t, tc.sentence, outcome.Headline.Sentence, tc.reason)
			}
			require.Equal(t, 1, w.calls)
			require.Zero(t, w.facts.published, "nothing is published in any of these")
			require.Empty(t, w.state.saves, "nor saved")
		})
	}
}

// A deprovision never parks, whatever the module says (cases 18 and 109).
func TestDeprovisionNeverParks(t *testing.T) {
	for code, want := range map[int32]abi.Disposition{0: abi.OK, 1: abi.Yield, 2: abi.Retry, 3: abi.Retry, 4: abi.Retry, 7: abi.Retry} {
		w := newWorld(answers(code, `{"reason":"pool_exhausted"}`))
		outcome := provisioner.OutcomeOf(w.deprovision(t))
		require.Equal(t, want, outcome.Class, "code %d", code)
		require.NotEqual(t, abi.Terminal, outcome.Headline.Disposition)
		if code > 0 && code <= 4 {
			require.Equal(t, "pool_exhausted", outcome.Headline.Reason, "the reason is kept")
		}
	}
}

func TestCase009IdenticalTraps(t *testing.T) {
	trap := fault{reason: "module_trap", text: "unreachable at 0x1", trap: "unreachable in f"}
	w := newWorld(nil)
	w.memo = module.NewMemo(8)
	next := error(trap)
	w.guest = func(context.Context, string, []byte, hostFunc) (int32, []byte, error) { return 0, nil, next }
	class := func() abi.Disposition {
		outcome := provisioner.OutcomeOf(w.provision(t))
		if next != nil {
			require.Equal(t, "module_trap", outcome.Headline.Reason)
		}
		return outcome.Class
	}
	row := func(times int) {
		for i := range times {
			require.Equal(t, abi.Retry, class(), "trap %d of the row", i+1)
		}
	}
	row(4)
	require.Equal(t, abi.Terminal, class(), "the fifth identical trap")
	require.Equal(t, abi.Terminal, class(), "and each one after it")
	w.memo.Forget("u1")
	require.Equal(t, abi.Terminal, class(), "a resync does not reset the count")

	next = fault{reason: "module_trap", text: "unreachable at 0x2", trap: "other"}
	row(1) // another trap starts another row
	next = trap
	row(2)
	next = nil
	require.Equal(t, abi.OK, class(), "a call that ends well ends the row")
	next = trap
	w.memo.Forget("u1") // nothing has changed, so the module would not be called
	row(4)
	require.Equal(t, abi.Terminal, class())

	changed := owner()
	changed.Generation++
	w.scope = scope.NewHome(changed, nil, nil)
	row(4) // another generation starts another row
	require.Equal(t, abi.Terminal, class())
	require.Equal(t, abi.Retry, provisioner.OutcomeOf(w.deprovision(t)).Class, "a deprovision never parks and counts by itself")
}

func TestTrapsWithoutMemoNeverPark(t *testing.T) {
	w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
		return 0, nil, fault{reason: "module_trap", text: "x"}
	})
	for range 10 {
		require.Equal(t, abi.Retry, provisioner.OutcomeOf(w.provision(t)).Class)
	}
}

func TestInterrupted(t *testing.T) {
	t.Run("Shutdown", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(scope.NewContext(t.Context(), scope.NewHome(owner(), nil, nil)))
		w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
			cancel(provisioner.ErrShutdown)
			return 0, nil, fault{reason: "module_crashed", text: "killed"}
		})
		require.True(t, provisioner.OutcomeOf(w.node().Provision(ctx)).Cancelled, "a shutdown is no fault of the module")
		require.True(t, provisioner.OutcomeOf(w.node().Provision(ctx)).Cancelled)
		require.Equal(t, 1, w.calls, "and nothing is started after it")
	})
	t.Run("ShutdownWithAnswer", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(scope.NewContext(t.Context(), scope.NewHome(owner(), nil, nil)))
		w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
			cancel(provisioner.ErrShutdown)
			return 4, []byte(`{"state":{"made":1},"reason":"unexpected"}`), nil
		})
		require.True(t, provisioner.OutcomeOf(w.node().Provision(ctx)).Cancelled)
		require.Equal(t, []string{nodePath + `={"made":1}`}, w.state.saves, "what the module did is not forgotten")
	})
	t.Run("Budget", func(t *testing.T) {
		ctx, cancel := context.WithCancel(scope.NewContext(t.Context(), scope.NewHome(owner(), nil, nil)))
		w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
			cancel()
			return 0, nil, fault{reason: "timeout", text: "x"}
		})
		require.Equal(t, abi.ReasonDeadlineExceeded, provisioner.OutcomeOf(w.node().Provision(ctx)).Headline.Reason, "the pass's own time is not the module's")
	})
}

// TestNoWorkerInTime: a call that never got a worker is no fault of the module, and nothing
// that is unexpected.
func TestNoWorkerInTime(t *testing.T) {
	w := newWorld(func(context.Context, string, []byte, hostFunc) (int32, []byte, error) {
		return 0, nil, fmt.Errorf("wait for a worker: %w", context.DeadlineExceeded)
	})
	outcome := provisioner.OutcomeOf(w.provision(t))
	require.Equal(t, abi.Retry, outcome.Class)
	require.Equal(t, abi.ReasonDeadlineExceeded, outcome.Headline.Reason)
	require.Contains(t, outcome.Headline.Why, "wait for a worker", "the log says what the time was spent on")
}

func TestFactsAndState(t *testing.T) {
	w := newWorld(answers(1, `{"reason":"unexpected","facts":{"podCIDR":"10.0.0.0/16"},"state":{ "n" : 1 }}`))
	require.Equal(t, abi.Yield, provisioner.OutcomeOf(w.provision(t)).Class)
	require.JSONEq(t, `"10.0.0.0/16"`, string(w.facts.values["podCIDR"]), "progress is kept with every disposition")
	require.Equal(t, []string{nodePath + `={"n":1}`}, w.state.saves)
	require.Error(t, w.provision(t))
	require.Len(t, w.state.saves, 1, "an equal state is not written again")

	w.guest = answers(0, `{}`)
	require.NoError(t, w.provision(t))
	require.Len(t, w.state.saves, 1, "an absent state keeps what is there")

	w.guest = answers(0, `{"state":null}`)
	require.NoError(t, w.provision(t))
	require.Equal(t, nodePath+"=", w.state.saves[1], "null drops it")
	require.NoError(t, w.provision(t))
	require.Len(t, w.state.saves, 2)
}

func TestCollaboratorsFail(t *testing.T) {
	broken := errors.New("broken")
	typed := provisioner.UserActionRequired(abi.ReasonModuleNotFound, "")
	missing := provisioner.Yield(abi.ReasonFactsMissing, "")
	cases := map[string]struct {
		reason string
		change func(w *world)
		class  abi.Disposition
		code   string
		calls  int
	}{
		"Instance": {"its errors are returned as they are", func(w *world) { w.instance = typed }, abi.UserActionRequired, abi.ReasonModuleNotFound, 0},
		"Config": {"its errors are returned as they are", func(w *world) {
			w.options.Config = func(context.Context) (json.RawMessage, error) { return nil, missing }
		}, abi.Yield, abi.ReasonFactsMissing, 0},
		"NoObject": {"a config is an object", func(w *world) {
			w.options.Config = func(context.Context) (json.RawMessage, error) { return json.RawMessage(`[1]`), nil }
		}, abi.Terminal, abi.ReasonInvalidConfig, 0},
		"HalfJSON": {"a config is JSON", func(w *world) {
			w.options.Config = func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"a"`), nil }
		}, abi.Terminal, abi.ReasonInvalidConfig, 0},
		"StateLoad": {"without its state a module must not be called", func(w *world) { w.state.load = broken }, abi.Retry, abi.ReasonUnexpected, 0},
		"List":      {"a failure to list is not an empty list", func(w *world) { w.driver.list = broken }, abi.Retry, abi.ReasonUnexpected, 0},
		"StateSave": {"a state that is not saved is no success", func(w *world) { w.state.save = broken }, abi.Retry, abi.ReasonUnexpected, 1},
		"Publish":   {"facts that are not published neither", func(w *world) { w.facts.err = broken }, abi.Retry, abi.ReasonUnexpected, 1},
		"NoDriver":  {"an incomplete node fails and does not panic", func(w *world) { w.options.Driver = nil }, abi.Retry, abi.ReasonUnexpected, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(answers(0, `{"facts":{"a":1},"state":1}`))
			tc.change(w)
			outcome := provisioner.OutcomeOf(w.provision(t))
			require.Equal(t, tc.class, outcome.Class, tc.reason)
			require.Equal(t, tc.code, outcome.Headline.Reason, tc.reason)
			require.Equal(t, tc.calls, w.calls, tc.reason)
		})
	}
	require.ErrorContains(t, newWorld(nil).node().Provision(t.Context()), "no scope")
}

func TestNothingIsRequired(t *testing.T) {
	w := newWorld(answers(0, `{"facts":{"a":1},"state":1}`))
	w.options.Facts, w.options.State, w.options.Inputs, w.options.Events = nil, nil, nil, nil
	require.NoError(t, w.provision(t))
	require.NoError(t, w.deprovision(t))
	require.Equal(t, "cni", w.node().ProvisionerName())
	require.Equal(t, "cni", w.node().PathSegment())
}

func TestEnvelope(t *testing.T) {
	var got abi.Input
	var raw []byte
	w := newWorld(func(_ context.Context, export string, input []byte, _ hostFunc) (int32, []byte, error) {
		raw = input
		got = abi.Input{}
		require.NoError(t, json.Unmarshal(input, &got))
		require.Equal(t, export, got.Operation)
		return 0, nil, nil
	}).remote(nil, abi.ScopeReady, abi.Discard)
	w.grant.Capabilities = []abi.Function{abi.AppEnsure, abi.KubeGet}
	w.manifest.Capabilities = []abi.Function{abi.KubeGet, abi.Event}
	w.options.Config = func(context.Context) (json.RawMessage, error) {
		return json.RawMessage(` {"podCIDR":"10.0.0.0/16"} `), nil
	}
	w.facts.values = map[string]json.RawMessage{"a": json.RawMessage(`1`)}
	w.state.values = map[string]string{nodePath: `{"n":1}`}
	require.NoError(t, w.provision(t))
	want := abi.Input{
		ABI: 1, Operation: "provision", Node: abi.Node{Name: "cni", Path: nodePath},
		Owner:  abi.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "team", Name: "s", UID: "u1", Generation: 3},
		Config: json.RawMessage(`{"podCIDR":"10.0.0.0/16"}`), Facts: map[string]json.RawMessage{"a": json.RawMessage(`1`)}, State: json.RawMessage(`{"n":1}`),
		Scope:    abi.Scope{ID: w.scope.ID(), Remote: true, Host: "api.example.com", Port: 6443, State: abi.ScopeReady},
		Teardown: abi.Discard, Capabilities: []abi.Function{abi.KubeGet}, Now: "2026-01-02T03:04:05Z", DeadlineMillis: got.DeadlineMillis,
	}
	require.Equal(t, want, got)
	require.Positive(t, got.DeadlineMillis)
	require.LessOrEqual(t, got.DeadlineMillis, int64(30000), "the default time limit")
	require.NotContains(t, string(raw), "null", "absent fields are omitted")

	t.Run("Case074RequiresDrain", func(t *testing.T) {
		w.manifest.RequiresDrain = true
		require.NoError(t, w.deprovision(t))
		require.Equal(t, abi.Drain, got.Teardown, "what outlives the cluster must be freed")
		require.NoError(t, w.provision(t))
		require.Equal(t, abi.Discard, got.Teardown, "going up there is nothing to free")
	})
	t.Run("NoConfig", func(t *testing.T) {
		w.options.Config = func(context.Context) (json.RawMessage, error) { return nil, nil }
		require.NoError(t, w.provision(t))
		require.JSONEq(t, `{}`, string(got.Config))
	})
	t.Run("DeprovisionWithoutConfig", func(t *testing.T) {
		w.options.Config = func(context.Context) (json.RawMessage, error) {
			return nil, provisioner.Yield(abi.ReasonFactsMissing, "")
		}
		require.NoError(t, w.deprovision(t), "what the config was made from may be gone first")
		require.JSONEq(t, `{}`, string(got.Config))
	})
}

func TestWhyIsSanitised(t *testing.T) {
	hostile := "line\r\n\x1b[31mred\u202e" + strings.Repeat("é", 10000)
	out, err := json.Marshal(abi.Output{Reason: "unexpected", Why: hostile})
	require.NoError(t, err)
	outcome := provisioner.OutcomeOf(newWorld(answers(2, string(out))).provision(t))
	why := outcome.Headline.Why
	require.True(t, utf8.ValidString(why))
	require.NotContains(t, why, "\x1b")
	require.NotContains(t, why, "\r")
	require.NotContains(t, why, "\u202e")
	require.LessOrEqual(t, len(why), 5000)
	require.NotContains(t, outcome.Headline.Sentence, "[31m", "no guest text for users")
}

func TestLogging(t *testing.T) {
	for code, level := range map[int32]string{1: "DEBUG", 2: "ERROR", 3: "ERROR", 4: "ERROR"} {
		var buffer bytes.Buffer
		ctx := log.IntoContext(scope.NewContext(t.Context(), scope.NewHome(owner(), nil, nil)), zap.New(zap.WriteTo(&buffer), zap.UseDevMode(true)))
		require.Error(t, newWorld(answers(code, `{"reason":"unexpected","why":"the detail"}`)).node().Provision(ctx))
		line := ""
		for _, l := range strings.Split(buffer.String(), "\n") {
			if strings.Contains(l, "the detail") {
				line = l
				break
			}
		}
		require.Contains(t, line, level, "code %d", code)
		for _, field := range []string{"cni", "sha256:aa", nodePath, "home"} {
			require.Contains(t, line, field)
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add(int32(0), []byte(`{}`))
	f.Add(int32(1), []byte(`{"reason":"unexpected","why":"w","retryAfterSeconds":5,"facts":{"a":1},"state":{"b":[null]}}`))
	f.Add(int32(4), []byte(`{"reason":"\u0000","state":null}`))
	f.Add(int32(-7), []byte("\xff{"))
	f.Fuzz(func(t *testing.T, code int32, output []byte) {
		w := newWorld(answers(code, string(output)))
		err := w.provision(t)
		if err == nil {
			require.Zero(t, code)
			return
		}
		outcome := provisioner.OutcomeOf(err)
		require.True(t, abi.ValidReason(outcome.Headline.Reason))
		require.True(t, utf8.ValidString(outcome.Headline.Why))
		require.Less(t, len(outcome.Headline.Why), 3*4096)
		for _, saved := range w.state.saves {
			require.LessOrEqual(t, len(saved), 65536+len(nodePath)+1)
		}
	})
}
