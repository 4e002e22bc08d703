package oracle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-dev/caisson/abi"
)

// Options say how a module is run.
type Options struct {
	// Timeout bounds a call. The SDK then checks for it in every loop of the guest; 0 means
	// that nothing stops a call.
	Timeout time.Duration
	// CacheDir is where wazero keeps native code, or empty.
	CacheDir string
	// MaxPages caps the memory of the guest, in pages of 64 KiB, and the kernel's too; 0
	// means no cap.
	MaxPages uint32
	// Stdout and Stderr take what the guest prints, or are nil.
	Stdout, Stderr io.Writer
	// Defaults keeps the clock and the random source that wazero gives by default: fixed
	// ones.
	Defaults bool
}

// Module is a compiled module.
type Module struct {
	compiled *extism.CompiledPlugin
	cache    wazero.CompilationCache
	options  Options
}

// Ask answers a host function.
type Ask func(f abi.Function, request []byte) []byte

// askKey is where a call's Ask is in its context.
type askKey struct{}

// Compile compiles a module with the host functions of package abi. The error is the
// SDK's.
func Compile(ctx context.Context, wasm []byte, o Options) (*Module, error) {
	m := &Module{options: o}
	config := wazero.NewRuntimeConfigCompiler()
	if o.CacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(o.CacheDir)
		if err != nil {
			return nil, fmt.Errorf("open the compilation cache: %w", err)
		}
		m.cache, config = cache, config.WithCompilationCache(cache)
	}
	manifest := extism.Manifest{
		Wasm: []extism.Wasm{extism.WasmData{Data: wasm}}, Timeout: uint64(o.Timeout.Milliseconds()),
		// In a literal 0 means nothing at all for both.
		Memory: &extism.ManifestMemory{MaxPages: o.MaxPages, MaxHttpResponseBytes: -1, MaxVarBytes: -1},
		Config: map[string]string{"key": "value"},
	}
	var functions []extism.HostFunction
	for _, f := range abi.Functions() {
		functions = append(functions, extism.NewHostFunctionWithStack(string(f), userFunction(f), []extism.ValueType{extism.ValueTypeI64}, []extism.ValueType{extism.ValueTypeI64}))
	}
	compiled, err := extism.NewCompiledPlugin(ctx, manifest, extism.PluginConfig{EnableWasi: true, RuntimeConfig: config}, functions)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compile with go-sdk: %w", err), m.closeCache(ctx))
	}
	m.compiled = compiled
	return m, nil
}

// userFunction carries a request to the call's Ask, as the SDK's examples do it.
func userFunction(f abi.Function) extism.HostFunctionStackCallback {
	return func(ctx context.Context, p *extism.CurrentPlugin, stack []uint64) {
		request, err := p.ReadBytes(stack[0])
		if err != nil {
			panic(err)
		}
		ask, ok := ctx.Value(askKey{}).(Ask)
		if !ok {
			panic("nobody answers host functions")
		}
		if stack[0], err = p.WriteBytes(ask(f, request)); err != nil {
			panic(err)
		}
	}
}

// Close releases the module and its instances.
func (m *Module) Close(ctx context.Context) error {
	return errors.Join(m.compiled.Close(ctx), m.closeCache(ctx))
}

func (m *Module) closeCache(ctx context.Context) error {
	if m.cache == nil {
		return nil
	}
	return m.cache.Close(ctx)
}

// Instance makes an instance. Its start function runs; its initialiser runs in the first
// call.
func (m *Module) Instance(ctx context.Context) (*Instance, error) {
	config := wazero.NewModuleConfig()
	if !m.options.Defaults {
		config = config.WithRandSource(rand.Reader).WithSysWalltime().WithSysNanotime().WithSysNanosleep()
	}
	if m.options.Stdout != nil {
		config = config.WithStdout(m.options.Stdout)
	}
	if m.options.Stderr != nil {
		config = config.WithStderr(m.options.Stderr)
	}
	plugin, err := m.compiled.Instance(ctx, extism.PluginInstanceConfig{ModuleConfig: config})
	if err != nil {
		return nil, fmt.Errorf("make an instance with go-sdk: %w", err)
	}
	i := &Instance{plugin: plugin}
	plugin.SetLogger(i.log)
	return i, nil
}

// Instance serves one call at a time.
type Instance struct {
	plugin *extism.Plugin
	mu     sync.Mutex
	lines  []string
}

// Result is how a call ended.
type Result struct {
	Code   int32
	Output []byte
	// Trap is the text of what ended the call, or empty.
	Trap string
	// Exited says that the guest called proc_exit, with ExitCode.
	Exited   bool
	ExitCode uint32
	// ErrorText is what the guest gave to error_set.
	ErrorText string
}

// Call runs an export.
func (i *Instance) Call(ctx context.Context, export string, input []byte, ask Ask) Result {
	if ask != nil {
		ctx = context.WithValue(ctx, askKey{}, ask)
	}
	code, output, err := i.plugin.CallWithContext(ctx, export, input)
	r := Result{Code: int32(code), Output: output, ErrorText: i.plugin.GetErrorWithContext(ctx)}
	if err != nil && err.Error() != r.ErrorText {
		r.Trap = err.Error()
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		r.Exited, r.ExitCode = true, exit.ExitCode()
	}
	return r
}

// Close releases the instance.
func (i *Instance) Close(ctx context.Context) error { return i.plugin.Close(ctx) }

// Variables are the guest's variables, which the SDK keeps from call to call.
func (i *Instance) Variables() map[string][]byte { return i.plugin.Var }

// Lines returns what the guest and the SDK have logged since the last time, each line
// after its level.
func (i *Instance) Lines() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	lines := slices.Clone(i.lines)
	i.lines = nil
	return lines
}

func (i *Instance) log(level extism.LogLevel, line string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lines = append(i.lines, level.String()+" "+line)
}

// LogEverything sets the SDK's log level, which is one for the whole process and off by
// default.
func LogEverything() { extism.SetLogLevel(extism.LogLevelTrace) }
