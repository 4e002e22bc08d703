package demo

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// heldFor is how long a worker is held up before it is killed: long enough for a call to be
// on its way to it.
const heldFor = 300 * time.Millisecond

// hunt stops the workers of an operator as it finds them, and kills each a little later,
// so that whatever it was called for is cut off in the middle. It ends with the context
// and returns how many it has killed.
func hunt(ctx context.Context, operator int) int {
	held := map[int]time.Time{}
	killed := 0
	for ctx.Err() == nil {
		for _, pid := range workers(operator) {
			since, ok := held[pid]
			switch {
			case !ok:
				if syscall.Kill(pid, syscall.SIGSTOP) == nil {
					held[pid] = time.Now()
				}
			case time.Since(since) > heldFor:
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed++
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	for pid := range held {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return killed
}

// workers lists the worker processes of an operator: the descendants that say so in their
// arguments. Those that only start others do not.
func workers(operator int) []int {
	var found []int
	for _, pid := range children(operator) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && bytes.HasSuffix(line, []byte("\x00"+sandbox.WorkerArgument+"\x00")) {
			found = append(found, pid)
		}
		found = append(found, workers(pid)...)
	}
	return found
}

// children lists the child processes of a process.
func children(parent int) []int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return nil
	}
	var found []int
	for _, path := range lists {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil {
				found = append(found, pid)
			}
		}
	}
	return found
}
