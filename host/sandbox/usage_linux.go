package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processClock is the bits of a clock's number that mean the processor time of a whole
// process, whose number is the inverted rest: clock_getcpuclockid(3) of every libc.
const processClock = 2

// cpuTime returns for how long a process has computed on all of its threads, those that
// have ended included. It costs a microsecond and needs no right.
func cpuTime(pid int) (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|processClock), &now); err != nil {
		return 0, fmt.Errorf("read the processor time of a worker: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// residentBytes returns how much memory a process has resident, or 0 if it has ended.
func residentBytes(pid int) int64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(content)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
