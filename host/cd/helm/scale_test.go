package helm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/scope"
)

// many is how many releases the benchmarks have: 5,000 Stacks with two each.
const many = 10_000

// offline is a hub with many releases in one namespace, whose watch is not run.
func offline(releases int) (*hub, *watcher) {
	h := newHub(time.Now)
	at := &cluster{id: "home"}
	shared := target{resource: resource("configmaps"), namespace: "team"}
	w := &watcher{key: watchKey{cluster: at.id, target: shared}, at: at, users: map[string]map[releaseKey]struct{}{}, cancel: func() {}}
	h.watchers[w.key] = w
	for i := range releases {
		key := releaseKey{scope: "home", namespace: "team", name: fmt.Sprint(i)}
		h.releases[key] = &tracked{owner: scope.Owner{UID: fmt.Sprint(i)}, at: at, targets: []target{shared}}
		w.use(key)
	}
	return h, w
}

// TestEventConcernsItsRelease: an event tells the owner of the release that the object is
// annotated with, in every scope that has one of that name, and nobody else.
func TestEventConcernsItsRelease(t *testing.T) {
	h, w := offline(3)
	elsewhere := releaseKey{scope: "remote", namespace: "team", name: "1"}
	h.releases[elsewhere] = &tracked{owner: scope.Owner{UID: "elsewhere"}, at: w.at, targets: h.releases[releaseKey{scope: "home", namespace: "team", name: "1"}].targets}
	w.use(elsewhere)
	h.subscribers[0] = func(scope.Owner) {}
	t.Cleanup(h.close)
	h.changed(w, "team", "1")
	h.changed(w, "other", "2")
	h.changed(w, "", "")
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Len(t, h.pending, 2)
	require.Contains(t, h.pending, "1")
	require.Contains(t, h.pending, "elsewhere")
}

// TestLastUserEndsTheWatch: a watch lives as long as one release needs it, whatever else
// there is.
func TestLastUserEndsTheWatch(t *testing.T) {
	h, w := offline(2)
	ended := false
	w.cancel = func() { ended = true }
	h.untrack(releaseKey{scope: "home", namespace: "team", name: "0"}, "0")
	require.False(t, ended)
	h.untrack(releaseKey{scope: "home", namespace: "team", name: "unknown"}, "unknown")
	require.False(t, ended)
	h.untrack(releaseKey{scope: "home", namespace: "team", name: "1"}, "1")
	require.True(t, ended)
	require.Empty(t, h.watchers)
	require.Empty(t, w.users)
}

// TestSnapshotsOfOwnersThatAreGone are dropped, though not at every write.
func TestSnapshotsOfOwnersThatAreGone(t *testing.T) {
	now := time.Now()
	s := snapshots{now: func() time.Time { return now }}
	s.set("gone", holding{})
	now = now.Add(snapshotAge / 2)
	s.set("stays", holding{})
	require.Len(t, s.known, 2)
	now = now.Add(snapshotAge/2 + time.Second)
	s.set("new", holding{})
	require.Len(t, s.known, 2, "the first one has had its time")
	_, ok := s.get("gone")
	require.False(t, ok)
	_, ok = s.get("stays")
	require.True(t, ok)
}

// BenchmarkQueue takes one job while many wait, as after a restart.
func BenchmarkQueue(b *testing.B) {
	q := newQueue(defaultWorkers)
	for i := range many {
		q.add(&job{owner: scope.Owner{UID: fmt.Sprint(i)}})
	}
	for b.Loop() {
		j := q.take()
		q.done(j)
		q.add(j)
	}
}

// BenchmarkEvent is one event of a watch that many releases share.
func BenchmarkEvent(b *testing.B) {
	h, w := offline(many)
	defer h.close()
	for b.Loop() {
		h.changed(w, "team", "77")
	}
}

// BenchmarkSnapshot remembers one inventory among many.
func BenchmarkSnapshot(b *testing.B) {
	s := snapshots{now: time.Now}
	for i := range many {
		s.set(fmt.Sprint(i), holding{})
	}
	for b.Loop() {
		s.set("77", holding{})
	}
}
