//go:build !linux

package sandbox

import (
	"errors"
	"time"
)

// cpuTime has no way to ask that all systems know. There the deadline is what ends a call.
func cpuTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// residentBytes does not know.
func residentBytes(int) int64 { return 0 }
