package sandbox

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaultLimitsAreComplete(t *testing.T) {
	d := DefaultLimits()
	require.NoError(t, d.validate())
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), "%s: a limit that is off by default is none", v.Type().Field(i).Name)
	}
}

// TestLimitsOrElse sets each field alone, so that one that orElse forgets shows.
func TestLimitsOrElse(t *testing.T) {
	d := DefaultLimits()
	require.Equal(t, d, Limits{}.orElse(d))
	typ := reflect.TypeFor[Limits]()
	for i := range typ.NumField() {
		t.Run(typ.Field(i).Name, func(t *testing.T) {
			var l Limits
			reflect.ValueOf(&l).Elem().Field(i).SetInt(77)
			got := reflect.ValueOf(l.orElse(d))
			for j := range typ.NumField() {
				want := reflect.ValueOf(d).Field(j).Int()
				if j == i {
					want = 77
				}
				require.Equal(t, want, got.Field(j).Int(), typ.Field(j).Name)
			}
		})
	}
}

// TestLimitsValidate breaks each field alone, in both directions.
func TestLimitsValidate(t *testing.T) {
	typ := reflect.TypeFor[Limits]()
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		t.Run(name, func(t *testing.T) {
			for _, value := range []int64{-1, 1 << 62} {
				l := DefaultLimits()
				reflect.ValueOf(&l).Elem().Field(i).SetInt(value)
				require.ErrorContains(t, l.validate(), "limit "+name+" is ")
			}
		})
	}
}

func TestFrameBytes(t *testing.T) {
	cases := map[string]struct {
		reason string
		limits Limits
		want   int
	}{
		"Small":  {"a fault always fits", Limits{}, faultFrameBytes + frameSlackBytes},
		"Output": {"the largest limit decides", Limits{OutputBytes: 9 * mib, HostCallBytes: mib}, 9*mib + frameSlackBytes},
		"Host":   {"a request may be the largest", Limits{OutputBytes: mib, HostCallBytes: 8 * mib}, 8*mib + frameSlackBytes},
		"Log":    {"a log line may be", Limits{LogBytes: 7 * mib}, 7*mib + frameSlackBytes},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.limits.frameBytes(), c.reason) })
	}
}

func TestMemoryPages(t *testing.T) {
	require.Equal(t, int64(2), Limits{MemoryBytes: 3*wasmPageBytes - 1}.memoryPages())
}

func TestGuestMemory(t *testing.T) {
	m := newGuestMemory(3*wasmPageBytes + 5)
	linear := m.Allocate(wasmPageBytes, maxMemoryBytes)
	defer linear.Free()
	one := linear.Reallocate(wasmPageBytes)
	require.Len(t, one, wasmPageBytes)
	one[7] = 42
	three := linear.Reallocate(3 * wasmPageBytes)
	require.Len(t, three, 3*wasmPageBytes)
	require.Equal(t, byte(42), three[7], "growing keeps what is there")
	require.Zero(t, three[len(three)-1], "new memory is zero")
	require.False(t, m.refused)
	require.Nil(t, linear.Reallocate(4*wasmPageBytes), "the cap is rounded down to pages")
	require.True(t, m.refused)
	linear.Free()
	linear.Free()
	require.Nil(t, linear.Reallocate(4*wasmPageBytes))
}

func TestFaultText(t *testing.T) {
	cases := map[string]struct {
		reason string
		fault  Fault
		want   string
		abi    string
	}{
		"Timeout": {"a timeout has its limit in milliseconds", Fault{Kind: FaultTimeout, Limit: 500, Got: 501, Detail: "it was not over in time"},
			"module sha256:1: timeout of provision: it was not over in time (501 ms, the limit is 500)", "timeout"},
		"CPU": {"processor time is not to be taken for time", Fault{Kind: FaultCPU, Limit: 500, Got: 507, Detail: "it computed for too long"},
			"module sha256:1: cpu of provision: it computed for too long (507 ms of processor time, the limit is 500)", "cpu_exceeded"},
		"HostCalls": {"calls are counted", Fault{Kind: FaultHostCalls, Limit: 5, Got: 22, Detail: "it goes on"},
			"module sha256:1: host-calls of provision: it goes on (22 calls, the limit is 5)", "host_calls_exceeded"},
		"HostBytes": {"and so are their bytes", Fault{Kind: FaultHostBytes, Limit: 5, Got: 22, Detail: "it goes on"},
			"module sha256:1: host-bytes of provision: it goes on (22 bytes, the limit is 5)", "host_bytes_exceeded"},
		"Output": {"a size has both numbers", Fault{Kind: FaultOutput, Limit: 5, Got: 6, Detail: "the output is too large"},
			"module sha256:1: output of provision: the output is too large (6 bytes, the limit is 5)", "output_too_large"},
		"Memory": {"what a process died of wanting is not known", Fault{Kind: FaultMemory, Limit: 5, Detail: "refused"},
			"module sha256:1: memory of provision: refused (the limit is 5 bytes)", "memory_exceeded"},
		"Trap": {"the guest's error comes last", Fault{Kind: FaultTrap, Detail: "unreachable", GuestError: "disk full"},
			"module sha256:1: trap of provision: unreachable: disk full", "module_trap"},
		"Crash": {"a crash has no limit", Fault{Kind: FaultCrash, Detail: "boom"},
			"module sha256:1: crash of provision: boom", "module_crashed"},
		"Input": {"an input is over its limit before anything is called", Fault{Kind: FaultInput, Limit: 5, Got: 9, Detail: "the input is too large"},
			"module sha256:1: input of provision: the input is too large (9 bytes, the limit is 5)", "input_too_large"},
		"Unknown": {"a kind of a later version is still a reason", Fault{Kind: "later", Detail: "?"},
			"module sha256:1: later of provision: ?", "unexpected"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.fault.Digest, c.fault.Export = "sha256:1", "provision"
			require.EqualError(t, &c.fault, c.want, c.reason)
			require.Equal(t, c.abi, c.fault.Reason(), c.reason)
		})
	}
}

func TestLoadErrorText(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    LoadError
		want   string
	}{
		"Plain":   {"what is wrong", LoadError{Offset: -1, Detail: "it is not Wasm"}, "the module cannot be loaded: it is not Wasm"},
		"Place":   {"and where", LoadError{Section: "code", Offset: 12, Detail: "it ends too early"}, "the module cannot be loaded: it ends too early, in the code section at byte 12"},
		"Section": {"as far as that is known", LoadError{Section: "export", Offset: -1, Detail: "nothing is exported"}, "the module cannot be loaded: nothing is exported, in the export section"},
		"Limit":   {"both numbers", LoadError{Offset: -1, Detail: "too many types", Got: 9, Limit: 5}, "the module cannot be loaded: too many types (9, the limit is 5)"},
		"Remedy":  {"and what to do", LoadError{Offset: -1, Detail: "a program", Remedy: "build a library"}, "the module cannot be loaded: a program; build a library"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.EqualError(t, &c.err, c.want, c.reason) })
	}
}

func TestOutOfMemory(t *testing.T) {
	cases := map[string]struct {
		reason, stderr string
		want           bool
	}{
		"Heap":   {"the Go heap", "runtime: out of memory: cannot allocate 4194304-byte block\nfatal error: out of memory", true},
		"Thread": {"a thread's stack", "runtime: failed to create new OS thread (have 5 already; errno=11)", true},
		"Mmap":   {"a mapping", "runtime: mmap: errno=12", true},
		"Panic":  {"any other end", "panic: runtime error: index out of range", false},
		"Silent": {"the kernel says nothing", "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, outOfMemory(c.stderr), c.reason) })
	}
}

func TestInterruptedNamesTheEarlierDeadline(t *testing.T) {
	m := &Module{digest: "sha256:1"}
	began := time.Now()
	var fault *Fault
	require.ErrorAs(t, m.interrupted(t.Context(), "provision", time.Second, began), &fault)
	require.Equal(t, int64(1000), fault.Limit)
	ctx, cancel := context.WithDeadline(t.Context(), began.Add(300*time.Millisecond))
	defer cancel()
	require.ErrorAs(t, m.interrupted(ctx, "provision", time.Second, began), &fault)
	require.Equal(t, int64(300), fault.Limit)
	ended, end := context.WithCancelCause(t.Context())
	end(ErrClosed)
	require.ErrorIs(t, m.interrupted(ended, "provision", time.Second, began), ErrClosed)
}
