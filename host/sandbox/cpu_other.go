//go:build !linux

package sandbox

import (
	"errors"
	"time"
)

// cpuTime has no way to ask that all systems know. There the deadline is what ends a call.
func cpuTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
