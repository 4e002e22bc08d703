package sandbox

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// cursor reads a module from front to back. It never allocates and keeps its first
// error: after one, every read returns zero and every loop over counts ends.
type cursor struct {
	data    []byte
	pos     int
	end     int
	section string
	err     *LoadError
}

// failf records the first error, at the current position.
func (c *cursor) failf(kind LoadErrorKind, format string, args ...any) {
	if c.err == nil {
		c.err = &LoadError{Kind: kind, Section: c.section, Offset: int64(c.pos), Detail: fmt.Sprintf(format, args...)}
	}
}

// exceed records that a limit of the format is exceeded.
func (c *cursor) exceed(what string, got, limit int64) {
	if c.err == nil {
		c.err = &LoadError{Kind: TooLarge, Section: c.section, Offset: int64(c.pos), Detail: what, Got: got, Limit: limit}
	}
}

// ok reports whether reading may go on.
func (c *cursor) ok() bool { return c.err == nil }

// left is how many bytes of the current section are unread.
func (c *cursor) left() int { return c.end - c.pos }

// byte reads one byte.
func (c *cursor) byte() byte {
	if !c.ok() {
		return 0
	}
	if c.pos >= c.end {
		c.failf(Malformed, "the data ends too early")
		return 0
	}
	b := c.data[c.pos]
	c.pos++
	return b
}

// bytes reads n bytes without copying them.
func (c *cursor) bytes(n int) []byte {
	if !c.ok() {
		return nil
	}
	if n < 0 || n > c.left() {
		c.failf(Malformed, "%d bytes are claimed where %d are left", n, c.left())
		return nil
	}
	b := c.data[c.pos : c.pos+n]
	c.pos += n
	return b
}

// leb reads an unsigned or signed LEB128 number of the given width and returns its
// bits. Whether the last byte of a longest encoding is right is for the caller to say.
func (c *cursor) leb(bits uint) uint64 {
	// Nearly all numbers in a module are one byte long.
	if c.ok() && c.pos < c.end {
		if b := c.data[c.pos]; b < 0x80 {
			c.pos++
			return uint64(b)
		}
	}
	var value uint64
	for shift := uint(0); shift < bits; shift += 7 {
		b := c.byte()
		value |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return value
		}
	}
	c.failf(Malformed, "a number is longer than %d bits", bits)
	return 0
}

// signed reads a signed LEB128 number of the given width and returns it. The bits of
// the last byte that the width has no room for must repeat the sign, or another reader
// could see another number.
func (c *cursor) signed(bits uint) int64 {
	start := c.pos
	value := c.leb(bits)
	if !c.ok() {
		return 0
	}
	read := uint(c.pos - start)
	last := c.data[c.pos-1]
	if used := bits - 7*(read-1); used < 7 { // the longest encoding
		high := int8(last<<1) >> used // the sign bit and all above it, or only zeros
		if high != 0 && high != -1 {
			c.failf(Malformed, "a number is longer than %d bits", bits)
			return 0
		}
	}
	if shift := 7 * read; shift < 64 && last&0x40 != 0 {
		value |= ^uint64(0) << shift
	}
	return int64(value)
}

// u32 reads an unsigned 32-bit number.
func (c *cursor) u32() uint32 {
	value := c.leb(32)
	if value > math.MaxUint32 {
		c.failf(Malformed, "a number is longer than 32 bits")
		return 0
	}
	return uint32(value)
}

// count reads the length of a vector whose elements take at least one byte each. A
// length that cannot be true is an error before anybody acts on it.
func (c *cursor) count(what string, limit int) int {
	n := int64(c.u32())
	if !c.ok() {
		return 0
	}
	if n > int64(c.left()) {
		c.failf(Malformed, "%d %s are claimed where %d bytes are left", n, what, c.left())
		return 0
	}
	if n > int64(limit) {
		c.exceed("too many "+what, n, int64(limit))
		return 0
	}
	return int(n)
}

// vector reads a vector of bytes without copying it.
func (c *cursor) vector() []byte {
	n := c.u32()
	if int64(n) > int64(c.left()) {
		c.failf(Malformed, "%d bytes are claimed where %d are left", n, c.left())
		return nil
	}
	return c.bytes(int(n))
}

// name reads a name without copying it.
func (c *cursor) name() []byte {
	b := c.vector()
	if len(b) > maxWasmNameBytes {
		c.exceed("a name is too long", int64(len(b)), maxWasmNameBytes)
		return nil
	}
	if !utf8.Valid(b) {
		c.failf(Malformed, "a name is not UTF-8")
		return nil
	}
	return b
}
