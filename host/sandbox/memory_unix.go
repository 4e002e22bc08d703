//go:build unix

package sandbox

import (
	"golang.org/x/sys/unix"

	"github.com/tetratelabs/wazero/experimental"
)

// guestMemory is the linear memory of one instance: its whole cap is reserved as
// address space at once, so that growing never copies, and given back at the end. It
// enforces the cap itself, rather than wazero's page limit, because that way a refusal
// is seen.
type guestMemory struct {
	limit    uint64
	reserved []byte
	// refused says that the guest wanted more than its cap.
	refused bool
}

func newGuestMemory(limit int64) *guestMemory {
	return &guestMemory{limit: uint64(limit) / wasmPageBytes * wasmPageBytes}
}

// Allocate implements experimental.MemoryAllocator.
func (m *guestMemory) Allocate(_, _ uint64) experimental.LinearMemory {
	reserved, err := unix.Mmap(-1, 0, int(m.limit), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		// The first reallocation is refused, which the caller reports.
		reserved = nil
	}
	m.reserved = reserved
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *guestMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		m.refused = true
		return nil
	}
	return m.reserved[:size]
}

// Free implements experimental.LinearMemory.
func (m *guestMemory) Free() {
	if m.reserved == nil {
		return
	}
	_ = unix.Munmap(m.reserved)
	m.reserved = nil
}
