package plan

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// DefaultCacheSize is how many Stacks a [Cache] remembers: more than a cluster has that
// are busy at the same time, at a few kilobytes for each expression.
const DefaultCacheSize = 256

// Cache remembers what was compiled for the last generation of each Stack, so that
// expressions are compiled once per generation. It is safe for concurrent use. The zero
// value is of no use; make one with [NewCache].
type Cache struct {
	size    int
	mu      sync.Mutex
	entries map[types.UID]cacheEntry
	// order is the UIDs from the one that was stored first.
	order []types.UID
}

type cacheEntry struct {
	generation int64
	compiled   *compiled
}

// NewCache returns a cache for so many Stacks; [DefaultCacheSize] if size is not
// positive. When it is full the Stack that was stored first is forgotten.
func NewCache(size int) *Cache {
	if size <= 0 {
		size = DefaultCacheSize
	}
	return &Cache{size: size, entries: map[types.UID]cacheEntry{}}
}

// Forget drops what is remembered of a Stack that is gone.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, uid)
	c.dropStale()
}

// compile returns what is remembered for the Stack's generation, or compiles it. Two
// callers at once may both compile; the results are the same.
func (c *Cache) compile(stack *v1alpha1.Stack) (*compiled, error) {
	if c == nil || stack.UID == "" {
		return compile(stack)
	}
	if known := c.get(stack.UID, stack.Generation); known != nil {
		return known, nil
	}
	made, err := compile(stack)
	if err != nil {
		return nil, err
	}
	c.put(stack.UID, cacheEntry{generation: stack.Generation, compiled: made})
	return made, nil
}

func (c *Cache) get(uid types.UID, generation int64) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.entries[uid]; ok && entry.generation == generation {
		return entry.compiled
	}
	return nil
}

func (c *Cache) put(uid types.UID, entry cacheEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[uid]; !ok {
		c.order = append(c.order, uid)
	}
	c.entries[uid] = entry
	for len(c.entries) > c.size {
		delete(c.entries, c.order[0])
		c.dropStale()
	}
}

// dropStale removes from the order what is no longer an entry.
func (c *Cache) dropStale() {
	kept := c.order[:0]
	for _, uid := range c.order {
		if _, ok := c.entries[uid]; ok {
			kept = append(kept, uid)
		}
	}
	c.order = kept
}
