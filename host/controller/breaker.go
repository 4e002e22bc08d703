package controller

import (
	"errors"
	"sync"
	"time"
)

// The quarantine of a module that kills its workers: after this many crashes in a row it
// is left alone, and then probed from a minute to an hour apart.
const (
	crashLimit   = 5
	probeFirst   = time.Minute
	probeLongest = time.Hour
)

// crasher is implemented by faults that may have been the death of a worker.
type crasher interface {
	error
	Crashed() bool
}

// breaker counts the crashes of one digest, host-wide. It is safe for concurrent use.
type breaker struct {
	mu      sync.Mutex
	crashes int
	probeAt time.Time
}

// observe counts the end of a call, and reports whether that opened or closed the
// breaker. Any call that does not crash closes it.
func (b *breaker) observe(err error, now time.Time) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var fault crasher
	if !errors.As(err, &fault) || !fault.Crashed() {
		changed = b.crashes >= crashLimit
		b.crashes = 0
		return changed
	}
	b.crashes++
	if b.crashes < crashLimit {
		return false
	}
	pause := probeFirst << min(b.crashes-crashLimit, 10)
	b.probeAt = now.Add(min(pause, probeLongest))
	return b.crashes == crashLimit
}

// wait returns how long to leave the module alone; 0 lets a call through.
func (b *breaker) wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.crashes < crashLimit {
		return 0
	}
	return max(b.probeAt.Sub(now), 0)
}

// probe lets a call through at once, without forgetting why the module was left alone: if
// that crashes as well, the next pause is the longer one.
func (b *breaker) probe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probeAt = time.Time{}
}

// open reports whether the module counts as faulted.
func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.crashes >= crashLimit
}
