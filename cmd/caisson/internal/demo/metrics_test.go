package demo

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
)

const metricsText = `# HELP caisson_module_calls_total Calls of modules.
# TYPE caisson_module_calls_total counter
caisson_module_calls_total{module="cilium",result="OK"} 3
caisson_module_calls_total{module="storage",result="Yield"} 2
caisson_module_calls_total_of_something_else{} 100
caisson_passes_total{result="OK"} 1e+01
caisson_node_outcomes_total{disposition="Yield",kind="module"} 4
caisson_node_outcomes_total{disposition="OK",kind="module"} 9
caisson_node_outcomes_total{disposition="Yield",kind="application"} 1
rest_client_requests_total{code="200",host="127.0.0.1",method="GET"} 12
rest_client_requests_total{code="201",host="127.0.0.1",method="POST"} 1

go_goroutines 50
`

func TestParseCounters(t *testing.T) {
	got, err := parseCounters(strings.NewReader(metricsText))
	require.NoError(t, err)
	require.Equal(t, counters{calls: 5, passes: 10, yields: 5, requests: 13}, got)
	got, err = parseCounters(strings.NewReader(""))
	require.NoError(t, err)
	require.Zero(t, got, "an operator that has done nothing yet has no series")
	_, err = parseCounters(strings.NewReader(strings.Repeat("x", 2<<20)))
	require.ErrorContains(t, err, "read metrics: ")
	require.Equal(t, counters{calls: 1, yields: 2, requests: 3, passes: 4},
		counters{calls: 2, yields: 4, requests: 6, passes: 8}.minus(counters{calls: 1, yields: 2, requests: 3, passes: 4}))
}

func TestSample(t *testing.T) {
	cases := map[string]struct {
		reason string
		line   string
		name   string
		value  float64
		ok     bool
	}{
		"Plain":    {reason: "name and value", line: "x 1.5", name: "x", value: 1.5, ok: true},
		"Labels":   {reason: "labels belong to the name, spaces in them too", line: `x{a="b c"} 2`, name: `x{a="b c"}`, value: 2, ok: true},
		"Comment":  {reason: "comments are no samples", line: "# HELP x 1"},
		"NoValue":  {reason: "a name alone says nothing", line: "x"},
		"NoNumber": {reason: "nor does a word", line: "x y", name: "x"},
		"Empty":    {reason: "an empty line is none", line: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			name, value, ok := sample(tc.line)
			require.Equal(t, tc.ok, ok, tc.reason)
			require.Equal(t, tc.name, name, tc.reason)
			require.InDelta(t, tc.value, value, 0, tc.reason)
		})
	}
}

func FuzzParseCounters(f *testing.F) {
	f.Add(metricsText)
	f.Add("caisson_passes_total{ NaN")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parseCounters(strings.NewReader(text)); err != nil {
			require.ErrorContains(t, err, "read metrics: ")
		}
	})
}

// operatorWith serves metrics as an operator does.
func operatorWith(t *testing.T, metrics func() (int, string)) *devenv.Operator {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		code, text := metrics()
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return &devenv.Operator{Metrics: server.URL}
}

func TestCounters(t *testing.T) {
	d := &demo{operator: operatorWith(t, func() (int, string) { return http.StatusOK, metricsText })}
	got, err := d.counters(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 5, got.calls, 0)

	d.operator = operatorWith(t, func() (int, string) { return http.StatusInternalServerError, metricsText })
	_, err = d.counters(t.Context())
	require.EqualError(t, err, "read metrics: 500 Internal Server Error")
	d.operator = &devenv.Operator{Metrics: "http://127.0.0.1:1"}
	_, err = d.counters(t.Context())
	require.ErrorContains(t, err, "read metrics: ", "an operator that is gone")
}

func TestParseLoad(t *testing.T) {
	text := `# HELP rest_client_requests_total Number of HTTP requests
rest_client_requests_total{code="200",host="127.0.0.1:6443",method="PUT"} 15
rest_client_requests_total{code="200",host="127.0.0.1:64430",method="GET"} 2
caisson_passes_total{phase="Provisioned"} 4
caisson_module_calls_total{export="provision",module="cilium",result="OK"} 6
caisson_module_calls_total{export="provision",module="cilium",result="fault"} 2
caisson_module_calls_total{export="deprovision",module="storage",result="fault"} 1
`
	l, err := parseLoad(strings.NewReader(text), "127.0.0.1:6443")
	require.NoError(t, err)
	require.Equal(t, load{counters: counters{calls: 9, passes: 4, requests: 17}, home: 15, remote: 2}, l, "a host is compared whole")
	faults, err := parseFaults(strings.NewReader(text))
	require.NoError(t, err)
	require.InDelta(t, 3, faults, 0)

	_, err = parseLoad(strings.NewReader(strings.Repeat("x", 2<<20)), "")
	require.ErrorContains(t, err, "read metrics: ")
	_, err = parseFaults(strings.NewReader(strings.Repeat("x", 2<<20)))
	require.ErrorContains(t, err, "read metrics: ")
}
