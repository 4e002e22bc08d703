package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setImportance sets how urgent every thread of a process is, and those are that it will have.
// A process that gives way is made important again by whoever has CAP_SYS_NICE only.
func setImportance(pid int, i importance) error {
	policy := uint32(unix.SCHED_NORMAL)
	if i == givesWay {
		// A nice process ends the slice that it has begun, one of this policy does not.
		policy = unix.SCHED_IDLE
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return fmt.Errorf("list the threads of a worker: %w", err)
	}
	for _, entry := range threads {
		thread, err := strconv.Atoi(entry.Name())
		if err != nil {
			return fmt.Errorf("list the threads of a worker: %w", err)
		}
		if err := setPolicy(thread, policy); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("change the scheduling of a worker: %w", err)
		}
	}
	return nil
}

// setPolicy changes the policy of a thread, and leaves it as nice as it is.
func setPolicy(thread int, policy uint32) error {
	is, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		return err
	}
	return unix.SchedSetAttr(thread, &unix.SchedAttr{Policy: policy, Nice: is.Nice}, 0)
}
