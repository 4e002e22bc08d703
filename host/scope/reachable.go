package scope

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// probeTimeout is how long an API server may take to say its version. It is short
	// because every node on the remote waits for it.
	probeTimeout = 5 * time.Second
	// probeMemo is how long an answer holds: the nodes of one pass and the passes of a
	// burst of events share it.
	probeMemo = 3 * time.Second
	// maxVersionBytes bounds what is read of an answer that may be anything; a real one
	// has some 300 bytes.
	maxVersionBytes = 64 << 10
)

// ErrUnauthorized says that a cluster answers and does not accept the credential.
var ErrUnauthorized = errors.New("the cluster does not accept the credential")

// probe is the memoised answer of one connection, with at most one request in flight.
type probe struct {
	mu     sync.Mutex
	flight chan struct{} // closed when the request in flight has ended; nil if none is
	at     time.Time
	err    error
}

// Reachable asks a cluster for its version, once in a few seconds for all callers, and
// returns nil if it answered. An error that Is [ErrUnauthorized] says that it answered
// and refuses the credential; the context's error that the caller ran out of time; any
// other that the cluster does not answer as an API server. A cluster that forbids
// /version to the identity has answered.
func (c *ClientCache) Reachable(ctx context.Context, connection *Connection) error {
	p := connection.probes
	p.mu.Lock()
	if !p.at.IsZero() && c.options.Now().Sub(p.at) < probeMemo {
		defer p.mu.Unlock()
		return p.err
	}
	if p.flight == nil {
		p.flight = make(chan struct{})
		// The request serves every caller, so no single caller's end may cancel it.
		go p.run(context.WithoutCancel(ctx), connection, c.options.Now, p.flight)
	}
	flight := p.flight
	p.mu.Unlock()

	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-flight:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.err
	}
}

func (p *probe) run(ctx context.Context, connection *Connection, now func() time.Time, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := connection.version(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.at, p.flight = err, now(), nil
	close(done)
}

// version asks for /version. What the server answered is in no error.
func (c *Connection) version(ctx context.Context) error {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return errors.New("parse server URL")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return errors.New("build version request")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask for version: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return ErrUnauthorized
	case http.StatusForbidden:
		return nil
	default:
		return fmt.Errorf("ask for version: HTTP status %d", response.StatusCode)
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxVersionBytes)).Decode(&version); err != nil || version.GitVersion == "" {
		return errors.New("ask for version: the answer is not that of an API server")
	}
	return nil
}
