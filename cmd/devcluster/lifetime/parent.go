package lifetime

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// pollEvery is how soon after its parent's death a process notices. One system call per poll costs nothing measurable.
const pollEvery = 200 * time.Millisecond

// ErrParentGone is the cancellation cause of a context from WithParent whose parent process has ended.
var ErrParentGone = errors.New("parent process has ended")

// WithParent returns a context that is cancelled, with ErrParentGone as its cause, once the process with the given id has ended.
// The id may be that of the direct parent, which is watched without any doubt, or of another process, whose id might in theory
// be reused. An id of zero watches nothing. The caller must call the cancel function to end the watch.
func WithParent(ctx context.Context, pid int) (context.Context, context.CancelFunc) {
	watched, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	if pid == 0 {
		return watched, stop
	}

	go watch(watched, cancel, alive(pid))

	return watched, stop
}

func watch(ctx context.Context, cancel context.CancelCauseFunc, alive func() bool) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()

	for alive() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	cancel(ErrParentGone)
}

// alive returns a probe of the process. An orphan is adopted by another process, so a direct parent lives exactly as long as it
// is the one that getppid names.
func alive(pid int) func() bool {
	if os.Getppid() == pid {
		return func() bool { return os.Getppid() == pid }
	}

	// Signal 0 is delivered to nobody. EPERM means that the process exists and belongs to someone else.
	return func() bool {
		err := syscall.Kill(pid, 0)

		return err == nil || errors.Is(err, syscall.EPERM)
	}
}
