package sandbox

import (
	"errors"
	"fmt"
	"time"
)

// Sizes that the limits are written in.
const (
	kib = 1 << 10
	mib = 1 << 20

	// wasmPageBytes is the unit in which Wasm memory grows, by its specification.
	wasmPageBytes = 64 * kib
	// maxMemoryBytes is what a 32-bit Wasm memory can address.
	maxMemoryBytes = 1 << 32
	// maxTableElements is a table of 1 GiB.
	maxTableElements = 1 << 27
	// maxPayloadBytes bounds every limit that becomes the size of a frame or a block:
	// guests with signed 32-bit pointers (JavaScript) cannot name an offset above it.
	maxPayloadBytes = 1 << 30
)

// ErrInvalidLimits says that a limit cannot be honoured; the text says which, and between
// what it must be.
var ErrInvalidLimits = errors.New("limits that cannot be honoured")

// Limits bounds what one module may use. A field that is zero takes its value from
// [DefaultLimits]; a limit that is hit is reported with both numbers.
type Limits struct {
	// Timeout is the wall-clock time of one call, host functions included. The worker
	// is killed when it is over.
	Timeout time.Duration
	// CPU is the processor time of one call, all threads of its worker together; waiting
	// for host functions costs none. The worker is killed when it is over. It is counted on
	// Linux only.
	CPU time.Duration
	// CompileTimeout is the wall-clock time to start a worker and to compile the module
	// or to read it from the cache.
	CompileTimeout time.Duration
	// MemoryBytes caps the linear memory of a guest; it is rounded down to 64 KiB.
	MemoryBytes int64
	// TableElements caps how many elements each table of a guest may have. An element takes
	// 8 bytes of NativeBytes, and twice that while a table grows.
	TableElements int
	// NativeBytes is what a worker may map beyond its own program, MemoryBytes, ArenaBytes
	// and the image of a guest's initial memory: the compiler's data, native code, tables
	// and stacks.
	NativeBytes int64
	// ModuleBytes caps the Wasm file.
	ModuleBytes int
	// ArenaBytes caps all Extism blocks of one call together; blocks are not reused.
	ArenaBytes int
	// InputBytes caps the input of one call.
	InputBytes int
	// OutputBytes caps the output of one call.
	OutputBytes int
	// HostCallBytes caps the request and the response of a host function, each.
	HostCallBytes int
	// HostTotalBytes caps all requests and responses of one call together.
	HostTotalBytes int
	// HostCalls caps how many host functions one call may use.
	HostCalls int
	// LogLines and LogBytes cap what one call may log, standard output and standard
	// error included. What is over is counted and dropped.
	LogLines int
	LogBytes int
}

// DefaultLimits returns the limits of a module for which nobody says otherwise.
func DefaultLimits() Limits {
	return Limits{
		// A reconcile that takes longer than this starves its neighbours.
		Timeout: 30 * time.Second,
		// A third of that: a Go guest computes for a millisecond, an interpreter for some
		// hundred, and what is left of the time is for waiting.
		CPU: 10 * time.Second,
		// A 16 MB Go guest needs 13 s of an undisturbed core; a busy node has less.
		CompileTimeout: 2 * time.Minute,
		// A Go guest settles at 8 MiB and needs 32 MiB to start comfortably.
		MemoryBytes: 128 * mib,
		// A Go guest has one table of some 5,000 elements, which are its functions.
		TableElements: 1_000_000,
		// Compiling a 3 MB Go guest peaks at 70 MB, the largest permitted function body
		// at 370 MB, and a native stack that overflows takes 165 MB for a moment.
		NativeBytes: 512 * mib,
		// Go guests are 2 to 5 MB, with net/http 11 MB.
		ModuleBytes: 32 * mib,
		ArenaBytes:  64 * mib,
		// An object of the API server is at most 1.5 MiB, so these hold a page of them.
		InputBytes:    4 * mib,
		OutputBytes:   4 * mib,
		HostCallBytes: 4 * mib,
		// Half of what the guest has for all of its blocks, so that these do not run out first.
		HostTotalBytes: 32 * mib,
		HostCalls:      1000,
		LogLines:       1000,
		LogBytes:       256 * kib,
	}
}

// orElse returns l with each zero field taken from d.
func (l Limits) orElse(d Limits) Limits {
	return Limits{
		Timeout:        first(l.Timeout, d.Timeout),
		CPU:            first(l.CPU, d.CPU),
		CompileTimeout: first(l.CompileTimeout, d.CompileTimeout),
		MemoryBytes:    first(l.MemoryBytes, d.MemoryBytes),
		TableElements:  first(l.TableElements, d.TableElements),
		NativeBytes:    first(l.NativeBytes, d.NativeBytes),
		ModuleBytes:    first(l.ModuleBytes, d.ModuleBytes),
		ArenaBytes:     first(l.ArenaBytes, d.ArenaBytes),
		InputBytes:     first(l.InputBytes, d.InputBytes),
		OutputBytes:    first(l.OutputBytes, d.OutputBytes),
		HostCallBytes:  first(l.HostCallBytes, d.HostCallBytes),
		HostTotalBytes: first(l.HostTotalBytes, d.HostTotalBytes),
		HostCalls:      first(l.HostCalls, d.HostCalls),
		LogLines:       first(l.LogLines, d.LogLines),
		LogBytes:       first(l.LogBytes, d.LogBytes),
	}
}

// first returns value unless it is zero, and otherwise fallback.
func first[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// validate reports every limit that cannot be honoured.
func (l Limits) validate() error {
	var errs []error
	check := func(name string, value, low, high int64) {
		if value < low || value > high {
			errs = append(errs, fmt.Errorf("limit %s is %d, it must be between %d and %d", name, value, low, high))
		}
	}
	check("Timeout", int64(l.Timeout), int64(time.Millisecond), int64(24*time.Hour))
	check("CPU", int64(l.CPU), int64(time.Millisecond), int64(24*time.Hour))
	check("CompileTimeout", int64(l.CompileTimeout), int64(time.Millisecond), int64(24*time.Hour))
	check("MemoryBytes", l.MemoryBytes, wasmPageBytes, maxMemoryBytes)
	check("TableElements", int64(l.TableElements), 1, maxTableElements)
	// Below 64 MiB the worker's own runtime cannot reserve a single arena.
	check("NativeBytes", l.NativeBytes, 64*mib, 1<<40)
	check("ModuleBytes", int64(l.ModuleBytes), 1, maxPayloadBytes)
	check("ArenaBytes", int64(l.ArenaBytes), 1, maxPayloadBytes)
	check("InputBytes", int64(l.InputBytes), 1, maxPayloadBytes)
	check("OutputBytes", int64(l.OutputBytes), 1, maxPayloadBytes)
	check("HostCallBytes", int64(l.HostCallBytes), 1, maxPayloadBytes)
	// It becomes no frame and no block, so that it may be larger than either.
	check("HostTotalBytes", int64(l.HostTotalBytes), 1, 1<<40)
	check("HostCalls", int64(l.HostCalls), 1, 1<<31-1)
	check("LogLines", int64(l.LogLines), 1, 1<<31-1)
	check("LogBytes", int64(l.LogBytes), 1, maxPayloadBytes)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalidLimits, errors.Join(errs...))
}

// memoryPages is the memory cap in Wasm pages.
func (l Limits) memoryPages() int64 { return l.MemoryBytes / wasmPageBytes }

// frameBytes is the largest payload that a worker has a reason to send.
func (l Limits) frameBytes() int {
	return max(l.OutputBytes, l.HostCallBytes, l.LogBytes, faultFrameBytes) + frameSlackBytes
}
