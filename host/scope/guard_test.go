package scope_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/caisson-dev/caisson/host/scope"
)

// moody is an API server that can fall silent, as one does whose process is stopped.
type moody struct {
	*httptest.Server

	mu     sync.Mutex
	silent chan struct{} // closed when it goes on; nil while it answers
	// versions and others count the requests that came in.
	versions, others atomic.Int64
}

func newMoody(tb testing.TB) *moody {
	tb.Helper()
	m := &moody{}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	tb.Cleanup(func() {
		m.goOn()
		m.Close()
	})
	return m
}

func (m *moody) serve(w http.ResponseWriter, r *http.Request) {
	version := r.URL.Path == "/version"
	if version {
		m.versions.Add(1)
	} else {
		m.others.Add(1)
	}
	if strings.HasPrefix(r.URL.Path, "/headers") {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
	}
	if r.URL.Path == "/slow" {
		<-time.After(200 * time.Millisecond) // it is what is tested: a server that thinks
	}
	m.wait(r.Context())
	if version {
		_, _ = io.WriteString(w, `{"gitVersion":"v1.37.2"}`)
		return
	}
	_, _ = io.WriteString(w, "done")
}

func (m *moody) wait(ctx context.Context) {
	m.mu.Lock()
	silent := m.silent
	m.mu.Unlock()
	if silent == nil {
		return
	}
	select {
	case <-silent:
	case <-ctx.Done():
	}
}

func (m *moody) fallSilent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = make(chan struct{})
}

func (m *moody) goOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent != nil {
		close(m.silent)
		m.silent = nil
	}
}

// guardedWorld is a moody server with a connection to it, whose probes are quick.
type guardedWorld struct {
	*moody

	clock      *clock
	cache      *scope.ClientCache
	connection *scope.Connection
	client     *http.Client
}

func newGuarded(tb testing.TB) *guardedWorld {
	tb.Helper()
	w := &guardedWorld{moody: newMoody(tb), clock: newClock()}
	w.cache = scope.NewClientCache(scope.ClientCacheOptions{
		Policy: plain(), ProbeTimeout: 100 * time.Millisecond, SlowAfter: 20 * time.Millisecond, Now: w.clock.Now,
	})
	var err error
	w.connection, err = w.cache.Remote(kubeconfig(w.URL))
	require.NoError(tb, err)
	// As a driver does that makes clients of its own.
	w.client, err = rest.HTTPClientFor(w.connection.Config())
	require.NoError(tb, err)
	require.NoError(tb, w.cache.Reachable(tb.Context(), w.connection), "it answered a moment ago")
	return w
}

// pass is the context of a pass.
func pass(tb testing.TB) context.Context {
	tb.Helper()
	return scope.NewContext(tb.Context(), scope.NewHome(scope.Owner{}, nil, nil))
}

// do sends a request and reads the whole answer.
func (w *guardedWorld) do(ctx context.Context, method, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, w.URL+path, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestGuardGivesUpASilentCluster(t *testing.T) {
	for name, test := range map[string]struct {
		reason       string
		method, path string
	}{
		"Read":  {"it reads", http.MethodGet, "/api/v1/pods"},
		"Write": {"a pass is not held by a write either", http.MethodPatch, "/api/v1/pods/x"},
		"Body":  {"it fell silent in the middle of an answer", http.MethodGet, "/headers"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGuarded(t)
			w.fallSilent()
			_, err := w.do(pass(t), test.method, test.path)
			require.ErrorIs(t, err, scope.ErrSilent, test.reason)
			require.NotContains(t, err.Error(), "s3cr3t")

			asked := w.versions.Load() + w.others.Load()
			for range 3 {
				_, err = w.do(pass(t), test.method, test.path)
				require.ErrorIs(t, err, scope.ErrSilent)
				var network net.Error
				require.ErrorAs(t, err, &network, "drivers take it for a failure of the network")
			}
			require.Error(t, w.cache.Reachable(t.Context(), w.connection))
			require.Equal(t, asked, w.versions.Load()+w.others.Load(), "nothing is sent any more")
			require.Positive(t, w.cache.AskAgainIn(w.connection))

			w.goOn()
			w.clock.advance(time.Minute)
			body, err := w.do(pass(t), test.method, test.path)
			require.NoError(t, err, "it is asked again first, and then used")
			require.Equal(t, "done", body)
		})
	}
}

func TestGuardKeepsTheClientsOfOneConnectionTogether(t *testing.T) {
	w := newGuarded(t)
	w.fallSilent()
	_, err := w.do(pass(t), http.MethodGet, "/api/v1/pods")
	require.ErrorIs(t, err, scope.ErrSilent)
	err = w.connection.Client().Get(t.Context(), configMapKey, configMap())
	require.ErrorIs(t, err, scope.ErrSilent, "what one has found out counts for the others")
}

func TestGuardLeavesASlowServerAlone(t *testing.T) {
	w := newGuarded(t)
	body, err := w.do(pass(t), http.MethodGet, "/slow")
	require.NoError(t, err)
	require.Equal(t, "done", body)
	require.Greater(t, w.versions.Load(), int64(1), "it was asked in between")
	require.False(t, w.connection.LastAnswer().IsZero())
}

func TestGuardTakesARefusalForAnAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		<-time.After(100 * time.Millisecond) // longer than a request stays undoubted
	}))
	defer server.Close()
	cache := scope.NewClientCache(scope.ClientCacheOptions{Policy: plain(), SlowAfter: 10 * time.Millisecond})
	connection, err := cache.Remote(kubeconfig(server.URL))
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(connection.Config())
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(pass(t), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
}

func TestGuardSparesActionsInTheBackground(t *testing.T) {
	w := newGuarded(t)
	w.fallSilent()
	_, err := w.do(pass(t), http.MethodGet, "/api/v1/pods")
	require.ErrorIs(t, err, scope.ErrSilent)

	ended := make(chan error, 1)
	go func() {
		_, err := w.do(t.Context(), http.MethodPost, "/api/v1/pods")
		ended <- err
	}()
	require.Eventually(t, func() bool { return w.others.Load() == 2 }, time.Minute, time.Millisecond, "it is sent all the same")
	w.goOn()
	require.NoError(t, <-ended, "and waited for")
}

func TestGuardAndWatches(t *testing.T) {
	w := newGuarded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"/headers?watch=true", http.NoBody)
	require.NoError(t, err)
	w.fallSilent()
	response, err := w.client.Do(request)
	require.NoError(t, err)
	_, err = w.do(pass(t), http.MethodGet, "/api/v1/pods")
	require.ErrorIs(t, err, scope.ErrSilent)
	_, err = w.do(t.Context(), http.MethodGet, "/headers?watch=1")
	require.ErrorIs(t, err, scope.ErrSilent, "none is opened on a silent cluster")
	w.goOn()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err, "one that is open lives on")
	require.Equal(t, "done", string(body))
	require.NoError(t, response.Body.Close())
}

func TestGuardTellsAnEndOfTheCallerFromSilence(t *testing.T) {
	w := newGuarded(t)
	w.fallSilent()
	ctx, cancel := context.WithCancel(pass(t))
	cancel()
	_, err := w.do(ctx, http.MethodGet, "/api/v1/pods")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, scope.ErrSilent)
}

func TestGuardIsNotAtHome(t *testing.T) {
	server := newMoody(t)
	cache := scope.NewClientCache(scope.ClientCacheOptions{Home: &rest.Config{Host: server.URL}, SlowAfter: time.Millisecond})
	connection, err := cache.Tenant("team-a", "platform")
	require.NoError(t, err)
	require.Nil(t, connection.Config().WrapTransport, "nothing works while home is silent, and it may be silent for a while")
}

func TestHammerGuard(t *testing.T) {
	w := newGuarded(t)
	var all sync.WaitGroup
	stop := make(chan struct{})
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%2 == 0 {
				w.fallSilent()
			} else {
				w.goOn()
			}
			w.clock.advance(10 * time.Second)
			_ = w.cache.Reachable(t.Context(), w.connection)
		}
	})
	var callers sync.WaitGroup
	for i := range 16 {
		callers.Go(func() {
			for n := range 20 {
				_, err := w.do(pass(t), http.MethodGet, fmt.Sprintf("/api/%d/%d", i, n))
				if err != nil {
					require.ErrorIs(t, err, scope.ErrSilent)
				}
			}
		})
	}
	callers.Wait()
	close(stop)
	all.Wait()
	w.goOn()
	w.clock.advance(time.Minute)
	_, err := w.do(pass(t), http.MethodGet, "/api")
	require.NoError(t, err)
}
