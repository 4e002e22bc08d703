package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/oracle"
)

// The tables about loading and about many calls at a time.
const (
	tableCold       = "Cold: from bytes to the first result, nothing cached"
	tableCached     = "Cached: from bytes to the first result, native code on disk"
	tableThroughput = "Throughput: time for a call when as many callers as cores call at once"
)

// typical is the case that targets are about.
func typical() leaf.Case { return leaf.Case{Kilobytes: 4, Calls: 3} }

// measureLoads times everything from the bytes of a module, or from a program, to the
// first result.
func measureLoads(ctx context.Context, set settings, a *artefacts, r *results) error {
	envelope, err := leaf.Envelope(typical())
	if err != nil {
		return err
	}
	first := func(w *way, err error) error {
		if err != nil {
			return err
		}
		_, err = w.call(ctx, envelope)
		return errors.Join(err, w.close())
	}
	inSandbox := func(cache string, wasm []byte) (err error) {
		s, err := openSandbox(a, sandbox.Options{CacheDir: cache})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return first(worker(ctx, s, "", wasm))
	}
	cold := func(do func(cache string) error) func(int) error {
		return func(int) (err error) {
			cache, err := os.MkdirTemp(a.dir, "cold-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(cache)) }()
			return do(cache)
		}
	}
	warm, sdkWarm := filepath.Join(a.dir, "cache"), filepath.Join(a.dir, "sdk")
	process := func(int) error { return first(pluginProcess(a)) }
	rows := []row{{table: tableCached, name: wayPlugin, n: 1, do: process}, {table: tableCold, name: wayPlugin, n: 1, do: process}}
	for _, name := range []string{guestLean, guestGo, guestC} {
		wasm := a.guests[name]
		if wasm == nil {
			continue
		}
		rows = append(rows,
			row{table: tableCached, name: "worker " + name, n: 1, do: func(int) error { return inSandbox(warm, wasm) }},
			row{table: tableCached, name: "go-sdk " + name, n: 1, do: func(int) error {
				return first(sdk(ctx, "", wasm, oracle.Options{Timeout: time.Minute, CacheDir: sdkWarm}))
			}})
		if name != guestGo { // once is enough for what takes seconds
			rows = append(rows,
				row{table: tableCold, name: "worker " + name, n: 1, do: cold(func(cache string) error { return inSandbox(cache, wasm) })},
				row{table: tableCold, name: "go-sdk " + name, n: 1, do: cold(func(string) error {
					return first(sdk(ctx, "", wasm, oracle.Options{Timeout: time.Minute}))
				})})
		}
	}
	var quick, slow []row
	for _, row := range rows {
		if row.table == tableCold {
			slow = append(slow, row)
		} else {
			quick = append(quick, row)
		}
	}
	if err := interleave(ctx, set, r, quick); err != nil {
		return err
	}
	set.count = max(2, set.count/3)
	return interleave(ctx, set, r, slow)
}

// measureThroughput has as many callers as there are cores call at once.
func measureThroughput(ctx context.Context, set settings, a *artefacts, r *results) (err error) {
	envelope, err := leaf.Envelope(typical())
	if err != nil {
		return err
	}
	callers := runtime.GOMAXPROCS(0)
	s, err := openSandbox(a, sandbox.Options{MaxWorkers: 4 * callers, IdleTimeout: time.Hour})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var all []*way
	defer func() { err = errors.Join(err, closeAll(all)) }()
	// Each caller of go-sdk has an instance of its own; the others are safe to share.
	sharedWays := map[string]func() (*way, error){
		wayNative:               func() (*way, error) { return native(), nil },
		wayPlugin:               func() (*way, error) { return pluginProcess(a) },
		"worker lean, restored": func() (*way, error) { return worker(ctx, s, "", a.guests[guestLean]) },
	}
	if wasm := a.guests[guestC]; wasm != nil {
		sharedWays["worker C, restored"] = func() (*way, error) { return worker(ctx, s, "", wasm) }
	}
	each := map[string][]*way{}
	for name, open := range sharedWays {
		w, err := open()
		if err != nil {
			return err
		}
		all = append(all, w)
		for range callers {
			each[name] = append(each[name], w)
		}
	}
	const timed = "go-sdk lean, timeout"
	for range callers {
		w, err := sdk(ctx, timed, a.guests[guestLean], oracle.Options{Timeout: time.Minute, CacheDir: filepath.Join(a.dir, "sdk")})
		if err != nil {
			return err
		}
		all, each[timed] = append(all, w), append(each[timed], w)
	}
	var rows []row
	for name, ways := range each {
		rows = append(rows, row{table: tableThroughput, name: name, do: func(n int) error { return together(ctx, ways, envelope, n) }})
	}
	set.slice *= 4
	return interleave(ctx, set, r, rows)
}

// together makes n calls by as many callers as there are ways.
func together(ctx context.Context, ways []*way, envelope []byte, n int) error {
	var group sync.WaitGroup
	errs := make([]error, len(ways))
	for i, w := range ways {
		group.Go(func() {
			for k := i; k < n && errs[i] == nil; k += len(ways) {
				if _, err := w.call(ctx, envelope); err != nil {
					errs[i] = fmt.Errorf("caller %d: %w", i, err)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
