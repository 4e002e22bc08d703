package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// cacheLag is how long to wait for a cache that has not seen our own write yet. It
	// takes milliseconds.
	cacheLag = 50 * time.Millisecond
	// cacheLagLongest is when to go on regardless: a write on top of something old is
	// refused by the API server anyway, but a Stack must never wait for ever.
	cacheLagLongest = 10 * time.Second
)

// Wake says why a Stack is looked at. A queue carries names only, so the reasons are
// kept beside it in [Wakes].
type Wake struct {
	// Driver says that something which the driver installed has changed.
	Driver bool
}

// merge joins two reasons.
func (w Wake) merge(o Wake) Wake { return Wake{Driver: w.Driver || o.Driver} }

// Wakes keeps, for each Stack, the reasons of pending wakes, when its resync is due and
// how often it has failed in a row. It is memory only: after a restart everything is
// decided from the API. It is safe for concurrent use.
type Wakes struct {
	mu      sync.Mutex
	pending map[types.NamespacedName]Wake
	due     map[types.NamespacedName]time.Time
	failed  map[types.NamespacedName]int
	written map[types.NamespacedName]write
}

// write is the last one of a status.
type write struct {
	resourceVersion string
	at              time.Time
}

// NewWakes returns an empty memory.
func NewWakes() *Wakes {
	return &Wakes{
		pending: map[types.NamespacedName]Wake{},
		due:     map[types.NamespacedName]time.Time{},
		failed:  map[types.NamespacedName]int{},
		written: map[types.NamespacedName]write{},
	}
}

// Add notes a reason. Call it before the name is put into the queue.
func (w *Wakes) Add(name types.NamespacedName, reason Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[name] = w.pending[name].merge(reason)
}

// Take returns the reasons that are pending and forgets them. A reason that comes
// during the pass stays for the next one.
func (w *Wakes) Take(name types.NamespacedName) Wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	reason := w.pending[name]
	delete(w.pending, name)
	return reason
}

// UntilResync returns how long it is until the Stack is due. One that is not known yet,
// after a restart, becomes due after the whole interval, so that a restart is quiet.
func (w *Wakes) UntilResync(name types.NamespacedName, now time.Time, interval time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	due, ok := w.due[name]
	if !ok {
		due = now.Add(interval)
		w.due[name] = due
	}
	return due.Sub(now)
}

// Synced notes a pass that ran to its end, so that the next resync is due after the
// interval.
func (w *Wakes) Synced(name types.NamespacedName, now time.Time, interval time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due[name] = now.Add(interval)
}

// Wrote notes the version that a write of ours has made.
func (w *Wakes) Wrote(name types.NamespacedName, resourceVersion string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[name] = write{resourceVersion: resourceVersion, at: now}
}

// Behind reports whether a Stack as it was read is older than our own last write, because
// the cache is late. A pass on it would begin from a status that is no more.
func (w *Wakes) Behind(name types.NamespacedName, resourceVersion string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.written[name]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(resourceVersion, last.resourceVersion)
	if err == nil && order < 0 && now.Sub(last.at) < cacheLagLongest {
		return true
	}
	delete(w.written, name)
	return false
}

// Failed counts a retry in a row and returns how many there were.
func (w *Wakes) Failed(name types.NamespacedName) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[name]++
	return w.failed[name]
}

// Succeeded ends a row of retries.
func (w *Wakes) Succeeded(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.failed, name)
}

// Forget drops everything about a Stack that is gone.
func (w *Wakes) Forget(name types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, name)
	delete(w.due, name)
	delete(w.failed, name)
	delete(w.written, name)
}
