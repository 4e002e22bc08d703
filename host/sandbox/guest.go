package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-dev/caisson/abi"
)

// coreFeatures is what guests may use: Wasm 2, and what current compilers of Haskell
// and clang emit beyond it.
const coreFeatures = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst

// guest is the one module of a worker, compiled.
type guest struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
	setup    setup
	arena    *arena
	// wanted is the global of the running instance that tells what was wanted beyond the
	// limit of its tables, or nil.
	wanted  api.Global
	tracker *pageTracker

	// freshReason says why every call needs an instance of its own; empty while none is
	// known.
	freshReason string
	// kept is the instance that serves one call after the other, in the state in which a
	// call begins. It is nil before the first call, after a fault, and always when there
	// is a freshReason.
	kept *keptInstance
	// running is the call in flight; host functions find it here.
	running *call
	// recording is not nil while the initialiser of the kept instance runs.
	recording *recording
	// disturbed says that the guest has changed something that the host keeps for its
	// instance: which descriptors are open, for instance.
	disturbed bool
}

// loadGuest reads the native code of a module, of which it has the skeleton, from the cache
// and links what it may import. ask carries host calls to the parent.
func loadGuest(ctx context.Context, skeleton []byte, s setup, tracker *pageTracker, ask func(c *call, name string, request []byte) []byte) (*guest, error) {
	runtime, cache, err := newRuntime(ctx, s)
	if err != nil {
		return nil, err
	}
	g := &guest{runtime: runtime, cache: cache, setup: s, tracker: tracker, freshReason: s.Fresh}
	if err := g.linkWASI(ctx); err != nil {
		return nil, fmt.Errorf("link %s: %w", abi.ImportWASI, err)
	}
	memory, err := newKernel(ctx, g.runtime, envFunctions(g.current, s.LogLevel), s.ArenaBytes)
	if err != nil {
		return nil, err
	}
	g.arena = newArena(memory, s.ArenaBytes)
	user := func(string) (signature, bool) { return userSignature, true }
	forward := func(name string, request []byte) []byte { return ask(g.running, name, request) }
	if err := link(ctx, g.runtime, abi.ImportUser, user, userFunctions(g.current, forward)); err != nil {
		return nil, fmt.Errorf("link %s: %w", abi.ImportUser, err)
	}
	g.compiled, err = loadSkeleton(ctx, runtime, skeleton, s)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// newRuntime makes a runtime that keeps native code in a directory.
func newRuntime(ctx context.Context, s setup) (wazero.Runtime, wazero.CompilationCache, error) {
	cache, err := wazero.NewCompilationCacheWithDir(s.CacheDir)
	if err != nil {
		return nil, nil, fmt.Errorf("open the compilation cache: %w", err)
	}
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(coreFeatures).
		WithCompilationCache(cache).
		// DWARF is a second format to parse, out of the same hostile file.
		WithDebugInfoEnabled(false).
		// A process is killed; a goroutine has to be asked.
		WithCloseOnContextDone(s.Interruptible)
	return wazero.NewRuntimeWithConfig(ctx, config), cache, nil
}

// current returns the call that a host function belongs to. There is none while the
// initialiser of an instance runs that is to be kept: what it did with a call would be
// in the state of the calls after that.
func (g *guest) current() *call {
	if g.recording != nil {
		g.recording.used = true
		panic(errInitialiserUsesCall)
	}
	return g.running
}

// result is how a call ended.
type result struct {
	code int32
	// output is valid until settle.
	output []byte
	// guestError is what the guest gave to error_set.
	guestError string
	fault      *guestFault
	origin     stateOrigin
}

// serve runs an export in a state that no call has touched. Whatever the guest does
// short of killing the process comes back as a result. settle must be called after it.
func (g *guest) serve(ctx context.Context, id uint32, export string, input []byte, logs *logSink) (r result) {
	c := &call{id: id, arena: g.arena, logs: logs}
	g.running, g.disturbed, g.wanted = c, false, nil
	defer func() {
		if r.fault != nil || g.disturbed {
			// A trap leaves locks that are held and a runtime that is broken.
			g.discard(ctx)
		}
		r.guestError = c.guestError()
		g.running = nil
	}()
	if g.kept != nil {
		r.origin = originRestored
	} else if g.freshReason == "" {
		if r.fault = g.keep(ctx, c); r.fault != nil {
			return r
		}
	}
	if !c.setInput(input) {
		r.fault = &guestFault{Kind: FaultMemory, Text: "the input does not fit into the Extism memory", Limit: int64(g.setup.ArenaBytes), Got: int64(len(input))}
		return r
	}
	if g.kept != nil {
		g.kept.replay(logs)
		r.code, r.fault = g.invoke(ctx, c, g.kept.instance, g.kept.memory, export)
	} else {
		r.code, r.fault = g.serveOnce(ctx, c, export)
	}
	r.output = c.output()
	return r
}

// serveOnce runs an export on an instance that is for this call only.
func (g *guest) serveOnce(ctx context.Context, c *call, export string) (int32, *guestFault) {
	memory := newGuestMemory(g.setup.MemoryBytes)
	instance, err := g.instantiate(ctx, memory)
	if err != nil {
		memory.Free()
		return 0, g.faultOf(c, memory, err)
	}
	defer memory.Free()
	// There is nothing left that closing could report.
	defer func() { _ = instance.Close(ctx) }()
	if err := initialize(ctx, instance); err != nil {
		return 0, g.faultOf(c, memory, err)
	}
	return g.invoke(ctx, c, instance, memory, export)
}

// invoke calls an export.
func (g *guest) invoke(ctx context.Context, c *call, instance api.Module, memory *guestMemory, export string) (int32, *guestFault) {
	function := instance.ExportedFunction(export)
	if function == nil {
		return 0, &guestFault{Kind: FaultTrap, Text: "there is no export " + quoteName(export)}
	}
	results, err := function.Call(ctx)
	if err != nil {
		return 0, g.faultOf(c, memory, err)
	}
	if len(results) != 1 {
		return 0, &guestFault{Kind: FaultTrap, Text: "the export " + quoteName(export) + " has no result"}
	}
	if got, limit := len(c.output()), g.setup.OutputBytes; got > limit {
		return 0, &guestFault{Kind: FaultOutput, Text: "the output is too large", Limit: int64(limit), Got: int64(got)}
	}
	return int32(uint32(results[0])), nil
}

// close gives everything back.
func (g *guest) close(ctx context.Context) {
	g.discard(ctx)
	_ = g.runtime.Close(ctx) // what it holds goes with it; there is nothing left to report
	_ = g.cache.Close(ctx)
}

// settle removes what the last call left. It is done once the call has been answered, so
// that nobody waits for it.
func (g *guest) settle(ctx context.Context) {
	g.arena.reset()
	if g.kept != nil && g.kept.snapshot.restore() != nil {
		g.discard(ctx)
	}
}

// faultOf says what a failed call died of. An exit is a trap whatever its code, so
// that no code can pass for a disposition or for a deadline.
func (g *guest) faultOf(c *call, memory *guestMemory, err error) *guestFault {
	text, stack, _ := strings.Cut(err.Error(), "\nwasm stack trace:")
	text = clean(strings.TrimPrefix(firstLine(text), "wasm error: "), maxDetailBytes)
	fault := &guestFault{Kind: FaultTrap, Text: text, Trap: trapIdentity(text, stack)}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		fault.Text = fmt.Sprintf("the guest exited with code %d instead of returning", exit.ExitCode())
		fault.Trap = fmt.Sprintf("exit %d", exit.ExitCode())
	}
	switch {
	case memory.refused:
		fault.Kind, fault.Limit, fault.Got, fault.Trap = FaultMemory, g.setup.MemoryBytes, int64(memory.wanted), ""
		fault.Text = "the guest was refused more memory, then: " + fault.Text
	case g.wanted != nil && g.wanted.Get() != 0:
		fault.Kind, fault.Limit, fault.Got, fault.Trap = FaultTable, int64(g.setup.TableElements), int64(g.wanted.Get()), ""
		fault.Text = "the guest was refused a larger table, then: " + fault.Text
	case c.arena.full:
		fault.Kind, fault.Limit, fault.Got, fault.Trap = FaultMemory, int64(g.setup.ArenaBytes), int64(min(c.arena.wanted, math.MaxInt64)), ""
		fault.Text = "the guest was refused more Extism memory, then: " + fault.Text
	}
	fault.GuestError = c.guestError()
	return fault
}

// trapFrames is how many frames of the guest's stack tell a trap from another: enough
// to get past a language's own panic machinery.
const trapFrames = 12

// trapIdentity joins what went wrong with where. It leaves out everything that changes
// from call to call, the guest's messages above all.
func trapIdentity(text, stack string) string {
	frames := make([]string, 0, trapFrames)
	for line := range strings.Lines(stack) {
		if len(frames) == trapFrames {
			break
		}
		if name := strings.TrimSpace(line); name != "" {
			frames = append(frames, clean(name, maxNameBytes))
		}
	}
	if len(frames) == 0 {
		return text
	}
	return text + " in " + strings.Join(frames, " < ")
}
