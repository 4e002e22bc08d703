package abitest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/abitest"
)

// native is a conformance module that is no Wasm, and a host that runs it.
type native struct {
	manifest abi.Manifest
	calls    int
	// spoil changes what a call came to, if it is not nil.
	spoil func(verb string, run abitest.Run) (abitest.Run, error)
	// keep leaves memory as it was from call to call.
	keep bool
	// ask changes what is asked for, if it is not nil.
	ask func(f abi.Function, request []byte) (abi.Function, []byte)
	// describe takes the place of the manifest, if it is not nil.
	describe func() ([]byte, error)
}

var _ abitest.Host = (*native)(nil)

// Describe implements abitest.Host.
func (n *native) Describe() ([]byte, error) {
	if n.describe != nil {
		return n.describe()
	}
	return json.MarshalIndent(n.manifest, "", " ")
}

// Call implements abitest.Host.
func (n *native) Call(_ string, envelope []byte, answer func(abi.Function, []byte) []byte) (abitest.Run, error) {
	if !n.keep {
		n.calls = 0
	}
	var in struct {
		Config struct {
			Do       string
			Code     int32
			Output   json.RawMessage
			Function abi.Function
			Request  json.RawMessage
			Text     string
			Bytes    int
		}
		State struct{ Count int }
	}
	if err := json.Unmarshal(envelope, &in); err != nil {
		return abitest.Run{}, err
	}
	c, run := in.Config, abitest.Run{}
	say := func(format string, args ...any) { run.Output = fmt.Appendf(nil, format, args...) }
	switch c.Do {
	case "echo":
		say(`{"facts":{"envelope":%s}}`, envelope)
	case "answer":
		run.Code, run.Output = c.Code, c.Output
	case "ask":
		f, request := c.Function, []byte(c.Request)
		if n.ask != nil {
			f, request = n.ask(f, request)
		}
		say(`{"facts":{"response":%s}}`, answer(f, request))
	case "log":
		for _, level := range []string{"debug", "info", "warn", "error"} {
			run.Log = append(run.Log, level+": "+c.Text)
		}
	case "fill":
		say(`{"facts":{"fill":"%s"}}`, strings.Repeat("x", c.Bytes))
	case "count":
		n.calls++
		say(`{"facts":{"memory":%d},"state":{"count":%d}}`, n.calls, in.State.Count+1)
	default:
		run.Trapped, run.ErrorText = true, c.Text
	}
	if n.spoil != nil {
		return n.spoil(c.Do, run)
	}
	return run, nil
}

// module is a conformance module that does everything right.
func module(t *testing.T) *native {
	t.Helper()
	return &native{manifest: vectors(t).Manifest}
}

func TestCheckGuest(t *testing.T) {
	abitest.CheckGuest(t, module(t))
}

func TestCheckGuestFails(t *testing.T) {
	// spoiling returns a module that does one verb wrong.
	spoiling := func(verb string, change func(run *abitest.Run)) func(n *native) {
		return func(n *native) {
			n.spoil = func(v string, run abitest.Run) (abitest.Run, error) {
				if v == verb {
					change(&run)
				}
				return run, nil
			}
		}
	}
	cases := map[string]struct {
		reason   string
		sabotage func(n *native)
		want     string
	}{
		"Manifest": {reason: "a module that describes another one", want: "describe\nwant", sabotage: func(n *native) { n.manifest.Version = "2.0.0" }},
		"NoManifest": {reason: "a module that cannot describe itself", want: "describe: no", sabotage: func(n *native) {
			n.describe = func() ([]byte, error) { return nil, errors.New("no") }
		}},
		"Respelt": {reason: "a PDK that decodes what it should hand on", want: "echo deprovision on a remote", sabotage: spoiling("echo", func(run *abitest.Run) {
			run.Output = []byte(strings.ReplaceAll(string(run.Output), "9007199254740993", "9007199254740992"))
		})},
		"Cut": {reason: "a PDK that counts letters for bytes", want: "echo much to deprovision", sabotage: spoiling("echo", func(run *abitest.Run) {
			if len(run.Output) > 1<<10 {
				run.Output = run.Output[:len(run.Output)-100]
			}
		})},
		"Code": {reason: "a PDK that makes booleans of results", want: "answer code of a forged exit", sabotage: spoiling("answer", func(run *abitest.Run) {
			run.Code = min(max(run.Code, 0), 1)
		})},
		"Facts": {reason: "an OK that is none", want: "echo provision at home: code 1", sabotage: spoiling("echo", func(run *abitest.Run) { run.Code = 1 })},
		"Function": {reason: "a table of functions in another order", want: "ask app_list", sabotage: func(n *native) {
			n.ask = func(f abi.Function, request []byte) (abi.Function, []byte) {
				if f == abi.AppList {
					f = abi.AppRemove
				}
				return f, request
			}
		}},
		"Request": {reason: "a request that arrives empty", want: "ask kube_get", sabotage: func(n *native) {
			n.ask = func(f abi.Function, _ []byte) (abi.Function, []byte) { return f, nil }
		}},
		"Response": {reason: "a response that arrives empty", want: "ask event", sabotage: spoiling("ask", func(run *abitest.Run) {
			run.Output = []byte(`{"facts":{"response":{}}}`)
		})},
		"Levels": {reason: "a level that is lost", want: "the text is in 3 lines", sabotage: spoiling("log", func(run *abitest.Run) { run.Log = run.Log[1:] })},
		"Silent": {reason: "a trap without its text", want: `fail: trapped true with the text ""`, sabotage: spoiling("fail", func(run *abitest.Run) { run.ErrorText = "" })},
		"Lives":  {reason: "an error that is no trap", want: "fail: trapped false", sabotage: spoiling("fail", func(run *abitest.Run) { run.Trapped = false })},
		"Traps": {reason: "a trap where there should be none", want: "count 1: the module trapped: oops", sabotage: spoiling("count", func(run *abitest.Run) {
			run.Trapped, run.ErrorText = true, "oops"
		})},
		"Fill":   {reason: "an output that is too short", want: "fill: 3 bytes came", sabotage: spoiling("fill", func(run *abitest.Run) { run.Output = []byte(`{"facts":{"fill":"xxx"}}`) })},
		"Memory": {reason: "a host that hands memory on", want: "count 2: code 0", sabotage: func(n *native) { n.keep = true }},
		"State": {reason: "a module that does not read its state", want: "count 2: code 0", sabotage: spoiling("count", func(run *abitest.Run) {
			run.Output = []byte(`{"facts":{"memory":1},"state":{"count":1}}`)
		})},
		"Host": {reason: "a host that fails", want: "count 3: no worker", sabotage: func(n *native) {
			n.spoil = func(_ string, run abitest.Run) (abitest.Run, error) { return run, errors.New("no worker") }
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n, r := module(t), &recorder{}
			c.sabotage(n)
			abitest.CheckGuest(r, n)
			require.NotEmpty(t, r.errors, c.reason)
			require.Contains(t, strings.Join(r.errors, "\n"), c.want, c.reason)
		})
	}
}

// TestCheckGuestUnasked checks a module that calls a host function where nothing was asked.
func TestCheckGuestUnasked(t *testing.T) {
	r := &recorder{}
	abitest.CheckGuest(r, unasked{module(t)})
	require.Contains(t, strings.Join(r.errors, "\n"), "echo provision at home: app_ensure was called")
}

// unasked makes a host function of every call.
type unasked struct{ *native }

// Call implements abitest.Host.
func (u unasked) Call(operation string, envelope []byte, answer func(abi.Function, []byte) []byte) (abitest.Run, error) {
	if answer != nil {
		answer(abi.AppEnsure, []byte("{}"))
	}
	return u.native.Call(operation, envelope, answer)
}
