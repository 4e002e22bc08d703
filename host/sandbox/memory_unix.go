//go:build unix

package sandbox

import "golang.org/x/sys/unix"

// space is address space for a whole memory, reserved at once, so that growing never
// copies and the bytes never move.
type space struct{ reserved []byte }

// reserve returns a space of that many bytes, or none where they cannot be had.
func reserve(limit uint64) space {
	reserved, err := unix.Mmap(-1, 0, int(limit), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return space{}
	}
	return space{reserved}
}

// extend reports whether there is room for size bytes.
func (s *space) extend(size uint64) bool { return size <= uint64(len(s.reserved)) }

// bytes returns all of it.
func (s *space) bytes() []byte { return s.reserved }

// release gives it back.
func (s *space) release() {
	if s.reserved == nil {
		return
	}
	_ = unix.Munmap(s.reserved)
	s.reserved = nil
}
