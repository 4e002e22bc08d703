package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/caisson-dev/caisson/abi"
	guest "github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/oracle"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/plug"
)

// way is one way to run the leaf.
type way struct {
	name string
	call func(ctx context.Context, envelope []byte) ([]byte, error)
	// another is call for another tenant, where that makes a difference, or nil.
	another func(ctx context.Context, envelope []byte) ([]byte, error)
	close   func() error
}

// The ways that others are compared with.
const (
	wayNative = "native"
	wayPlugin = "go-plugin"
)

// asked counts host calls, for the proof that every way makes them.
var asked atomic.Int64

func answer(f abi.Function, request []byte) []byte {
	asked.Add(1)
	return leaf.Answer(f, request)
}

// hostOf is the sandbox's form of answer.
func hostOf(_ context.Context, name string, request []byte) []byte {
	return answer(abi.Function(name), request)
}

func nothing() error { return nil }

// nativeHost is the SDK's form of answer.
type nativeHost struct{}

func (nativeHost) Call(f abi.Function, request []byte) []byte { return answer(f, request) }
func (nativeHost) Log(guest.Level, string)                    {}

func native() *way {
	module := leaf.New()
	return &way{name: wayNative, close: nothing, call: func(_ context.Context, envelope []byte) ([]byte, error) {
		code, output := guest.Run(module, provision, envelope, nativeHost{})
		return output, okOr(code)
	}}
}

func okOr(code abi.Disposition) error {
	if code != abi.OK {
		return fmt.Errorf("the leaf answers %d", code)
	}
	return nil
}

func pluginProcess(a *artefacts) (*way, error) {
	p, err := plug.Start(a.plugin, answer)
	if err != nil {
		return nil, err
	}
	return &way{name: wayPlugin, close: func() error { p.Close(); return nil }, call: func(ctx context.Context, envelope []byte) ([]byte, error) {
		code, output, err := p.Provision(ctx, envelope)
		if err != nil {
			return nil, err
		}
		return output, okOr(code)
	}}, nil
}

// worker runs a guest in a worker of the sandbox.
func worker(ctx context.Context, s *sandbox.Sandbox, name string, wasm []byte) (*way, error) {
	m, err := s.Load(ctx, wasm, sandbox.Limits{})
	if err != nil {
		return nil, err
	}
	callFor := func(tenant string) func(context.Context, []byte) ([]byte, error) {
		return func(ctx context.Context, envelope []byte) ([]byte, error) {
			code, output, err := m.Call(ctx, tenant, provision, envelope, hostOf)
			if err != nil {
				return nil, err
			}
			return output, okOr(abi.Disposition(code))
		}
	}
	return &way{name: name, close: func() error { m.Close(); return nil }, call: callFor("tenant"), another: callFor("another")}, nil
}

// sdk runs a guest with extism/go-sdk: one instance for all calls.
func sdk(ctx context.Context, name string, wasm []byte, o oracle.Options) (*way, error) {
	m, err := oracle.Compile(ctx, wasm, o)
	if err != nil {
		return nil, err
	}
	i, err := m.Instance(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return &way{name: name, close: func() error { return m.Close(context.Background()) }, call: func(ctx context.Context, envelope []byte) ([]byte, error) {
		r := i.Call(ctx, provision, envelope, answer)
		if r.Trap != "" || r.ErrorText != "" {
			return nil, fmt.Errorf("go-sdk: %s %s", r.Trap, r.ErrorText)
		}
		return r.Output, okOr(abi.Disposition(r.Code))
	}}, nil
}

// openSandbox opens a sandbox as the operator does.
func openSandbox(a *artefacts, o sandbox.Options) (*sandbox.Sandbox, error) {
	o.Worker = []string{a.worker}
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(a.dir, "cache")
	}
	return sandbox.New(o)
}

// allWays are the rows of the table of calls, the baselines first.
func allWays(ctx context.Context, a *artefacts, s *sandbox.Sandbox) (ways []*way, err error) {
	add := func(w *way, failed error) {
		if err = errors.Join(err, failed); failed == nil {
			ways = append(ways, w)
		}
	}
	add(native(), nil)
	add(pluginProcess(a))
	add(worker(ctx, s, "worker lean, restored", a.guests[guestLean]))
	add(worker(ctx, s, "worker lean, fresh", a.guests[guestLeanFresh]))
	add(worker(ctx, s, "worker go, restored", a.guests[guestGo]))
	add(worker(ctx, s, "worker go, fresh", a.guests[guestGoFresh]))
	timed := oracle.Options{Timeout: time.Minute, CacheDir: filepath.Join(a.dir, "sdk")}
	add(sdk(ctx, "go-sdk lean, timeout", a.guests[guestLean], timed))
	add(sdk(ctx, "go-sdk go, timeout", a.guests[guestGo], timed))
	add(sdk(ctx, "go-sdk lean, in process, no limits", a.guests[guestLean], oracle.Options{CacheDir: timed.CacheDir}))
	if wasm := a.guests[guestC]; wasm != nil {
		add(worker(ctx, s, "worker C, restored", wasm))
		add(sdk(ctx, "go-sdk C, timeout", wasm, timed))
	}
	return ways, err
}

// closeAll closes ways.
func closeAll(ways []*way) error {
	var errs []error
	for _, w := range ways {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}
