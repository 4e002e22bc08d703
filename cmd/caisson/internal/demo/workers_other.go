//go:build !linux

package demo

import (
	"context"
	"os/exec"
	"strconv"
	"time"
)

// hunt kills the workers of an operator as it finds them, with what other systems than
// Linux have for that. It ends with the context and returns how many times it has killed.
func hunt(ctx context.Context, operator int) int {
	killed := 0
	for ctx.Err() == nil {
		if exec.CommandContext(ctx, "pkill", "-KILL", "-P", strconv.Itoa(operator), "-x", "caisson-worker").Run() == nil {
			killed++
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	return killed
}
