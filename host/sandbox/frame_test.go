package sandbox

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestFrameRoundTrip(t *testing.T) {
	for name, payload := range map[string][]byte{
		"Empty": {}, "Small": []byte("abc"), "Step": make([]byte, frameStepBytes), "Large": bytes.Repeat([]byte("0123456789"), 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			var pipe bytes.Buffer
			require.NoError(t, writeFrame(&pipe, frameCall, 77, []byte("<"), payload, []byte(">")))
			f, err := readFrame(bufio.NewReader(iotest.OneByteReader(&pipe)), len(payload)+2)
			require.NoError(t, err)
			require.Equal(t, frameCall, f.typ)
			require.Equal(t, uint32(77), f.call)
			require.True(t, bytes.Equal(append(append([]byte("<"), payload...), '>'), f.payload))
		})
	}
}

func TestSmallFrameIsOneWrite(t *testing.T) {
	writes := 0
	require.NoError(t, writeFrame(writerFunc(func(p []byte) (int, error) { writes++; return len(p), nil }), frameLog, 1, make([]byte, 100), make([]byte, 4000)))
	require.Equal(t, 1, writes)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestReadFrameErrors(t *testing.T) {
	header := func(length uint32) []byte {
		return append(binary.LittleEndian.AppendUint32(nil, length), 1, 0, 0, 0, 0)
	}
	cases := map[string]struct {
		reason string
		bytes  []byte
		want   error
	}{
		"Nothing":    {"a closed pipe between frames", nil, io.EOF},
		"HalfHeader": {"a closed pipe inside a header", header(1)[:5], io.ErrUnexpectedEOF},
		"NoPayload":  {"a closed pipe after a header", header(5), io.ErrUnexpectedEOF},
		"Half":       {"a closed pipe inside a payload", append(header(5), 1, 2), io.ErrUnexpectedEOF},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := readFrame(bufio.NewReader(bytes.NewReader(c.bytes)), 100)
			require.Equal(t, c.want, err, c.reason)
		})
	}
	_, err := readFrame(bufio.NewReader(bytes.NewReader(header(1<<32-1))), 100)
	var tooLarge *frameTooLargeError
	require.ErrorAs(t, err, &tooLarge)
	require.EqualError(t, err, "a frame claims 4294967295 bytes, the limit is 100")
}

// TestReadFrameAllocation proves that a claim within the limit costs nothing until the
// bytes arrive.
func TestReadFrameAllocation(t *testing.T) {
	claim := append(binary.LittleEndian.AppendUint32(nil, 1<<29), 1, 0, 0, 0, 0, 'x')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readFrame(bufio.NewReader(bytes.NewReader(claim)), 1<<30)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1*mib))
}

func TestWriteFrameError(t *testing.T) {
	broken := errors.New("broken pipe")
	w := writerFunc(func([]byte) (int, error) { return 0, broken })
	require.ErrorIs(t, writeFrame(w, frameCall, 1, make([]byte, 10)), broken)
	require.ErrorIs(t, writeFrame(w, frameCall, 1, make([]byte, 10), make([]byte, 2*frameStepBytes)), broken)
}

func TestUnpack(t *testing.T) {
	name, rest, err := unpackNamed(append(packNamed("provision"), "input"...))
	require.NoError(t, err)
	require.Equal(t, "provision", name)
	require.Equal(t, "input", string(rest))
	for _, payload := range [][]byte{nil, {5, 'a'}, {1}} {
		_, _, err := unpackNamed(payload)
		require.ErrorIs(t, err, errProtocol)
	}
	code, origin, output, err := unpackResult(append(packResult(-7, originRestored), 'x'))
	require.NoError(t, err)
	require.Equal(t, int32(-7), code)
	require.Equal(t, originRestored, origin)
	require.Equal(t, "x", string(output))
	for _, payload := range [][]byte{nil, {1, 2, 3, 4}, {0, 0, 0, 0, 2}} {
		_, _, _, err = unpackResult(payload)
		require.ErrorIs(t, err, errProtocol)
	}
	for _, payload := range [][]byte{nil, {0}, {4, 0}, {0, 5}} {
		_, _, _, err := unpackLog(payload)
		require.ErrorIs(t, err, errProtocol)
	}
}

func TestUnpackFault(t *testing.T) {
	for _, kind := range []FaultKind{FaultTrap, FaultMemory, FaultOutput} {
		payload, err := json.Marshal(guestFault{Kind: kind, Text: "x"})
		require.NoError(t, err)
		f, err := unpackFault(payload)
		require.NoError(t, err)
		require.Equal(t, kind, f.Kind)
	}
	for name, payload := range map[string][]byte{
		"Timeout": []byte(`{"kind":"timeout"}`), "Crash": []byte(`{"kind":"crash"}`), "Nothing": []byte(`{}`),
		"NotJSON": []byte(`trap`), "Large": append([]byte(`{"kind":"trap","text":"`), append(make([]byte, faultFrameBytes), `"}`...)...),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpackFault(payload)
			require.ErrorIs(t, err, errProtocol)
		})
	}
}

func FuzzReadFrame(f *testing.F) {
	var good bytes.Buffer
	require.NoError(f, writeFrame(&good, frameResult, 1, packResult(0, originFresh), []byte("{}")))
	require.NoError(f, writeFrame(&good, frameLog, 1, []byte{0, 2}, []byte("text")))
	f.Add(good.Bytes())
	f.Add([]byte("this is what a program says that is no worker\n"))
	f.Add([]byte{255, 255, 255, 255, 1, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 64
		r := bufio.NewReader(bytes.NewReader(stream))
		for read := 0; ; {
			got, err := readFrame(r, limit)
			if err != nil {
				return
			}
			require.LessOrEqual(t, len(got.payload), limit)
			read += frameHeaderBytes + len(got.payload)
			require.LessOrEqual(t, read, len(stream), "nothing is made up")
			// No payload may upset what takes it apart.
			_, _, _ = unpackNamed(got.payload)
			_, _, _, _ = unpackResult(got.payload)
			_, _, _, _ = unpackLog(got.payload)
			_, _ = unpackFault(got.payload)
		}
	})
}
