package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// workerFiles is how many files a worker may have open: its pipes, the poller's, and
// one or two of the compilation cache.
const workerFiles = 32

// workerProcesses is how many threads the user of a worker may have where the worker has
// a user namespace, and so the number, of its own. Elsewhere the number is that of all
// processes of the user, of which nothing is known; there seccomp is what forbids forks.
const workerProcesses = 64

// oomScore is the highest that there is: whoever runs out of memory on this node, a
// worker is the first to go.
const oomScore = 1000

// harden gives up everything that a worker does not need, for good, and reports what it
// could not give up. It is called before the first byte of a module is read. An error
// means that a layer failed without which no module may be run. The files to keep stay open.
func harden(s setup, keep ...uintptr) ([]Layer, error) {
	layers := []Layer{{Name: LayerNamespaces, Missing: s.NoNamespaces}}
	asRoot := os.Geteuid() == 0
	var kept unix.CapUserData
	for _, step := range []struct {
		name     string
		required bool
		apply    func(setup) error
	}{
		{LayerDescriptors, true, func(setup) error { return closeDescriptors(keep) }},
		{LayerLimits, true, lowerLimits},
		{LayerMemoryPriority, false, dieFirst},
		{LayerPrivileges, true, noNewPrivileges},
		{LayerDump, false, notDumpable},
		{LayerUser, false, func(setup) (err error) { kept, err = keepForUser(); return err }},
		{LayerCapabilities, false, func(setup) error { return dropCapabilities(kept) }},
		{LayerFiles, false, func(s setup) error { return restrictFiles(cacheRules(s)) }},
		{LayerCalls, false, func(setup) error { return firstFilter() }},
	} {
		if step.name == LayerUser && !asRoot { // it is nobody special already
			continue
		}
		err := step.apply(s)
		if err != nil && step.required {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		layer := Layer{Name: step.name}
		if err != nil {
			layer.Missing = err.Error()
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

// hardenMore gives up what only loading a module needed, before the first instruction of
// it is run. Layers that the machine does not have were reported by harden.
func hardenMore(layers []Layer) error {
	for _, layer := range layers {
		if layer.Missing != "" {
			continue
		}
		var err error
		switch layer.Name {
		case LayerUser:
			err = changeUser()
		case LayerFiles:
			err = restrictFiles(nil)
		case LayerCalls:
			err = filterCalls(runningCalls())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", layer.Name, err)
		}
	}
	return nil
}

// closeDescriptors closes what the parent's own parent may have left open in it. The
// poller of the Go runtime has files without names, which stay.
func closeDescriptors(keep []uintptr) error {
	const table = "/proc/self/fd"
	entries, err := os.ReadDir(table)
	if err != nil {
		return fmt.Errorf("list the open files: %w", err)
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= syscall.Stderr || slices.Contains(keep, uintptr(fd)) {
			continue
		}
		target, err := os.Readlink(filepath.Join(table, entry.Name()))
		if err != nil { // the directory itself, closed by now
			continue
		}
		if strings.HasPrefix(target, "anon_inode:[event") {
			continue
		}
		if err := unix.Close(fd); err != nil && !errors.Is(err, unix.EBADF) {
			return fmt.Errorf("close an open file: %w", err)
		}
	}
	return nil
}

// lowerLimits bounds the address space relative to what the program has mapped by now,
// because a Go runtime reserves far more than it uses.
func lowerLimits(s setup) error {
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
		{"file size", unix.RLIMIT_FSIZE, uint64(max(s.FileBytes, s.ImageBytes))},
		{"CPU time", unix.RLIMIT_CPU, uint64(max(1, s.CPUSeconds))},
		{"locked memory", unix.RLIMIT_MEMLOCK, 0},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0},
	}
	for _, l := range limits {
		if err := lower(l.resource, l.value); err != nil {
			return fmt.Errorf("set the limit of %s: %w", l.name, err)
		}
	}
	if s.NoNamespaces == "" {
		if err := lower(unix.RLIMIT_NPROC, workerProcesses); err != nil {
			return fmt.Errorf("set the limit of processes: %w", err)
		}
	}
	return nil
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

// dieFirst tells the kernel whom to kill when memory is short. A container may not let
// us say so, and the limits above hold without it.
func dieFirst(setup) error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(oomScore)), 0o600)
}

// noNewPrivileges makes set-user-ID programs useless to this process.
func noNewPrivileges(setup) error {
	err := everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	// A program that links C cannot reach its other threads; this one and those that it
	// starts from now on are covered.
	if errors.Is(err, errors.ErrUnsupported) {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return err
}

// notDumpable closes /proc/self to others of the same user. It is one flag of a process.
func notDumpable(setup) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// dropCapabilities takes every capability away but those of the first 32 that are kept.
func dropCapabilities(kept unix.CapUserData) error {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{kept}
	return everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(&data[0])))
}

// everyThread makes a system call of two arguments on every thread. A program that links C cannot.
//
//go:uintptrescapes
func everyThread(trap, a, b uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall(trap, a, b, 0)
	switch {
	case errno == 0:
		return nil
	case errors.Is(errno, syscall.ENOTSUP):
		return fmt.Errorf("the program that serves as worker links C: %w; let it be caisson-worker, built with CGO_ENABLED=0", errors.ErrUnsupported)
	default:
		return errno
	}
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
