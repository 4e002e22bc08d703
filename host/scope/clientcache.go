package scope

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	// DefaultIdleTimeout keeps a connection over the resync of a converged Stack, which
	// comes every 10 minutes with jitter.
	DefaultIdleTimeout = 15 * time.Minute
	// DefaultMaxEntries is far above what one operator drives in one resync, at some
	// hundred KiB a connection once its mapper is filled.
	DefaultMaxEntries = 512
	// sweepsPerIdle keeps a connection for at most a quarter longer than its idle time-out.
	sweepsPerIdle = 4
)

// ErrNoHome says that a tenant's connection was asked of a cache without a home.
var ErrNoHome = errors.New("client cache has no home configuration")

// ClientCacheOptions configures a [ClientCache]. The zero value is usable for remotes.
type ClientCacheOptions struct {
	// Scheme is what clients know of; client-go's own if nil.
	Scheme *runtime.Scheme
	// Home is the operator's own configuration, from which those of tenants derive.
	Home *rest.Config
	// IdleTimeout is how long a connection is kept after its last use; 0 means
	// [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// MaxEntries is how many connections are kept; 0 means [DefaultMaxEntries].
	MaxEntries int
	// Policy is what kubeconfigs may hold.
	Policy KubeconfigPolicy
	// ProbeTimeout is how long [ClientCache.Reachable] waits for an answer; 0 means
	// [DefaultProbeTimeout].
	ProbeTimeout time.Duration
	// SlowAfter is how long a request to a remote may go without an answer before the
	// cluster is asked whether it is there; 0 means [DefaultSlowAfter].
	SlowAfter time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// ClientCache keeps connections, by what they are made of: the same kubeconfig yields
// the same connection, a rotated one another. The longest unused one goes first. Idle
// ones are dropped when the cache is next used, or by [ClientCache.Run]; their sockets
// are closed, and those that are busy then close once they have been idle for a minute
// and a half. It is safe for concurrent use.
type ClientCache struct {
	options ClientCacheOptions

	mu      sync.Mutex
	entries map[string]*list.Element
	recent  *list.List // of *cacheEntry, the last used one in front
}

type cacheEntry struct {
	key      string
	lastUsed time.Time
	build    func() (*Connection, error) // runs once, however many wait
}

// NewClientCache returns an empty cache.
func NewClientCache(o ClientCacheOptions) *ClientCache {
	if o.Scheme == nil {
		o.Scheme = clientgoscheme.Scheme
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = DefaultIdleTimeout
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	if o.ProbeTimeout <= 0 {
		o.ProbeTimeout = DefaultProbeTimeout
	}
	if o.SlowAfter <= 0 {
		o.SlowAfter = DefaultSlowAfter
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Home != nil {
		o.Home = rest.CopyConfig(o.Home)
	}
	return &ClientCache{options: o, entries: map[string]*list.Element{}, recent: list.New()}
}

// Remote returns the connection for a kubeconfig, which is sanitised first. It makes
// no request. A *[KubeconfigError] says that the kubeconfig must be replaced.
func (c *ClientCache) Remote(kubeconfig *clientcmdapi.Config) (*Connection, error) {
	clean, err := SanitizeConfig(kubeconfig, c.options.Policy)
	if err != nil {
		return nil, err
	}
	canonical, err := clientcmd.Write(*clean)
	if err != nil {
		return nil, fmt.Errorf("encode sanitised kubeconfig: %w", err)
	}
	sum := sha256.Sum256(canonical)
	return c.get("remote:"+hex.EncodeToString(sum[:]), func(key string) (*Connection, error) {
		config, err := RESTConfig(clean, c.options.Policy)
		if err != nil {
			return nil, err
		}
		connection := &Connection{key: key, kubeconfig: clean, probes: &probe{}}
		config.Wrap(c.guardOf(connection).wrap)
		if err := connection.open(config, c.options.Scheme); err != nil {
			return nil, err
		}
		return connection, nil
	})
}

// Tenant returns the connection to the operator's own cluster that acts as a
// ServiceAccount. It makes no request and does not check that the account exists.
// Without a home configuration it returns [ErrNoHome].
func (c *ClientCache) Tenant(namespace, serviceAccount string) (*Connection, error) {
	if c.options.Home == nil {
		return nil, ErrNoHome
	}
	// Neither name can hold a slash, so no two pairs share a key.
	return c.get("home:"+namespace+"/"+serviceAccount, func(key string) (*Connection, error) {
		config := Impersonate(c.options.Home, namespace, serviceAccount)
		if config.Timeout <= 0 {
			config.Timeout = c.options.Policy.timeout()
		}
		connection := &Connection{key: key, probes: &probe{}}
		if err := connection.open(config, c.options.Scheme); err != nil {
			return nil, err
		}
		return connection, nil
	})
}

// guardOf makes the guard of a remote.
func (c *ClientCache) guardOf(connection *Connection) *guard {
	return &guard{
		slow: c.options.SlowAfter, now: c.options.Now, silent: connection.probes.isSilent,
		ask: func(ctx context.Context, since time.Time) error { return c.reach(ctx, connection, since) },
	}
}

// Run drops connections that are idle, and closes their sockets, until the context ends.
// Without it they go when the cache is next used, so a process that has nothing left to
// do would keep them. It always returns nil.
func (c *ClientCache) Run(ctx context.Context) error {
	ticker := time.NewTicker(max(time.Millisecond, c.options.IdleTimeout/sweepsPerIdle))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.DropIdle()
		}
	}
}

// DropIdle drops the connections that are idle now and closes their sockets.
func (c *ClientCache) DropIdle() {
	c.mu.Lock()
	dropped := c.dropIdle(c.options.Now())
	c.mu.Unlock()
	closeAll(dropped)
}

func closeAll(dropped []*cacheEntry) {
	for _, old := range dropped {
		if connection, err := old.build(); err == nil {
			connection.close()
		}
	}
}

// Len is how many connections are kept.
func (c *ClientCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len()
}

func (c *ClientCache) get(key string, build func(key string) (*Connection, error)) (*Connection, error) {
	entry, dropped := c.entry(key, build)
	closeAll(dropped)
	connection, err := entry.build()
	if err != nil {
		c.forget(entry)
		return nil, err
	}
	return connection, nil
}

// entry finds or makes the entry of a key, and returns those that had to go.
func (c *ClientCache) entry(key string, build func(key string) (*Connection, error)) (*cacheEntry, []*cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Now()
	dropped := c.dropIdle(now)
	if element, ok := c.entries[key]; ok {
		entry := element.Value.(*cacheEntry)
		entry.lastUsed = now
		c.recent.MoveToFront(element)
		return entry, dropped
	}
	for c.recent.Len() >= c.options.MaxEntries {
		dropped = append(dropped, c.drop(c.recent.Back()))
	}
	entry := &cacheEntry{key: key, lastUsed: now, build: sync.OnceValues(func() (*Connection, error) { return build(key) })}
	c.entries[key] = c.recent.PushFront(entry)
	return entry, dropped
}

func (c *ClientCache) dropIdle(now time.Time) []*cacheEntry {
	var dropped []*cacheEntry
	for element := c.recent.Back(); element != nil; element = c.recent.Back() {
		if now.Sub(element.Value.(*cacheEntry).lastUsed) < c.options.IdleTimeout {
			return dropped
		}
		dropped = append(dropped, c.drop(element))
	}
	return dropped
}

func (c *ClientCache) drop(element *list.Element) *cacheEntry {
	entry := c.recent.Remove(element).(*cacheEntry)
	delete(c.entries, entry.key)
	return entry
}

// forget removes an entry that could not be built, unless another took its place.
func (c *ClientCache) forget(entry *cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[entry.key]; ok && element.Value.(*cacheEntry) == entry {
		c.drop(element)
	}
}
