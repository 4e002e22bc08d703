package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// workerFiles is how many files a worker may have open: its pipes, the poller's, and
// one or two of the compilation cache.
const workerFiles = 32

// harden lowers the limits of the process for good. The address space is bounded
// relative to what the program has mapped by now, because a Go runtime reserves far
// more than it uses.
func harden(s setup) error {
	mapped, err := mappedBytes()
	if err != nil {
		return err
	}
	limits := []struct {
		name     string
		resource int
		value    uint64
	}{
		{"address space", unix.RLIMIT_AS, mapped + uint64(s.MemoryBytes) + uint64(s.ArenaBytes) + uint64(s.ImageBytes) + uint64(s.NativeBytes)},
		{"core size", unix.RLIMIT_CORE, 0},
		{"open files", unix.RLIMIT_NOFILE, workerFiles},
	}
	for _, l := range limits {
		if err := lower(l.resource, l.value); err != nil {
			return fmt.Errorf("set the limit of %s: %w", l.name, err)
		}
	}
	// Whoever runs out of memory on this node, a worker is the first to go. A container
	// may not let us say so, and the limits above hold without it.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600)
	return noNewPrivileges()
}

// lower sets a limit, or leaves it where somebody has set a lower one.
func lower(resource int, value uint64) error {
	var current unix.Rlimit
	if err := unix.Getrlimit(resource, &current); err != nil {
		return err
	}
	value = min(value, current.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: value, Max: value})
}

// noNewPrivileges makes set-user-ID programs useless to this process.
func noNewPrivileges() error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if errno == 0 {
		return nil
	}
	// A program that links C cannot reach its other threads; this one and those that it
	// starts from now on are covered.
	if errors.Is(errno, syscall.ENOTSUP) {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return fmt.Errorf("give up privileges: %w", errno)
}

// mappedBytes is how much address space the process has mapped.
func mappedBytes() (uint64, error) {
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("read the size of this process: %w", err)
	}
	first, _, _ := bytes.Cut(content, []byte(" "))
	pages, err := strconv.ParseUint(string(first), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the size of this process: %w", err)
	}
	return pages * uint64(os.Getpagesize()), nil
}
