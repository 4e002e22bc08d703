package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// callSet is what a worker may ask of the kernel; everything else is refused.
type callSet struct {
	// free are calls that may have any arguments.
	free []string
	// bound are calls of which some are allowed.
	bound []seccomp.NameWithConditions
}

// when allows a call for some values of one argument.
func when(name string, argument uint32, operation seccomp.Operation, value uint64) seccomp.NameWithConditions {
	return seccomp.NameWithConditions{Name: name, Conditions: seccomp.ArgumentConditions{{Argument: argument, Operation: operation, Value: value}}}
}

// runningCalls are those of a Go program that computes, and talks to its pipes: nothing
// that opens, starts, reaches or changes anything outside of the process.
func runningCalls() callSet {
	own := uint64(os.Getpid())
	return callSet{
		free: []string{
			// The pipes, and the poller that waits for them.
			"read", "write", "readv", "writev", "pread64", "close", "fstat", "lseek", "poll", "ppoll",
			"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "fcntl",
			// Memory: the runtime's, the compiler's code and the guests'. A file made by
			// memfd_create has no name, and the limit of file sizes holds for it.
			"brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "mincore", "memfd_create", "ftruncate", "membarrier",
			// Threads and time.
			"futex", "sched_yield", "sched_getaffinity", "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres",
			"gettimeofday", "time", "set_robust_list", "rseq", "gettid", "getpid", "getrandom", "uname",
			// Signals, by which the runtime interrupts its own threads, and the end.
			"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack", "restart_syscall",
			"exit", "exit_group", "getrusage",
		},
		bound: []seccomp.NameWithConditions{
			// A thread, never a process.
			when("clone", 0, seccomp.BitsSet, unix.CLONE_THREAD),
			// Its own threads, never another process.
			when("tgkill", 0, seccomp.Equal, own),
			when("kill", 0, seccomp.Equal, own),
			when("prctl", 0, seccomp.Equal, unix.PR_SET_VMA),
			when("ioctl", 1, seccomp.Equal, uint64(pagemapScan)),
		},
	}
}

// loadingCalls are those of a worker that reads or compiles native code, and what it
// takes to forbid them afterwards. Which files they reach is Landlock's to say.
func loadingCalls() callSet {
	c := runningCalls()
	c.free = append(c.free,
		"open", "openat", "newfstatat", "stat", "lstat", "statx", "faccessat", "faccessat2", "readlinkat", "getdents64",
		"mkdirat", "unlinkat", "renameat", "renameat2", "fsync", "fdatasync", "pwrite64", "getuid", "geteuid", "getgid", "getegid",
		"mkdir", "unlink", "rmdir", "rename", "readlink", "getcwd",
		"landlock_create_ruleset", "landlock_restrict_self", "seccomp")
	c.bound = append(c.bound,
		// To have single pages of native code mapped.
		when("ioctl", 1, seccomp.Equal, uint64(uffdRegister)),
		// To become the user of workers, and nobody else.
		when("setgroups", 0, seccomp.Equal, 0),
		when("setresgid", 0, seccomp.Equal, workerUser),
		when("setresuid", 0, seccomp.Equal, workerUser),
		when("prctl", 0, seccomp.Equal, unix.PR_SET_PDEATHSIG))
	return c
}

// tried asks for what the filter refuses: the kernel reports one failure, of a thread that
// does not take the filter, in a way that the library does not look at.
func (c callSet) tried() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	if !errors.Is(err, unix.EPERM) {
		return errors.New("the seccomp filter is not in force")
	}
	return nil
}

// firstFilter puts the filter for loading in force. The thread that does has given its
// privileges up, so that the kernel takes those of the other threads with it: a program
// that links C has done that on one thread only, and the second filter, which comes when
// the capabilities are gone, is for threads that have.
func firstFilter() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up privileges: %w", err)
	}
	return filterCalls(loadingCalls())
}

// filterCalls puts a filter in force for every thread. A second filter can only take
// away.
func filterCalls(c callSet) error {
	info, err := arch.GetInfo("")
	if err != nil {
		return fmt.Errorf("this processor's system calls are not known: %w", err)
	}
	allowed := seccomp.SyscallGroup{Action: seccomp.ActionAllow}
	for _, name := range c.free {
		// Newer architectures lack the older ones of two calls for the same.
		if _, exists := info.SyscallNames[name]; exists {
			allowed.Names = append(allowed.Names, name)
		}
	}
	for _, b := range c.bound {
		if _, exists := info.SyscallNames[b.Name]; exists {
			allowed.NamesWithCondtions = append(allowed.NamesWithCondtions, b)
		}
	}
	// The flags of clone3 are behind a pointer, which a filter cannot follow. Whoever
	// finds it missing takes clone instead.
	absent := seccomp.SyscallGroup{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)}
	err = seccomp.LoadFilter(seccomp.Filter{
		Flag:   seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: []seccomp.SyscallGroup{allowed, absent}},
	})
	if err != nil {
		return fmt.Errorf("this kernel has no seccomp filters, or does not allow them: %w", err)
	}
	return c.tried()
}
