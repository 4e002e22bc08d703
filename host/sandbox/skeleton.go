package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tetratelabs/wazero"
)

// Once a module has been compiled nobody needs its code any more, and still a worker
// would read it, check it and keep it, as long as the compiler's cache wants to see it:
// for a module in Go that is half of the time of loading, and 2 MiB. So workers that serve
// load the module's skeleton, which has everything but the code. The worker that
// compiles does so with both, and leaves the native code of the module in the cache as that of the
// skeleton. The two belong to each other: all that native code knows of its module is in
// the skeleton as well.

// errNoNativeCode says that a skeleton has been compiled itself, or would have been.
var errNoNativeCode = errors.New("there is no native code for it in the cache")

// emptyBody is the code of a function that does nothing but trap: no locals, unreachable.
const emptyBody = "\x03\x00\x00\x0b"

// skeletonOf returns a module that has passed preflight without its code.
func skeletonOf(wasm []byte) ([]byte, error) {
	c := &cursor{data: wasm, pos: min(headerBytes, len(wasm)), end: len(wasm)}
	for c.ok() && c.left() > 0 {
		start := c.pos
		id := c.byte()
		content := c.vector()
		if !c.ok() || id != sectionCode {
			continue
		}
		n := (&cursor{data: content, end: len(content)}).count("function bodies", maxFunctions)
		bodies := binary.AppendUvarint(nil, uint64(n))
		for range n {
			bodies = append(bodies, emptyBody...)
		}
		out := append(make([]byte, 0, len(wasm)-len(content)+len(bodies)), wasm[:start]...)
		out = append(append(out, id), vectorOf(bodies)...)
		return append(out, wasm[c.pos:]...), nil
	}
	if !c.ok() {
		return nil, fmt.Errorf("find the code: %w", c.err)
	}
	return wasm, nil
}

// compileNative compiles a rewritten module, and leaves its native code in the cache as
// that of its skeleton.
func compileNative(ctx context.Context, wasm []byte, s setup) error {
	skeleton, err := skeletonOf(wasm)
	if err != nil {
		return err
	}
	runtime, cache, err := newRuntime(ctx, s)
	if err != nil {
		return err
	}
	defer func() { _ = cache.Close(ctx) }() // what it holds is in the files
	defer func() { _ = runtime.Close(ctx) }()
	kernel, err := kernelModule(slices.Sorted(maps.Keys(envFunctions(nil, levelOff))))
	if err != nil {
		return err
	}
	if _, err := compiledTo(ctx, runtime, kernel, s.CacheDir); err != nil {
		return fmt.Errorf("compile the kernel: %w", err)
	}
	code, err := compiledTo(ctx, runtime, wasm, s.CacheDir)
	if err != nil {
		return err
	}
	own, err := compiledTo(ctx, runtime, skeleton, s.CacheDir)
	switch {
	case err != nil:
		return fmt.Errorf("compile the skeleton: %w", err)
	case len(code) == 1 && len(own) == 0: // there was no code
		return nil
	case len(code) != 1 || len(own) != 1:
		return fmt.Errorf("the compiler wrote %d and %d files instead of one each", len(code), len(own))
	}
	if err := os.Rename(code[0], own[0]); err != nil {
		return fmt.Errorf("keep the native code: %w", err)
	}
	return writeCode(own[0], s.CacheDir)
}

// compiledTo compiles a module and returns the files that the compiler wrote for it.
func compiledTo(ctx context.Context, runtime wazero.Runtime, wasm []byte, dir string) ([]string, error) {
	before, err := nativeFiles(dir)
	if err != nil {
		return nil, err
	}
	if _, err := runtime.CompileModule(ctx, wasm); err != nil {
		return nil, err
	}
	after, err := nativeFiles(dir)
	return slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) }), err
}

// loadSkeleton loads native code that compileNative has left. Where there is none, or none
// that is fit, the compiler compiles the skeleton, which must not be taken for the module:
// it is errNoNativeCode, or the error of writing what a worker that serves cannot write.
func loadSkeleton(ctx context.Context, runtime wazero.Runtime, skeleton []byte, s setup) (wazero.CompiledModule, error) {
	before, err := nativeState(s.CacheDir)
	if err != nil {
		return nil, err
	}
	compiled, err := runtime.CompileModule(ctx, skeleton)
	if err != nil {
		return nil, err
	}
	after, err := nativeState(s.CacheDir)
	if err != nil {
		return nil, err
	}
	// The compiler replaces what it finds unfit, under the same name.
	same := maps.EqualFunc(before, after, func(a, b fs.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
	if !same {
		return nil, errors.Join(errNoNativeCode, compiled.Close(ctx))
	}
	return compiled, nil
}

// nativeState returns what can be known of the files of nativeFiles from outside.
func nativeState(dir string) (map[string]fs.FileInfo, error) {
	names, err := nativeFiles(dir)
	if err != nil {
		return nil, err
	}
	state := map[string]fs.FileInfo{}
	for _, name := range names {
		if state[name], err = os.Stat(name); err != nil {
			return nil, fmt.Errorf("look at native code: %w", err)
		}
	}
	return state, nil
}

// nativeFiles lists what the compiler has written below a directory, sorted.
func nativeFiles(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, nativePattern, "*"))
	if err != nil {
		return nil, fmt.Errorf("look for native code: %w", err)
	}
	return names, nil
}

// codeFile is where the native code stands alone, so that it can be mapped, in the
// directory of a module. It needs no seal: whoever maps it compares it with what the
// compiler has loaded out of a file that has one.
const codeFile = "code.bin"

// cacheMagic begins a file of the compiler's cache. A length and the compiler's version
// follow, the number of functions, the offset of each, the length of the code, and the
// code; numbers are little endian, of 1, 4 and 8 bytes.
const cacheMagic = "WAZEVO"

// writeCode writes the code out of a file of the compiler's cache. A file that is not as
// expected, for instance of another version of the compiler, has none that can be mapped,
// which is no error: whoever maps it makes sure that it is the right one.
func writeCode(cached, dir string) error {
	content, err := os.ReadFile(cached)
	if err != nil {
		return fmt.Errorf("read the native code: %w", err)
	}
	code, ok := codeOf(content)
	if !ok {
		return nil
	}
	// Workers that run may have mapped the file that is there.
	if err := writeAtomically(filepath.Join(dir, codeFile), code); err != nil {
		return fmt.Errorf("keep the code: %w", err)
	}
	return nil
}

// codeOf finds the code in a file of the compiler's cache.
func codeOf(file []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(file, []byte(cacheMagic))
	if !ok || len(rest) < 1 || len(rest) < 1+int(rest[0])+4 {
		return nil, false
	}
	rest = rest[1+int(rest[0]):]
	functions := uint64(binary.LittleEndian.Uint32(rest))
	if rest = rest[4:]; uint64(len(rest)) < 8*functions+8 {
		return nil, false
	}
	rest = rest[8*functions:]
	length := binary.LittleEndian.Uint64(rest)
	if rest = rest[8:]; length == 0 || length > uint64(len(rest)) {
		return nil, false
	}
	return rest[:length], true
}
