package sandbox

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

func cursorOf(b ...byte) *cursor {
	return &cursor{data: b, end: len(b), section: "test"}
}

func TestCursorNumbers(t *testing.T) {
	for _, want := range []uint32{0, 1, 127, 128, 300, 1 << 28, math.MaxUint32} {
		c := cursorOf(binary.AppendUvarint(nil, uint64(want))...)
		require.Equal(t, want, c.u32())
		require.True(t, c.ok())
		require.Zero(t, c.left())
	}
	cases := map[string]struct {
		reason string
		bytes  []byte
	}{
		"Nothing":   {"the data ends", nil},
		"Unending":  {"the data ends inside the number", []byte{0x80}},
		"TooLong":   {"six bytes are no 32-bit number", []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0}},
		"TooLarge":  {"five bytes may hold more than 32 bits", []byte{0xff, 0xff, 0xff, 0xff, 0x1f}},
		"TooLarge2": {"by one bit", []byte{0x80, 0x80, 0x80, 0x80, 0x10}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cursorOf(tc.bytes...)
			require.Zero(t, c.u32(), tc.reason)
			require.False(t, c.ok(), tc.reason)
			require.Equal(t, Malformed, c.err.Kind)
			require.Equal(t, "test", c.err.Section)
		})
	}
}

func TestCursorSignedNumbers(t *testing.T) {
	for _, want := range []int64{0, 1, -1, 63, 64, -64, -65, math.MaxInt32, math.MinInt32} {
		for _, bits := range []uint{32, 33, 64} {
			c := cursorOf(wasmtest.Signed(want)...)
			require.Equal(t, want, c.signed(bits), "%d bits", bits)
			require.True(t, c.ok())
			require.Zero(t, c.left())
		}
	}
	for _, want := range []int64{math.MaxInt64, math.MinInt64} {
		require.Equal(t, want, cursorOf(wasmtest.Signed(want)...).signed(64))
	}
	for bits, encoded := range map[uint][]byte{
		32: {0xff, 0xff, 0xff, 0xff, 0x0f}, 33: {0x80, 0x80, 0x80, 0x80, 0x20}, 64: {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
	} {
		c := cursorOf(encoded...)
		require.Zero(t, c.signed(bits))
		require.False(t, c.ok(), "the last byte of %d bits does not repeat the sign", bits)
	}
}

func TestCursorSignedNumbersAreSkipped(t *testing.T) {
	// The longest encodings of i32, i64 and a block type.
	for bits, encoded := range map[uint][]byte{
		32: {0xff, 0xff, 0xff, 0xff, 0x7f}, 64: {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, 33: {0x80, 0x80, 0x80, 0x80, 0x70},
	} {
		c := cursorOf(encoded...)
		c.leb(bits)
		require.True(t, c.ok(), "%d bits", bits)
		require.Zero(t, c.left())
	}
	c := cursorOf(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0)
	c.leb(64)
	require.False(t, c.ok())
}

func TestCursorCounts(t *testing.T) {
	c := cursorOf(3, 'a', 'b', 'c')
	require.Equal(t, 3, c.count("things", 10))
	c = cursorOf(4, 'a', 'b', 'c')
	require.Zero(t, c.count("things", 10))
	require.Equal(t, "4 things are claimed where 3 bytes are left", c.err.Detail)
	c = cursorOf(3, 'a', 'b', 'c')
	require.Zero(t, c.count("things", 2))
	require.Equal(t, TooLarge, c.err.Kind)
	require.Equal(t, int64(3), c.err.Got)
	require.Equal(t, int64(2), c.err.Limit)
}

func TestCursorBytes(t *testing.T) {
	c := cursorOf(2, 'a', 'b', 1, 'c')
	require.Equal(t, "ab", string(c.vector()))
	require.Equal(t, "c", string(c.name()))
	require.Nil(t, c.bytes(1))
	require.Equal(t, int64(5), c.err.Offset)
	require.Nil(t, cursorOf(1).bytes(-1))
	long := append(binary.AppendUvarint(nil, maxWasmNameBytes+1), make([]byte, maxWasmNameBytes+1)...)
	c = cursorOf(long...)
	require.Empty(t, c.name())
	require.Equal(t, TooLarge, c.err.Kind)
	c = cursorOf(2, 0xc0, 0x80)
	require.Empty(t, c.name())
	require.Equal(t, Malformed, c.err.Kind, "a name must be UTF-8")
}

// TestCursorKeepsItsFirstError proves that what follows an error can neither hide it
// nor move on.
func TestCursorKeepsItsFirstError(t *testing.T) {
	c := cursorOf(1, 2, 3)
	c.failf(NotWasm, "the %s", "first")
	c.failf(Malformed, "the second")
	c.exceed("the third", 2, 1)
	require.Zero(t, c.byte())
	require.Zero(t, c.u32())
	require.Zero(t, c.count("things", 1))
	require.Nil(t, c.vector())
	require.Zero(t, c.pos)
	require.Equal(t, &LoadError{Kind: NotWasm, Section: "test", Offset: 0, Detail: "the first"}, c.err)
}

// TestCursorStaysInItsSection proves that a section cannot read what follows it.
func TestCursorStaysInItsSection(t *testing.T) {
	c := cursorOf(1, 2, 3, 4)
	c.end = 2
	require.Equal(t, byte(1), c.byte())
	require.Nil(t, c.bytes(2))
	require.False(t, c.ok())
}
