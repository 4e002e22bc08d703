package helm

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/cd/cdtest"
)

// TestRepositoryOutage is the life of an application while the repository of its chart
// hangs: what is there keeps being changed and repaired, also by the next process.
func TestRepositoryOutage(t *testing.T) {
	b := newBench(t)
	var away atomic.Bool
	behind, err := url.Parse(b.Repository.URL)
	require.NoError(t, err)
	through := httputil.NewSingleHostReverseProxy(behind)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			<-r.Context().Done()
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	dir := t.TempDir()
	start := func() *Driver {
		return newDriver(t, b.Operator, b.Namespace, func(o *Options) {
			o.CacheDir, o.Now, o.Timeouts.Resolve, o.Timeouts.Pull = dir, b.clock.now, 100*time.Millisecond, time.Second
		})
	}
	b.driver = start()
	app := b.tenant.Application()
	app.Repo = front.URL
	cdtest.Ready(t, b.ensure(t, app))
	loseSettings := func() {
		t.Helper()
		lost := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.tenant.Namespace, Name: "app-settings"}}
		require.NoError(t, b.Admin.Delete(t.Context(), lost))
		require.Nil(t, b.tenant.Settings(t))
	}

	away.Store(true)
	app.Values = map[string]any{"greeting": "moin"}
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, "moin", b.tenant.Settings(t)["greeting"], "values change")
	loseSettings()
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, "moin", b.tenant.Settings(t)["greeting"], "drift is repaired")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, b.driver.Close(ctx))
	b.driver = start()
	loseSettings()
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, "moin", b.tenant.Settings(t)["greeting"], "by the next process too")
	app.Values = map[string]any{"greeting": "servus"}
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, "servus", b.tenant.Settings(t)["greeting"])

	app.Version = "2.0.0"
	outcome := cdtest.UntilReason(t, b.ensure(t, app), abi.ReasonChartUnavailable)
	require.Equal(t, abi.Yield, outcome.Class, "what was never seen is waited for")
	require.Equal(t, "1.0.0", b.tenant.Settings(t)["version"], "and what there is stays")
	away.Store(false)
	cdtest.Ready(t, b.ensure(t, app))
	require.Equal(t, "2.0.0", b.tenant.Settings(t)["version"])
}
