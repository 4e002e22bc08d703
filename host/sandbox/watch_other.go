//go:build !unix

package sandbox

import "time"

// watchTime is for how long others watch.
const watchTime = 25 * time.Microsecond

// watchFor does nothing here.
func watchFor(uintptr) {}
