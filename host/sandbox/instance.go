package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// maxRecordedBytes is how much an initialiser may print when its instance is to be kept.
const maxRecordedBytes = 64 * kib

// errInitialiserUsesCall unwinds an initialiser that uses the functions of a call.
var errInitialiserUsesCall = errors.New("the initialiser uses functions that belong to a call")

// keptInstance is an instance that serves many calls, with the state in which each of
// them begins: right after the initialiser.
type keptInstance struct {
	instance api.Module
	memory   *guestMemory
	snapshot *snapshot
	printed  []printed
}

// printed is something that the initialiser wrote to a stream.
type printed struct {
	stderr bool
	text   []byte
}

// recording is what is noted about an initialiser.
type recording struct {
	printed []printed
	size    int
	// used says that it has used a function that belongs to a call.
	used bool
}

// replay writes what the initialiser wrote, as if it had run for this call.
func (k *keptInstance) replay(logs *logSink) {
	for _, p := range k.printed {
		stream := &logs.stdout
		if p.stderr {
			stream = &logs.stderr
		}
		_, _ = stream.Write(p.text) // a lineWriter never fails
	}
}

// keep makes an instance that can serve many calls. If the module's state turns out to
// be one that cannot be put back there is none afterwards, and a freshReason. A fault is
// the guest's.
func (g *guest) keep(ctx context.Context, c *call) *guestFault {
	memory := newGuestMemory(g.setup.MemoryBytes)
	record := &recording{}
	g.recording = record
	instance, err := g.instantiate(ctx, memory)
	if err == nil {
		err = initialize(ctx, instance)
	}
	g.recording = nil
	switch {
	case record.used || g.arena.missed():
		g.freshReason = "its initialiser uses functions that belong to a call"
	case record.size > maxRecordedBytes:
		g.freshReason = "its initialiser prints too much"
	case err != nil:
		fault := g.faultOf(c, memory, err)
		closeInstance(ctx, instance)
		memory.Free()
		return fault
	}
	var s *snapshot
	if g.freshReason == "" {
		if s, err = takeSnapshot(instance, memory, g.setup.Globals, g.setup.ImageBytes, g.tracker); err != nil {
			g.freshReason = err.Error()
		}
	}
	g.arena.reset()
	g.disturbed = false
	if g.freshReason != "" {
		closeInstance(ctx, instance)
		return nil
	}
	g.kept = &keptInstance{instance: instance, memory: memory, snapshot: s, printed: record.printed}
	return nil
}

// discard gives the kept instance up; the next call makes another.
func (g *guest) discard(ctx context.Context) {
	if g.kept == nil {
		return
	}
	closeInstance(ctx, g.kept.instance)
	// One that its context has ended does not give it back by itself.
	g.kept.memory.Free()
	g.kept.snapshot.close()
	g.kept = nil
}

// closeInstance closes an instance, if there is one. Its memory goes with it; there is
// nothing left that closing could report.
func closeInstance(ctx context.Context, instance api.Module) {
	if instance != nil {
		_ = instance.Close(ctx)
	}
}

// instantiate makes an instance and runs its start function. Without clocks and random
// sources of our own wazero's are fixed ones.
func (g *guest) instantiate(ctx context.Context, memory *guestMemory) (instance api.Module, err error) {
	defer func() {
		// wazero recovers what guests and host functions panic with; what gets here is
		// its own, for instance an initial memory that cannot be reserved.
		if recovered := recover(); recovered != nil {
			memory.Free()
			instance, err = nil, fmt.Errorf("%v", recovered)
		}
	}()
	config := wazero.NewModuleConfig().
		// A name would be registered, and a guest could call itself like a host module.
		WithName("").
		// _start is never run: it ends a Go module's life.
		WithStartFunctions().
		WithStdout(&guestStream{guest: g}).
		WithStderr(&guestStream{guest: g, stderr: true}).
		WithRandSource(rand.Reader).
		WithSysWalltime().
		WithSysNanotime().
		// A sleep that outlasts the call's deadline ends with it.
		WithNanosleep(func(ns int64) { sleep(ctx, time.Duration(ns)) })
	instance, err = g.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, memory), g.compiled, config)
	if err != nil || !g.setup.GrowsTables {
		return instance, err
	}
	if err := g.bound(ctx, instance); err != nil {
		closeInstance(ctx, instance)
		return nil, err
	}
	return instance, nil
}

// bound gives the tables of an instance their limit, and then runs its start function.
func (g *guest) bound(ctx context.Context, instance api.Module) error {
	// The added globals are the last ones, and exported like all that are mutable.
	names := g.setup.Globals[len(g.setup.Globals)-addedGlobals:]
	limit, ok := instance.ExportedGlobal(names[0]).(api.MutableGlobal)
	if !ok {
		return errors.New("the limit of the tables is not there")
	}
	limit.Set(uint64(g.setup.TableElements))
	g.wanted = instance.ExportedGlobal(names[1])
	if g.setup.Start == "" {
		return nil
	}
	_, err := instance.ExportedFunction(g.setup.Start).Call(ctx)
	return err
}

// sleep sleeps until the time is over or the context ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// guestStream is a standard stream of an instance: it belongs to whatever call is
// running.
type guestStream struct {
	guest  *guest
	stderr bool
}

var _ io.Writer = (*guestStream)(nil)

// Write implements io.Writer and never fails.
func (s *guestStream) Write(p []byte) (int, error) {
	g := s.guest
	switch {
	case g.recording != nil:
		g.recording.add(s.stderr, p)
		return len(p), nil
	case g.running == nil:
		return len(p), nil // nobody's call, nobody's log
	case s.stderr:
		return g.running.logs.stderr.Write(p)
	default:
		return g.running.logs.stdout.Write(p)
	}
}

// add notes what was printed, as far as it will be used.
func (r *recording) add(stderr bool, p []byte) {
	r.size += len(p)
	if r.size <= maxRecordedBytes {
		r.printed = append(r.printed, printed{stderr, append([]byte(nil), p...)})
	}
}

// linkWASI links WASI, and watches the functions with which a guest may change what the
// host keeps for its instance.
func (g *guest) linkWASI(ctx context.Context) error {
	ctx = experimental.WithFunctionListenerFactory(ctx, experimental.FunctionListenerFactoryFunc(
		func(f api.FunctionDefinition) experimental.FunctionListener {
			for _, name := range f.ExportNames() {
				if !stateless(name) {
					return &disturbance{guest: g, onSuccess: needsDirectory(name)}
				}
			}
			return nil
		}))
	_, err := wasi_snapshot_preview1.Instantiate(ctx, g.runtime)
	return err
}

// disturbance notes that a function has been called that may leave something behind in
// the host.
type disturbance struct {
	guest *guest
	// onSuccess says that it leaves nothing where it fails.
	onSuccess bool
}

var _ experimental.FunctionListener = (*disturbance)(nil)

// Before implements experimental.FunctionListener.
func (d *disturbance) Before(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {
	if !d.onSuccess {
		d.guest.disturbed = true
	}
}

// After implements experimental.FunctionListener. Functions of WASI return an error
// number, 0 for none; what else is on the stack are parameters.
func (d *disturbance) After(_ context.Context, _ api.Module, _ api.FunctionDefinition, results []uint64) {
	if len(results) == 0 || uint32(results[0]) == 0 {
		d.guest.disturbed = true
	}
}

// Abort implements experimental.FunctionListener. What did not return is a fault, and no
// instance outlives one.
func (d *disturbance) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}

// needsDirectory reports whether a function of WASI begins with a directory or a socket
// that must be open. There are none, so it fails before it does anything.
func needsDirectory(name string) bool {
	return strings.HasPrefix(name, "path_") || strings.HasPrefix(name, "sock_")
}

// stateless reports whether a function of WASI leaves nothing behind in the host. What
// is not known to is taken to.
func stateless(name string) bool {
	switch name {
	case "args_get", "args_sizes_get", "environ_get", "environ_sizes_get", "clock_res_get", "clock_time_get",
		"random_get", "sched_yield", "poll_oneoff", "fd_write", "fd_fdstat_get", "fd_filestat_get",
		"fd_prestat_get", "fd_prestat_dir_name", "proc_exit", "proc_raise":
		return true
	default:
		return false
	}
}

// initialize starts the runtime of the guest's language, in the order that Extism's
// hosts agree on. A module without any initialiser is complete as it is.
func initialize(ctx context.Context, instance api.Module) error {
	start := instance.ExportedFunction("_initialize")
	if start == nil {
		start = instance.ExportedFunction("__wasm_call_ctors")
	}
	if start != nil {
		if _, err := start.Call(ctx); err != nil {
			return err
		}
	}
	if haskell := instance.ExportedFunction("hs_init"); haskell != nil {
		if _, err := haskell.Call(ctx, 0, 0); err != nil {
			return err
		}
	}
	return nil
}
