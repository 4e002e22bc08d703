package guesttest

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/guest-sdk"
)

// TB is what the harness needs of a *testing.T.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Harness is one node of a tree with the world around it. State lives from call to call,
// everything else of the module does not. It is for one goroutine.
type Harness struct {
	t        TB
	program  guest.Program
	manifest abi.Manifest
	template abi.Input
	kept     states
	rawGrant bool
	failures map[abi.Function]abi.ErrorCode
	apps     applications
	objects  objects
	secrets  secrets
	trace    trace
	logs     []LogLine
}

// LogLine is one line that the module logged.
type LogLine struct {
	Level guest.Level
	Line  string
}

// New returns a harness for a module at home, in a ready scope, with Drain and every
// declared capability granted. Options change that for all calls. It fails the test at
// once for a manifest that a host would refuse.
func New(t TB, program guest.Program, options ...Option) *Harness {
	t.Helper()
	h := &Harness{
		t: t, program: program, manifest: guest.Describe(program),
		failures: map[abi.Function]abi.ErrorCode{}, apps: applications{}, objects: objects{},
		secrets: secrets{values: map[string]map[string]string{}},
	}
	if err := h.manifest.Validate(); err != nil {
		t.Fatalf("guesttest: a host would refuse this module: %v", err)
	}
	h.template = abi.Input{
		ABI:   abi.Version,
		Node:  abi.Node{Name: h.manifest.Name, Path: "root/" + h.manifest.Name},
		Owner: abi.Owner{APIVersion: "caisson.dev/v1alpha1", Kind: "Stack", Namespace: "default", Name: "demo", UID: "00000000-0000-4000-8000-000000000001", Generation: 1},
		Scope: abi.Scope{ID: "home", State: abi.ScopeReady}, Teardown: abi.Drain,
		Capabilities: h.manifest.Capabilities, Now: "2026-01-02T03:04:05Z", DeadlineMillis: 30_000,
	}
	h.apply(&h.template, options)
	return h
}

// Provision calls the module's Provision with a config, which is a struct, a map or a
// json.RawMessage; nil is {}. Options count for this call.
func (h *Harness) Provision(config any, options ...Option) Result {
	h.t.Helper()
	return h.run(abi.ExportProvision, config, options)
}

// Deprovision calls the module's Deprovision, like [Harness.Provision].
func (h *Harness) Deprovision(config any, options ...Option) Result {
	h.t.Helper()
	return h.run(abi.ExportDeprovision, config, options)
}

func (h *Harness) run(operation string, config any, options []Option) Result {
	h.t.Helper()
	in := h.template
	in.Facts = maps.Clone(in.Facts)
	in.Operation = operation
	in.State, in.GenerationState, in.StickyState = h.kept.state, h.kept.generation, h.kept.sticky
	in.Installed = len(h.apps) > 0
	in.Config = json.RawMessage("{}")
	if config != nil {
		raw, err := json.Marshal(config)
		if err != nil {
			h.t.Fatalf("guesttest: encode the config: %v", err)
		}
		in.Config = raw
	}
	h.apply(&in, options)
	envelope, err := json.Marshal(&in)
	if err != nil {
		h.t.Fatalf("guesttest: encode the envelope: %v", err)
	}
	h.secrets.newCall()
	h.trace.begin(operation, &in)
	first := len(h.trace.exchanges)
	d, out := guest.Run(h.program, operation, envelope, &host{h: h, in: &in})
	result := h.conclude(operation, d, out)
	result.Calls = h.trace.exchanges[first:]
	h.trace.end(&result)
	return result
}

// conclude reads the answer as a host does, and checks what a host would.
func (h *Harness) conclude(operation string, d abi.Disposition, raw []byte) Result {
	h.t.Helper()
	var out abi.Output
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		h.t.Fatalf("guesttest: decode the output: %v", err)
	}
	if d != abi.OK {
		h.checkReason("returns the reason", out.Reason)
	}
	h.checkOutput(raw)
	h.kept.keep(operation, d, &out)
	if size := h.kept.size(); size > maxStates {
		h.t.Errorf("guesttest: the module's state has %d bytes and %d are allowed", size, maxStates)
	}
	return newResult(d, &out, h.kept)
}

func (h *Harness) checkReason(what, code string) {
	h.t.Helper()
	if _, own := abi.GivenSentence(code); own {
		return
	}
	if _, declared := h.manifest.Sentence(code); !declared {
		h.t.Errorf("guesttest: the module %s %q, for which neither its manifest nor the host has a sentence", what, code)
	}
}

// checkOutput looks for what must not leave the module: neither facts nor state nor why
// are places for secrets, and a handle means nothing after the call.
func (h *Harness) checkOutput(raw []byte) {
	h.t.Helper()
	text := allStrings(raw)
	if name, leaked := h.secrets.leak(text); leaked {
		h.t.Errorf("guesttest: the value of the Secret %s is in the module's output", name)
	}
	if handlePattern.MatchString(text) {
		h.t.Errorf("guesttest: a secret handle is in the module's output; it is void after the call")
	}
}

// Fail makes a host function answer with an error code until code is "".
func (h *Harness) Fail(f abi.Function, code abi.ErrorCode) {
	h.trace.notef("%s fails with %q", f, code)
	h.failures[f] = code
}

// GrantRawSecrets lets the module ask for the bytes of Secrets, which a host refuses by
// default.
func (h *Harness) GrantRawSecrets() { h.rawGrant = true }

// Logs are the lines that the module logged so far.
func (h *Harness) Logs() []LogLine { return h.logs }
