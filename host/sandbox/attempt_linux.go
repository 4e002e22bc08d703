//go:build attempts

package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RunAttempt confines the process as a worker does, makes an attempt and says on standard
// output what came of it. The arguments are the attempt, the stage, the directory of a
// module and why there are no namespaces.
func RunAttempt() {
	if len(os.Args) == 2 && os.Args[1] == "list" {
		fmt.Print(strings.Join(slices.Sorted(maps.Keys(attempts())), " "))
		return
	}
	name, loaded, dir, noNamespaces := os.Args[1], os.Args[2] == "loaded", os.Args[3], os.Args[4]
	s := setup{
		CacheDir: dir, MemoryBytes: 64 * mib, NativeBytes: 256 * mib, ArenaBytes: mib, ImageBytes: mib, CPUSeconds: 1,
		NoNamespaces: noNamespaces,
	}
	if name == "compiler-writes" || name == "compiler-elsewhere" {
		s.FileBytes = mib
	}
	var before error
	if name == "open-before" {
		// What somebody has left open before must be gone.
		before = unix.Dup3(1, 9, 0)
	}
	layers, err := harden(s)
	if err == nil && loaded {
		err = hardenMore(layers)
	}
	if err != nil || before != nil {
		fmt.Printf("not confined: %v %v", err, before)
		os.Exit(1)
	}
	missing := ""
	for _, layer := range layers {
		if layer.Missing != "" {
			missing += layer.Name + " "
		}
	}
	fmt.Printf("missing %q: %v", missing, attempts()[name](dir))
	os.Exit(0)
}

// attempts are what is forbidden; each returns what the kernel says.
func attempts() map[string]func(dir string) error {
	return map[string]func(dir string) error{
		"socket":   func(string) error { return second(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)) },
		"unix":     func(string) error { return second(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)) },
		"netlink":  func(string) error { return second(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)) },
		"io_uring": func(string) error { return systemCall(unix.SYS_IO_URING_SETUP, 1, 0) },
		"bpf":      func(string) error { return systemCall(unix.SYS_BPF, 0, 0) },
		"perf":     func(string) error { return systemCall(unix.SYS_PERF_EVENT_OPEN, 0, 0) },
		"keyctl":   func(string) error { return systemCall(unix.SYS_KEYCTL, 0, 0) },
		"userfaultfd": func(string) error {
			return systemCall(unix.SYS_USERFAULTFD, 0, 0)
		},
		"ptrace":  func(string) error { return unix.PtraceAttach(os.Getppid()) },
		"peek":    func(string) error { return second(unix.ProcessVMReadv(os.Getppid(), nil, nil, 0)) },
		"mount":   func(string) error { return unix.Mount("none", "/mnt", "tmpfs", 0, "") },
		"unshare": func(string) error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"chroot":  func(string) error { return unix.Chroot("/") },
		"setuid":  func(string) error { return systemCall(unix.SYS_SETUID, 0, 0) },
		"root":    func(string) error { return unix.Setresuid(0, 0, 0) },
		"groups":  func(string) error { return unix.Setgroups([]int{0}) },
		"kill":    func(string) error { return unix.Kill(-1, 0) },
		"tgkill":  func(string) error { return unix.Tgkill(os.Getppid()+1, os.Getppid()+1, 0) },
		"execve":  func(string) error { return syscall.Exec("/proc/self/exe", []string{"x"}, nil) },
		"start":   func(string) error { return exec.Command("/proc/self/exe").Run() },
		"fork":    func(string) error { return systemCall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0) },
		"clone3":  func(string) error { return systemCall(unix.SYS_CLONE3, 0, 0) },
		"raise": func(string) error {
			return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
		},
		"dumpable": func(string) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) },
		"read":     func(string) error { return second(os.ReadFile("/etc/passwd")) },
		"self":     func(string) error { return second(os.ReadFile("/proc/self/environ")) },
		"list":     func(string) error { return second(os.ReadDir("/proc")) },
		"cache-read": func(dir string) error {
			return second(os.ReadFile(filepath.Join(dir, "native")))
		},
		"cache-write": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "native"), []byte("x"), 0o600)
		},
		"compiler-writes": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "native"), []byte("x"), 0o600)
		},
		"compiler-elsewhere": func(dir string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(dir), "other"), []byte("x"), 0o600)
		},
		"elsewhere": func(dir string) error {
			return second(os.ReadFile(filepath.Join(filepath.Dir(dir), "other")))
		},
		"image": func(string) error {
			fd, err := unix.MemfdCreate("x", 0)
			if err != nil {
				return fmt.Errorf("make: %w", err)
			}
			if err := unix.Ftruncate(fd, mib); err != nil {
				return fmt.Errorf("grow to what is allowed: %w", err)
			}
			return unix.Ftruncate(fd, mib+1)
		},
		"memory": func(string) error {
			return second(unix.Mmap(-1, 0, 4<<30, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE))
		},
		"many-files": func(string) error {
			for range 2 * workerFiles {
				if err := second(unix.FcntlInt(1, unix.F_DUPFD, 0)); err != nil {
					return err
				}
			}
			return nil
		},
		"open-before": func(string) error { return second(unix.FcntlInt(9, unix.F_GETFD, 0)) },
		"environment": func(string) error {
			if len(os.Environ()) > 0 {
				return nil
			}
			return errors.New("none")
		},
		"nothing": func(string) error {
			// What a Go program needs goes on: threads, memory, clocks, the collector.
			done := make(chan int)
			for range 8 {
				go func() {
					block := make([]byte, mib)
					time.Sleep(time.Millisecond)
					done <- len(block)
				}()
			}
			for range 8 {
				<-done
			}
			return errors.New("all is well")
		},
		"compute": func(string) error {
			for x := 1; ; x++ {
				if x == 0 {
					return nil
				}
			}
		},
	}
}

func second[T any](_ T, err error) error { return err }

func systemCall(number, a, b uintptr) error {
	var buffer [256]byte
	if b == 0 {
		b = uintptr(unsafe.Pointer(&buffer))
	}
	_, _, errno := unix.Syscall6(number, a, b, 0, 0, 0, 0)
	if errno == 0 {
		return nil
	}
	return errno
}
