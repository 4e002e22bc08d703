//go:build unix

package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// watchTime is for how long a worker looks for the answer to a host call before it goes to
// sleep. Being woken up takes 10 to 50 µs, as much as a short host call does; one that is
// waited for in vain costs this much more.
const watchTime = 25 * time.Microsecond

// watchFor returns when there is something to read from a file, or after watchTime.
func watchFor(fd uintptr) {
	files := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for began := time.Now(); time.Since(began) < watchTime; {
		if n, err := unix.Poll(files, 0); n != 0 || err != nil {
			return
		}
	}
}
