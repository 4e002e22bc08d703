package helm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/host/scope"
)

// releaseKey names one release of one cluster.
type releaseKey struct {
	scope     string
	namespace string
	name      string
}

// job is one action on one release.
type job struct {
	key   releaseKey
	owner scope.Owner
	step  step
	// digest is the desired state that a failure counts for.
	digest string
	// run does the work. Its context is not that of any reconcile.
	run func(ctx context.Context) error
	// judge says what an error of run means and what may be said of it.
	judge func(err error) (verdict, string)
	// after is called when run succeeded and nothing runs any more; it may be nil.
	after func()
}

// record is what the driver knows of a release and may forget: after a restart it is
// learnt again.
type record struct {
	running *job
	failure *failure
	// waiting is since when the objects have not been ready, for a revision.
	waiting waiting
	// repairs counts re-applications of deleted objects.
	repairs repairs
	// removing is since when its removal has been waited for.
	removing time.Time
	// ended tells the end of one action on the release from that of another.
	ended uint64
}

// runner runs actions in the background: one at a time for each release, a bounded
// number altogether, and in an order in which no owner waits for another's alone. It is
// safe for concurrent use.
type runner struct {
	now      func() time.Time
	deadline time.Duration
	finished func(j *job, err error)

	work sync.WaitGroup
	base context.Context //nolint:containedctx // It is the life of the driver: actions outlive every call.
	stop context.CancelFunc

	mu       sync.Mutex
	closed   bool
	releases map[releaseKey]*record
	queue    queue
	// ends counts the actions that ended.
	ends uint64
	// pruned is when releases that were given up were forgotten last.
	pruned time.Time
}

func newRunner(workers int, now func() time.Time, deadline time.Duration, finished func(*job, error)) *runner {
	base, stop := context.WithCancel(context.Background())
	return &runner{
		now: now, deadline: deadline, finished: finished,
		base: base, stop: stop, releases: map[releaseKey]*record{}, queue: newQueue(workers),
	}
}

// running returns the action that runs on a release, and whether one does.
func (r *runner) running(key releaseKey) (step, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.releases[key]
	if !ok || m.running == nil {
		return "", false
	}
	return m.running.step, true
}

// runningFor is running for the actions of one owner: what another is doing is nobody's
// business who may not read the release.
func (r *runner) runningFor(key releaseKey, ownerUID string) (step, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.releases[key]
	if !ok || m.running == nil || m.running.owner.UID != ownerUID {
		return "", false
	}
	return m.running.step, true
}

// ended identifies the last action that ended on a release. Whoever reads the state of a
// release and then starts an action asks before reading: see start.
func (r *runner) ended(key releaseKey) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.releases[key]; ok {
		return m.ended
	}
	return 0
}

// failure returns how the last attempt failed, or nil.
func (r *runner) failure(key releaseKey) *failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.releases[key]
	if !ok || m.failure == nil {
		return nil
	}
	copied := *m.failure
	return &copied
}

// read records that somebody was told of the failure.
func (r *runner) read(key releaseKey) {
	r.with(key, func(m *record) {
		if m.failure != nil {
			m.failure.unread = false
		}
	})
}

// with gives access to what is remembered of a release.
func (r *runner) with(key releaseKey, f func(*record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.releases[key]
	if !ok {
		m = &record{}
		r.releases[key] = m
	}
	f(m)
}

// forget drops what is remembered of a release that is gone.
func (r *runner) forget(key releaseKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.releases[key]; ok && m.running == nil {
		delete(r.releases, key)
	}
}

// start begins an action and returns at once. It reports false if one is running on the
// release already, if one ended since what was seen, which may have changed everything
// that the caller decided by, or if the driver is closed.
func (r *runner) start(j *job, seen uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.releases[j.key]
	if !ok {
		m = &record{}
		r.releases[j.key] = m
	}
	if r.closed || m.running != nil || m.ended != seen {
		return false
	}
	m.running = j
	r.work.Add(1)
	r.queue.add(j)
	r.dispatch()
	return true
}

// dispatch gives the free workers what they may do. It needs the lock.
func (r *runner) dispatch() {
	for j := r.queue.take(); j != nil; j = r.queue.take() {
		go r.execute(j)
	}
}

func (r *runner) execute(j *job) {
	defer r.work.Done()
	err := protect(r.base, j.run)
	r.with(j.key, func(m *record) {
		r.queue.done(j)
		r.dispatch()
		r.ends++
		m.running, m.ended = nil, r.ends
		if err == nil {
			m.failure = nil
			return
		}
		v, why := j.judge(err)
		m.failure = m.failure.next(j.digest, v, why, r.now(), r.deadline)
		r.prune()
	})
	if err == nil && j.after != nil {
		j.after()
	}
	r.finished(j, err)
}

// remembered is how long a failure counts that nobody asks about any more.
const remembered = 24 * time.Hour

// prune forgets releases that failed long ago and were given up: what was never
// installed is not in the inventory, so nobody says when it is gone. It needs the lock.
func (r *runner) prune() {
	now := r.now()
	if now.Sub(r.pruned) < remembered/24 {
		return // It looks at all of them: with thousands that fail, not at every failure.
	}
	r.pruned = now
	for key, m := range r.releases {
		if m.running == nil && m.failure != nil && now.Sub(m.failure.at) > remembered {
			delete(r.releases, key)
		}
	}
}

// errPanic says that the SDK panicked: charts and values come from strangers.
var errPanic = errors.New("the action panicked")

func protect(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %T", errPanic, p)
		}
	}()
	return run(ctx)
}

// close refuses new actions, drops those that wait for a worker and have changed nothing
// yet, and waits for those that run, or for the context. An action that is cut off leaves
// a pending release, which the next process takes over.
func (r *runner) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	for _, j := range r.queue.clear() {
		r.releases[j.key].running = nil
		r.work.Done()
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		r.work.Wait()
		close(done)
	}()
	defer r.stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for running actions: %w", ctx.Err())
	}
}
