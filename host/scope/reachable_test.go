package scope_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/scope"
)

func TestReachable(t *testing.T) {
	for name, test := range map[string]struct {
		reason       string
		status       int
		body         string
		unauthorized bool
		ok           bool
	}{
		"Version":      {"it answers as an API server", http.StatusOK, `{"gitVersion":"v1.37.2"}`, false, true},
		"Forbidden":    {"it answers, and hides its version", http.StatusForbidden, `{"kind":"Status"}`, false, true},
		"Unauthorized": {"it answers, and does not know us", http.StatusUnauthorized, `{"kind":"Status"}`, true, false},
		"Down":         {"a load balancer without a backend", http.StatusServiceUnavailable, "", false, false},
		"NotAnAPI":     {"a web site", http.StatusOK, "<html>xyzzy</html>", false, false},
		"OtherJSON":    {"some other API", http.StatusOK, `{"status":"xyzzy"}`, false, false},
		"Endless":      {"an answer that does not end is not read to its end", http.StatusOK, strings.Repeat(" ", 1<<20) + `{"gitVersion":"v1"}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t)
			server.status.Store(int64(test.status))
			server.body.Store(test.body)
			cache := scope.NewClientCache(scope.ClientCacheOptions{})
			connection, err := cache.Remote(server.kubeconfig())
			require.NoError(t, err)
			err = cache.Reachable(t.Context(), connection)
			require.Equal(t, "Bearer s3cr3t", server.token.Load(), "the question is asked with the credential")
			if test.ok {
				require.NoError(t, err, test.reason)
				return
			}
			require.Error(t, err, test.reason)
			require.NotContains(t, err.Error(), "xyzzy", "nothing of the answer is in the error")
			require.Equal(t, test.unauthorized, errorIs(err, scope.ErrUnauthorized), test.reason)
		})
	}
}

func TestReachableRefusesAStranger(t *testing.T) {
	server := newAPIServer(t)
	other, _ := keyPair(t, "other")
	config := server.kubeconfig()
	config.Clusters["their-cluster"].CertificateAuthorityData = other
	cache := scope.NewClientCache(scope.ClientCacheOptions{})
	connection, err := cache.Remote(config)
	require.NoError(t, err)
	require.ErrorContains(t, cache.Reachable(t.Context(), connection), "certificate")
	require.Zero(t, server.asked.Load(), "nobody was shown the token")
}

func TestReachableFollowsNoRedirect(t *testing.T) {
	inside := newAPIServer(t)
	redirecting := httptest.NewTLSServer(http.RedirectHandler(inside.URL+"/version", http.StatusTemporaryRedirect))
	defer redirecting.Close()
	config := kubeconfig(redirecting.URL)
	config.Clusters["their-cluster"].InsecureSkipTLSVerify = true
	cache := scope.NewClientCache(scope.ClientCacheOptions{Policy: scope.KubeconfigPolicy{AllowInsecureTLS: true}})
	connection, err := cache.Remote(config)
	require.NoError(t, err)
	require.Error(t, cache.Reachable(t.Context(), connection))
	require.Zero(t, inside.asked.Load(), "a remote cannot send the operator elsewhere")
}

func TestReachableIsRemembered(t *testing.T) {
	server := newAPIServer(t)
	clock := newClock()
	cache := scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now})
	connection, err := cache.Remote(server.kubeconfig())
	require.NoError(t, err)
	require.NoError(t, cache.Reachable(t.Context(), connection))
	server.status.Store(http.StatusServiceUnavailable)
	clock.advance(2 * time.Second)
	require.NoError(t, cache.Reachable(t.Context(), connection))
	require.EqualValues(t, 1, server.asked.Load())
	clock.advance(2 * time.Second)
	require.Error(t, cache.Reachable(t.Context(), connection), "for a few seconds only")
	require.Error(t, cache.Reachable(t.Context(), connection))
	require.EqualValues(t, 2, server.asked.Load(), "a failure is remembered too")
	server.status.Store(http.StatusOK)
	clock.advance(4 * time.Second)
	require.NoError(t, cache.Reachable(t.Context(), connection))
}

func TestReachableOfAClosedPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	cache := scope.NewClientCache(scope.ClientCacheOptions{})
	connection, err := cache.Remote(kubeconfig("https://" + address))
	require.NoError(t, err)
	err = cache.Reachable(t.Context(), connection)
	require.ErrorContains(t, err, "refused")
	require.NotContains(t, err.Error(), "s3cr3t")
}

func TestReachableServesOthersWhenOneLeaves(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = w.Write([]byte(`{"gitVersion":"v1.37.2"}`))
	}))
	defer server.Close()
	cache := scope.NewClientCache(scope.ClientCacheOptions{Policy: scope.KubeconfigPolicy{AllowInsecureTLS: true}})
	connection, err := cache.Remote(kubeconfig(server.URL))
	require.NoError(t, err)

	impatient, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- cache.Reachable(impatient, connection) }()
	<-asked
	leave()
	require.ErrorIs(t, <-left, context.Canceled, "a caller does not wait beyond its own end")

	stayed := make(chan error, 1)
	go func() { stayed <- cache.Reachable(context.WithoutCancel(impatient), connection) }()
	close(answer)
	require.NoError(t, <-stayed, "and takes nobody with it")
}

// TestSilenceHoldsUpOneCaller: while one asks whether a silent cluster is back, the others
// are told at once that it is not known to be.
func TestSilenceHoldsUpOneCaller(t *testing.T) {
	var silent atomic.Bool
	silent.Store(true)
	asked := make(chan struct{}, 100)
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		if silent.Load() {
			<-r.Context().Done()
			return
		}
		<-answer
		_, _ = w.Write([]byte(`{"gitVersion":"v1.37.2"}`))
	}))
	defer server.Close()
	clock := newClock()
	cache := scope.NewClientCache(scope.ClientCacheOptions{
		Now: clock.Now, ProbeTimeout: 50 * time.Millisecond, Policy: scope.KubeconfigPolicy{AllowInsecureTLS: true},
	})
	connection, err := cache.Remote(kubeconfig(server.URL))
	require.NoError(t, err)
	require.Error(t, cache.Reachable(t.Context(), connection))
	<-asked

	silent.Store(false)
	patient := scope.NewClientCache(scope.ClientCacheOptions{Now: clock.Now, ProbeTimeout: time.Minute})
	clock.advance(time.Minute)
	first := make(chan error, 1)
	go func() { first <- patient.Reachable(t.Context(), connection) }()
	<-asked
	for range 20 {
		require.Error(t, patient.Reachable(t.Context(), connection), "what is known is the silence")
	}
	require.Empty(t, asked, "nobody else asks")
	close(answer)
	require.NoError(t, <-first)
	require.NoError(t, patient.Reachable(t.Context(), connection))
}
