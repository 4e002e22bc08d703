package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// ABI tests call the Extism functions as a guest would, on a stack of numbers.

func testCall(t *testing.T, input string, arenaBytes int) (*call, func(name string, args ...uint64) uint64, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	g := testGuest(t, wasmtest.Returns(0), setup{ArenaBytes: arenaBytes, LogLevel: levelWarn})
	g.running = &call{id: 1, arena: g.arena, logs: newLogSink(&out, 1, 10, 1000)}
	require.True(t, g.running.setInput([]byte(input)))
	return g.running, envOf(g), &out
}

// envOf calls the functions of a guest's extism:host/env. A panic in one of them becomes
// one of the test.
func envOf(g *guest) func(name string, args ...uint64) uint64 {
	functions := map[string]api.Function{}
	return func(name string, args ...uint64) uint64 {
		f := functions[name]
		if f == nil {
			f = g.runtime.Module(abi.ImportEnv).ExportedFunction(name)
			if f == nil {
				panic(name + " is missing")
			}
			functions[name] = f
		}
		stack := make([]uint64, 3)
		copy(stack, args)
		if err := f.CallWithStack(context.Background(), stack); err != nil {
			if cause := errors.Unwrap(err); cause != nil {
				err = cause
			}
			panic(err)
		}
		switch types := f.Definition().ResultTypes(); {
		case len(types) == 0:
			return 0
		case types[0] == api.ValueTypeI32:
			return uint64(uint32(stack[0]))
		default:
			return stack[0]
		}
	}
}

func TestExtismMemory(t *testing.T) {
	_, env, _ := testCall(t, "", 1024)
	a := env("alloc", 10)
	b := env("alloc", 16)
	require.NotZero(t, a)
	require.Greater(t, b, a+9, "blocks must not overlap")
	require.Equal(t, uint64(10), env("length", a))
	require.Equal(t, uint64(16), env("length_unsafe", b))
	require.Zero(t, env("length", a+1), "only a start is a handle")
	env("store_u64", b, 0x1122334455667788)
	env("store_u8", b+8, 0x1ff)
	require.Equal(t, uint64(0x1122334455667788), env("load_u64", b))
	require.Equal(t, uint64(0xff), env("load_u8", b+8), "a byte is a byte")
	require.Equal(t, uint64(0x77), env("load_u8", b+1))
	require.Equal(t, uint64(0xff112233_44556677), env("load_u64", b+1), "unaligned loads work")

	env("free", a)
	env("free", a)
	env("free", 12345)
	require.Zero(t, env("length", a))
	require.Greater(t, env("alloc", 1), b, "an offset is never used twice")
}

func TestExtismOutOfRange(t *testing.T) {
	c, env, _ := testCall(t, "input", 1024)
	last := env("alloc", 8)
	env("store_u64", last, 42)
	end := c.arena.end
	for _, offset := range []uint64{0, 1, arenaBase - 1, end - 7, end, 1 << 31, math.MaxUint64, math.MaxUint64 - 6} {
		require.Zero(t, env("load_u64", offset), "offset %d", offset)
		env("store_u64", offset, math.MaxUint64)
	}
	for _, offset := range []uint64{0, arenaBase - 1, end, math.MaxUint64} {
		require.Zero(t, env("load_u8", offset), "offset %d", offset)
		env("store_u8", offset, 255)
	}
	require.Equal(t, uint64(42), env("load_u64", last), "stores out of range do nothing")
	for _, offset := range []uint64{5, 100, math.MaxUint64} {
		require.Zero(t, env("input_load_u8", offset))
		require.Zero(t, env("input_load_u64", offset))
	}
}

func TestExtismMemoryLimit(t *testing.T) {
	c, env, _ := testCall(t, "", 100)
	require.Zero(t, env("alloc", 0))
	require.False(t, c.arena.full, "nothing is no refusal")
	require.Zero(t, env("alloc", 101))
	require.Zero(t, env("alloc", math.MaxUint64))
	require.True(t, c.arena.full)
	require.NotZero(t, env("alloc", 60))
	require.Zero(t, env("alloc", 60), "blocks add up")

	c.arena.reset()
	require.False(t, c.setInput(make([]byte, 200)))
}

func TestExtismInput(t *testing.T) {
	c, env, _ := testCall(t, "0123456789", 1024)
	require.Equal(t, uint64(10), env("input_length"))
	handle := env("input_offset")
	require.Equal(t, uint64(10), env("length", handle), "the input is a real block")
	require.Equal(t, uint64('9'), env("input_load_u8", 9))
	require.Equal(t, uint64(0x3837363534333231), env("input_load_u64", 1))
	require.Zero(t, env("input_load_u64", 3), "no byte after the input can be read")
	env("output_set", handle, 10)
	env("free", handle)
	require.Zero(t, env("input_length"), "freeing the input empties it")
	require.Equal(t, "0123456789", string(c.output()))

	_, env, _ = testCall(t, "", 1024)
	require.Zero(t, env("input_offset"), "an empty input has no block")
}

func TestExtismOutput(t *testing.T) {
	c, env, _ := testCall(t, "abcdef", 100_000)
	handle := env("input_offset")
	require.Empty(t, c.output())
	env("output_set", handle+2, 3)
	require.Equal(t, "cde", string(c.output()), "a part of a block is an output")
	env("output_set", handle, 1<<40)
	env("output_set", math.MaxUint64, 2)
	require.Equal(t, "cde", string(c.output()), "a range that is not there is ignored")
	env("alloc", 50_000) // moves the arena
	env("store_u8", handle+2, 'X')
	require.Equal(t, "Xde", string(c.output()), "what counts is the end of the call")
	env("output_set", 0, 0)
	require.Empty(t, c.output(), "an empty output replaces an earlier one")
}

func TestExtismVariables(t *testing.T) {
	c, env, _ := testCall(t, "", 8*mib)
	put := func(text string) uint64 { return c.arena.put([]byte(text)) }
	require.Zero(t, env("var_get", put("k")))
	env("var_set", put("k"), put("value"))
	require.Equal(t, "value", string(c.arena.block(env("var_get", put("k")))))
	key := put("k")
	env("var_set", key, 0)
	require.Zero(t, env("length", key), "the host owns the key")
	require.Zero(t, env("var_get", put("k")), "an empty value deletes")
	env("var_set", put("big"), env("alloc", maxVariableBytes-10))
	env("var_set", put("big"), env("alloc", maxVariableBytes-10))
	require.PanicsWithError(t, errVariablesFull.Error(), func() { env("var_set", put("more"), env("alloc", 10)) })
}

func TestExtismAbsent(t *testing.T) {
	_, env, out := testCall(t, "", 1024)
	require.Zero(t, env("config_get", env("alloc", 3)))
	require.Zero(t, env("http_request", env("alloc", 3), 0))
	require.Zero(t, env("http_status_code"))
	require.Zero(t, env("http_headers"))
	require.Equal(t, uint64(levelWarn), env("get_log_level"))
	require.Contains(t, out.String(), "HTTP")
}

func TestExtismErrorAndLogs(t *testing.T) {
	c, env, out := testCall(t, "", 1024)
	require.Empty(t, c.guestError())
	env("error_set", c.arena.put([]byte("no\x00good\xff")))
	require.Equal(t, "no.good.", c.guestError())
	env("error_set", 0)
	require.Empty(t, c.guestError(), "0 clears")
	handle := c.arena.put([]byte("hello"))
	env("log_info", handle)
	require.Zero(t, env("length", handle), "the host owns what is logged")
	env("log_trace", 0) // an empty message must not trap
	r := bufio.NewReader(out)
	for _, want := range []struct {
		level logLevel
		text  string
	}{{levelInfo, "hello"}, {levelTrace, ""}} {
		f, err := readFrame(r, kib)
		require.NoError(t, err)
		stream, level, text, err := unpackLog(f.payload)
		require.NoError(t, err)
		require.Equal(t, streamLog, stream)
		require.Equal(t, want.level, level)
		require.Equal(t, want.text, text)
	}
}

func TestLogBudget(t *testing.T) {
	var out bytes.Buffer
	s := newLogSink(&out, 7, 3, 100)
	_, err := s.stdout.Write([]byte("one\ntwo"))
	require.NoError(t, err)
	_, err = s.stderr.Write([]byte(strings.Repeat("x", 101) + "\nlast words\n"))
	require.NoError(t, err)
	for range 50 {
		_, err = s.stderr.Write([]byte("more\n"))
		require.NoError(t, err)
	}
	s.close()
	require.NoError(t, s.err)
	var lines []string
	r := bufio.NewReader(&out)
	for r.Buffered() > 0 || out.Len() > 0 {
		f, err := readFrame(r, 10*kib)
		require.NoError(t, err)
		require.Equal(t, uint32(7), f.call)
		lines = append(lines, string(f.payload[2:]))
	}
	require.Equal(t, []string{"one", "last words", "more", "51 lines over the limits of this call's log were dropped; it has 3 of 3 lines and 17 of 100 bytes"}, lines)
	require.Len(t, s.tail, maxTailLines, "the last lines are kept although they were over the budget")
}

func TestLineWriter(t *testing.T) {
	var lines []string
	w := lineWriter{line: func(b []byte) { lines = append(lines, string(b)) }}
	for _, part := range []string{"a", "b\n\nc", strings.Repeat("d", maxLineBytes), "e\nf"} {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	w.flush()
	w.flush()
	require.Equal(t, []string{"ab", "c" + strings.Repeat("d", maxLineBytes-1), "de", "f"}, lines)
}

func TestClean(t *testing.T) {
	cases := map[string]struct{ reason, text, want string }{
		"Plain":   {"text stays", "größe\tok", "größe\tok"},
		"Control": {"terminals must not be driven", "a\x1b[2Jb\x00", "a.[2Jb."},
		"Lines":   {"one line stays one", "a\nb\r\nc", "a b  c"},
		"Invalid": {"logs are UTF-8", "a\xff\xfeb", "a..b"},
		"Long":    {"texts are bounded", strings.Repeat("x", 30), strings.Repeat("x", 20) + "…"},
		"Cut":     {"a cut inside a character leaves no half of it", strings.Repeat("x", 19) + "é", strings.Repeat("x", 19) + ".…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, clean(c.text, 20), c.reason) })
	}
}

func TestTrapIdentity(t *testing.T) {
	require.Equal(t, "unreachable", trapIdentity("unreachable", ""))
	require.Equal(t, "unreachable in a() < b()", trapIdentity("unreachable", "\n\ta()\n\tb()\n"))
	require.Equal(t, trapFrames, strings.Count(trapIdentity("x", strings.Repeat("\n\tf()", 40)), "f()"))
}
