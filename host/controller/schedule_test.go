package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
	"github.com/caisson-dev/caisson/host/provisioner"
)

func TestRequeueAfter(t *testing.T) {
	const resync = 10 * time.Minute
	outcome := func(err error) provisioner.Outcome { return provisioner.OutcomeOf(err) }
	cases := map[string]struct {
		reason    string
		outcome   provisioner.Outcome
		failed    int
		inputs    []v1alpha1.InputRecord
		low, high time.Duration
	}{
		"ok":              {reason: "the resync, a tenth earlier or later", outcome: outcome(nil), low: 9 * time.Minute, high: 11 * time.Minute},
		"yield":           {reason: "events do the work, this is the net", outcome: outcome(provisioner.Yield(abi.ReasonFactsMissing, "")), low: 9 * time.Second, high: 11 * time.Second},
		"yield, hint":     {reason: "the module knows better; never earlier than it asked", outcome: outcome(provisioner.Yield(abi.ReasonFactsMissing, "").WithRetryAfter(time.Minute)), low: time.Minute, high: 66 * time.Second},
		"first retry":     {reason: "a blip is not noticed", outcome: outcome(provisioner.Retry(abi.ReasonUnexpected, "")), failed: 1, low: 900 * time.Millisecond, high: 1100 * time.Millisecond},
		"fourth retry":    {reason: "doubled three times", outcome: outcome(provisioner.Retry(abi.ReasonUnexpected, "")), failed: 4, low: 7200 * time.Millisecond, high: 8800 * time.Millisecond},
		"100th retry":     {reason: "capped", outcome: outcome(provisioner.Retry(abi.ReasonUnexpected, "")), failed: 100, low: 270 * time.Second, high: 330 * time.Second},
		"retry, hint":     {reason: "a hint replaces the backoff", outcome: outcome(provisioner.Retry(abi.ReasonUnexpected, "").WithRetryAfter(20 * time.Second)), failed: 100, low: 20 * time.Second, high: 22 * time.Second},
		"long hint":       {reason: "other nodes gave none, and must not wait for an hour", outcome: outcome(provisioner.Retry(abi.ReasonModuleFaulted, "").WithRetryAfter(time.Hour)), failed: 1, low: 5 * time.Minute, high: 330 * time.Second},
		"user action":     {reason: "parked", outcome: outcome(provisioner.UserActionRequired(abi.ReasonForbidden, "").WithRetryAfter(time.Second))},
		"stuck":           {reason: "parked, and looked at again now and then", outcome: outcome(provisioner.UserActionRequired(abi.ReasonApplicationStuck, "")), low: 9 * time.Minute, high: 11 * time.Minute},
		"missing at home": {reason: "its creation is seen", outcome: outcome(provisioner.UserActionRequired(abi.ReasonSecretMissing, "")), inputs: []v1alpha1.InputRecord{record(inputSecret, "token", "")}},
		"missing elsewhere": {
			reason: "nobody watches a remote", outcome: outcome(provisioner.UserActionRequired(abi.ReasonSecretMissing, "")),
			inputs: []v1alpha1.InputRecord{{Scope: "4be1", Kind: inputSecret, Namespace: "team", Name: "token"}}, low: 9 * time.Minute, high: 11 * time.Minute,
		},
		"terminal":       {reason: "parked", outcome: outcome(provisioner.Terminal(abi.ReasonInvalidStack, ""))},
		"shutdown":       {reason: "somebody else goes on", outcome: outcome(provisioner.ErrShutdown)},
		"terminal+yield": {reason: "progress decides the schedule", outcome: outcome(provisioner.Fold(provisioner.Terminal(abi.ReasonInvalidConfig, ""), provisioner.Yield(abi.ReasonFactsMissing, ""))), low: 9 * time.Second, high: 11 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for range 200 {
				got := requeueAfter(c.outcome, c.inputs, c.failed, resync)
				require.GreaterOrEqual(t, got, c.low, c.reason)
				require.LessOrEqual(t, got, c.high, c.reason)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	want := []time.Duration{1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for failed, seconds := range want {
		require.Equal(t, seconds*time.Second, backoff(failed), "after %d failures", failed)
	}
	require.Equal(t, retryMax, backoff(1<<40), "no overflow, and no endless loop")
}

// TestJitterSpreads proves that Stacks that were scheduled together do not stay together,
// and that the spread favours neither side.
func TestJitterSpreads(t *testing.T) {
	const d, n = time.Hour, 2000
	var sum time.Duration
	low, high := 2*d, time.Duration(0)
	for range n {
		got := jitter(d)
		sum += got
		low, high = min(low, got), max(high, got)
	}
	require.GreaterOrEqual(t, low, 54*time.Minute)
	require.LessOrEqual(t, high, 66*time.Minute)
	require.Greater(t, high-low, 10*time.Minute, "nearly the whole fifth is used")
	require.InDelta(t, float64(d), float64(sum/n), float64(time.Minute))
	require.Zero(t, jitter(0))
	require.Zero(t, notBefore(0))
}
