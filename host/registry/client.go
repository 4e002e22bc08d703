package registry

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/singleflight"
)

const (
	// defaultMaxModuleBytes holds every module that we know of except those that carry
	// a whole interpreter: a Go guest has 3 MB, one with Kubernetes types 16 MB.
	defaultMaxModuleBytes = 64 << 20
	// defaultCacheBytes is some 300 modules of a usual size.
	defaultCacheBytes = 1 << 30
	// defaultTimeout lets 64 MiB through a line of 5 Mbit/s.
	defaultTimeout = 2 * time.Minute
	// defaultRetryBackoff doubles twice: a registry that restarts is back after a
	// second or two, and a reconcile is repeated anyway.
	defaultRetryBackoff = 500 * time.Millisecond
)

// Options configure a [Client]. Every zero value is usable.
type Options struct {
	// CacheDir is a directory of the client's own, which it makes with mode 0700. Empty
	// means that nothing is cached.
	CacheDir string
	// CacheBytes bounds the cache; least recently used files go first. 0 means 1 GiB.
	CacheBytes int64
	// MaxModuleBytes bounds a module. 0 means 64 MiB.
	MaxModuleBytes int64
	// PlainHTTPHosts are the hosts, with port if they have one, that may be spoken to
	// without TLS where they do not offer it. Loopback hosts always may.
	PlainHTTPHosts []string
	// Credentials finds logins; nil means anonymously.
	Credentials Credentials
	// Logger gets what a caller need not act on: retries and mended cache files. Nil
	// means nobody.
	Logger *slog.Logger
	// Transport replaces the HTTP transport, for instance to add a certificate
	// authority. It must not follow redirects or retry.
	Transport http.RoundTripper
	// Timeout bounds one Resolve, Pull or Push as a whole. 0 means 2 minutes.
	Timeout time.Duration
	// RetryBackoff is the pause before the first of two retries, which follow a status
	// of 500 or above and nothing else; the second pause is twice as long. 0 means 500 ms.
	RetryBackoff time.Duration
}

// Client talks to OCI registries. It is safe for concurrent use.
type Client struct {
	cache          *cache
	maxModuleBytes int64
	plainHosts     map[string]struct{}
	credentials    Credentials
	log            *slog.Logger
	transport      http.RoundTripper
	timeout        time.Duration
	backoff        time.Duration
	// flights makes concurrent pulls of one digest share one download. It belongs to
	// one set of credentials, so that no caller is served by another's login.
	flights *singleflight.Group
}

// New makes a client. It fails if the cache directory cannot be made private.
func New(o Options) (*Client, error) {
	c := &Client{
		maxModuleBytes: positive(o.MaxModuleBytes, defaultMaxModuleBytes),
		plainHosts:     make(map[string]struct{}, len(o.PlainHTTPHosts)),
		credentials:    o.Credentials,
		log:            o.Logger,
		transport:      o.Transport,
		timeout:        positive(o.Timeout, defaultTimeout),
		backoff:        positive(o.RetryBackoff, defaultRetryBackoff),
		flights:        &singleflight.Group{},
	}
	for _, host := range o.PlainHTTPHosts {
		c.plainHosts[strings.ToLower(host)] = struct{}{}
	}
	if c.credentials == nil {
		c.credentials = Anonymous()
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.transport == nil {
		c.transport = remote.DefaultTransport
	}
	if o.CacheDir != "" {
		cache, err := openCache(o.CacheDir, positive(o.CacheBytes, defaultCacheBytes), c.log)
		if err != nil {
			return nil, err
		}
		c.cache = cache
	}
	return c, nil
}

// WithCredentials returns a client that logs in with other credentials and shares the
// cache and everything else, for instance for the pull secret of one Module.
func (c *Client) WithCredentials(credentials Credentials) *Client {
	derived := *c
	derived.credentials = credentials
	derived.flights = &singleflight.Group{}
	return &derived
}

// plain reports whether a host may be spoken to without TLS.
func (c *Client) plain(host string) bool {
	_, listed := c.plainHosts[strings.ToLower(host)]
	return listed || isLoopback(host)
}

// bounded gives ctx the client's own deadline on top of the caller's.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

func positive[T int64 | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}
