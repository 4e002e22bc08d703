package scope

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// DefaultSlowAfter is how long a request to a remote may go without an answer before the
// cluster is asked whether it is there at all. Together with [DefaultProbeTimeout] it is
// how long one silent remote can hold a pass that found it answering a moment before.
const DefaultSlowAfter = 3 * time.Second

// ErrSilent says that a request was given up, or not made, because its cluster has fallen
// silent. Whoever gets it may try again in the next pass.
var ErrSilent = errors.New("the cluster has stopped answering")

// guard keeps a remote that falls silent in the middle of a pass from holding each request
// until its time-out: a slow request makes it ask the cluster for its version, and if that
// has no answer either, requests fail until [ClientCache.Reachable] has one again. A server
// that is only slow keeps its requests.
//
// Writes of actions in the background are left alone, which are those whose context has no
// [Scope]: half of a roll-out is worse than a late one. So are watches once they are open,
// because their silence means nothing.
type guard struct {
	slow time.Duration
	now  func() time.Time
	// silent reports whether the last question had no answer.
	silent func() bool
	// ask asks the cluster, unless it has answered since a time or is silent and rests.
	ask func(ctx context.Context, since time.Time) error
}

// wrap is for rest.Config.Wrap.
func (g *guard) wrap(next http.RoundTripper) http.RoundTripper {
	return &guarded{guard: g, next: next}
}

// guarded is the transport of a remote.
type guarded struct {
	*guard
	next http.RoundTripper
}

var _ http.RoundTripper = (*guarded)(nil)

// WrappedRoundTripper lets idle connections be closed through it.
func (g *guarded) WrappedRoundTripper() http.RoundTripper { return g.next }

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if exempt(req) {
		return g.next.RoundTrip(req)
	}
	if err := g.admit(req.Context()); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	if isWatch(req) {
		return g.next.RoundTrip(req)
	}
	ctx, cut := context.WithCancelCause(req.Context())
	doubts := time.AfterFunc(g.slow, func() { g.doubt(ctx, cut) })
	end := func() {
		doubts.Stop()
		cut(nil)
	}
	response, err := g.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		defer end()
		return response, silenceOf(ctx, err)
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		doubts.Stop() // the connection is the caller's now
		return response, nil
	}
	response.Body = &guardedBody{ReadCloser: response.Body, ctx: ctx, end: sync.OnceFunc(end)}
	return response, nil
}

// admit refuses a request to a cluster that is known to be silent. Once it has rested, it
// is asked again first.
func (g *guard) admit(ctx context.Context) error {
	if !g.silent() {
		return nil
	}
	return g.verdict(ctx, g.ask(ctx, time.Time{}))
}

// doubt asks the cluster as long as a request has no answer, and cuts the request when
// the cluster has none.
func (g *guard) doubt(ctx context.Context, cut context.CancelCauseFunc) {
	for ctx.Err() == nil {
		began := g.now()
		if err := g.verdict(ctx, g.ask(ctx, began)); err != nil {
			cut(err)
			return
		}
		again := time.NewTimer(g.slow)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
	}
}

// verdict is what an answer means for a request. A cluster that refuses the credential is
// not silent.
func (g *guard) verdict(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUnauthorized):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w: %w", ErrSilent, err)
	}
}

// silenceOf replaces the error of a request that was cut by the reason for that.
func silenceOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrSilent) {
		return cause
	}
	return err
}

// guardedBody is an answer that is still coming in.
type guardedBody struct {
	io.ReadCloser

	ctx context.Context //nolint:containedctx // It is that of the request, which lives until the body is closed.
	end func()
}

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, silenceOf(b.ctx, err)
}

// Close implements io.Closer.
func (b *guardedBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

type probeKey struct{}

// asProbe marks the question itself, which nothing may hold back.
func asProbe(ctx context.Context) context.Context {
	return context.WithValue(ctx, probeKey{}, true)
}

// exempt reports whether a request is not guarded.
func exempt(req *http.Request) bool {
	if req.Context().Value(probeKey{}) != nil {
		return true
	}
	_, pass := FromContext(req.Context())
	return !pass && req.Method != http.MethodGet && req.Method != http.MethodHead
}

func isWatch(req *http.Request) bool {
	switch req.URL.Query().Get("watch") {
	case "", "0", "false":
		return false
	default:
		return true
	}
}
