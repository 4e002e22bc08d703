package host_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/caisson-dev/caisson/host"
)

// embedded is an operator in a manager of this process, beside the one of the rig.
type embedded struct {
	requests   *requestLog
	log        *syncBuffer
	collectors *prometheus.Registry
	stop       func()
}

// embed runs an operator with the identity that we ship, as the leader, until it is
// stopped. Operators of one cache directory are one that is restarted.
func (r *rig) embed(t *testing.T, cacheDir string) *embedded {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	e := &embedded{requests: &requestLog{}, log: &syncBuffer{}, collectors: prometheus.NewRegistry()}
	access, err := r.operatorConfig(t.Context())
	require.NoError(t, err)
	// The API server is what limits, not the client: the test is about what is asked.
	access.QPS = -1
	access.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return e.requests.wrap(next) }
	logger := funcr.New(func(prefix, args string) { _, _ = e.log.Write([]byte(prefix + " " + args + "\n")) }, funcr.Options{Verbosity: 1})
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: r.admin.Scheme(), Logger: logger, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache:          cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		LeaderElection: true, LeaderElectionID: "caisson-operator", LeaderElectionNamespace: operatorNamespace, LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	require.NoError(t, err)
	require.NoError(t, host.New(ctx, mgr, host.Options{
		Namespace: operatorNamespace, CacheDir: cacheDir, Worker: []string{r.worker}, Metrics: e.collectors, Logger: logger,
	}))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	e.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-ended)
	}
	t.Cleanup(e.stop)
	return e
}

// byWord counts requests by what they are for: the method, and what is asked for without
// the names that differ from Stack to Stack.
func byWord(requests []string) map[string]int {
	counts := map[string]int{}
	for _, request := range requests {
		method, rest, _ := strings.Cut(request, " ")
		path, _, _ := strings.Cut(rest, " ")
		if discovery(path) {
			path = "discovery"
		}
		counts[method+" "+path]++
	}
	return counts
}

// discovery reports whether a path asks the API server what it serves.
func discovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch parts[0] {
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	default:
		return parts[0] == "version" || parts[0] == "openapi"
	}
}
