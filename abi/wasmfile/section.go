package wasmfile

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrNotWasm says that the bytes do not start like a Wasm file of any kind.
var ErrNotWasm = errors.New("not a Wasm file: it does not start with the bytes \\0asm")

// ErrComponent says that the bytes are a component of the Wasm component model; build
// a core module (for Go: GOOS=wasip1 -buildmode=c-shared) instead.
var ErrComponent = errors.New("a component of the Wasm component model, not a core module; build it as a core module")

const (
	headerSize = 8
	// nameLimit bounds an import's, export's or section's name; the sandbox caps names
	// as well, and no toolchain comes near it.
	nameLimit = 64 << 10

	sectionCustom = 0
	sectionImport = 2
	sectionExport = 7
)

// Check reports whether wasm starts like a core module of version 1. It returns
// [ErrNotWasm] or [ErrComponent], which say to people what they have instead.
func Check(wasm []byte) error {
	if !bytes.HasPrefix(wasm, []byte("\x00asm")) {
		return ErrNotWasm
	}
	version := wasm[4:]
	if bytes.HasPrefix(version, []byte{0x0d, 0x00, 0x01, 0x00}) {
		return ErrComponent
	}
	if !bytes.HasPrefix(version, []byte{0x01, 0x00, 0x00, 0x00}) {
		return fmt.Errorf("%w followed by version 1", ErrNotWasm)
	}
	return nil
}

// section is one section of a module. all is the section with its header, body is
// what follows the size; both alias the file.
type section struct {
	id   byte
	all  []byte
	body []byte
}

// eachSection calls visit for every section in order, until visit fails.
func eachSection(wasm []byte, visit func(section) error) error {
	if err := Check(wasm); err != nil {
		return err
	}
	rest := reader{buf: wasm[headerSize:]}
	for len(rest.buf) > 0 {
		start := rest.buf
		id, err := rest.byte()
		if err != nil {
			return err
		}
		body, err := rest.block()
		if err != nil {
			return fmt.Errorf("section %d: %w", id, err)
		}
		if err := visit(section{id: id, all: start[:len(start)-len(rest.buf)], body: body}); err != nil {
			return err
		}
	}
	return nil
}

// reader consumes a byte slice; every method fails instead of reading past its end.
type reader struct {
	buf []byte
}

var errTruncated = errors.New("the file ends in the middle of a section; it is cut off or damaged")

func (r *reader) byte() (byte, error) {
	if len(r.buf) == 0 {
		return 0, errTruncated
	}
	b := r.buf[0]
	r.buf = r.buf[1:]
	return b, nil
}

// uint32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) uint32() (uint32, error) {
	var value uint32
	for shift := 0; shift < 35; shift += 7 {
		b, err := r.byte()
		if err != nil {
			return 0, err
		}
		if shift == 28 && b > 0x0f {
			break
		}
		value |= uint32(b&0x7f) << shift
		if b&0x80 == 0 {
			return value, nil
		}
	}
	return 0, errors.New("a number is longer than 32 bits; the file is damaged")
}

// block reads a length and that many bytes.
func (r *reader) block() ([]byte, error) {
	size, err := r.uint32()
	if err != nil {
		return nil, err
	}
	if uint64(size) > uint64(len(r.buf)) {
		return nil, errTruncated
	}
	block := r.buf[:size]
	r.buf = r.buf[size:]
	return block, nil
}

func (r *reader) name() (string, error) {
	raw, err := r.block()
	if err != nil {
		return "", err
	}
	if len(raw) > nameLimit {
		return "", fmt.Errorf("a name has %d bytes and %d are allowed", len(raw), nameLimit)
	}
	if !utf8.Valid(raw) {
		return "", errors.New("a name is not UTF-8; the file is damaged")
	}
	return string(raw), nil
}

// appendUint32 appends v as unsigned LEB128.
func appendUint32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}
