package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What Landlock is asked to forbid, by the version of its interface that knows it
// (include/uapi/linux/landlock.h).
const (
	filesOf1 = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 // the thirteen rights of version 1
	filesOf2 = filesOf1 | unix.LANDLOCK_ACCESS_FS_REFER
	filesOf3 = filesOf2 | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	filesOf5 = filesOf3 | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	readFiles  = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFiles = readFiles | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// fileRule allows some rights below a directory.
type fileRule struct {
	dir    string
	rights uint64
}

// cacheRules are what loading a module needs: its native code, to read, or to write for
// the worker that compiles.
func cacheRules(s setup) []fileRule {
	if s.CacheDir == "" {
		return nil
	}
	if s.FileBytes > 0 {
		return []fileRule{{s.CacheDir, writeFiles}}
	}
	return []fileRule{{s.CacheDir, readFiles}}
}

// restrictFiles has Landlock refuse every file but those of the rules, TCP, abstract
// sockets and signals to others, as far as this kernel knows how. A second call can only
// take away.
func restrictFiles(rules []fileRule) error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("this kernel has no Landlock, or does not allow it: %w", errno)
	}
	attributes, size := rulesetOf(int(version))
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make a ruleset: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }() // what is in force does not depend on it
	for _, rule := range rules {
		if err := allowBelow(int(fd), rule, attributes.Handled_access_fs); err != nil {
			return err
		}
	}
	if version >= 8 {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, unix.LANDLOCK_RESTRICT_SELF_TSYNC, 0); errno != 0 {
			return fmt.Errorf("put the ruleset in force: %w", errno)
		}
		return nil
	}
	err := everyThread(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("put the ruleset in force: %w", err)
	}
	return err
}

// rulesetOf returns all that a version can forbid, and the size of the structure that it
// knows.
func rulesetOf(version int) (unix.LandlockRulesetAttr, uintptr) {
	a := unix.LandlockRulesetAttr{Handled_access_fs: filesOf1}
	size := unsafe.Sizeof(a.Handled_access_fs)
	if version >= 2 {
		a.Handled_access_fs = filesOf2
	}
	if version >= 3 {
		a.Handled_access_fs = filesOf3
	}
	if version >= 4 {
		a.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size = unsafe.Offsetof(a.Handled_access_net) + unsafe.Sizeof(a.Handled_access_net)
	}
	if version >= 5 {
		a.Handled_access_fs = filesOf5
	}
	if version >= 6 {
		a.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(a.Scoped) + unsafe.Sizeof(a.Scoped)
	}
	return a, size
}

// allowBelow adds a rule to a ruleset that handles some rights.
func allowBelow(ruleset int, rule fileRule, handled uint64) error {
	dir, err := unix.Open(rule.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the cache: %w", err)
	}
	defer func() { _ = unix.Close(dir) }() // it was only named
	allowed := unix.LandlockPathBeneathAttr{Allowed_access: rule.rights & handled, Parent_fd: int32(dir)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&allowed)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("allow the cache: %w", errno)
	}
	return nil
}
