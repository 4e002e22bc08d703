package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

func TestCallPassesThrough(t *testing.T) {
	s := open(t, sandbox.Options{})
	t.Run("code", func(t *testing.T) {
		for _, want := range []int32{0, 4, 7, -1, -2147483648} {
			code, out, err := provision(t, load(t, s, wasmtest.Returns(want), sandbox.Limits{}), nil)
			require.NoError(t, err, "a code that is no disposition is the caller's to judge")
			require.Equal(t, want, code)
			require.Empty(t, out)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		m := load(t, s, wasmtest.Echo(), sandbox.Limits{})
		for _, in := range []string{"", "{}", "this is not JSON", "\x00\xff\x00", strings.Repeat("x", 1<<20)} {
			_, out, err := provision(t, m, []byte(in))
			require.NoError(t, err)
			require.Equal(t, in, string(out), "output is passed through, JSON or not")
		}
	})
	t.Run("unknown export", func(t *testing.T) {
		m := load(t, s, wasmtest.Echo(), sandbox.Limits{})
		_, _, err := m.Call(t.Context(), "tenant", "destroy", nil, nil)
		require.ErrorContains(t, faultOf(t, err, sandbox.FaultTrap), `no export "destroy"`)
		_, _, err = m.Call(t.Context(), "tenant", strings.Repeat("x", 300), nil, nil)
		require.ErrorContains(t, err, "300 bytes")
	})
}

func TestLoadReports(t *testing.T) {
	s := open(t, sandbox.Options{})
	b := wasmtest.New()
	b.Import(wasmtest.User, "kube_get", []byte{wasmtest.I64}, []byte{wasmtest.I64})
	wasm := b.Custom(abi.ManifestSection, `{"abi":1}`).Provisioner(wasmtest.I32Const(0))
	m := load(t, s, wasm, sandbox.Limits{})
	require.Equal(t, `{"abi":1}`, string(m.Manifest()))
	require.Equal(t, []abi.Function{abi.KubeGet}, m.Imports())
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", m.Digest())
	require.Empty(t, m.Described())

	g := load(t, s, goGuest(t), sandbox.Limits{})
	require.JSONEq(t, `{"abi":1,"name":"guest","version":"0.0.1"}`, string(g.Described()))
	require.Nil(t, g.Manifest())
}

func TestLoadRefuses(t *testing.T) {
	s := open(t, sandbox.Options{})
	command, err := buildGoGuest("")
	require.NoError(t, err)
	describes := func(body ...[]byte) []byte {
		b := wasmtest.New()
		f := b.Func(nil, []byte{wasmtest.I32}, 0, body...)
		return b.Export("describe", f).Export("provision", f).Export("deprovision", f).Bytes()
	}
	cases := map[string]struct {
		reason string
		wasm   []byte
		kind   sandbox.LoadErrorKind
	}{
		"NotWasm":       {"a chart instead of a module", []byte("PK\x03\x04"), sandbox.NotWasm},
		"Command":       {"a Go program that was built without -buildmode=c-shared", command, sandbox.NoInitializer},
		"DescribeCode":  {"describe says that something is wrong", describes(wasmtest.I32Const(2)), sandbox.DescribeFailed},
		"DescribeTraps": {"describe does not return", describes(wasmtest.Unreachable()), sandbox.DescribeFailed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := s.Load(t.Context(), c.wasm, sandbox.Limits{})
			var refused *sandbox.LoadError
			require.ErrorAs(t, err, &refused, c.reason)
			require.Equal(t, c.kind, refused.Kind, c.reason)
		})
	}
}

// TestFreshState proves that no call sees what another one left.
func TestFreshState(t *testing.T) {
	s := open(t, sandbox.Options{MaxWorkers: 1})
	counter := load(t, s, wasmtest.Counts(), sandbox.Limits{})
	golang := load(t, s, goGuest(t), sandbox.Limits{})
	for range 3 {
		code, _, err := provision(t, counter, nil)
		require.NoError(t, err)
		require.Equal(t, int32(1), code)
		_, out, err := provision(t, golang, []byte(`{}`))
		require.NoError(t, err)
		require.Contains(t, string(out), `"calls":1,`)
	}
}

// TestGuestSeesNothing proves that a guest has clocks and nothing else.
func TestGuestSeesNothing(t *testing.T) {
	t.Setenv("CAISSON_TEST_SECRET", "hunter2")
	s := open(t, sandbox.Options{})
	_, out, err := provision(t, load(t, s, goGuest(t), sandbox.Limits{}), []byte(`{}`))
	require.NoError(t, err)
	var seen struct {
		Env  []string
		Args int
		Year int
		File string
	}
	require.NoError(t, json.Unmarshal(out, &seen))
	require.Empty(t, seen.Env)
	require.Zero(t, seen.Args)
	require.Equal(t, time.Now().UTC().Year(), seen.Year, "the clock is real")
	require.Contains(t, seen.File, "Bad file number")
}

func TestHostCalls(t *testing.T) {
	s := open(t, sandbox.Options{})
	limits := sandbox.Limits{HostCallBytes: 1000, HostCalls: 5}
	t.Run("round trip", func(t *testing.T) {
		m := load(t, s, wasmtest.Asks("secret_read", 1), limits)
		var gotName, gotRequest string
		_, out, err := m.Call(t.Context(), "tenant", "provision", []byte("ask"), func(ctx context.Context, name string, request []byte) []byte {
			_, bounded := ctx.Deadline()
			require.True(t, bounded, "a host function knows the call's deadline")
			gotName, gotRequest = name, string(request)
			return []byte("answer")
		})
		require.NoError(t, err)
		require.Equal(t, "secret_read", gotName)
		require.Equal(t, "ask", gotRequest)
		require.Equal(t, "answer", string(out))
	})
	t.Run("Go guest", func(t *testing.T) {
		m := load(t, s, goGuest(t), limits)
		_, out, err := m.Call(t.Context(), "tenant", "provision", []byte(`{"calls":3}`), answerConfigMap)
		require.NoError(t, err)
		require.Contains(t, string(out), `"answers":["n0","n1","n2"]`)
	})
	refusals := map[string]struct {
		reason string
		times  int
		input  int
		answer int
		host   bool
		code   abi.ErrorCode
		text   string
	}{
		"NoHost":        {"describe has no host functions", 1, 1, 0, false, abi.CodeDenied, "no host function"},
		"TooMany":       {"the budget of calls, with both numbers", 6, 1, 1, true, abi.CodeTooLarge, "used 6 host functions, the limit is 5"},
		"LargeRequest":  {"the request's limit, with both numbers", 1, 1001, 1, true, abi.CodeTooLarge, "request has 1001 bytes, the limit is 1000"},
		"LargeResponse": {"the response's limit, with both numbers", 1, 1, 1001, true, abi.CodeTooLarge, "response has 1001 bytes, the limit is 1000"},
	}
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			m := load(t, s, wasmtest.Asks("event", c.times), limits)
			host := func(context.Context, string, []byte) []byte { return make([]byte, c.answer) }
			if !c.host {
				host = nil
			}
			_, out, err := m.Call(t.Context(), "tenant", "provision", make([]byte, c.input), host)
			require.NoError(t, err, "host functions fail with values")
			var response abi.Response
			require.NoError(t, json.Unmarshal(out, &response), c.reason)
			require.Equal(t, c.code, response.Error.Code, c.reason)
			require.Contains(t, response.Error.Message, c.text, c.reason)
		})
	}
	t.Run("panic", func(t *testing.T) {
		m := load(t, s, wasmtest.Asks("event", 1), limits)
		require.PanicsWithValue(t, "bug", func() {
			_, _, _ = m.Call(t.Context(), "tenant", "provision", nil, func(context.Context, string, []byte) []byte { panic("bug") })
		})
		_, _, err := m.Call(t.Context(), "tenant", "provision", nil, func(context.Context, string, []byte) []byte { return nil })
		require.NoError(t, err, "a bug in the host takes no slot with it")
	})
}

// answerConfigMap answers kube_get with an object that repeats the name.
func answerConfigMap(_ context.Context, _ string, request []byte) []byte {
	var r abi.KubeGetRequest
	if err := json.Unmarshal(request, &r); err != nil {
		return []byte(`{"error":{"code":"invalid"}}`)
	}
	return fmt.Appendf(nil, `{"result":{"object":{"apiVersion":"v1","kind":"ConfigMap","data":{"name":%q}}}}`, r.Name)
}

func TestPayloadLimits(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, wasmtest.Echo(), sandbox.Limits{InputBytes: 100, OutputBytes: 50})
	_, _, err := provision(t, m, make([]byte, 101))
	fault := faultOf(t, err, sandbox.FaultInput)
	require.ErrorContains(t, err, "101 bytes, the limit is 100")
	require.Equal(t, abi.ReasonInputTooLarge, fault.Reason())
	_, _, err = provision(t, m, make([]byte, 51))
	fault = faultOf(t, err, sandbox.FaultOutput)
	require.ErrorContains(t, err, "51 bytes, the limit is 50")
	require.Equal(t, abi.ReasonOutputTooLarge, fault.Reason())
	require.False(t, fault.Crashed())
	_, out, err := provision(t, m, make([]byte, 50))
	require.NoError(t, err)
	require.Len(t, out, 50)
}

// TestRaisedPayloads passes on what is far above the defaults, and no more than is allowed.
func TestRaisedPayloads(t *testing.T) {
	const size = 20 << 20
	s := open(t, sandbox.Options{})
	m := load(t, s, wasmtest.Echo(), sandbox.Limits{InputBytes: size, OutputBytes: size, ArenaBytes: 3 * size})
	payload := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	_, out, err := provision(t, m, payload)
	require.NoError(t, err)
	require.True(t, bytes.Equal(payload, out))
	_, _, err = provision(t, m, append(payload, 'x'))
	faultOf(t, err, sandbox.FaultInput)
	_, out, err = provision(t, m, []byte("small"))
	require.NoError(t, err, "and the next call finds nothing of it")
	require.Equal(t, "small", string(out))
}

func TestLogs(t *testing.T) {
	var log logBuffer
	s := open(t, sandbox.Options{Logger: log.logger()})
	cases := map[string]struct {
		reason string
		wasm   []byte
		want   string
	}{
		"Level":   {"levels are kept", wasmtest.Says("log_warn", "careful %s", wasmtest.I32Const(0)), `"level":"WARN","msg":"module log","module":"sha256:`},
		"Text":    {"text is never a template", wasmtest.Says("log_info", "100%d", wasmtest.I32Const(0)), `"stream":"log","text":"100%d"`},
		"Stdout":  {"lines on standard output", wasmtest.Writes(1, "one\ntwo", wasmtest.I32Const(0)), `"stream":"stdout","text":"two"`},
		"Stderr":  {"lines on standard error", wasmtest.Writes(2, "oops\n", wasmtest.I32Const(0)), `"level":"WARN","msg":"module log"`},
		"Invalid": {"no byte can break the log", wasmtest.Says("log_error", "\xff\x1b[2J\n", wasmtest.I32Const(0)), `"text":"..[2J "`},
		"Error":   {"the error text of a call that returns is not lost", wasmtest.Says("error_set", "why it failed", wasmtest.I32Const(2)), `"level":"ERROR","msg":"module log"`},
		"Dropped": {"what is over the budget is counted", wasmtest.Writes(1, strings.Repeat("x\n", 20_000), wasmtest.I32Const(0)), "19000 lines over the limits"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := provision(t, load(t, s, c.wasm, sandbox.Limits{}), nil)
			require.NoError(t, err)
			require.Contains(t, log.String(), c.want, c.reason)
		})
	}
	for line := range strings.Lines(log.String()) {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

// TestTimeoutKeepsLastWords proves that what a guest said before it hung is not lost
// with its worker.
func TestTimeoutKeepsLastWords(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, wasmtest.Writes(2, "waiting for godot\n", wasmtest.Loop(), wasmtest.I32Const(0)), sandbox.Limits{Timeout: 300 * time.Millisecond})
	_, _, err := provision(t, m, nil)
	require.Equal(t, []string{"waiting for godot"}, faultOf(t, err, sandbox.FaultTimeout).Stderr)
}

func TestContextDeadlineIsTheLimit(t *testing.T) {
	s := open(t, sandbox.Options{})
	m := load(t, s, wasmtest.Sleeps(1<<50), sandbox.Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	_, _, err := m.Call(ctx, "tenant", "provision", nil, nil)
	fault := faultOf(t, err, sandbox.FaultTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.LessOrEqual(t, fault.Limit, int64(400))
}

// TestHammer has many goroutines call a few modules through fewer workers, with
// cancellations and faults in between: each gets its own payload back.
func TestHammer(t *testing.T) {
	heartbeat(t, stillTolerated)
	s := open(t, sandbox.Options{MaxWorkers: 3, IdleTimeout: 50 * time.Millisecond})
	echo := load(t, s, wasmtest.Echo(), sandbox.Limits{})
	asks := load(t, s, wasmtest.Asks("event", 2), sandbox.Limits{})
	traps := load(t, s, wasmtest.New().Provisioner(wasmtest.Unreachable()), sandbox.Limits{})
	var wg sync.WaitGroup
	var answered atomic.Int64
	for i := range 100 {
		wg.Go(func() {
			payload := bytes.Repeat(fmt.Appendf(nil, "call %d;", i), 1+rand.IntN(2000))
			switch i % 5 {
			case 3:
				_, _, err := traps.Call(context.Background(), "tenant", "provision", payload, nil)
				var fault *sandbox.Fault
				if !errors.As(err, &fault) || fault.Kind != sandbox.FaultTrap {
					t.Errorf("call %d: %v", i, err)
				}
				return
			case 4:
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(20))*time.Millisecond)
				defer cancel()
				if _, out, err := echo.Call(ctx, "tenant", "provision", payload, nil); err == nil && !bytes.Equal(payload, out) {
					t.Errorf("call %d got the answer of another one", i)
				}
				return
			}
			m, want := echo, payload
			if i%5 == 2 {
				m, want = asks, append([]byte("host of "), payload...)
			}
			_, out, err := m.Call(context.Background(), "tenant", "provision", payload, func(_ context.Context, _ string, request []byte) []byte {
				return append([]byte("host of "), request...)
			})
			if err != nil || !bytes.Equal(want, out) {
				t.Errorf("call %d: %v, %d bytes of %d", i, err, len(out), len(want))
				return
			}
			answered.Add(1)
		})
	}
	wg.Wait()
	require.Equal(t, int64(60), answered.Load())
	require.LessOrEqual(t, s.Workers(), 3+3, "those that were killed may not have been reaped yet")
	require.Eventually(t, func() bool { return s.Workers() == 0 }, 10*time.Second, 10*time.Millisecond, "idle workers end")
}

// TestConcurrentLoads proves that loads of one module at once compile it once and that
// the cache is used after that.
func TestConcurrentLoads(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sandbox.Options{CacheDir: dir})
	wasm := goGuest(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			m, err := s.Load(context.Background(), wasm, sandbox.Limits{})
			if err != nil {
				t.Errorf("load: %v", err)
				return
			}
			defer m.Close()
			if _, _, err := m.Call(context.Background(), "tenant", "provision", []byte(`{}`), nil); err != nil {
				t.Errorf("call: %v", err)
			}
		})
	}
	wg.Wait()
	m := load(t, s, wasm, sandbox.Limits{})
	require.True(t, sandbox.Compiled(m))
	native, err := filepath.Glob(filepath.Join(dir, "sandbox-v1", strings.TrimPrefix(m.Digest(), "sha256:"), "wazero-*", "*"))
	require.NoError(t, err)
	require.Len(t, native, 2, "the module's and the kernel's")
	info, err := os.Stat(filepath.Dir(native[0]))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	// Another sandbox, and a cache that somebody tidies while a module is loaded.
	other := open(t, sandbox.Options{CacheDir: dir, MaxWorkers: 1, IdleTimeout: time.Millisecond})
	n := load(t, other, wasm, sandbox.Limits{})
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sandbox-v1")))
	require.Eventually(t, func() bool { return other.Workers() == 0 }, 10*time.Second, 5*time.Millisecond)
	_, _, err = provision(t, n, []byte(`{}`))
	require.NoError(t, err, "the next worker compiles for itself")
}

func TestModuleClose(t *testing.T) {
	s := open(t, sandbox.Options{})
	m, err := s.Load(t.Context(), wasmtest.Echo(), sandbox.Limits{})
	require.NoError(t, err)
	require.Equal(t, 1, s.Workers())
	m.Close()
	m.Close()
	require.Eventually(t, func() bool { return s.Workers() == 0 }, 10*time.Second, time.Millisecond)
	_, _, err = provision(t, m, nil)
	require.ErrorIs(t, err, sandbox.ErrClosed)
}

// TestCloseHammer closes modules and the sandbox while calls are under way: each call
// ends with its own payload, or says that there is nobody to ask.
func TestCloseHammer(t *testing.T) {
	for range 5 {
		s, err := sandbox.New(sandbox.Options{Worker: workerCommand(t), CacheDir: sharedCache, MaxWorkers: 2})
		require.NoError(t, err)
		modules := []*sandbox.Module{}
		for range 3 {
			m, err := s.Load(t.Context(), wasmtest.Echo(), sandbox.Limits{})
			require.NoError(t, err)
			modules = append(modules, m)
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for round := range 20 {
					payload := fmt.Appendf(nil, "%d of %d", round, i)
					_, out, err := modules[i%3].Call(context.Background(), "tenant", "provision", payload, nil)
					if err == nil && bytes.Equal(payload, out) {
						continue
					}
					if !errors.Is(err, sandbox.ErrClosed) {
						t.Errorf("call %d: %v, %q", i, err, out)
					}
					return
				}
			})
		}
		wg.Go(modules[0].Close)
		wg.Go(func() {
			modules[1].Close()
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		wg.Wait()
		require.Zero(t, s.Workers(), "close waits until every worker is dead")
		modules[2].Close()
	}
}
