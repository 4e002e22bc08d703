package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

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
		Calm:   sample{Changes: []float64{90, 100, 110}, HeartbeatGap: 20},
		Honest: sample{Changes: []float64{100, 110, 132}},
		Attacks: []result{
			{Name: "loop", Tries: "a loop", By: wasmtest.ByTimeout, Want: []string{"node timeout"}, Got: "node timeout", Seconds: 1.25, During: sample{Changes: []float64{120, 200, 250}, HeartbeatGap: 33, OperatorBytes: 80 << 20, WorkerBytes: 12 << 20}},
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
		"Neighbour": {reason: "another tenant waits", change: func(r *report) { r.Attacks[0].During.Changes[2] = 280 }, want: "take 280 ms, the target is 275 ms"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := reported()
			tc.change(r)
			require.ErrorContains(t, r.verdict(), tc.want, tc.reason)
		})
	}
	quick := reported()
	quick.Calm.Changes = []float64{10}
	quick.Attacks[0].During.Changes = []float64{140}
	require.NoError(t, quick.verdict(), "what nobody notices is not a fault, whatever the ratio")
}

// TestSample: what is seen in parts is one sample, and sorted.
func TestSample(t *testing.T) {
	s := sample{Changes: []float64{2, 3}, HeartbeatGap: 5, LeaseMissed: 1, OperatorBytes: 7, WorkerBytes: 2}
	s.add(sample{Changes: []float64{1}, HeartbeatGap: 4, LeaseMissed: 1, OperatorBytes: 6, WorkerBytes: 3})
	require.Equal(t, sample{Changes: []float64{1, 2, 3}, HeartbeatGap: 5, LeaseMissed: 2, OperatorBytes: 7, WorkerBytes: 3}, s)
}

func TestReport(t *testing.T) {
	r := reported()
	want := "attack  contained by  as            s    worker MB  operator MB  neighbour  heartbeat ms  lease missed\n" +
		"loop    timeout       node timeout  1.2  12         80           2.0        33            0\n" +
		"code    value         node OK       0.0  0          0            -          0             0\n"
	require.Contains(t, r.table(), want)
	require.Contains(t, r.table(), "2 of 2 attacks contained. A change of the neighbour takes 100 ms (p99 110, n=3) undisturbed, "+
		"110 ms (p99 132, n=3) beside a harmless module that comes and goes, and 200 ms (p99 250, n=3) under attack; the slowest hundredth 1.2 and 2.3 times as long.\n")
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

// TestDescendants: a worker is a child of a child.
func TestDescendants(t *testing.T) {
	shell := exec.CommandContext(t.Context(), "sh", "-c", "sh -c 'sleep 60; true'; true")
	require.NoError(t, shell.Start())
	t.Cleanup(func() { _ = shell.Wait() })
	mine := strconv.Itoa(os.Getpid())
	require.Eventually(t, func() bool {
		found := descendants(mine)
		return len(found) == 3 && found[0] == strconv.Itoa(shell.Process.Pid) && peak(found[2]) > 0
	}, 10*time.Second, 10*time.Millisecond, "the shell, its shell and that one's sleep")
	for _, pid := range descendants(mine) {
		id, err := strconv.Atoi(pid)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(id, syscall.SIGKILL))
	}
	require.Positive(t, peak(mine))
	require.Zero(t, peak("no-such-process"))
	require.Empty(t, descendants("no-such-process"))
}
