package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-dev/caisson/abi"
)

// coreFeatures is what guests may use: Wasm 2, and what current compilers of Haskell
// and clang emit beyond it.
const coreFeatures = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst

// guest is the one module of a worker, compiled.
type guest struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	setup    setup
	// running is the call in flight; host functions find it here.
	running *call
}

// compileGuest compiles a module, or reads its native code from the cache, and links
// what it may import. ask carries host calls to the parent.
func compileGuest(ctx context.Context, wasm []byte, s setup, ask func(c *call, name string, request []byte) []byte) (*guest, error) {
	cache, err := wazero.NewCompilationCacheWithDir(s.CacheDir)
	if err != nil {
		return nil, fmt.Errorf("open the compilation cache: %w", err)
	}
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(coreFeatures).
		WithCompilationCache(cache).
		// DWARF is a second format to parse, out of the same hostile file.
		WithDebugInfoEnabled(false)
	g := &guest{runtime: wazero.NewRuntimeWithConfig(ctx, config), setup: s}
	current := func() *call { return g.running }
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, g.runtime); err != nil {
		return nil, fmt.Errorf("link %s: %w", abi.ImportWASI, err)
	}
	if err := link(ctx, g.runtime, abi.ImportEnv, envSignature, envFunctions(current, s.LogLevel)); err != nil {
		return nil, fmt.Errorf("link %s: %w", abi.ImportEnv, err)
	}
	user := func(string) (signature, bool) { return userSignature, true }
	forward := func(name string, request []byte) []byte { return ask(g.running, name, request) }
	if err := link(ctx, g.runtime, abi.ImportUser, user, userFunctions(current, forward)); err != nil {
		return nil, fmt.Errorf("link %s: %w", abi.ImportUser, err)
	}
	g.compiled, err = g.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// run calls an export of a fresh instance. Whatever the guest does short of killing
// the process comes back as a code or as a fault.
func (g *guest) run(ctx context.Context, c *call, export string) (code int32, fault *guestFault) {
	g.running = c
	defer func() {
		// wazero recovers what guests and host functions panic with; what gets here is
		// its own, for instance an initial memory that cannot be reserved.
		if recovered := recover(); recovered != nil {
			fault = g.faultOf(c, fmt.Errorf("%v", recovered))
		}
		g.running = nil
	}()
	ctx = experimental.WithMemoryAllocator(ctx, c.memory)
	instance, err := g.runtime.InstantiateModule(ctx, g.compiled, moduleConfig(c.logs))
	if err != nil {
		return 0, g.faultOf(c, err)
	}
	// Its memory goes with it; there is nothing left that closing could report.
	defer func() { _ = instance.Close(ctx) }()
	if err := initialize(ctx, instance); err != nil {
		return 0, g.faultOf(c, err)
	}
	function := instance.ExportedFunction(export)
	if function == nil {
		return 0, &guestFault{Kind: FaultTrap, Text: "there is no export " + quoteName(export)}
	}
	results, err := function.Call(ctx)
	if err != nil {
		return 0, g.faultOf(c, err)
	}
	if len(results) != 1 {
		return 0, &guestFault{Kind: FaultTrap, Text: "the export " + quoteName(export) + " has no result"}
	}
	if got, limit := len(c.output()), g.setup.OutputBytes; got > limit {
		return 0, &guestFault{Kind: FaultOutput, Text: "the output is too large", Limit: int64(limit), Got: int64(got)}
	}
	return int32(uint32(results[0])), nil
}

// moduleConfig gives a guest clocks, randomness and two captured streams. Without
// these settings wazero's clock and random source are fixed ones.
func moduleConfig(logs *logSink) wazero.ModuleConfig {
	return wazero.NewModuleConfig().
		// A name would be registered, and a guest could call itself like a host module.
		WithName("").
		// _start is never run: it ends a Go module's life.
		WithStartFunctions().
		WithStdout(&logs.stdout).
		WithStderr(&logs.stderr).
		WithRandSource(rand.Reader).
		WithSysWalltime().
		WithSysNanotime().
		// A sleep may outlast the call's deadline: that ends the whole process.
		WithSysNanosleep()
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

// faultOf says what a failed call died of. An exit is a trap whatever its code, so
// that no code can pass for a disposition or for a deadline.
func (g *guest) faultOf(c *call, err error) *guestFault {
	text, stack, _ := strings.Cut(err.Error(), "\nwasm stack trace:")
	text = clean(strings.TrimPrefix(firstLine(text), "wasm error: "), maxDetailBytes)
	fault := &guestFault{Kind: FaultTrap, Text: text, Trap: trapIdentity(text, stack)}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		fault.Text = fmt.Sprintf("the guest exited with code %d instead of returning", exit.ExitCode())
		fault.Trap = fmt.Sprintf("exit %d", exit.ExitCode())
	}
	switch {
	case c.memory.refused:
		fault.Kind, fault.Limit, fault.Trap = FaultMemory, g.setup.MemoryBytes, ""
		fault.Text = "the guest was refused more memory, then: " + fault.Text
	case c.arena.full:
		fault.Kind, fault.Limit, fault.Trap = FaultMemory, int64(g.setup.ArenaBytes), ""
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
