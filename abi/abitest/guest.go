package abitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caisson-dev/caisson/abi"
)

// Host runs a conformance module, as SPEC.md describes it, for [CheckGuest].
type Host interface {
	// Describe returns the output of describe. An error fails the check.
	Describe() ([]byte, error)
	// Call runs provision or deprovision. answer takes a request and returns the response;
	// an error is a failure of the host and fails the check, a trap is a [Run].
	Call(operation string, envelope []byte, answer func(f abi.Function, request []byte) []byte) (Run, error)
}

// Run is what a call of a conformance module came to.
type Run struct {
	// Code is what the export returned and Output its output; both are void if it trapped.
	Code   int32
	Output []byte
	// Trapped says that the export did not return, ErrorText is what error_set was given.
	Trapped   bool
	ErrorText string
	// Log is the lines in the operator's log. A host may decorate them.
	Log []string
}

// fillBytes is the size of the large output: more than a page of Wasm, than a buffer of
// any PDK, and less than a host's limit.
const fillBytes = 1 << 20

// CheckGuest checks a conformance module, and with it the PDK that it was written with
// and the host that runs it: every envelope arrives as it was sent, every answer that is
// JSON comes back, every host function is reached, logs and errors get to the operator,
// large outputs survive, and no call sees the memory of another one.
func CheckGuest(t TB, host Host) {
	t.Helper()
	set := load(t)
	g := &guest{t: t, host: host, envelope: set.Inputs[0].Envelope}
	g.describe(&set.Manifest)
	g.echo(set.Inputs)
	g.answer(set.Answers)
	g.ask(set.Exchanges)
	g.operator()
	g.fill()
	g.count()
}

// guest is a check that is under way.
type guest struct {
	t        TB
	host     Host
	envelope json.RawMessage
}

// call runs the module with a config, and fails the check for a host function that was
// not expected.
func (g *guest) call(name, operation string, envelope []byte) (Run, bool) {
	g.t.Helper()
	run, err := g.host.Call(operation, envelope, func(f abi.Function, _ []byte) []byte {
		g.t.Errorf("%s: %s was called", name, f)
		return []byte("{}")
	})
	return run, g.sound(name, run, err)
}

// sound reports whether a call returned.
func (g *guest) sound(name string, run Run, err error) bool {
	g.t.Helper()
	switch {
	case err != nil:
		g.t.Errorf("%s: %v", name, err)
	case run.Trapped:
		g.t.Errorf("%s: the module trapped: %s", name, run.ErrorText)
	default:
		return true
	}
	return false
}

// facts reads the facts of an answer that must be OK.
func (g *guest) facts(name string, run Run, into any) bool {
	g.t.Helper()
	output := struct{ Facts any }{into}
	if err := json.Unmarshal(run.Output, &output); run.Code != 0 || err != nil {
		g.t.Errorf("%s: code %d, output %s: %v", name, run.Code, excerpt(run.Output), err)
		return false
	}
	return true
}

func (g *guest) describe(want *abi.Manifest) {
	g.t.Helper()
	got, err := g.host.Describe()
	if err != nil {
		g.t.Errorf("describe: %v", err)
		return
	}
	if w := encode(g.t, want); !sameJSON([]byte(w), got) {
		g.t.Errorf("describe\nwant %s\ngot  %s", w, excerpt(got))
	}
}

// echo sends every envelope, to both operations, and a large one.
func (g *guest) echo(inputs []Input) {
	g.t.Helper()
	for _, v := range inputs {
		g.echoes("echo "+v.Name, v.Want.Operation, with(g.t, v.Envelope, `{"do":"echo"}`))
	}
	padding := strings.Repeat("ünïcode \U0001f680 \\\" {[", 4<<10)
	for _, operation := range []string{abi.ExportProvision, abi.ExportDeprovision} {
		config := encode(g.t, map[string]string{"do": "echo", "padding": padding})
		g.echoes("echo much to "+operation, operation, with(g.t, g.envelope, config))
	}
}

func (g *guest) echoes(name, operation string, envelope []byte) {
	g.t.Helper()
	run, ok := g.call(name, operation, envelope)
	var facts struct{ Envelope json.RawMessage }
	if ok && g.facts(name, run, &facts) && !bytes.Equal(facts.Envelope, envelope) {
		g.t.Errorf("%s\nwant %s\ngot  %s", name, excerpt(envelope), excerpt(facts.Envelope))
	}
}

// answer has the module give every answer whose output is an object.
func (g *guest) answer(answers []Answer) {
	g.t.Helper()
	given := 0
	for _, v := range answers {
		output := bytes.TrimSpace([]byte(v.Output))
		if !json.Valid(output) || output[0] != '{' {
			continue // what is no JSON cannot travel in a config
		}
		given++
		name := "answer " + v.Name
		config := fmt.Sprintf(`{"do":"answer","code":%d,"output":%s}`, v.Code, output)
		run, ok := g.call(name, abi.ExportProvision, with(g.t, g.envelope, config))
		if ok && (run.Code != v.Code || !sameJSON(output, run.Output)) {
			g.t.Errorf("%s (%s)\nwant %d %s\ngot  %d %s", name, v.Reason, v.Code, output, run.Code, excerpt(run.Output))
		}
	}
	if given == 0 {
		g.t.Errorf("no answer is an object")
	}
}

// ask has the module make every exchange, and look at the response.
func (g *guest) ask(exchanges []Exchange) {
	g.t.Helper()
	for _, v := range exchanges {
		name, asked := "ask "+v.Name, 0
		config := fmt.Sprintf(`{"do":"ask","function":"%s","request":%s}`, v.Function, v.Request)
		run, err := g.host.Call(abi.ExportProvision, with(g.t, g.envelope, config), func(f abi.Function, request []byte) []byte {
			asked++
			if f != v.Function || !sameJSON(v.Request, request) {
				g.t.Errorf("%s (%s)\nwant %s %s\ngot  %s %s", name, v.Reason, v.Function, v.Request, f, excerpt(request))
			}
			return v.Response
		})
		var facts struct{ Response json.RawMessage }
		if !g.sound(name, run, err) || !g.facts(name, run, &facts) {
			continue
		}
		if asked != 1 || !sameJSON(v.Response, facts.Response) {
			g.t.Errorf("%s: calls %d\nwant %s\ngot  %s", name, asked, v.Response, excerpt(facts.Response))
		}
	}
}

// operator checks what reaches the operator: lines at the levels that every PDK has, and
// the text of an error that ends in a trap.
func (g *guest) operator() {
	g.t.Helper()
	run, ok := g.call("log", abi.ExportProvision, with(g.t, g.envelope, `{"do":"log","text":"the tide is high"}`))
	lines := 0
	for _, line := range run.Log {
		if strings.Contains(line, "the tide is high") {
			lines++
		}
	}
	if ok && lines != 4 {
		g.t.Errorf("log: the text is in %d lines, not at debug, info, warn and error: %q", lines, run.Log)
	}
	run, err := g.host.Call(abi.ExportProvision, with(g.t, g.envelope, `{"do":"fail","text":"the anchor is lost"}`), nil)
	if err != nil || !run.Trapped || !strings.Contains(run.ErrorText, "the anchor is lost") {
		g.t.Errorf("fail: trapped %t with the text %q: %v", run.Trapped, run.ErrorText, err)
	}
}

func (g *guest) fill() {
	g.t.Helper()
	config := fmt.Sprintf(`{"do":"fill","bytes":%d}`, fillBytes)
	run, ok := g.call("fill", abi.ExportProvision, with(g.t, g.envelope, config))
	var facts struct{ Fill string }
	if ok && g.facts("fill", run, &facts) && facts.Fill != strings.Repeat("x", fillBytes) {
		g.t.Errorf("fill: %d bytes came: %s", len(facts.Fill), excerpt(run.Output))
	}
}

// count has the module count in its state, which the host keeps, and in its memory, which
// it must not: also not after a trap.
func (g *guest) count() {
	g.t.Helper()
	state := "0"
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("count %d", i)
		run, ok := g.call(name, abi.ExportProvision, with(g.t, g.envelope, `{"do":"count"}`, "state", `{"count":`+state+`}`))
		if !ok {
			continue
		}
		var output struct {
			Facts struct{ Memory int }
			State struct{ Count json.Number }
		}
		err := json.Unmarshal(run.Output, &output)
		if err != nil || run.Code != 0 || output.Facts.Memory != 1 || output.State.Count.String() != fmt.Sprint(i) {
			g.t.Errorf("%s: code %d, output %s: want 1 in memory and %d in state: %v", name, run.Code, excerpt(run.Output), i, err)
		}
		state = fmt.Sprint(i)
	}
}

// with returns an envelope with another config, and with other fields if they are given
// as pairs of a name and its JSON.
func with(t TB, envelope []byte, config string, fields ...string) []byte {
	t.Helper()
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(envelope, &parts); err != nil {
		t.Fatalf("abitest: decode an envelope: %v", err)
	}
	parts["config"] = json.RawMessage(config)
	for pair := range slices.Chunk(fields, 2) {
		parts[pair[0]] = json.RawMessage(pair[1])
	}
	return []byte(encode(t, parts))
}

// excerpt shortens what a guest said for a person.
func excerpt(b []byte) string {
	const most = 1 << 10
	if len(b) > most {
		return fmt.Sprintf("%s … (%d bytes)", b[:most], len(b))
	}
	return string(b)
}
