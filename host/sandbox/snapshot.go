package sandbox

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// maxImageBytes is how large a memory may be of which an image is kept: an image takes
// as much again. A Go guest starts with 4 to 8 MiB, an interpreter of Python with 20.
const maxImageBytes = 64 * mib

// image is the content of a memory at one moment.
type image interface {
	// restore gives the memory, which is as long as it was, its content back. After an
	// error it is in no state to be used.
	restore(memory []byte) error
	close()
}

// copiedImage is an image that knows nothing of pages: all of it is written back.
type copiedImage struct{ content []byte }

func newCopiedImage(memory []byte) image { return &copiedImage{bytes.Clone(memory)} }

// restore implements image.
func (i *copiedImage) restore(memory []byte) error {
	copy(memory, i.content)
	return nil
}

// close implements image.
func (i *copiedImage) close() { i.content = nil }

// isZero reports whether there is nothing but zeros.
func isZero(b []byte) bool {
	for len(b) >= 64 {
		var zeros [64]byte
		if [64]byte(b[:64]) != zeros {
			return false
		}
		b = b[64:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// snapshot is the state in which each call of an instance begins: all of it that code
// which preflight calls restorable can change. What the host keeps for the instance is
// not in it; see guest.disturbed.
type snapshot struct {
	memory  *guestMemory
	linear  api.Memory
	size    uint64
	image   image
	globals []savedGlobal
}

type savedGlobal struct {
	global api.MutableGlobal
	value  uint64
}

var errNotRestorable = errors.New("the state cannot be restored")

// takeSnapshot remembers the state of an instance, whose mutable globals are exported
// under the given names. The image of its memory has limit bytes at most. After an error
// the instance must not be used.
func takeSnapshot(instance api.Module, memory *guestMemory, globals []string, limit int64, t *pageTracker) (*snapshot, error) {
	s := &snapshot{memory: memory, linear: instance.Memory()}
	for _, name := range globals {
		global, ok := instance.ExportedGlobal(name).(api.MutableGlobal)
		if !ok {
			return nil, fmt.Errorf("%w: there is no mutable global %s", errNotRestorable, name)
		}
		s.globals = append(s.globals, savedGlobal{global, global.Get()})
	}
	if !memory.made {
		return s, nil
	}
	s.size = uint64(s.linear.Size())
	if s.size > uint64(limit) {
		return nil, fmt.Errorf("%w: the memory has %d bytes after it was initialised, the limit is %d", errNotRestorable, s.size, limit)
	}
	if s.size == 0 {
		return s, nil
	}
	var err error
	s.image, err = newImage(t, memory.space.bytes()[:s.size])
	return s, err
}

// restore brings the state back. After an error the instance must not be used.
func (s *snapshot) restore() error {
	for _, g := range s.globals {
		g.global.Set(g.value)
	}
	if !s.memory.made {
		return nil
	}
	if !s.memory.shrink(s.linear, s.size) {
		return fmt.Errorf("%w: the memory cannot be shrunk", errNotRestorable)
	}
	s.memory.refused = false
	if s.image == nil {
		return nil
	}
	return s.image.restore(s.memory.space.bytes()[:s.size])
}

// close gives the image back.
func (s *snapshot) close() {
	if s.image != nil {
		s.image.close()
	}
}
