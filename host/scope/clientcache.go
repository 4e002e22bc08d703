package scope

import (
	"container/list"
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
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// ClientCache keeps connections, by what they are made of: the same kubeconfig yields
// the same connection, a rotated one another. The longest unused one goes first. It
// starts no goroutines of its own: idle ones are dropped when the cache is next used.
// It is safe for concurrent use.
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
		connection, err := newConnection(key, config, c.options.Scheme)
		if err != nil {
			return nil, err
		}
		connection.kubeconfig = clean
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
		return newConnection(key, config, c.options.Scheme)
	})
}

// Len is how many connections are kept.
func (c *ClientCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len()
}

func (c *ClientCache) get(key string, build func(key string) (*Connection, error)) (*Connection, error) {
	entry, dropped := c.entry(key, build)
	for _, old := range dropped {
		if connection, err := old.build(); err == nil {
			connection.close()
		}
	}
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
