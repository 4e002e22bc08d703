//go:build !unix

package sandbox

// space is the bytes of a memory on systems without mmap: it moves when it grows.
type space struct{ buffer []byte }

// reserve returns an empty space.
func reserve(uint64) space { return space{} }

// extend makes room for size bytes.
func (s *space) extend(size uint64) bool {
	if size > uint64(len(s.buffer)) {
		grown := make([]byte, size)
		copy(grown, s.buffer)
		s.buffer = grown
	}
	return true
}

// bytes returns all of it.
func (s *space) bytes() []byte { return s.buffer }

// release gives it back.
func (s *space) release() { s.buffer = nil }
