package module

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/provisioner"
)

const (
	// maxFactsBytes is what a node may publish: facts live in the status of the owner
	// (DESIGN.md §9).
	maxFactsBytes = 16 << 10
	// maxWhyBytes keeps a guest from filling the operator's log.
	maxWhyBytes = 4 << 10
	// minRetryAfter and maxRetryAfter clamp a guest's hint: neither a hot loop nor a node
	// that nobody looks at for a day. The upper one is the resync of DESIGN.md §9.
	minRetryAfter = time.Second
	maxRetryAfter = 10 * time.Minute
)

// factName is what an expression can spell as facts["name"].
var factName = regexp.MustCompile(`^[A-Za-z]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// outputError says why an output is not accepted.
type outputError struct {
	reason string
	why    string
}

func (e *outputError) Error() string { return e.reason + ": " + e.why }

// decodeOutput reads and checks an output of at most limit bytes. An empty one is {}; unknown fields are left
// for later versions of the ABI. Errors are [*outputError].
func decodeOutput(raw []byte, limit int) (abi.Output, error) {
	var output abi.Output
	if len(raw) > limit {
		return output, &outputError{abi.ReasonOutputTooLarge, fmt.Sprintf("the output has %d bytes and %d are allowed", len(raw), limit)}
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return output, nil
	}
	if raw[0] != '{' || !utf8.Valid(raw) {
		return output, &outputError{abi.ReasonModuleBadOutput, "the output is not a JSON object in UTF-8"}
	}
	if err := json.Unmarshal(raw, &output); err != nil {
		return abi.Output{}, &outputError{abi.ReasonModuleBadOutput, sanitise("the output cannot be read: " + err.Error())}
	}
	// A memo may keep the output for long, so what is not needed of it goes now.
	output.Why = sanitise(output.Why)
	if !abi.ValidReason(output.Reason) {
		output.Reason = clip(output.Reason)
	}
	for name := range output.Facts {
		if !factName.MatchString(name) {
			return abi.Output{}, &outputError{abi.ReasonModuleBadOutput, sanitise(fmt.Sprintf("the fact name %q does not match %s", name, factName))}
		}
	}
	if size := factsSize(output.Facts); size > maxFactsBytes {
		return abi.Output{}, &outputError{abi.ReasonOutputTooLarge, fmt.Sprintf("the facts have %d bytes and %d are allowed", size, maxFactsBytes)}
	}
	output.State, output.GenerationState, output.StickyState = compact(output.State), compact(output.GenerationState), compact(output.StickyState)
	return output, nil
}

func factsSize(facts map[string]json.RawMessage) int {
	if len(facts) == 0 {
		return 0
	}
	raw, err := json.Marshal(facts)
	if err != nil {
		return maxFactsBytes + 1
	}
	return len(raw)
}

// resultError turns a disposition other than OK into an error. A reason must be declared
// by the manifest or be one of the host's own that a module can give; any other is only
// told to operators. If it
// is what the driver last answered, the driver's own why and hint come along.
func resultError(instance *Instance, o *outcome) *provisioner.Error {
	why := sanitise(o.output.Why)
	hint := time.Duration(0)
	if o.output.RetryAfterSeconds > 0 {
		hint = time.Duration(min(o.output.RetryAfterSeconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	reason := o.output.Reason
	sentence, declared := instance.Manifest.Sentence(reason)
	_, own := abi.HostSentence(reason)
	_, given := abi.GivenSentence(reason)
	if !given && (own || !declared) {
		why = sanitise(joinWhy(fmt.Sprintf("undeclared reason %q", reason), why))
		reason = abi.ReasonUnspecified
	}
	if v, ok := o.session.verdict(reason); ok && own {
		why = sanitise(joinWhy(v.why, why))
		if v.retryAfter > 0 {
			hint = v.retryAfter
		}
	}
	e := provisioner.New(o.disposition, reason, why)
	if declared && !own {
		e = e.WithSentence(sentence)
	}
	if hint > 0 && (o.disposition == abi.Yield || o.disposition == abi.Retry) {
		e = e.WithRetryAfter(min(max(hint, minRetryAfter), maxRetryAfter))
	}
	return e
}

// sanitise makes a guest's text fit for a log: valid UTF-8 without control characters but
// line breaks and tabs, and at most maxWhyBytes long.
func sanitise(text string) string {
	const mark = "…"
	cut := len(text) > maxWhyBytes
	if cut {
		text = text[:maxWhyBytes-len(mark)]
	}
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, ""))
	if cut {
		text += mark
	}
	return text
}

// isLine reports whether text is one line of printable UTF-8.
func isLine(text string) bool {
	return sanitise(text) == text && !strings.ContainsAny(text, "\n\t")
}

func joinWhy(parts ...string) string {
	var present []string
	for _, part := range parts {
		if part != "" {
			present = append(present, part)
		}
	}
	return strings.Join(present, ": ")
}

// compact returns raw without white space; what is no JSON is returned as it is.
func compact(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return raw
	}
	return b.Bytes()
}
