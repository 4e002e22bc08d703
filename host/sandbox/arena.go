package sandbox

import "encoding/binary"

// arenaBase is the first offset of an arena. 0 means "no block" to every PDK, and the
// guest cannot reach what is below: it is where the kernel keeps its bounds, and where a
// PDK that ignores a failed allocation stores without doing harm.
const arenaBase = 64

// The header below arenaBase, little endian: what the kernel must know to check an
// offset. Go writes all of it except headerMissed.
const (
	// headerArenaBytes and headerArenaWords count the offsets, from arenaBase on, at which a byte
	// and eight bytes can be read or written.
	headerArenaBytes = 0
	headerArenaWords = 8
	// headerInput is the offset of the input; headerInputBytes and headerInputWords count
	// the offsets inside of it.
	headerInput      = 16
	headerInputBytes = 24
	headerInputWords = 32
	// headerMissed is not 0 once the kernel has turned an access down.
	headerMissed = 40
)

// wordBytes is what load_u64 and its like read or write at once.
const wordBytes = 8

// arena is the Extism memory of one call: blocks that the guest can only reach by
// offset. Offsets grow for as long as the call lasts and are never used twice, so a
// guest that frees a block twice, or after the host did, hits nobody else's block.
//
// Its bytes are the linear memory of the kernel (kernel.go), which reads and writes them
// for the guest; what is done once for each block rather than once for each word is done
// here, in Go.
type arena struct {
	data   []byte            // header and everything that may be allocated
	end    uint64            // of the last block
	blocks map[uint64]uint64 // length of each live block by its offset
	limit  uint64
	full   bool   // an allocation has been refused
	wanted uint64 // how large the blocks would have become by it
}

// newArena lays an arena out in a memory that is all zeros. limit is what all blocks may
// take together; the memory holds arenaBase bytes more, or the rest is what they get.
func newArena(memory []byte, limit int) *arena {
	a := &arena{data: memory, end: arenaBase, limit: min(arenaBase+uint64(limit), uint64(len(memory))), blocks: map[uint64]uint64{}}
	a.publish()
	return a
}

// reset makes the arena as new. Nothing of it can be read afterwards.
func (a *arena) reset() {
	wipe(a.data[:a.end])
	a.end, a.full = arenaBase, false
	clear(a.blocks)
	a.publish()
}

// publish tells the kernel how far the blocks reach.
func (a *arena) publish() {
	size := a.end - arenaBase
	binary.LittleEndian.PutUint64(a.data[headerArenaBytes:], size)
	binary.LittleEndian.PutUint64(a.data[headerArenaWords:], words(size))
}

// publishInput tells the kernel where the input is.
func (a *arena) publishInput(offset, length uint64) {
	binary.LittleEndian.PutUint64(a.data[headerInput:], offset)
	binary.LittleEndian.PutUint64(a.data[headerInputBytes:], length)
	binary.LittleEndian.PutUint64(a.data[headerInputWords:], words(length))
}

// words is at how many offsets of size bytes a word is all there.
func words(size uint64) uint64 { return max(size, wordBytes-1) - (wordBytes - 1) }

// missed reports whether the guest has asked for a byte that is in no block.
func (a *arena) missed() bool { return a.data[headerMissed] != 0 }

// alloc makes a block of n zero bytes and returns its offset, or 0 when n is 0 or the
// arena is full.
func (a *arena) alloc(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	start := (a.end + wordBytes - 1) &^ (wordBytes - 1)
	if n > a.limit || start+n > a.limit {
		a.full, a.wanted = true, n
		if n <= a.limit {
			a.wanted += start - arenaBase
		}
		return 0
	}
	a.end = start + n
	a.blocks[start] = n
	a.publish()
	return start
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
	if n > a.end || offset > a.end-n || offset < arenaBase {
		return nil, false
	}
	return a.data[offset : offset+n], true
}
