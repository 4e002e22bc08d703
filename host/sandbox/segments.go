package sandbox

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// The linker of Go begins a new data segment wherever it finds some zeros, 34,000 of them
// in a small module. The compiler keeps a hundred bytes for each, which is 4 MiB for 0.8
// MiB of data, and takes its time to read them. So the module is rewritten once more:
// segments that are close to each other are joined, with zeros between them.

// maxSegmentGap is how many zeros may be between segments that are joined: about what the
// compiler would keep for one more.
const maxSegmentGap = 64

// segment is bytes that are put into the memory when an instance is made.
type segment struct {
	offset uint32
	data   []byte
}

func (s segment) end() uint64 { return uint64(s.offset) + uint64(len(s.data)) }

// joinSegments returns the module with its data segments joined. Nothing else of it
// changes, and an instance of it begins with the same memory, or is refused for the same
// reason: a memory is all zeros when segments are put into it. A module stays as it is
// where the order of its segments matters, because they overlap, or their number, because
// there are instructions that refer to it.
func joinSegments(wasm []byte) []byte {
	c := &cursor{data: wasm, pos: min(headerBytes, len(wasm)), end: len(wasm)}
	for c.ok() && c.left() > 0 {
		start := c.pos
		id := c.byte()
		content := c.vector()
		switch {
		case !c.ok(), id == sectionDataCount:
			// Where nothing tells how many segments there are no instruction can refer to one.
			return wasm
		case id != sectionData:
			continue
		}
		segments, ok := readSegments(content)
		if !ok {
			return wasm
		}
		joined := writeSegments(segments)
		out := append(make([]byte, 0, start+1+binary.MaxVarintLen32+len(joined)+len(wasm)-c.pos), wasm[:start]...)
		out = binary.AppendUvarint(append(out, id), uint64(len(joined)))
		return append(append(out, joined...), wasm[c.pos:]...)
	}
	return wasm
}

// readSegments reads a data section, and returns what is in it by offset. It fails unless
// all segments are put into the first memory at an offset that is written down, and none
// overlaps another.
func readSegments(content []byte) ([]segment, bool) {
	c := &cursor{data: content, end: len(content)}
	n := c.count("data segments", maxSegments)
	segments := make([]segment, 0, n)
	for range n {
		kind, op := c.u32(), c.byte()
		offset := uint32(c.signed(32))
		if end := c.byte(); kind != 0 || op != opConst32 || end != opEnd {
			return nil, false
		}
		segments = append(segments, segment{offset, c.vector()})
	}
	if !c.ok() || c.left() > 0 {
		return nil, false
	}
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(a.offset, b.offset) })
	for i := range segments[min(1, len(segments)):] {
		if uint64(segments[i+1].offset) < segments[i].end() {
			return nil, false
		}
	}
	return segments, true
}

// writeSegments writes the content of a data section, and joins what is close.
func writeSegments(segments []segment) []byte {
	// starts are the first segments of those that are joined, and size is about what all take.
	var starts []int
	size := binary.MaxVarintLen32
	for i, s := range segments {
		if i == 0 || uint64(s.offset)-segments[i-1].end() > maxSegmentGap {
			starts = append(starts, i)
			size += 3 + 2*binary.MaxVarintLen32 + len(s.data)
			continue
		}
		size += int(s.end() - segments[i-1].end())
	}
	out := binary.AppendUvarint(make([]byte, 0, size), uint64(len(starts)))
	for n, first := range starts {
		last := len(segments) - 1
		if n+1 < len(starts) {
			last = starts[n+1] - 1
		}
		begin := segments[first].offset
		out = appendSigned(append(out, 0, opConst32), int64(int32(begin)))
		out = binary.AppendUvarint(append(out, opEnd), segments[last].end()-uint64(begin))
		for i, s := range segments[first : last+1] {
			if i > 0 {
				var zeros [maxSegmentGap]byte
				out = append(out, zeros[:uint64(s.offset)-segments[first+i-1].end()]...)
			}
			out = append(out, s.data...)
		}
	}
	return out
}
