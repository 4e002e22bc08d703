package module

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"time"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// maxReplayCalls and maxReplayBytes bound what is remembered of one call. A module that
	// needs more is simply called again.
	maxReplayCalls = 64
	maxReplayBytes = 1 << 20
)

// appCall is one app_* request with the digest of its answer.
type appCall struct {
	function abi.Function
	request  []byte
	digest   [sha256.Size]byte
}

// answerDigest identifies an answer by what a module decides on. The hint when to come
// back counts down by itself and is left out.
func answerDigest(result any, callError *abi.CallError) [sha256.Size]byte {
	if status, ok := result.(*abi.AppStatus); ok && status != nil {
		steady := *status
		steady.RetryAfterSeconds = 0
		result = &steady
	}
	// Both are plain structs of package abi, which always encode.
	raw, _ := json.Marshal([]any{result, callError}) //nolint:errchkjson // See above.
	return sha256.Sum256(raw)
}

// replay repeats the driver calls of a remembered answer. They are idempotent, and cheap
// when nothing changed. If the driver answers as it did, so would the module, and the
// answer is returned; otherwise the module has to be called.
func (p *Provisioner) replay(ctx context.Context, s scope.Scope, instance *Instance, entry *memoEntry) (*outcome, bool) {
	if entry == nil || (!entry.expires.IsZero() && !p.options.Clock().Before(entry.expires)) {
		return nil, false
	}
	sess := p.newSession(s, instance, entry.secrets)
	defer sess.close()
	for _, remembered := range entry.calls {
		result, callError := sess.answer(ctx, remembered.function, remembered.request)
		if answerDigest(result, callError) != remembered.digest {
			return nil, false
		}
	}
	if p.options.Inputs != nil {
		for _, input := range entry.inputs {
			p.options.Inputs.RecordInput(input)
		}
	}
	return &outcome{disposition: entry.disposition, output: entry.output, session: sess}, true
}

// entry returns what to remember of an answer, or nil. A module that is not done and knows
// something that nobody watches for it, such as an object that it read through kube_* or
// that a cluster did not answer, must look again; one that failed for a reason of its own,
// too. One that says when it wants to be called is
// believed, unless it only passes on what the driver said.
func (o *outcome) entry(digest string, now time.Time) *memoEntry {
	calls, ok := o.session.replayable()
	if !ok || (o.session.knowsUnwatched() && o.disposition != abi.OK) {
		return nil
	}
	_, passedOn := o.session.verdict(o.output.Reason)
	if o.disposition == abi.Retry && !passedOn {
		return nil
	}
	kept := &memoEntry{
		digest: digest, disposition: o.disposition, output: o.output,
		calls: calls, secrets: o.session.secrets, inputs: o.session.readSecrets(),
	}
	if o.disposition != abi.OK && !passedOn && o.output.RetryAfterSeconds > 0 {
		wait := min(time.Duration(min(o.output.RetryAfterSeconds, int(maxRetryAfter/time.Second)))*time.Second, maxRetryAfter)
		kept.expires = now.Add(wait)
	}
	return kept
}
