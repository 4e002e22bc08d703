package demo

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// heldFor is how long a worker is held up before it is killed: long enough for a call to be
// on its way to it.
const heldFor = 300 * time.Millisecond

// hunt stops the workers of an operator as it finds them, and kills each a little later,
// so that whatever it was called for is cut off in the middle. It ends with the context
// and returns how many it has killed.
func hunt(ctx context.Context, operator int) int {
	held := map[int]time.Time{}
	killed := 0
	for ctx.Err() == nil {
		for _, pid := range children(operator, "caisson-worker") {
			since, ok := held[pid]
			switch {
			case !ok:
				if syscall.Kill(pid, syscall.SIGSTOP) == nil {
					held[pid] = time.Now()
				}
			case time.Since(since) > heldFor:
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed++
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	for pid := range held {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return killed
}

// children lists the child processes of a program.
func children(parent int, program string) []int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	var found []int
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if pid, ok := childOf(raw, parent, program); ok {
			found = append(found, pid)
		}
	}
	return found
}

// childOf reads the stat file of a process: its PID, its program's first 15 bytes in
// parentheses, its state and its parent.
func childOf(stat []byte, parent int, program string) (int, bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || end < open {
		return 0, false
	}
	const most = 15 // what the kernel keeps of a name
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 || string(stat[open+1:end]) != program[:min(len(program), most)] || string(fields[0]) == "Z" {
		return 0, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	ppid, perr := strconv.Atoi(string(fields[1]))
	return pid, err == nil && perr == nil && ppid == parent
}
