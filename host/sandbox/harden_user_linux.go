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

// workerUser is who a worker of an operator that is root becomes before the first
// instruction of a module: user and group. It is out of the range that Debian's policy
// (§9.2.2) reserves, and that no system gives to anybody, and a container that maps 65536
// users has it.
const workerUser = 65533

// mayChangeUser reports whether workers can become somebody else: nil, or why not. What
// holds for an operator holds for the workers that it starts.
func mayChangeUser() error {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(header, &data[0]); err != nil {
		return fmt.Errorf("look at the capabilities: %w", err)
	}
	// Without CAP_KILL the operator could not end those that are somebody else.
	const needed = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	if data[0].Effective&needed != needed {
		return errors.New("the operator is root without the capabilities SETUID, SETGID and KILL; better, let it be another user than root")
	}
	for _, path := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		table, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("look for the user of workers: %w", err)
		}
		if !mapsUser(table, workerUser) {
			return fmt.Errorf("the user namespace of the operator has no user %d", workerUser)
		}
	}
	return nil
}

// mapsUser reads a table of user_namespaces(7): first inside, first outside, how many.
func mapsUser(table []byte, id uint64) bool {
	for line := range bytes.Lines(table) {
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			continue
		}
		first, err := strconv.ParseUint(string(fields[0]), 10, 64)
		count, second := strconv.ParseUint(string(fields[2]), 10, 64)
		if err == nil && second == nil && id >= first && id-first < count {
			return true
		}
	}
	return false
}

// keepForUser returns the capabilities that changeUser needs, if it can be done.
func keepForUser() (unix.CapUserData, error) {
	if err := mayChangeUser(); err != nil {
		return unix.CapUserData{}, err
	}
	const kept = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID
	return unix.CapUserData{Effective: kept, Permitted: kept}, nil
}

// changeUser makes every thread somebody else, for good: whoever stops being root loses
// every capability with that.
func changeUser() error {
	if err := syscall.Setgroups([]int{}); err != nil {
		return fmt.Errorf("leave the groups: %w", err)
	}
	if err := syscall.Setresgid(workerUser, workerUser, workerUser); err != nil {
		return fmt.Errorf("change the group: %w", err)
	}
	if err := syscall.Setresuid(workerUser, workerUser, workerUser); err != nil {
		return fmt.Errorf("change the user: %w", err)
	}
	// The kernel forgets it when the user changes.
	err := everyThread(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL))
	if errors.Is(err, errors.ErrUnsupported) {
		return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0)
	}
	return err
}
