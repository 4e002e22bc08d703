//go:build !unix

package sandbox

import "github.com/tetratelabs/wazero/experimental"

// guestMemory is the linear memory of one instance on systems without mmap. It
// enforces the cap itself, rather than wazero's page limit, because that way a refusal
// is seen.
type guestMemory struct {
	limit  uint64
	buffer []byte
	// refused says that the guest wanted more than its cap.
	refused bool
}

func newGuestMemory(limit int64) *guestMemory {
	return &guestMemory{limit: uint64(limit) / wasmPageBytes * wasmPageBytes}
}

// Allocate implements experimental.MemoryAllocator.
func (m *guestMemory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements experimental.LinearMemory.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	grown := make([]byte, size)
	copy(grown, m.buffer)
	m.buffer = grown
	return m.buffer
}

// Free implements experimental.LinearMemory.
func (m *guestMemory) Free() { m.buffer = nil }
