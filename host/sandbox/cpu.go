package sandbox

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// cpuPollFloor is how close to the limit it gets precise enough to be looked at no more
// often.
const cpuPollFloor = 10 * time.Millisecond

// cpuExceeded is the cause of a context that ended because a worker computed for too long.
type cpuExceeded struct{ used time.Duration }

func (e *cpuExceeded) Error() string {
	return fmt.Sprintf("the worker has computed for %s", e.used)
}

// cpuWatch looks at the processor time of one worker during one call. It never looks
// before the limit could have been reached on all processors together, so that a call
// that is over soon is never looked at.
type cpuWatch struct {
	read   func() (time.Duration, error)
	cancel context.CancelCauseFunc
	began  time.Duration
	limit  time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// watchCPU returns a context that ends with a [*cpuExceeded] as its cause once what read
// returns has grown by limit. stop ends the watch, and the context. Where processor time
// cannot be read there is no watch.
func watchCPU(ctx context.Context, read func() (time.Duration, error), limit time.Duration) (watched context.Context, stop context.CancelFunc) {
	began, err := read()
	if err != nil {
		return ctx, func() {}
	}
	w := &cpuWatch{read: read, began: began, limit: limit}
	ctx, w.cancel = context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.pause(0), w.look)
	return ctx, w.stop
}

// pause is how long the limit cannot be reached, whatever the worker does.
func (w *cpuWatch) pause(used time.Duration) time.Duration {
	return max((w.limit-used)/time.Duration(runtime.NumCPU()), cpuPollFloor)
}

func (w *cpuWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	now, err := w.read()
	if err != nil { // the worker is gone, which its pipe tells
		return
	}
	used := now - w.began
	if used >= w.limit {
		w.cancel(&cpuExceeded{used})
		return
	}
	w.timer.Reset(w.pause(used))
}

func (w *cpuWatch) stop() {
	w.mu.Lock()
	w.stopped = true
	w.timer.Stop()
	w.mu.Unlock()
	w.cancel(context.Canceled)
}
