package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/abi"
)

// ErrClosed says that the sandbox or the module has been closed.
var ErrClosed = errors.New("the sandbox is closed")

// patience is how long a caller may be overtaken by callers who can use an idle worker
// as it is; then it is its turn although a worker must be replaced for it. It is some
// ten times what the replacement costs.
const patience = time.Second

// BusyError says that a call was not begun, because no worker became free in time. It says
// nothing of the module, and passes by itself.
type BusyError struct {
	// Workers is how many there are, Waited how long the call has waited for one.
	Workers int
	Waited  time.Duration
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("all of the %d workers were busy for %s", e.Workers, e.Waited.Round(time.Millisecond))
}

// Reason returns the reason of the ABI that users are shown.
func (e *BusyError) Reason() string { return abi.ReasonWorkerBusy }

// pool counts workers and keeps idle ones warm. Every worker occupies a slot from
// before it is started until it is killed; a slot that nobody holds goes to the callers
// who wait, oldest first.
type pool struct {
	slots       int
	idleTimeout time.Duration
	// idleBytes is how much memory idle workers may hold together.
	idleBytes int64
	// waitTimeout bounds how long a call waits.
	waitTimeout time.Duration

	mu      sync.Mutex
	free    int           // slots without a worker
	idle    []*idleWorker // least recently used first
	waiting []*waiter     // oldest first
	closed  bool
}

// lane is what a worker serves from its first call to its end: one module, for one
// tenant. Nothing that a call has left in a worker can reach another tenant then, not
// even through a mistake in putting its state back. The zero lane is that of a slot
// without a worker.
type lane struct {
	module *Module
	tenant string
	// untouched says that no tenant has been served yet: the module has described itself,
	// for which it gets no input and no host function.
	untouched bool
}

// serves reports whether a worker of the lane may take a call of another lane.
func (l lane) serves(other lane) bool {
	return l.module != nil && l.module == other.module && (l.untouched || l == other)
}

// idleWorker is a worker that waits for a call of its lane.
type idleWorker struct {
	lane
	process *process
	timer   *time.Timer
	// bytes are what it held when it came back.
	bytes int64
}

// waiter is a caller without a slot.
type waiter struct {
	lane
	since time.Time
	grant chan grant // buffered, so that granting never blocks
}

// grant is a slot, with the idle worker in it or without one.
type grant struct {
	process *process
	err     error
}

func newPool(slots int, idleTimeout time.Duration) *pool {
	return &pool{slots: slots, free: slots, idleTimeout: idleTimeout, idleBytes: defaultIdleBytes, waitTimeout: defaultWaitTimeout}
}

// acquire waits for a slot. The process is an idle worker that serves the lane, or nil:
// then the caller starts one. Either way the slot must be given back with release, for
// the same lane. The zero lane asks for a slot without a worker. A call for a tenant that
// has waited for too long is a [*BusyError]; what belongs to the loading of a module waits
// for as long as its context allows.
func (p *pool) acquire(ctx context.Context, l lane) (*process, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	if g, ok := p.take(l); ok {
		p.mu.Unlock()
		return g.process, nil
	}
	w := &waiter{lane: l, since: time.Now(), grant: make(chan grant, 1)}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()

	var late <-chan time.Time
	if l.module != nil && !l.untouched {
		timer := time.NewTimer(p.waitTimeout)
		defer timer.Stop()
		late = timer.C
	}
	var gaveUp error
	select {
	case g := <-w.grant:
		return g.process, g.err
	case <-ctx.Done():
		gaveUp = fmt.Errorf("wait for a worker: %w", context.Cause(ctx))
	case <-late:
		gaveUp = &BusyError{Workers: p.slots, Waited: time.Since(w.since)}
	}
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
	p.mu.Unlock()
	select {
	case g := <-w.grant:
		// It was granted while giving up: somebody else can have it.
		if g.err == nil {
			p.release(l, g.process)
		}
	default:
	}
	return nil, gaveUp
}

// take finds a slot for a caller who need not wait. The lock is held.
func (p *pool) take(l lane) (grant, bool) {
	p.idle = slices.DeleteFunc(p.idle, func(w *idleWorker) bool {
		dead := w.process.dead()
		if dead {
			w.timer.Stop()
			w.process.kill()
			p.free++
		}
		return dead
	})
	// One that has served the tenant before leaves those that may serve anybody.
	match := p.warmest(func(w *idleWorker) bool { return w.lane == l })
	if match < 0 {
		match = p.warmest(func(w *idleWorker) bool { return w.serves(l) })
	}
	if match >= 0 {
		process := p.idle[match].process
		p.drop(match)
		return grant{process: process}, true
	}
	if p.free > 0 {
		p.free--
		return grant{}, true
	}
	if len(p.idle) > 0 {
		p.idle[0].process.kill()
		p.drop(0)
		return grant{}, true
	}
	return grant{}, false
}

// warmest returns the index of the most recently used idle worker of a kind, or -1. The
// lock is held.
func (p *pool) warmest(kind func(*idleWorker) bool) int {
	for i := len(p.idle) - 1; i >= 0; i-- {
		if kind(p.idle[i]) {
			return i
		}
	}
	return -1
}

// drop removes an idle worker from the list. The lock is held.
func (p *pool) drop(i int) {
	p.idle[i].timer.Stop()
	p.idle = slices.Delete(p.idle, i, i+1)
}

// release gives a slot back: with a worker of the lane that is fit for another call, or
// with nil.
func (p *pool) release(l lane, process *process) {
	var bytes int64
	if process != nil {
		bytes = process.residentBytes()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if process != nil && (process.dead() || process.retired() || p.closed || l.module == nil || l.module.isClosed()) {
		process.kill()
		process = nil
	}
	if w := p.next(l, process); w != nil {
		if process != nil && !l.serves(w.lane) {
			process.kill()
			process = nil
		}
		w.grant <- grant{process: process}
		return
	}
	if process == nil {
		p.free++
		return
	}
	idle := &idleWorker{lane: l, process: process, bytes: bytes}
	idle.timer = time.AfterFunc(p.idleTimeout, func() { p.expire(idle) })
	p.idle = append(p.idle, idle)
	p.economise()
}

// economise ends the idle workers that have not been used for longest until the others
// hold no more memory than they may. The lock is held, and nobody waits for a slot.
func (p *pool) economise() {
	var held int64
	for _, w := range p.idle {
		held += w.bytes
	}
	for held > p.idleBytes {
		held -= p.idle[0].bytes
		p.idle[0].process.kill()
		p.drop(0)
		p.free++
	}
}

// next removes the caller whose turn it is from the queue, or returns nil. A caller
// who can use the worker goes first, unless the oldest has run out of patience. The
// lock is held.
func (p *pool) next(l lane, process *process) *waiter {
	if len(p.waiting) == 0 {
		return nil
	}
	turn := 0
	if process != nil && time.Since(p.waiting[0].since) < patience {
		turn = max(0, slices.IndexFunc(p.waiting, func(w *waiter) bool { return l.serves(w.lane) }))
	}
	w := p.waiting[turn]
	p.waiting = slices.Delete(p.waiting, turn, turn+1)
	return w
}

// idleWorkers returns how many workers wait for a call.
func (p *pool) idleWorkers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// expire ends a worker that has been idle for long enough.
func (p *pool) expire(w *idleWorker) {
	p.discard(func(other *idleWorker) bool { return other == w })
}

// forget ends the idle workers of a module.
func (p *pool) forget(m *Module) {
	p.discard(func(w *idleWorker) bool { return w.module == m })
}

// discard ends idle workers. While there are any, nobody waits, so that their slots
// are free.
func (p *pool) discard(match func(*idleWorker) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		if match(p.idle[i]) {
			p.idle[i].process.kill()
			p.drop(i)
			p.free++
		}
	}
}

// close ends the idle workers and sends those who wait away.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.waiting {
		w.grant <- grant{err: ErrClosed}
	}
	p.waiting = nil
	p.mu.Unlock()
	p.discard(func(*idleWorker) bool { return true })
}
