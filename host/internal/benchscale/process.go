package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticks is how many clock ticks a second of CPU has in /proc, on every Linux that is in
// use.
const ticks = 100

// usage is what a process has used and holds.
type usage struct {
	// cpu are the seconds of the process, and workers those of its descendants that have
	// ended, and of the one that starts them.
	cpu, workers float64
	// resident and peak are bytes of memory.
	resident, peak float64
}

// usageOf reads what the kernel knows of a process.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return usage{}, fmt.Errorf("read what the operator uses: %w", err)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return usage{}, fmt.Errorf("read what the operator uses: %w", err)
	}
	u, err := parseUsage(stat, status)
	if err != nil {
		return usage{}, err
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return usage{}, fmt.Errorf("read what the operator uses: %w", err)
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(children)) {
			stat, err := os.ReadFile(filepath.Join("/proc", field, "stat"))
			if err != nil {
				continue // it has ended, and counts as such the next time
			}
			child, err := parseUsage(stat, nil)
			if err != nil {
				return usage{}, err
			}
			u.workers += child.cpu + child.workers
		}
	}
	return u, nil
}

// parseUsage reads the files stat and status of /proc.
func parseUsage(stat, status []byte) (usage, error) {
	var u usage
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const user, least = 11, 15 // utime, stime, cutime and cstime, counted from the state
	if end < 0 || len(fields) < least {
		return u, fmt.Errorf("a stat file with %d fields", len(fields))
	}
	var times [4]float64
	for i := range times {
		n, err := strconv.ParseFloat(fields[user+i], 64)
		if err != nil {
			return u, fmt.Errorf("read a stat file: %w", err)
		}
		times[i] = n / ticks
	}
	u.cpu, u.workers = times[0]+times[1], times[2]+times[3]
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			u.resident = kilobytes * 1024
		case name == "VmHWM":
			u.peak = kilobytes * 1024
		}
	}
	return u, nil
}

// freeAddresses returns loopback addresses that nobody listens on.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		addresses[i] = listener.Addr().String()
		defer func() { _ = listener.Close() }()
	}
	return addresses, nil
}

// get fetches a document from the operator.
func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the operator: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the operator: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask the operator: %s", res.Status)
	}
	return io.ReadAll(res.Body)
}

// profile stores a profile of the operator.
func (o *operator) writeProfile(ctx context.Context, kind, path string) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	content, err := get(ctx, o.profile+kind)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// sample is everything that is measured at one moment.
type sample struct {
	at time.Time
	usage
	counts
}

func (o *operator) sample(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	page, err := get(ctx, o.metrics)
	if err != nil {
		return sample{}, err
	}
	s := sample{at: time.Now()}
	if s.counts, err = parseCounts(page); err != nil {
		return s, err
	}
	s.usage, err = usageOf(o.command.Process.Pid)
	return s, err
}
