package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

func TestPercentile(t *testing.T) {
	cases := map[string]struct {
		reason string
		sorted []float64
		share  float64
		want   float64
	}{
		"Nothing": {reason: "nobody was looked at", share: 0.5},
		"One":     {reason: "one is every percentile", sorted: []float64{7}, share: 0.01, want: 7},
		"Median":  {reason: "the one in the middle", sorted: []float64{1, 2, 3}, share: 0.5, want: 2},
		"Last":    {reason: "the slowest of a few", sorted: []float64{1, 2, 3}, share: 0.99, want: 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { require.InDelta(t, tc.want, percentile(tc.sorted, tc.share), 0, tc.reason) })
	}
}

// reported is a run of two attacks that went well.
func reported() *report {
	return &report{
		Calm: sample{Changes: []float64{90, 100, 110}, HeartbeatGap: 20},
		Attacks: []result{
			{Name: "loop", Tries: "a loop", By: wasmtest.ByTimeout, Want: []string{"node timeout"}, Got: "node timeout", Seconds: 1.25, During: sample{Changes: []float64{120, 200, 300}, HeartbeatGap: 33, OperatorBytes: 80 << 20, WorkerBytes: 12 << 20}},
			{Name: "code", Tries: "a value", By: wasmtest.ByValue, Want: []string{"node"}, Got: "node"},
		},
	}
}

func TestVerdict(t *testing.T) {
	require.NoError(t, reported().verdict())
	cases := map[string]struct {
		reason string
		change func(r *report)
		want   string
	}{
		"Escaped":   {reason: "it ended as something else", change: func(r *report) { r.Attacks[0].Got = "node" }, want: "loop is not contained: wanted node timeout, got node"},
		"Lease":     {reason: "the operator could have lost it", change: func(r *report) { r.Attacks[1].During.LeaseMissed = 1 }, want: "code: 1 renewals"},
		"Ended":     {reason: "nobody is there any more", change: func(r *report) { r.Ended = "panic: boom" }, want: "panic: boom"},
		"Neighbour": {reason: "another tenant waits", change: func(r *report) { r.Attacks[0].During.Changes[2] = 2_001 }, want: "take 2001 ms, the target is 2000"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := reported()
			tc.change(r)
			require.ErrorContains(t, r.verdict(), tc.want, tc.reason)
		})
	}
	slow := reported()
	slow.Calm.Changes = []float64{300}
	slow.Attacks[0].During.Changes[2] = 2_900
	require.NoError(t, slow.verdict(), "on a slow machine ten times undisturbed is what counts")
}

func TestReport(t *testing.T) {
	r := reported()
	want := "attack  contained by  as            s    worker MB  operator MB  neighbour  heartbeat ms  lease missed\n" +
		"loop    timeout       node timeout  1.2  12         80           2.0        33            0\n" +
		"code    value         node OK       0.0  0          0            -          0             0\n"
	require.Contains(t, r.table(), want)
	require.Contains(t, r.table(), "2 of 2 attacks contained")
	require.Contains(t, r.markdown(), "| loop | timeout | node timeout | 1.2 | 12 | 80 | 2.0 | 33 | 0 |\n")
	require.Contains(t, r.markdown(), "* `code`: a value\n")
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"containedBy":"timeout"`)
	r.Attacks[0].Got = "node"
	require.Contains(t, r.table(), "NOT CONTAINED: node OK")
	require.Contains(t, r.table(), "1 of 2 attacks contained")
}

func TestChoose(t *testing.T) {
	all, err := choose(options{slow: true})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 60)
	quick, err := choose(options{})
	require.NoError(t, err)
	require.Less(t, len(quick), len(all))
	one, err := choose(options{only: "^loop$"})
	require.NoError(t, err)
	require.Len(t, one, 1)
	_, err = choose(options{only: "("})
	require.ErrorContains(t, err, "read -only")
	_, err = choose(options{only: "^none$"})
	require.ErrorContains(t, err, "no attack matches")
	require.ErrorContains(t, run(t.Context(), options{output: "xml"}, &bytes.Buffer{}, &bytes.Buffer{}), `unknown output "xml"`)
}

// TestEveryAttackIsDressed: each has an end to wait for, and whichever can be loaded
// declares exactly what it imports.
func TestEveryAttackIsDressed(t *testing.T) {
	for _, a := range wasmtest.Attacks() {
		require.NotEmpty(t, expectation(a), a.Name)
		wasm, capabilities, err := dress(a)
		require.NoError(t, err, a.Name)
		if a.By == wasmtest.ByPreflight || a.By == wasmtest.ByManifest {
			continue
		}
		raw, found, err := wasmfile.Manifest(wasm)
		require.NoError(t, err, a.Name)
		require.True(t, found, a.Name)
		var manifest abi.Manifest
		require.NoError(t, json.Unmarshal(raw, &manifest))
		require.NoError(t, manifest.Validate(), a.Name)
		require.Len(t, manifest.Capabilities, len(capabilities), a.Name)
	}
}

func TestStatus(t *testing.T) {
	peak, parent := status(strconv.Itoa(os.Getpid()))
	require.Positive(t, peak)
	require.Equal(t, strconv.Itoa(os.Getppid()), parent)
	require.Contains(t, children(parent), "/proc/"+strconv.Itoa(os.Getpid()))
	_, parent = status("no-such-process")
	require.Empty(t, parent)
}
