package registry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// attempts is how often a request that fails with a status of 500 or above is made.
const attempts = 3

// session is an authenticated conversation about one repository.
type session struct {
	http *http.Client
	repo name.Repository
}

// open finds credentials and does the handshake of the registry's protocol.
func (c *Client) open(ctx context.Context, ref Reference) (*session, error) {
	repo, auth, guard, err := c.prepare(ctx, ref)
	if err != nil {
		return nil, err
	}
	retrying := &retrier{next: guard, pause: c.backoff, log: c.log}
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, retrying, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, err
	}
	return &session{http: &http.Client{Transport: rt}, repo: repo}, nil
}

// prepare collects what any conversation about ref needs.
func (c *Client) prepare(ctx context.Context, ref Reference) (name.Repository, authn.Authenticator, http.RoundTripper, error) {
	var options []name.Option
	if c.plain(ref.Host()) {
		options = append(options, name.Insecure)
	}
	repo, err := name.NewRepository(ref.Host()+"/"+ref.Repository(), options...)
	if err != nil {
		return name.Repository{}, nil, nil, fmt.Errorf("read the reference %s: %w", ref, err)
	}
	login, err := c.credentials.For(ctx, ref)
	if err != nil {
		return name.Repository{}, nil, nil, &credentialsError{err}
	}
	return repo, login.authenticator(), &plainGuard{next: c.transport, client: c, registry: ref.Host()}, nil
}

// credentialsError marks an error as the credential provider's own, which is returned
// to the caller as it is instead of being read as an answer of the registry.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "find registry credentials: " + e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// plainGuard refuses requests without TLS, except from a registry that may be spoken
// to so, to such a host. The library would allow them to private networks too, and a
// redirect could lead anywhere.
type plainGuard struct {
	next     http.RoundTripper
	client   *Client
	registry string
}

// RoundTrip implements http.RoundTripper.
func (g *plainGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && (!g.client.plain(g.registry) || !g.client.plain(req.URL.Host)) {
		return nil, fmt.Errorf("plain HTTP to %s is not allowed", req.URL.Host)
	}
	return g.next.RoundTrip(req)
}

// retrier repeats reads that the registry failed to answer.
type retrier struct {
	next  http.RoundTripper
	pause time.Duration
	log   *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (r *retrier) RoundTrip(req *http.Request) (*http.Response, error) {
	pause := r.pause
	for attempt := 1; ; attempt++ {
		resp, err := r.next.RoundTrip(req)
		if err != nil || resp.StatusCode < http.StatusInternalServerError || attempt == attempts || !readOnly(req) {
			return resp, err
		}
		r.log.DebugContext(req.Context(), "the registry failed to answer and is asked again",
			"host", req.URL.Host, "status", resp.StatusCode, "attempt", attempt)
		// A drained connection can be used again; a body that does not end is not worth it.
		_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
		_ = resp.Body.Close()
		if err := wait(req.Context(), pause); err != nil {
			return nil, err
		}
		pause *= 2
	}
}

func readOnly(req *http.Request) bool {
	return req.Body == nil && (req.Method == http.MethodGet || req.Method == http.MethodHead)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
