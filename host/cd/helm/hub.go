package helm

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/host/scope"
)

const (
	// gather is how long news of one owner are collected before they are passed on: a
	// roll-out changes several objects at a time.
	gather = 200 * time.Millisecond
	// quiet is the least pause between two notifications of one owner.
	quiet = time.Second
)

// hub tells subscribers which owners to look at again. Without subscribers it watches
// nothing. It is safe for concurrent use.
type hub struct {
	now  func() time.Time
	base context.Context //nolint:containedctx // It is the life of the driver, which watches live in.
	stop context.CancelFunc

	mu          sync.Mutex
	subscribers map[int]func(scope.Owner)
	next        int
	pending     map[string]scope.Owner
	sent        map[string]time.Time
	releases    map[releaseKey]*tracked
	watchers    map[watchKey]*watcher
	rechecks    map[recheckKey]*time.Timer
}

// recheckKey is one owner's question about a release. Two may ask about one name, and the
// one that is refused must not take the other's turn.
type recheckKey struct {
	release releaseKey
	owner   string
}

func newHub(now func() time.Time) *hub {
	base, stop := context.WithCancel(context.Background())
	return &hub{
		now: now, base: base, stop: stop,
		subscribers: map[int]func(scope.Owner){}, pending: map[string]scope.Owner{}, sent: map[string]time.Time{},
		releases: map[releaseKey]*tracked{}, watchers: map[watchKey]*watcher{}, rechecks: map[recheckKey]*time.Timer{},
	}
}

// subscribe adds a subscriber until the context ends.
func (h *hub) subscribe(ctx context.Context, notify func(scope.Owner)) {
	h.mu.Lock()
	id := h.next
	h.next++
	h.subscribers[id] = notify
	for key, t := range h.releases {
		h.watch(key, t)
	}
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subscribers, id)
		if len(h.subscribers) == 0 {
			for key := range h.releases {
				h.unwatch(key)
			}
		}
	})
}

func (h *hub) subscribed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subscribers) > 0
}

// notify tells every subscriber about an owner, soon and not too often.
func (h *hub) notify(owner scope.Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enqueue(owner)
}

// enqueue needs the lock.
func (h *hub) enqueue(owner scope.Owner) {
	if _, waiting := h.pending[owner.UID]; waiting || len(h.subscribers) == 0 || h.base.Err() != nil {
		return
	}
	h.pending[owner.UID] = owner
	delay := gather
	if left := quiet - time.Since(h.sent[owner.UID]); left > delay {
		delay = left
	}
	time.AfterFunc(delay, func() { h.flush(owner) })
}

func (h *hub) flush(owner scope.Owner) {
	h.mu.Lock()
	delete(h.pending, owner.UID)
	h.forgetQuiet()
	h.sent[owner.UID] = time.Now()
	var notify []func(scope.Owner)
	if h.base.Err() == nil {
		for _, n := range h.subscribers {
			notify = append(notify, n)
		}
	}
	h.mu.Unlock()
	for _, n := range notify {
		n(owner)
	}
}

// forgetQuiet drops owners that could be notified at once. It needs the lock.
func (h *hub) forgetQuiet() {
	for uid, at := range h.sent {
		if time.Since(at) > quiet {
			delete(h.sent, uid)
		}
	}
}

// track makes the kinds of a release watched. It is cheap if they are already.
func (h *hub) track(key releaseKey, owner scope.Owner, at *cluster, targets []target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, ok := h.releases[key]
	if ok && old.at.id == at.id && old.owner.UID == owner.UID && slices.Equal(old.targets, targets) {
		return
	}
	h.unwatch(key)
	t := &tracked{owner: owner, at: at, targets: targets}
	h.releases[key] = t
	if len(h.subscribers) > 0 {
		h.watch(key, t)
	}
}

// ready records what the last look at a release found.
func (h *hub) ready(key releaseKey, ready bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.releases[key]; ok {
		t.ready = ready
	}
}

// untrack stops the watches that only this release of this owner needs.
func (h *hub) untrack(key releaseKey, ownerUID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.releases[key]; ok && t.owner.UID == ownerUID {
		h.unwatch(key)
		delete(h.releases, key)
	}
	asked := recheckKey{key, ownerUID}
	if timer, ok := h.rechecks[asked]; ok {
		timer.Stop()
		delete(h.rechecks, asked)
	}
}

// watching reports whether every object of a release is being watched right now.
func (h *hub) watching(key releaseKey) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.releases[key]
	if !ok {
		return false
	}
	for _, target := range t.targets {
		w, ok := h.watchers[watchKey{cluster: t.at.id, target: target}]
		if !ok || !w.live {
			return false
		}
	}
	return true
}

// watch needs the lock.
func (h *hub) watch(key releaseKey, t *tracked) {
	for _, target := range t.targets {
		wk := watchKey{cluster: t.at.id, target: target}
		w, ok := h.watchers[wk]
		if !ok {
			ctx, cancel := context.WithCancel(h.base)
			w = &watcher{key: wk, at: t.at, users: map[string]map[releaseKey]struct{}{}, cancel: cancel}
			h.watchers[wk] = w
			go h.run(ctx, w)
		}
		w.use(key)
	}
}

// unwatch needs the lock.
func (h *hub) unwatch(key releaseKey) {
	t, ok := h.releases[key]
	if !ok {
		return
	}
	for _, target := range t.targets {
		wk := watchKey{cluster: t.at.id, target: target}
		w, ok := h.watchers[wk]
		if !ok {
			continue
		}
		w.leave(key)
		if len(w.users) == 0 {
			w.cancel()
			delete(h.watchers, wk)
		}
	}
}

// recheck notifies the owner of a blocked release after a while, once: what blocks it
// may be nothing that is watched.
func (h *hub) recheck(key releaseKey, owner scope.Owner, after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := recheckKey{key, owner.UID}
	if timer, ok := h.rechecks[asked]; ok {
		timer.Stop()
	}
	jitter := time.Duration(rand.Int64N(int64(after)/10 + 1)) //nolint:gosec // It only spreads load.
	var timer *time.Timer
	timer = time.AfterFunc(after+jitter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.rechecks[asked] == timer {
			delete(h.rechecks, asked)
		}
		h.enqueue(owner)
	})
	h.rechecks[asked] = timer
}

func (h *hub) close() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, timer := range h.rechecks {
		timer.Stop()
	}
}
