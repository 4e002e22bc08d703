package sandbox

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aliveProcess starts a process that waits to be killed, for tests that need nothing
// else of a worker.
func aliveProcess(t *testing.T) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	spawner := newSpawner([]string{self}, time.Minute)
	p, err := startProcess(spawner.start, []string{self, FakeWorker("silent")}, kib)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.bury(0)
		spawner.close()
	})
	return p
}

// ask acquires in another goroutine and waits until the pool knows of it.
func ask(t *testing.T, ctx context.Context, p *pool, l lane) <-chan grant {
	t.Helper()
	before := waitingOf(p)
	got := make(chan grant, 1)
	go func() {
		process, err := p.acquire(ctx, l)
		got <- grant{process, err}
	}()
	require.Eventually(t, func() bool { return waitingOf(p) > before }, 10*time.Second, time.Millisecond)
	return got
}

func waitingOf(p *pool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting)
}

func acquired(t *testing.T, p *pool, l lane) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	process, err := p.acquire(ctx, l)
	require.NoError(t, err)
	return process
}

func TestPoolReusesTheWarmWorker(t *testing.T) {
	p := newPool(2, time.Hour)
	a, b := lane{module: &Module{}}, lane{module: &Module{}}
	require.Nil(t, acquired(t, p, a), "the first caller starts a worker")
	worker := aliveProcess(t)
	p.release(a, worker)
	require.Nil(t, acquired(t, p, b), "a worker serves one module")
	require.Same(t, worker, acquired(t, p, a))
	require.False(t, worker.dead())
}

// TestPoolReplacesOldWorkers proves that a worker is replaced between calls before it has
// computed for as long as the kernel lets it, which would look like a crash of its module.
func TestPoolReplacesOldWorkers(t *testing.T) {
	p := newPool(1, time.Hour)
	l := lane{module: &Module{}}
	require.Nil(t, acquired(t, p, l))
	worker := aliveProcess(t)
	worker.started = time.Now().Add(-workerAge + time.Minute)
	p.release(l, worker)
	require.Same(t, worker, acquired(t, p, l), "almost old")

	next := ask(t, t.Context(), p, l)
	worker.started = time.Now().Add(-workerAge)
	p.release(l, worker)
	require.Nil(t, (<-next).process, "whoever waits for it starts a new one")
	require.Eventually(t, worker.dead, 10*time.Second, time.Millisecond)
	require.LessOrEqual(t, workerThreads*workerAge, workerCPU, "on all of its threads")
}

// TestPoolKeepsTenantsApart proves that a worker that has served one tenant is gone
// before another one's call of the same module runs.
func TestPoolKeepsTenantsApart(t *testing.T) {
	m := &Module{}
	first, second := lane{module: m, tenant: "a/x"}, lane{module: m, tenant: "b/x"}
	described := lane{module: m, untouched: true}

	p := newPool(1, time.Hour)
	require.Nil(t, acquired(t, p, first))
	worker := aliveProcess(t)
	p.release(first, worker)
	require.Nil(t, acquired(t, p, second), "another tenant starts a worker")
	<-worker.exited

	waiting := ask(t, t.Context(), p, first)
	worker = aliveProcess(t)
	p.release(second, worker)
	require.Nil(t, (<-waiting).process, "nor is it handed over to one who waits")
	<-worker.exited

	for name, l := range map[string]lane{"first": first, "nameless": {module: m}} {
		p = newPool(1, time.Hour)
		require.Nil(t, acquired(t, p, described), name)
		worker = aliveProcess(t)
		p.release(described, worker)
		require.Same(t, worker, acquired(t, p, l), "%s: who has served nobody may serve anybody", name)
		p.release(l, worker)
		require.Nil(t, acquired(t, p, second), "%s: and then nobody else", name)
		<-worker.exited
	}

	p = newPool(2, time.Hour)
	require.Nil(t, acquired(t, p, first))
	require.Nil(t, acquired(t, p, described))
	own, free := aliveProcess(t), aliveProcess(t)
	p.release(first, own)
	p.release(described, free)
	require.Same(t, own, acquired(t, p, first), "the tenant's own one comes first")
	require.Same(t, free, acquired(t, p, second))
}

func TestPoolReplacesTheColdestWorker(t *testing.T) {
	p := newPool(2, time.Hour)
	a, b, c := lane{module: &Module{}}, lane{module: &Module{}}, lane{module: &Module{}}
	require.Nil(t, acquired(t, p, a))
	require.Nil(t, acquired(t, p, b))
	cold, warm := aliveProcess(t), aliveProcess(t)
	p.release(a, cold)
	p.release(b, warm)
	require.Nil(t, acquired(t, p, c), "the slot of an idle worker is as good as a free one")
	<-cold.exited
	require.False(t, warm.dead())
	require.Same(t, warm, acquired(t, p, b))
}

func TestPoolWaitsInOrder(t *testing.T) {
	p := newPool(1, time.Hour)
	m := lane{module: &Module{}}
	require.Nil(t, acquired(t, p, m))
	first := ask(t, t.Context(), p, m)
	second := ask(t, t.Context(), p, m)
	worker := aliveProcess(t)
	p.release(m, worker)
	require.Same(t, worker, (<-first).process, "the worker changes hands without being idle")
	require.Equal(t, 1, waitingOf(p))
	p.release(m, nil)
	require.Nil(t, (<-second).process, "a worker that failed leaves its slot")
	p.release(m, nil)
	require.Equal(t, 1, p.free)
}

func TestPoolPrefersWhoCanUseTheWorker(t *testing.T) {
	p := newPool(1, time.Hour)
	a, b := lane{module: &Module{}}, lane{module: &Module{}}
	require.Nil(t, acquired(t, p, a))
	stranger := ask(t, t.Context(), p, b)
	friend := ask(t, t.Context(), p, a)
	worker := aliveProcess(t)
	p.release(a, worker)
	require.Same(t, worker, (<-friend).process)

	// Patience ends: the stranger is next although the worker has to go for it.
	friend = ask(t, t.Context(), p, a)
	p.mu.Lock()
	p.waiting[0].since = time.Now().Add(-2 * patience)
	p.mu.Unlock()
	p.release(a, worker)
	require.Nil(t, (<-stranger).process)
	<-worker.exited
	p.release(b, nil)
	require.Nil(t, (<-friend).process)
}

func TestPoolGivesUp(t *testing.T) {
	p := newPool(1, time.Hour)
	m := lane{module: &Module{}}
	require.Nil(t, acquired(t, p, m))
	why := errors.New("the reconcile is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	got := ask(t, ctx, p, m)
	cancel(why)
	require.ErrorIs(t, (<-got).err, why)
	require.Zero(t, waitingOf(p))
	p.release(m, nil)
	require.Equal(t, 1, p.free, "whoever gave up has no slot")
}

func TestPoolExpires(t *testing.T) {
	p := newPool(1, time.Millisecond)
	m := lane{module: &Module{}}
	require.Nil(t, acquired(t, p, m))
	worker := aliveProcess(t)
	p.release(m, worker)
	<-worker.exited
	require.Nil(t, acquired(t, p, m))
}

// TestPoolEconomises: what idle workers hold is bounded, and the most recently used stay.
func TestPoolEconomises(t *testing.T) {
	if residentBytes(os.Getpid()) == 0 {
		t.Skip("this system does not tell how much memory another process holds")
	}
	p := newPool(3, time.Hour)
	lanes := []lane{{module: &Module{}}, {module: &Module{}}, {module: &Module{}}}
	workers := make([]*process, len(lanes))
	for i, l := range lanes {
		require.Nil(t, acquired(t, p, l))
		workers[i] = aliveProcess(t)
	}
	for i, l := range lanes {
		// Until it has started it holds less than it will.
		require.Eventually(t, func() bool { return workers[i].residentBytes() > mib }, 10*time.Second, time.Millisecond)
		p.release(l, workers[i])
	}
	require.Equal(t, 3, p.idleWorkers())
	p.mu.Lock()
	for _, w := range p.idle {
		require.Greater(t, w.bytes, int64(mib))
		w.bytes = 10
	}
	p.idleBytes = 29
	p.economise()
	p.mu.Unlock()
	requireDead(t, workers[0])
	require.False(t, workers[1].dead() || workers[2].dead())
	require.Equal(t, 2, p.idleWorkers())
	require.Equal(t, 1, p.free, "its slot is free")

	p.idleBytes = 1
	require.Same(t, workers[1], acquired(t, p, lanes[1]), "one that is not called keeps what it has")
	p.release(lanes[1], workers[1])
	requireDead(t, workers[1])
	requireDead(t, workers[2])
	require.Zero(t, p.idleWorkers(), "one alone that is too large goes as well")
	require.Equal(t, 3, p.free)
}

func requireDead(t *testing.T, p *process) {
	t.Helper()
	require.Eventually(t, p.dead, 10*time.Second, time.Millisecond)
}

func TestPoolForgetsModules(t *testing.T) {
	p := newPool(2, time.Hour)
	a, b := lane{module: &Module{}}, lane{module: &Module{}}
	require.Nil(t, acquired(t, p, a))
	require.Nil(t, acquired(t, p, b))
	ofA, ofB := aliveProcess(t), aliveProcess(t)
	p.release(a, ofA)
	p.release(b, ofB)
	p.forget(a.module)
	<-ofA.exited
	require.False(t, ofB.dead())
	require.Equal(t, 1, p.free)

	b.module.closed.Store(true)
	require.Same(t, ofB, acquired(t, p, b))
	p.release(b, ofB)
	<-ofB.exited // a worker of a closed module does not become idle again
	require.Equal(t, 2, p.free)
}

func TestPoolSkipsTheDead(t *testing.T) {
	p := newPool(1, time.Hour)
	m := lane{module: &Module{}}
	require.Nil(t, acquired(t, p, m))
	worker := aliveProcess(t)
	p.release(m, worker)
	worker.child.kill()
	<-worker.exited
	require.Nil(t, acquired(t, p, m))
	require.Zero(t, p.free)
}

func TestPoolCloses(t *testing.T) {
	p := newPool(2, time.Hour)
	m, other := lane{module: &Module{}}, lane{module: &Module{}}
	require.Nil(t, acquired(t, p, m))
	require.Nil(t, acquired(t, p, m))
	worker := aliveProcess(t)
	got := ask(t, t.Context(), p, other)
	p.close()
	require.ErrorIs(t, (<-got).err, ErrClosed)
	_, err := p.acquire(t.Context(), m)
	require.ErrorIs(t, err, ErrClosed)
	p.release(m, worker)
	<-worker.exited // nothing becomes idle any more
}

// TestPoolHammer proves that no slot is lost or made up, whoever gives up when.
func TestPoolHammer(t *testing.T) {
	const slots = 3
	p := newPool(slots, time.Microsecond)
	lanes := []lane{{module: &Module{}}, {module: &Module{}}, {module: &Module{}}}
	var mu sync.Mutex
	held, most := 0, 0
	count := func(change int) {
		mu.Lock()
		defer mu.Unlock()
		held += change
		most = max(most, held)
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for round := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*round%7)*100*time.Microsecond)
				m := lanes[(i+round)%len(lanes)]
				if process, err := p.acquire(ctx, m); err == nil {
					count(1)
					count(-1)
					p.release(m, process)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most, slots)
	require.Equal(t, slots, p.free)
	require.Empty(t, p.waiting)
}
