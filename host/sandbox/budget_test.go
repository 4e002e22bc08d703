package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// cpuLimit is little for a guest and much for the starting of one.
const cpuLimit = 400 * time.Millisecond

// TestCPUExceeded: each way of computing is counted, in the guest and in what the worker
// does for it.
func TestCPUExceeded(t *testing.T) {
	requireCPUTime(t)
	s := open(t, sandbox.Options{})
	random := wasmtest.New()
	take := random.Import(wasmtest.WASI, "random_get", []byte{wasmtest.I32, wasmtest.I32}, []byte{wasmtest.I32})
	random.Memory(16, 0)
	for name, wasm := range map[string][]byte{
		"guest":  wasmtest.Stallers()["loop"],
		"bulk":   wasmtest.Stallers()["memfill"],
		"worker": random.Provisioner(wasmtest.Loop(wasmtest.I32Const(0), wasmtest.I32Const(1<<20), wasmtest.Call(take), wasmtest.Drop()), wasmtest.I32Const(0)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := load(t, s, wasm, sandbox.Limits{CPU: cpuLimit, Timeout: 5 * time.Minute})
			_, _, err := provision(t, m, nil)
			fault := faultOf(t, err, sandbox.FaultCPU)
			require.Equal(t, abi.ReasonCPUExceeded, fault.Reason())
			require.Equal(t, cpuLimit.Milliseconds(), fault.Limit)
			require.GreaterOrEqual(t, fault.Got, fault.Limit)
			require.Less(t, fault.Got, 100*fault.Limit, "it is looked at more often the closer it gets")
			require.ErrorContains(t, err, "ms of processor time, the limit is 400)")
			require.False(t, fault.Crashed(), "it was killed")
		})
	}
}

// TestCPUOfOthersIsNotCounted: only what this call makes its own worker compute counts.
func TestCPUOfOthersIsNotCounted(t *testing.T) {
	requireCPUTime(t)
	t.Run("waiting", func(t *testing.T) {
		m := load(t, open(t, sandbox.Options{}), wasmtest.Sleeps(int64(3*cpuLimit)), sandbox.Limits{CPU: cpuLimit})
		began := time.Now()
		_, _, err := provision(t, m, nil)
		require.NoError(t, err)
		require.Greater(t, time.Since(began), 2*cpuLimit, "it did wait")
	})
	t.Run("host", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var spinning sync.WaitGroup
		for range runtime.NumCPU() {
			spinning.Go(func() { spin(ctx, time.Hour) })
		}
		m := load(t, open(t, sandbox.Options{}), wasmtest.Asks("event", 1), sandbox.Limits{CPU: cpuLimit})
		_, _, err := m.Call(t.Context(), "tenant", "provision", []byte("x"), func(ctx context.Context, _ string, _ []byte) []byte {
			spin(ctx, 3*cpuLimit)
			return []byte("{}")
		})
		stop()
		spinning.Wait()
		require.NoError(t, err, "the host's own work is not the module's")
	})
	t.Run("calls", func(t *testing.T) {
		// Half of the limit each, by the clock of the machine that the test runs on.
		n := int64(1 << 20)
		measure := open(t, sandbox.Options{MaxWorkers: 1})
		for {
			m := load(t, measure, wasmtest.Computes(n, "event"), sandbox.Limits{CPU: cpuLimit})
			_, _, err := provision(t, m, nil)
			m.Close()
			if err != nil {
				faultOf(t, err, sandbox.FaultCPU)
				break
			}
			n *= 2
		}
		wasm, limits := wasmtest.Computes(n/4, "event"), sandbox.Limits{CPU: cpuLimit}
		one := load(t, measure, wasm, limits)
		for range 8 {
			_, _, err := provision(t, one, nil)
			require.NoError(t, err, "what a worker has computed before does not count")
		}
		many := load(t, open(t, sandbox.Options{MaxWorkers: 8}), wasm, limits)
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if _, _, err := many.Call(t.Context(), "tenant", "provision", nil, nil); err != nil {
					t.Errorf("what other workers compute does not count: %v", err)
				}
			})
		}
		calls.Wait()
	})
}

// requireCPUTime fails where processor time cannot be read but should be.
func requireCPUTime(t *testing.T) {
	t.Helper()
	require.Equal(t, "linux", runtime.GOOS, "processor time is limited on Linux only")
}

// spin computes for as long as told.
func spin(ctx context.Context, d time.Duration) {
	for until := time.Now().Add(d); ctx.Err() == nil && time.Now().Before(until); {
	}
}

// lastAnswer is the error that a guest of [wasmtest.Asks] got last, or empty.
func lastAnswer(t *testing.T, out []byte) string {
	t.Helper()
	var response abi.Response
	require.NoError(t, json.Unmarshal(out, &response), "%s", out)
	if response.Error == nil {
		return ""
	}
	require.Equal(t, abi.CodeTooLarge, response.Error.Code)
	return response.Error.Message
}

// TestHostCallBudget walks up to each limit, over it, and on until the host has had
// enough. Requests have 10 bytes, answers 20.
func TestHostCallBudget(t *testing.T) {
	s := open(t, sandbox.Options{})
	number := sandbox.Limits{HostCalls: 5}
	size := sandbox.Limits{HostTotalBytes: 150}
	cases := map[string]struct {
		reason string
		times  int
		limits sandbox.Limits
		traps  bool
		told   string
		kind   sandbox.FaultKind
		limit  int64
		got    int64
		answer int // how many calls the host has answered
	}{
		"CallsUnder": {reason: "the last one that is allowed", times: 5, limits: number, answer: 5},
		"CallsOver":  {reason: "one more is told", times: 6, limits: number, told: "this call has used 6 host functions, the limit is 5", answer: 5},
		"CallsLast":  {reason: "a guest may take some time to understand", times: 21, limits: number, told: "this call has used 21 host functions, the limit is 5", answer: 5},
		"CallsEnd":   {reason: "but not for ever", times: 22, limits: number, kind: sandbox.FaultHostCalls, limit: 5, got: 22, answer: 5},
		"CallsTrap":  {reason: "a guest that cannot do without has hit the limit", times: 7, limits: number, traps: true, kind: sandbox.FaultHostCalls, limit: 5, got: 7, answer: 5},
		"TrapUnder":  {reason: "near miss: one that has not hit it has trapped", times: 5, limits: number, traps: true, kind: sandbox.FaultTrap, answer: 5},
		"BytesUnder": {reason: "all requests and answers together, to the byte", times: 5, limits: size, answer: 5},
		"BytesOver":  {reason: "a request more", times: 6, limits: size, told: "this call has exchanged 160 bytes with host functions, the limit is 150", answer: 5},
		"BytesInAnswer": {reason: "an answer more is kept back", times: 5, limits: sandbox.Limits{HostTotalBytes: 149},
			told: "this call has exchanged 150 bytes with host functions, the limit is 149", answer: 5},
		"BytesEnd":  {reason: "and not for ever either", times: 22, limits: size, kind: sandbox.FaultHostBytes, limit: 150, got: 320, answer: 5},
		"BytesTrap": {reason: "and it has hit that limit", times: 6, limits: size, traps: true, kind: sandbox.FaultHostBytes, limit: 150, got: 160, answer: 5},
		"Override":  {reason: "other limits are other modules'", times: 22, limits: sandbox.Limits{HostCalls: 22, HostTotalBytes: 660}, answer: 22},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guest := wasmtest.Asks
			if c.traps {
				guest = wasmtest.AsksAndTraps
			}
			m := load(t, s, guest("event", c.times), c.limits)
			for range 2 { // what one call has used is not missed by the next
				answered := 0
				_, out, err := m.Call(t.Context(), "tenant", "provision", []byte("0123456789"), func(context.Context, string, []byte) []byte {
					answered++
					return []byte(`{"result":{"n":"x"}}`)
				})
				require.Equal(t, c.answer, answered, c.reason)
				if c.kind != "" {
					fault := faultOf(t, err, c.kind)
					require.Equal(t, []int64{c.limit, c.got}, []int64{fault.Limit, fault.Got}, c.reason)
					require.Equal(t, c.kind == sandbox.FaultTrap, fault.Trap() != "", c.reason)
					require.False(t, fault.Crashed())
					if c.limit != 0 {
						require.ErrorContains(t, err, fmt.Sprintf("(%d ", c.got))
						require.ErrorContains(t, err, fmt.Sprintf("the limit is %d)", c.limit))
					}
					continue
				}
				require.NoError(t, err, c.reason)
				require.Equal(t, c.told, lastAnswer(t, out), c.reason)
			}
		})
	}
}

// TestWorkerBusy: a call does not wait for ever, and its own time begins with it.
func TestWorkerBusy(t *testing.T) {
	s := open(t, sandbox.Options{MaxWorkers: 1, WaitTimeout: 50 * time.Millisecond})
	holder := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{Timeout: 5 * time.Minute})
	quick := load(t, s, wasmtest.Echo(), sandbox.Limits{})
	begun, release := make(chan struct{}), make(chan struct{})
	var held sync.WaitGroup
	held.Go(func() {
		_, _, err := holder.Call(t.Context(), "tenant", "provision", nil, func(context.Context, string, []byte) []byte {
			close(begun)
			<-release
			return []byte("{}")
		})
		if err != nil {
			t.Errorf("hold the worker: %v", err)
		}
	})
	<-begun
	_, _, err := provision(t, quick, nil)
	var busy *sandbox.BusyError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, abi.ReasonWorkerBusy, busy.Reason())
	require.Equal(t, 1, busy.Workers)
	require.GreaterOrEqual(t, busy.Waited, 50*time.Millisecond)
	require.ErrorContains(t, err, "all of the 1 workers were busy for ")
	var fault *sandbox.Fault
	require.NotErrorAs(t, err, &fault, "the module has done nothing")
	close(release)
	held.Wait()
	_, out, err := provision(t, quick, []byte("now"))
	require.NoError(t, err)
	require.Equal(t, "now", string(out))
}

// TestWaitingIsNotCounted: a module with little time is called in all of it, however long
// it had to wait for a worker.
func TestWaitingIsNotCounted(t *testing.T) {
	const own = time.Second
	s := open(t, sandbox.Options{MaxWorkers: 1, WaitTimeout: 5 * time.Minute})
	holder := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{Timeout: 5 * time.Minute})
	quick := load(t, s, wasmtest.Asks("event", 1), sandbox.Limits{Timeout: own})
	begun := make(chan struct{})
	var released atomic.Int64
	var held sync.WaitGroup
	held.Go(func() {
		_, _, err := holder.Call(t.Context(), "tenant", "provision", nil, func(context.Context, string, []byte) []byte {
			close(begun)
			time.Sleep(own + own/2)
			released.Store(1)
			return []byte("{}")
		})
		if err != nil {
			t.Errorf("hold the worker: %v", err)
		}
	})
	<-begun
	left := time.Duration(0)
	_, _, err := quick.Call(t.Context(), "tenant", "provision", nil, func(ctx context.Context, _ string, _ []byte) []byte {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return []byte("{}")
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, released.Load(), "it had to wait for longer than its own time")
	require.Positive(t, left)
	held.Wait()
}
