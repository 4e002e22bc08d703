package sandbox

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// images makes an image in each of the ways that there are.
func images(t *testing.T, memory []byte) map[string]image {
	t.Helper()
	all := map[string]image{"Copied": newCopiedImage(memory)}
	if tracker := newPageTracker(); tracker != nil {
		img, err := newImage(tracker, memory)
		require.NoError(t, err)
		all["Tracked"] = img
	}
	return all
}

// TestImages writes to a memory in random places, in every round anew, and requires the
// memory to be as it was after each restoring.
func TestImages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const size = 40 * wasmPageBytes
	for _, name := range []string{"Copied", "Tracked"} {
		t.Run(name, func(t *testing.T) {
			m := newGuestMemory(64 * wasmPageBytes)
			m.Allocate(0, 0)
			defer m.Free()
			memory := m.Reallocate(size)
			for i := 0; i < size; i += 10_000 { // most pages, not all, have content
				memory[i] = byte(i%255 + 1)
			}
			want := bytes.Clone(memory)
			img := images(t, memory)[name]
			if img == nil {
				t.Log("the kernel cannot list written pages")
				return
			}
			defer img.close()
			require.True(t, bytes.Equal(want, memory), "an image changes nothing")
			for round := range 50 {
				for range random.IntN(200) {
					at := random.IntN(size)
					n := random.IntN(3 * os.Getpagesize())
					for i := at; i < min(size, at+n); i += 61 {
						memory[i] ^= byte(random.Uint32() | 1)
					}
				}
				require.NoError(t, img.restore(memory))
				require.True(t, bytes.Equal(want, memory), "round %d", round)
			}
		})
	}
}

// TestManyRegions writes to every other page, so that one scan does not find them all.
func TestManyRegions(t *testing.T) {
	tracker := newPageTracker()
	if tracker == nil {
		t.Log("the kernel cannot list written pages")
		return
	}
	const pages = 4000
	page := os.Getpagesize()
	m := newGuestMemory(int64(pages * page))
	m.Allocate(0, 0)
	defer m.Free()
	memory := m.Reallocate(m.limit)
	img, err := newImage(tracker, memory)
	require.NoError(t, err)
	defer img.close()
	for i := 0; i < len(memory); i += 2 * page {
		memory[i] = 1
	}
	require.NoError(t, img.restore(memory))
	require.True(t, isZero(memory))
}

// grownMemory is a memory as wazero has it.
type grownMemory struct {
	m      *guestMemory
	buffer []byte
	high   uint64
}

func (g *grownMemory) Size() uint32 { return uint32(len(g.buffer)) }

func (g *grownMemory) Grow(delta uint32) (uint32, bool) {
	size := uint64(len(g.buffer)) + uint64(delta)*wasmPageBytes
	if size > g.high {
		return 0, false
	}
	b := g.m.Reallocate(size)
	if b == nil {
		return 0, false
	}
	before := uint32(len(g.buffer) / wasmPageBytes)
	g.buffer = b
	return before, true
}

func TestMemoryShrinks(t *testing.T) {
	cases := map[string]struct {
		reason string
		grow   uint32
		high   uint64
		ok     bool
	}{
		"Same":  {"a memory that has not grown has nothing to shrink", 0, 2 * wasmPageBytes, true},
		"Grown": {"a memory that has grown is as it was", 3, 16 * wasmPageBytes, true},
		"Large": {"what is given back reads as zeros as well", 14, 32 * wasmPageBytes, true},
		"Full":  {"one that is as large as it may become cannot be shrunk", 2, 4 * wasmPageBytes, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := newGuestMemory(16 * wasmPageBytes)
			m.Allocate(0, 0)
			defer m.Free()
			g := &grownMemory{m: m, buffer: m.Reallocate(2 * wasmPageBytes), high: c.high}
			_, ok := g.Grow(c.grow)
			require.True(t, ok)
			for i := range g.buffer {
				g.buffer[i] = 1
			}
			require.Equal(t, c.ok, m.shrink(g, 2*wasmPageBytes), c.reason)
			if !c.ok {
				return
			}
			require.Equal(t, uint32(2*wasmPageBytes), g.Size())
			require.Equal(t, byte(1), g.buffer[0], "what is an image's business stays")
			_, ok = g.Grow(c.grow)
			require.True(t, ok)
			require.True(t, isZero(g.buffer[2*wasmPageBytes:]), c.reason)
		})
	}
	m := newGuestMemory(wasmPageBytes)
	m.Allocate(0, 0)
	defer m.Free()
	require.NotNil(t, m.Reallocate(wasmPageBytes))
	require.Nil(t, m.Reallocate(2*wasmPageBytes))
	require.True(t, m.refused, "a refusal is seen")
}

func TestIsZero(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 4096} {
		b := make([]byte, n)
		require.True(t, isZero(b))
		for _, i := range []int{0, n / 2, n - 1} {
			if i >= 0 && i < n {
				b[i] = 1
				require.False(t, isZero(b), "%d of %d", i, n)
				b[i] = 0
			}
		}
	}
}
