package faults

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallOf(t *testing.T) {
	cases := map[string]struct {
		reason string
		method string
		target string
		want   string
	}{
		"Hash":    {reason: "names have hashes of the owner's UID", method: http.MethodGet, target: "/api/v1/namespaces/caisson-system/secrets/caisson-inventory-0123456789abcdef0123", want: "home GET /api/v1/namespaces/caisson-system/secrets/caisson-inventory-*"},
		"Lane":    {reason: "lanes, and rounds of one, are alike", method: http.MethodPatch, target: "/apis/apps/v1/namespaces/lane-b-3/deployments/web-12345678?fieldManager=caisson", want: "home PATCH /apis/apps/v1/namespaces/LANE/deployments/web-*"},
		"Release": {reason: "the revision of a release is part of what is asked for", method: http.MethodPut, target: "/api/v1/namespaces/lane-a-0/secrets/sh.helm.release.v1.web-12345678.v2", want: "home PUT /api/v1/namespaces/LANE/secrets/sh.helm.release.v1.web-*.v2"},
		"DryRun":  {reason: "one that does nothing is another call", method: http.MethodPatch, target: "/api/v1/namespaces/lane-a-0/configmaps/x?dryRun=All", want: "home PATCH /api/v1/namespaces/LANE/configmaps/x (dry run)"},
		"Watch":   {reason: "watches stay open", method: http.MethodGet, target: "/api/v1/secrets?watch=true"},
		"Lease":   {reason: "leases go by the clock", method: http.MethodPut, target: "/apis/coordination.k8s.io/v1/namespaces/caisson-system/leases/caisson-operator"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, counts := callOf("home", httptest.NewRequestWithContext(t.Context(), tc.method, tc.target, http.NoBody))
			require.Equal(t, tc.want != "", counts, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

func TestScriptHitsOnce(t *testing.T) {
	s := &script{}
	require.Empty(t, s.note("a"), "nothing has begun")
	s.begin(&injection{phase: phaseUp, point: point{call: "a", nth: 2}, fault: faultCut})
	require.Empty(t, s.note("a"))
	require.Empty(t, s.note("b"))
	require.Equal(t, faultCut, s.note("a"))
	require.Empty(t, s.note("a"))
	points, hit := s.end()
	require.True(t, hit)
	require.Equal(t, []point{{"a", 1}, {"b", 1}, {"a", 2}, {"a", 3}}, points)
	s.begin(nil)
	points, hit = s.end()
	require.False(t, hit)
	require.Empty(t, points)
}

func TestFaultsAt(t *testing.T) {
	require.Equal(t, targetRead, point{call: "home GET /api"}.of())
	require.Equal(t, targetWrite, point{call: "workload DELETE /api"}.of())
	require.Equal(t, targetModule, point{call: "worker provision all/a"}.of())
	for _, of := range []target{targetRead, targetWrite, targetModule} {
		require.Contains(t, faultsAt(of), faultKill, of)
		require.Contains(t, faultsAt(of), faultLeader, of)
		require.Equal(t, of == targetWrite, slices.Contains(faultsAt(of), faultConflict), "only a write can be in conflict")
	}
}

// madeUp are phases with so many reads, writes and module calls.
func madeUp(reads, writes, calls int) map[phase]expectation {
	known := map[phase]expectation{}
	for _, p := range phases() {
		var points []point
		for kind, n := range map[string]int{"home GET /": reads, "home PUT /": writes, "worker provision ": calls} {
			for i := range n {
				points = append(points, point{call: fmt.Sprintf("%s%03d", kind, i), nth: 1})
			}
		}
		known[p] = expectation{points: union(points, points)}
	}
	return known
}

// everyOne matches every injection.
var everyOne = regexp.MustCompile("")

func TestArrangeOnlySome(t *testing.T) {
	runs := arrange(injections(madeUp(5, 3, 1)), regexp.MustCompile(`^up: conflict at .*001`))
	require.Equal(t, []run{{phaseUp: {phase: phaseUp, point: point{call: "home PUT /001", nth: 1}, fault: faultConflict}}}, runs)
}

func TestArrangeLosesNothing(t *testing.T) {
	all := injections(madeUp(5, 3, 1))
	require.Len(t, all, 3*(5*4+3*8+1*6))
	seen := map[injection]int{}
	for _, r := range arrange(all, everyOne) {
		modes := map[mode]bool{}
		for p, i := range r {
			require.Equal(t, p, i.phase)
			modes[modeOf(i.fault)] = true
			seen[i]++
		}
		require.Len(t, modes, 1, "a run needs one set of operators")
	}
	require.Len(t, seen, len(all))
	for i, n := range seen {
		require.Equal(t, 1, n, i)
	}
}

func TestSample(t *testing.T) {
	runs := arrange(injections(madeUp(80, 28, 4)), everyOne)
	require.Equal(t, runs, sample(runs, "all"))
	taken := sample(runs, "")
	require.Len(t, taken, sampleRuns)
	require.Equal(t, taken, sample(runs, ""), "the same every time")
	require.Equal(t, runs, sample(runs, fmt.Sprint(len(runs)+1)))
	seen := map[fault]bool{}
	for _, r := range taken {
		for _, i := range r {
			seen[i.fault] = true
		}
	}
	for _, f := range []fault{faultError, faultLost, faultConflict, faultSilence, faultCut, faultKill, faultKillAfter, faultLeader} {
		require.True(t, seen[f], "%s gets its turn even in the smallest sample", f)
	}
}

func TestDifference(t *testing.T) {
	require.Empty(t, difference([]string{"a", "b"}, []string{"b", "a"}))
	require.Equal(t, []string{"+ b", "- a"}, difference([]string{"a"}, []string{"b"}))
	require.Equal(t, []string{"+ a"}, difference([]string{"a"}, []string{"a", "a"}), "what is doubled is a difference")
}

func TestViewHidesWhatDiffers(t *testing.T) {
	v := &view{names: map[string]string{"token-abc": "TOKEN", "web-12345678": "<all/web>"}}
	v.addf("b %s %s", "web-12345678-first", "0123456789abcdef")
	v.addf("a token-abc")
	require.Equal(t, []string{"a TOKEN", "b <all/web>-first #"}, v.sorted())
}

func TestFrames(t *testing.T) {
	frame := func(typ byte, payload string) []byte {
		f := binary.LittleEndian.AppendUint32(nil, uint32(len(payload)))
		return append(append(f, typ, 0, 0, 0, 7), payload...)
	}
	sent := append(frame(frameCall, "one"), frame(frameResult, "")...)
	var passed bytes.Buffer
	var seen []string
	err := frames(bytes.NewReader(sent), &passed, func(typ byte, payload []byte) { seen = append(seen, fmt.Sprint(typ, string(payload))) })
	require.Error(t, err, "the stream has ended")
	require.Equal(t, []string{fmt.Sprint(frameCall, "one"), fmt.Sprint(frameResult)}, seen)
	require.Equal(t, sent, passed.Bytes(), "and is passed on as it was")
}
