package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox/internal/wasmtest"
)

// FuzzArena runs random operations against a model: a map of blocks that are slices.
func FuzzArena(f *testing.F) {
	const limit = 512
	f.Add([]byte{0, 10, 1, 0, 2, 3, 3, 9, 0, 200, 4, 1})
	f.Add([]byte{0, 255, 0, 255, 0, 255, 3, 0, 2, 1})
	g := testGuest(f, wasmtest.Returns(0), setup{ArenaBytes: limit})
	g.running = &call{id: 1, arena: g.arena}
	a, env := g.arena, envOf(g)
	f.Fuzz(func(t *testing.T, program []byte) {
		a.reset()
		model := map[uint64][]byte{}
		var offsets []uint64
		for i := 0; i+1 < len(program); i += 2 {
			operand := uint64(program[i+1])
			pick := func() uint64 {
				if len(offsets) == 0 {
					return operand
				}
				return offsets[operand%uint64(len(offsets))]
			}
			switch program[i] % 5 {
			case 0:
				offset := env("alloc", operand)
				if offset == 0 {
					continue
				}
				for _, known := range offsets {
					require.Greater(t, offset, known)
				}
				require.Less(t, offset, uint64(1)<<31)
				model[offset] = make([]byte, operand)
				offsets = append(offsets, offset)
			case 1:
				env("free", pick())
				delete(model, pick())
			case 2:
				offset := pick()
				env("store_u8", offset, operand)
				if len(model[offset]) > 0 {
					model[offset][0] = byte(operand)
				}
			case 3:
				offset := pick()
				env("store_u64", offset, operand)
				for j := range min(8, len(model[offset])) {
					model[offset][j] = byte(operand >> (8 * j))
				}
				if len(model[offset]) < 8 { // the word ran into the next block
					return
				}
			case 4:
				env("store_u64", operand%arenaBase, ^uint64(0))
			}
			require.LessOrEqual(t, a.end, uint64(arenaBase+limit))
		}
		for offset, content := range model {
			require.Equal(t, content, a.block(offset))
			require.Equal(t, uint64(len(content)), env("length", offset))
		}
	})
}

// TestKernelBounds compares the kernel with the rules at every offset around every edge.
func TestKernelBounds(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 20} {
		g := testGuest(t, wasmtest.Returns(0), setup{ArenaBytes: 4096})
		c := &call{id: 1, arena: g.arena}
		g.running = c
		input := make([]byte, size)
		for i := range input {
			input[i] = byte(i + 1)
		}
		require.True(t, c.setInput(input))
		env := envOf(g)
		word := func(at, n uint64) (value uint64) { // n bytes at an offset of the input, or nothing
			if at > uint64(size) || n > uint64(size)-at {
				return 0
			}
			for i := range n {
				value |= uint64(input[at+i]) << (8 * i)
			}
			return value
		}
		for delta := range uint64(size + 20) {
			for _, at := range []uint64{delta, -delta} {
				require.Equal(t, word(at, 1), env("load_u8", arenaBase+at), "size %d, offset %d", size, int64(at))
				require.Equal(t, word(at, 8), env("load_u64", arenaBase+at), "size %d, offset %d", size, int64(at))
				require.Equal(t, word(at, 1), env("input_load_u8", at), "size %d, offset %d", size, int64(at))
				require.Equal(t, word(at, 8), env("input_load_u64", at), "size %d, offset %d", size, int64(at))
				before := string(g.arena.data[:256])
				if word(at, 8) == 0 {
					env("store_u64", arenaBase+at, ^uint64(0))
				}
				if word(at, 1) == 0 {
					env("store_u8", arenaBase+at, 0xff)
				}
				after := []byte(before)
				after[headerMissed] = 1
				require.True(t, string(g.arena.data[:256]) == before || string(g.arena.data[:256]) == string(after), "size %d, offset %d", size, int64(at))
			}
		}
		require.True(t, g.arena.missed())
		g.arena.reset()
		require.False(t, g.arena.missed())
		require.Zero(t, env("input_load_u8", 0))
		require.Zero(t, env("load_u8", arenaBase))
	}
}

// TestArenaResets proves that no call can read what another one wrote, whatever the size.
func TestArenaResets(t *testing.T) {
	g := testGuest(t, wasmtest.Returns(0), setup{ArenaBytes: 4 * mib})
	for _, size := range []int{1, 100, 70 * kib, wipeLimit, 3 * mib} {
		input := make([]byte, size)
		for i := range input {
			input[i] = 0xaa
		}
		require.NotZero(t, g.arena.put(input))
		g.arena.reset()
		require.True(t, isZero(g.arena.data[arenaBase:]), "%d bytes", size)
		require.Equal(t, uint64(arenaBase), g.arena.alloc(uint64(size)))
		g.arena.reset()
	}
}

const wipeLimit = 512 * kib
