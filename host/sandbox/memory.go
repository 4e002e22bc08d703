package sandbox

import "github.com/tetratelabs/wazero/experimental"

// guestMemory is a linear memory. It enforces the cap itself, rather than wazero's page
// limit, because that way a refusal is seen and a change of the limit changes nothing in
// the compiled code; and it can be made smaller again, which Wasm itself cannot.
type guestMemory struct {
	limit uint64
	// made says that the instance has a memory.
	made  bool
	space space
	// peak is the largest size since the memory was made or last shrunk.
	peak uint64
	// shrinking makes the next growth a shrinking to floor.
	shrinking bool
	floor     uint64
	// refused says that the guest wanted more than its cap, wanted how much that was last.
	refused bool
	wanted  uint64
}

func newGuestMemory(limit int64) *guestMemory {
	return &guestMemory{limit: uint64(limit) / wasmPageBytes * wasmPageBytes}
}

// Allocate implements experimental.MemoryAllocator.
func (m *guestMemory) Allocate(_, _ uint64) experimental.LinearMemory {
	// Where the space cannot be had the first reallocation is refused, which the caller
	// reports.
	m.made, m.space = true, reserve(m.limit)
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if m.shrinking {
		return m.space.bytes()[:m.floor]
	}
	if size > m.limit || !m.space.extend(size) {
		m.refused, m.wanted = true, size
		return nil
	}
	m.peak = max(m.peak, size)
	return m.space.bytes()[:size]
}

// Free implements experimental.LinearMemory.
func (m *guestMemory) Free() { m.space.release() }

// grower is the part of a memory that changes its size.
type grower interface {
	Grow(deltaPages uint32) (previousPages uint32, ok bool)
	Size() uint32
}

// shrink makes the memory as small as it was before it grew, wipes what it grew by, and
// reports whether that worked. Wasm has no instruction for it; wazero takes over
// whatever length a growth results in. A memory that is as large as its module ever
// lets it become cannot grow, and so it cannot shrink either.
func (m *guestMemory) shrink(memory grower, size uint64) bool {
	if uint64(memory.Size()) != size {
		m.shrinking, m.floor = true, size
		_, ok := memory.Grow(1)
		m.shrinking = false
		if !ok || uint64(memory.Size()) != size {
			return false
		}
	}
	if m.peak > size {
		wipe(m.space.bytes()[size:m.peak])
		m.peak = size
	}
	return true
}
