package abitest

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/caisson-dev/caisson/abi"
)

//go:embed vectors/*.json
var files embed.FS

// Set is all vectors.
type Set struct {
	// Manifest is the module that the answers are from.
	Manifest  abi.Manifest
	Inputs    []Input
	Answers   []Answer
	Exchanges []Exchange
}

// Input is an envelope and what a module must read in it.
type Input struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Envelope is what the host passes.
	Envelope json.RawMessage `json:"envelope"`
	// Want is what it says, fields of later minor versions left out.
	Want abi.Input `json:"want"`
}

// Answer is what provision or deprovision answered and what a host must conclude.
type Answer struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Code is the i32 that the export returned, Output its Extism output.
	Code   int32  `json:"code"`
	Output string `json:"output"`
	// Canonical says that a guest SDK writes exactly this for the conclusion: the vector
	// then also tests SDKs.
	Canonical bool       `json:"canonical,omitempty"`
	Want      Conclusion `json:"want"`
}

// Conclusion is what a host makes of an answer.
type Conclusion struct {
	Disposition abi.Disposition `json:"disposition"`
	// Reason is the code that users are shown, Sentence the text that goes with it; both
	// are empty for OK.
	Reason   string `json:"reason,omitempty"`
	Sentence string `json:"sentence,omitempty"`
	// Why is contained in what goes to the operator's log.
	Why string `json:"why,omitempty"`
	// RetryAfterSeconds is the hint before the host clamps it; 0 is none.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
	// Facts are what becomes known to later nodes.
	Facts map[string]json.RawMessage `json:"facts,omitempty"`
	// State, GenerationState and StickyState are as in [abi.Output]: absent keeps the old
	// one, null drops it.
	State           json.RawMessage `json:"state,omitempty"`
	GenerationState json.RawMessage `json:"generationState,omitempty"`
	StickyState     json.RawMessage `json:"stickyState,omitempty"`
}

// Exchange is one call of a host function.
type Exchange struct {
	Name     string          `json:"name"`
	Reason   string          `json:"reason"`
	Function abi.Function    `json:"function"`
	Request  json.RawMessage `json:"request"`
	Response json.RawMessage `json:"response"`
}

// Vectors returns the vectors. It fails only if the embedded files are broken, which the
// tests of this package rule out.
func Vectors() (*Set, error) {
	set := &Set{}
	for name, into := range map[string]any{
		"manifest": &set.Manifest, "inputs": &set.Inputs, "answers": &set.Answers, "exchanges": &set.Exchanges,
	} {
		raw, err := files.ReadFile("vectors/" + name + ".json")
		if err != nil {
			return nil, fmt.Errorf("read the vectors: %w", err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			return nil, fmt.Errorf("decode vectors/%s.json: %w", name, err)
		}
	}
	return set, nil
}
