//go:build unix

package sandbox

import "golang.org/x/sys/unix"

// compilerNiceness is how nice a worker is that compiles: beside somebody who wants the
// core as well it gets a tenth of it. Nobody waits for a compiler but who installs a
// module, and its deadline of minutes is for a compiler that has a tenth of a core.
const compilerNiceness = 10

// beNice makes every thread of this process nice, and those that it will have. A process that
// has not got a group of its own is left as it is.
func beNice() {
	if group := unix.Getpgrp(); group == unix.Getpid() {
		_ = unix.Setpriority(unix.PRIO_PGRP, group, compilerNiceness) // a courtesy
	}
}
