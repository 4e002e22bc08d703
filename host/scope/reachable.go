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
	// DefaultProbeTimeout is how long an API server may take to say its version. It is short
	// because a pass waits for it, in a deletion even twice: for the kubeconfig that the
	// resolver finds, and for the one that is registered. Together they stay below 10 s.
	DefaultProbeTimeout = 4 * time.Second
	// probeMemo is how long an answer holds: the nodes of one pass and the passes of a
	// burst of events share it.
	probeMemo = 3 * time.Second
	// probeRest is how many times as long as it took an answer holds at least, and a
	// repeated silence in the end: a cluster that hangs or crawls thus takes a quarter of
	// the time of the worker that asks it, however often it is asked.
	probeRest = 3
	// silenceRestMin and silenceRestMax are how long a cluster is left alone that said
	// nothing: as long as it took to find that out, and twice as long after every further
	// silence. Most silences are a restart or a blip, whose end is thus seen within some
	// seconds, and the end of a long one within 12.
	silenceRestMin = 2 * time.Second
	silenceRestMax = probeRest * DefaultProbeTimeout
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
	asked  time.Time     // when the last request that has ended began
	until  time.Time     // what is remembered holds until then
	err    error
	// answered and silent are described at [Connection.LastAnswer] and
	// [Connection.SilentSince].
	answered time.Time
	silent   time.Time
	// silences counts the requests without an answer since the last one that had one.
	silences int
}

// Reachable asks a cluster for its version, once in a few seconds for all callers, and
// returns nil if it answered. A cluster that takes long, or keeps saying nothing, is
// asked less often; [ClientCache.AskAgainIn] tells when it is asked next. Of those who ask a
// cluster that said nothing the last time, the first waits for it, and the others are told
// what is known. An error that
// Is [ErrUnauthorized] says that it answered and refuses the credential; the context's
// error that the caller ran out of time; any other that the cluster does not answer as
// an API server. A cluster that forbids /version to the identity has answered.
func (c *ClientCache) Reachable(ctx context.Context, connection *Connection) error {
	return c.reach(ctx, connection, time.Time{})
}

// reach is Reachable, but an answer only counts if it was asked for after a time. A
// silence that is remembered always counts: it is what leaves the cluster alone.
func (c *ClientCache) reach(ctx context.Context, connection *Connection, since time.Time) error {
	p := connection.probes
	p.mu.Lock()
	if c.options.Now().Before(p.until) && (p.silences > 0 || p.asked.After(since)) {
		defer p.mu.Unlock()
		return p.err
	}
	if p.flight != nil && p.silences > 0 {
		// One caller is enough to find out whether it still is silent: the others have
		// Stacks on other clusters to go on with.
		defer p.mu.Unlock()
		return p.err
	}
	if p.flight == nil {
		p.flight = make(chan struct{})
		// The request serves every caller, so no single caller's end may cancel it.
		go p.run(context.WithoutCancel(ctx), connection, c.options, p.flight)
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

func (p *probe) run(ctx context.Context, connection *Connection, o ClientCacheOptions, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, o.ProbeTimeout)
	defer cancel()
	asked := o.Now()
	err := connection.version(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := o.Now()
	switch {
	case err == nil || errors.Is(err, ErrUnauthorized):
		p.answered, p.silent, p.silences = now, time.Time{}, 0
	case p.silences == 0:
		p.silent, p.silences = now, 1
	default:
		p.silences++
	}
	p.asked = asked
	// A process that was stopped meanwhile would find that it took hours.
	took := min(now.Sub(asked), o.ProbeTimeout)
	p.err, p.flight, p.until = err, nil, now.Add(restAfter(took, p.silences))
	close(done)
}

// isSilent reports whether the last request had no answer.
func (p *probe) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silences > 0
}

// restAfter is how long a cluster is left alone after a request that took so long, and
// was the so many-th without an answer; 0 says that it had one.
func restAfter(took time.Duration, silences int) time.Duration {
	if silences == 0 {
		return max(probeMemo, probeRest*took)
	}
	rest, most := max(took, silenceRestMin), max(silenceRestMax, probeRest*took)
	for i := 1; i < silences && rest < most; i++ {
		rest *= 2
	}
	return min(rest, most)
}

// AskAgainIn is how long the last answer of [ClientCache.Reachable], or the lack of one,
// still holds: asking earlier tells nothing new. It is 0 if the cluster would be asked
// now.
func (c *ClientCache) AskAgainIn(connection *Connection) time.Duration {
	p := connection.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.until.Sub(c.options.Now()))
}

// LastAnswer is when [ClientCache.Reachable] last had an answer, be it that the credential
// is refused; zero if it never had one. It is known for this process and connection only.
func (c *Connection) LastAnswer() time.Time {
	c.probes.mu.Lock()
	defer c.probes.mu.Unlock()
	return c.probes.answered
}

// SilentSince is when [ClientCache.Reachable] first had no answer after the last one;
// zero if it has not asked, or the cluster answers. It is known for this process and
// connection only.
func (c *Connection) SilentSince() time.Time {
	c.probes.mu.Lock()
	defer c.probes.mu.Unlock()
	return c.probes.silent
}

// version asks for /version. What the server answered is in no error.
func (c *Connection) version(ctx context.Context) error {
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return errors.New("parse server URL")
	}
	request, err := http.NewRequestWithContext(asProbe(ctx), http.MethodGet, base.JoinPath("version").String(), http.NoBody)
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
