package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseCounts(t *testing.T) {
	c, err := parseCounts([]byte(`# HELP caisson_passes_total Passes of Stacks.
caisson_passes_total{phase="Provisioned"} 3
caisson_passes_total{phase="Retrying"} 1
caisson_module_calls_total{export="provision",module="a",result="OK"} 7
controller_runtime_reconcile_total{controller="stack",result="success"} 5
controller_runtime_reconcile_total{controller="module",result="success"} 50
rest_client_requests_total{code="200",host="127.0.0.1:1",method="GET"} 10
rest_client_requests_total{code="404",host="127.0.0.1:1",method="GET"} 2
rest_client_requests_total{code="200",host="127.0.0.1:1",method="PATCH"} 4
rest_client_requests_total{code="201",host="127.0.0.1:1",method="POST"} 1
go_memstats_heap_inuse_bytes 1.048576e+06
go_goroutines 42
nonsense
`))
	require.NoError(t, err)
	require.Equal(t, counts{passes: 4, calls: 7, wakes: 5, requests: map[string]float64{"GET": 12, "PATCH": 4, "POST": 1}, heap: 1 << 20, goroutines: 42}, c)
	require.InDelta(t, 5, c.writes(), 0)
	require.InDelta(t, 12, c.reads(), 0)
	require.InDelta(t, 17, c.all(), 0)
	later := counts{passes: 6, calls: 7, wakes: 9, requests: map[string]float64{"GET": 15, "PUT": 1}}
	d := later.minus(c)
	require.InDelta(t, 2, d.passes, 0)
	require.InDelta(t, 3, d.reads(), 0)
	require.InDelta(t, 15, later.requests["GET"], 0, "the later ones stay as they are")
}

func TestParseUsage(t *testing.T) {
	stat := []byte("7 (a (b) c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 300 100 20 0 1 0 100 200 300\n")
	u, err := parseUsage(stat, []byte("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"))
	require.NoError(t, err)
	require.Equal(t, usage{cpu: 2, workers: 4, resident: 1 << 20, peak: 2 << 20}, u)
	for _, broken := range []string{"", "7 (x) S 1", "7 (x) S 1 7 7 0 -1 4194304 1 2 3 4 a b c d 20"} {
		_, err := parseUsage([]byte(broken), nil)
		require.Error(t, err, broken)
	}
}

func rows() report {
	return report{Rows: []row{
		{Stacks: 100, ReadySeconds: 10, UpCPUSeconds: 5, UpWorkerSeconds: 2, UpReads: 500, UpWrites: 500, EmptyBytes: 100 << 20, ResidentBytes: 110 << 20, HeapBytes: 20 << 20, WindowSeconds: 60},
		{Stacks: 1000, ReadySeconds: 100, UpCPUSeconds: 500, UpWorkerSeconds: 20, UpReads: 5000, UpWrites: 5000, EmptyBytes: 100 << 20, ResidentBytes: 200 << 20, HeapBytes: 90 << 20, WindowSeconds: 60, IdleReads: 4},
	}}
}

func TestGrowth(t *testing.T) {
	r := rows()
	exponents := map[string]growth{}
	for _, g := range r.growth() {
		exponents[g.Measure] = g
	}
	require.InDelta(t, 1, exponents["time to all Available"].Exponent, 1e-9)
	require.True(t, exponents["time to all Available"].Linear)
	require.InDelta(t, 2, exponents["CPU of the operator until then"].Exponent, 1e-9)
	require.False(t, exponents["CPU of the operator until then"].Linear, "a hundred times the CPU for ten times the Stacks")
	require.InDelta(t, 1, exponents["memory above that without Stacks"].Exponent, 1e-9)
	r.Rows[0].UpWorkerSeconds = 0
	require.Len(t, r.growth(), len(exponents)-1, "what was too little to be seen has no growth")
	r.Rows[0].Applications = 1
	require.Empty(t, r.growth(), "other Stacks are not more Stacks")
}

func TestQuiet(t *testing.T) {
	cases := map[string]struct {
		reason string
		row    row
		want   bool
	}{
		"Nothing":   {reason: "nothing happened", row: row{WindowSeconds: 60}, want: true},
		"Rewatched": {reason: "informers open their watches again", row: row{WindowSeconds: 60, IdleReads: watchesOfAnOperator}, want: true},
		"Reads":     {reason: "more than that are reads", row: row{WindowSeconds: 60, IdleReads: watchesOfAnOperator + 1}},
		"Writes":    {reason: "not one write", row: row{WindowSeconds: 60, IdleWrites: 1}},
		"Passes":    {reason: "not one pass", row: row{WindowSeconds: 60, IdlePasses: 1}},
		"Calls":     {reason: "not one call", row: row{WindowSeconds: 60, IdleCalls: 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.row.quiet(), c.reason) })
	}
}

func TestReports(t *testing.T) {
	r := rows()
	r.Fairness = []unfairness{compare("none", []time.Duration{time.Second}, []time.Duration{2 * time.Second})}
	require.InDelta(t, 2, r.Fairness[0].Ratio, 1e-9)
	var text, raw bytes.Buffer
	require.NoError(t, r.markdown(&text))
	require.Contains(t, text.String(), "| Stacks | 100 | 1000 |")
	require.Contains(t, text.String(), "| CPU of the operator until then | 100 | 1000 | 2.00 | **no** |")
	require.Contains(t, text.String(), "| none | 2000 ms | 2000 ms | ×2.00 | ×2.00 |")
	require.NoError(t, r.write(options{}, &raw, false))
	require.Empty(t, raw.Bytes(), "it is not complete")
	file := filepath.Join(t.TempDir(), "report")
	require.NoError(t, r.write(options{file: file}, &raw, false))
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text.String(), string(written))
	require.NoError(t, r.write(options{output: "json"}, &raw, true))
	var back struct {
		Rows   []row
		Growth []growth
	}
	require.NoError(t, json.Unmarshal(raw.Bytes(), &back))
	require.Equal(t, r.Rows, back.Rows)
	require.Equal(t, r.growth(), back.Growth)
}

func TestQuantile(t *testing.T) {
	values := []time.Duration{5, 1, 4, 2, 3}
	require.Equal(t, time.Duration(3), quantile(values, 0.5))
	require.Equal(t, time.Duration(5), quantile(values, 0.95))
	require.Zero(t, quantile(nil, 0.5))
}

func TestEach(t *testing.T) {
	seen := make([]int, 100)
	require.NoError(t, each(len(seen), func(i int) error { seen[i]++; return nil }))
	for i, n := range seen {
		require.Equal(t, 1, n, "%d", i)
	}
	broken := errors.New("broken")
	require.ErrorIs(t, each(100, func(i int) error {
		if i == 7 {
			return broken
		}
		return nil
	}), broken)
}

func TestFlags(t *testing.T) {
	var help bytes.Buffer
	o, err := parseFlags([]string{"-n", "10, 20/0", "-applications", "2", "-o", "json"}, &help)
	require.NoError(t, err)
	require.Equal(t, []load{{stacks: 10, applications: 2}, {stacks: 20}}, o.sizes)
	for _, bad := range [][]string{{"-n", "0"}, {"-n", "x"}, {"-n", "1/x"}, {"-n", "1/8"}, {"-applications", "8"}, {"-o", "yaml"}} {
		_, err := parseFlags(bad, &help)
		require.Error(t, err, "%v", bad)
	}
}

// TestStacks: each has ten nodes, as many applications as asked, and together they use
// all modules equally.
func TestStacks(t *testing.T) {
	for applications := range leaves + 1 {
		l := load{stacks: 40, applications: applications}
		used := map[string]int{}
		for i := range l.stacks {
			found := 0
			stack := l.stack(i)
			require.Len(t, stack.Spec.Provisioners, leaves+3)
			for _, n := range stack.Spec.Provisioners {
				if n.Application != nil {
					found++
				}
				if n.Module != nil {
					used[n.Module.Ref]++
				}
			}
			require.Equal(t, applications, found)
		}
		if applications == 0 {
			require.Len(t, used, moduleCount)
			for name, times := range used {
				require.Equal(t, l.stacks*leaves/moduleCount, times, name)
			}
		}
	}
}
