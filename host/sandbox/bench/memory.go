package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/oracle"
)

// measureArgument makes this program measure one thing in a process of its own, where
// nothing else has left memory behind.
const measureArgument = "measure"

// The tables about memory and numbers.
const (
	tableMemory = "Memory of one module (proportional set size, processes included)"
	tableMany   = "Many modules"
)

// figures are what a child has measured, by the name of the row, in MiB or nanoseconds.
type figures map[string]float64

// child runs this program for one measurement.
func (a *artefacts) child(ctx context.Context, args ...string) (figures, error) {
	cmd := exec.CommandContext(ctx, a.self, append([]string{measureArgument, a.dir}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("measure %v: %w: %s", args, err, stderr.String())
	}
	found := figures{}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("measure %v: %w", args, err)
	}
	return found, nil
}

// measureChild is the life of a child: arguments are the directory of the artefacts, what
// to measure, and a guest or a number.
func measureChild(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("a measurement has three arguments")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	a := artefactsIn(args[0], self)
	var found figures
	if args[1] == "many" {
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		if found, err = many(ctx, a, n); err != nil {
			return err
		}
	} else {
		if found, err = memoryOf(ctx, a, args[1], filepath.Join(a.dir, args[2]+".wasm")); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// memoryOf measures what one module more adds: as it stands loaded and called, and once it
// has been idle.
func memoryOf(ctx context.Context, a *artefacts, how, name string) (_ figures, err error) {
	envelope, err := leaf.Envelope(typical())
	if err != nil {
		return nil, err
	}
	var s *sandbox.Sandbox
	const (
		idleAfter = 5 * time.Second
		// rested is when a worker that waits has let go of its code, where it does that.
		rested = 2 * time.Second
	)
	if how == "worker" {
		if s, err = openSandbox(a, sandbox.Options{IdleTimeout: idleAfter}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
	}
	// Loading takes memory for a moment, which this process keeps for the next time. A
	// first module, of another digest, takes it.
	first, err := wayOf(ctx, a, how, name, s, 1)
	if err != nil {
		return nil, err
	}
	if err := first.close(); err != nil {
		return nil, err
	}
	before, err := settled()
	if err != nil {
		return nil, err
	}
	w, err := wayOf(ctx, a, how, name, s, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := twenty(ctx, w.call, envelope); err != nil {
		return nil, err
	}
	found := figures{}
	one, err := found.note("active", before)
	if err != nil {
		return nil, err
	}
	if s == nil {
		_, err := found.note("idle", before) // nothing ends the others
		return found, err
	}
	if err := twenty(ctx, w.another, envelope); err != nil {
		return nil, err
	}
	if _, err := found.note("one more for another tenant", one); err != nil {
		return nil, err
	}
	for s.Workers() > 1 { // the first has been idle for longer
		time.Sleep(idleAfter / 100)
	}
	if err := twenty(ctx, w.another, envelope); err != nil {
		return nil, err
	}
	time.Sleep(rested)
	if _, err := found.note("waiting for 2 s", before); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(time.Minute); s.Workers() > 0; {
		if time.Now().After(deadline) {
			return nil, errors.New("the idle worker does not end")
		}
		time.Sleep(idleAfter / 10)
	}
	_, err = found.note("idle", before)
	return found, err
}

// twenty makes calls.
func twenty(ctx context.Context, call func(context.Context, []byte) ([]byte, error), envelope []byte) error {
	for range 20 {
		if _, err := call(ctx, envelope); err != nil {
			return err
		}
	}
	return nil
}

// note measures what there is more than before, and how much of it is no page of a file:
// memory that nobody else can use, and that the kernel cannot take back.
func (f figures) note(when string, before footprint) (footprint, error) {
	now, err := settled()
	f[when] = max(0, now.all-before.all)
	f[when+", without pages of files"] = max(0, now.own-before.own)
	return now, err
}

// wayOf makes the way that is measured, with a module of its own digest for each number.
// The bytes of the module are gone when it returns.
func wayOf(ctx context.Context, a *artefacts, how, name string, s *sandbox.Sandbox, number int) (*way, error) {
	wasm, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	wasm = distinct(wasm, number)
	switch how {
	case "worker":
		return worker(ctx, s, "", wasm)
	case "sdk":
		return sdk(ctx, "", wasm, oracle.Options{Timeout: time.Minute, CacheDir: filepath.Join(a.dir, "sdk")})
	default:
		return pluginProcess(a)
	}
}

// footprint is memory in MiB: all of it, and what is no page of a file.
type footprint struct{ all, own float64 }

// settled returns the memory of this process and its descendants after collections: what
// has a finalizer or is in a pool outlives the first. What the runtime of this process
// has free and keeps for the next allocation belongs to no module.
func settled() (footprint, error) {
	for range 3 {
		debug.FreeOSMemory()
	}
	f, err := proportional(os.Getpid())
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	free := float64(stats.HeapIdle-stats.HeapReleased) / (1 << 20)
	return footprint{f.all - free, f.own - free}, err
}

// proportional sums the proportional set size of a process and its descendants.
func proportional(pid int) (footprint, error) {
	total, err := rollup(pid)
	if err != nil {
		return total, err
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return total, err
	}
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return total, err
			}
			more, err := proportional(child)
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has ended
				continue
			}
			if err != nil {
				return total, err
			}
			total = footprint{total.all + more.all, total.own + more.own}
		}
	}
	return total, nil
}

// rollup reads the memory of one process.
func rollup(pid int) (footprint, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return footprint{}, fmt.Errorf("read the memory of a process: %w", err)
	}
	var f footprint
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "Pss") {
			continue
		}
		kilobytes, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return footprint{}, err
		}
		switch fields[0] {
		case "Pss:":
			f.all = kilobytes / 1024
		case "Pss_Anon:", "Pss_Shmem:":
			f.own += kilobytes / 1024
		}
	}
	return f, nil
}

// measureMemory measures one module in every way.
func measureMemory(ctx context.Context, set settings, a *artefacts, r *results) error {
	for range min(3, set.count) {
		for _, how := range []struct{ name, way, guest string }{
			{wayPlugin, "plugin", guestLean}, {"worker lean", "worker", guestLean}, {"worker go", "worker", guestGo}, {"worker C", "worker", guestC},
			{"go-sdk lean", "sdk", guestLean}, {"go-sdk C", "sdk", guestC},
		} {
			if a.guests[how.guest] == nil {
				continue
			}
			found, err := a.child(ctx, how.way, how.guest)
			if err != nil {
				return err
			}
			for _, when := range slices.Sorted(maps.Keys(found)) {
				r.add(tableMemory, how.name+", "+when, unitMiB, found[when])
			}
		}
	}
	return nil
}

// many loads n distinct small modules, and measures what that takes, what remains, and how
// long calls are then.
func many(ctx context.Context, a *artefacts, n int) (_ figures, err error) {
	wasm, err := os.ReadFile(filepath.Join(a.dir, "c.wasm"))
	if err != nil {
		return nil, err
	}
	envelope, err := leaf.Envelope(typical())
	if err != nil {
		return nil, err
	}
	cache, err := os.MkdirTemp(a.dir, "many-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
	found := figures{}
	before, err := settled()
	if err != nil {
		return nil, err
	}
	// The first time everything is compiled, the second time it is in the cache: that is a
	// restart.
	for _, start := range []string{"first start", "restart"} {
		s, err := openSandbox(a, sandbox.Options{CacheDir: cache})
		if err != nil {
			return nil, err
		}
		began := time.Now()
		modules := make([]*sandbox.Module, n)
		for i := range modules {
			if modules[i], err = s.Load(ctx, distinct(wasm, i), sandbox.Limits{}); err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
		found[start] = float64(time.Since(began))
		if start == "restart" {
			err = callMany(ctx, found, modules, envelope, before)
		}
		if err := errors.Join(err, s.Close()); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// callMany calls one module again and again, and then one after the other.
func callMany(ctx context.Context, found figures, modules []*sandbox.Module, envelope []byte, before footprint) error {
	timeCalls := func(pick func(i int) *sandbox.Module, n int) (float64, error) {
		times := make([]float64, n)
		for i := range times {
			began := time.Now()
			if code, _, err := pick(i).Call(ctx, "tenant", provision, envelope, hostOf); err != nil || code != 0 {
				return 0, fmt.Errorf("the leaf answers %d: %w", code, err)
			}
			times[i] = float64(time.Since(began))
		}
		slices.Sort(times)
		return times[n/2], nil
	}
	var err error
	if found["warm call"], err = timeCalls(func(int) *sandbox.Module { return modules[len(modules)-1] }, 200); err != nil {
		return err
	}
	if found["call in turn"], err = timeCalls(func(i int) *sandbox.Module { return modules[i%len(modules)] }, max(50, min(len(modules), 200))); err != nil {
		return err
	}
	after, err := settled()
	found["memory"] = after.all - before.all
	return err
}

// distinct returns a module of another digest: a custom section says which.
func distinct(wasm []byte, i int) []byte {
	content := append([]byte{1, 'n'}, fmt.Sprintf("%08d", i)...)
	return append(append(slices.Clone(wasm), 0, byte(len(content))), content...)
}

// measureMany measures numbers of modules.
func measureMany(ctx context.Context, set settings, a *artefacts, r *results) error {
	if a.guests[guestC] == nil {
		return nil
	}
	for _, n := range set.modules {
		progress("%d modules", n)
		found, err := a.child(ctx, "many", strconv.Itoa(n))
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			unit := unitTime
			if name == "memory" {
				unit = unitMiB
			}
			r.add(tableMany, fmt.Sprintf("%d modules: %s", n, name), unit, found[name])
		}
	}
	return nil
}
