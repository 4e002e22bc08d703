package sandbox

import "encoding/binary"

// arenaBase is the first offset of an arena. 0 means "no block" to every PDK, and the
// first bytes stay unused so that a PDK that ignores a failed allocation and stores at
// 0 and after reaches nothing.
const arenaBase = 64

// arena is the Extism memory of one call: blocks that the guest can only reach by
// offset. Offsets grow for as long as the call lasts and are never used twice, so a
// guest that frees a block twice, or after the host did, hits nobody else's block.
// Every access out of range reads 0 or does nothing, as in Extism's own runtime.
type arena struct {
	data   []byte
	blocks map[uint64]uint64 // length of each live block by its offset
	limit  int
	full   bool // an allocation has been refused
}

func newArena(limit int) *arena {
	return &arena{data: make([]byte, arenaBase, 16*kib), blocks: map[uint64]uint64{}, limit: arenaBase + limit}
}

// alloc makes a block of n zero bytes and returns its offset, or 0 when n is 0 or the
// arena is full.
func (a *arena) alloc(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	start := (len(a.data) + 7) &^ 7
	if n > uint64(a.limit) || start+int(n) > a.limit {
		a.full = true
		return 0
	}
	end := start + int(n)
	if end > cap(a.data) {
		grown := make([]byte, len(a.data), min(a.limit, max(2*cap(a.data), end)))
		copy(grown, a.data)
		a.data = grown
	}
	a.data = a.data[:end]
	a.blocks[uint64(start)] = n
	return uint64(start)
}

// put makes a block that holds b.
func (a *arena) put(b []byte) uint64 {
	offset := a.alloc(uint64(len(b)))
	if offset != 0 {
		copy(a.data[offset:], b)
	}
	return offset
}

// length returns the length of the live block that starts at offset, or 0.
func (a *arena) length(offset uint64) uint64 { return a.blocks[offset] }

// free gives a block up. Its bytes stay where they are until the call ends.
func (a *arena) free(offset uint64) { delete(a.blocks, offset) }

// block returns the live block at offset, not copied, or nil.
func (a *arena) block(offset uint64) []byte {
	n := a.blocks[offset]
	if n == 0 {
		return nil
	}
	return a.data[offset : offset+n]
}

// slice returns n bytes at any offset, not copied, and whether they are all there.
func (a *arena) slice(offset, n uint64) ([]byte, bool) {
	size := uint64(len(a.data))
	if n > size || offset > size-n || offset < arenaBase {
		return nil, false
	}
	return a.data[offset : offset+n], true
}

func (a *arena) loadByte(offset uint64) uint64 {
	if b, ok := a.slice(offset, 1); ok {
		return uint64(b[0])
	}
	return 0
}

func (a *arena) loadWord(offset uint64) uint64 {
	if b, ok := a.slice(offset, 8); ok {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (a *arena) storeByte(offset, value uint64) {
	if b, ok := a.slice(offset, 1); ok {
		b[0] = byte(value)
	}
}

func (a *arena) storeWord(offset, value uint64) {
	if b, ok := a.slice(offset, 8); ok {
		binary.LittleEndian.PutUint64(b, value)
	}
}
