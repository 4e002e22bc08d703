package demo

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// pulse is a Wasm module so small that it is written here byte by byte: it does nothing,
// and does it for ever. Its killer version asks for a table of a gigabyte, which its
// Module allows; the limit of its worker process does not, and kills that.
func pulse(version string, provision []byte) ([]byte, error) {
	manifest := fmt.Sprintf(`{"abi":1,"name":"pulse","version":%q,"description":"Does nothing.","capabilities":[]}`, version)
	// The functions of the Extism kernel come first, so the module's own begin at 3.
	imports := vector(imported("alloc", 1), imported("store_u64", 2), imported("output_set", 2))
	exports := vector(exported("describe", 3), exported("provision", 4), exported("deprovision", 5))
	types := vector([]byte{0x60, 0, 1, i32}, []byte{0x60, 1, i64, 1, i64}, []byte{0x60, 2, i64, i64, 0})
	code := vector(body(say(manifest)), body(slices.Concat(provision, say("{}"))), body(say("{}")))
	wasm := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, types), section(2, imports), section(3, vector([]byte{0}, []byte{0}, []byte{0})),
		section(4, vector([]byte{externref, 0, 1})), section(7, exports), section(10, code))
	return wasmfile.Embed(wasm, []byte(manifest))
}

// The value types of Wasm.
const (
	i32       = 0x7f
	i64       = 0x7e
	externref = 0x6f
)

// growTable asks for as many entries as a table may have.
func growTable() []byte {
	const most = 134_217_000
	return slices.Concat([]byte{0xd0, externref, 0x41}, signed(most), []byte{0xfc, 0x0f, 0, 0x1a})
}

// say gives a text to the host as the output.
func say(text string) []byte {
	const word = 8
	padded := []byte(text)
	for len(padded)%word != 0 {
		padded = append(padded, ' ')
	}
	constant := func(v int64) []byte { return append([]byte{0x42}, signed(v)...) }
	const localGet, localSet, call, add = 0x20, 0x21, 0x10, 0x7c
	out := slices.Concat(constant(int64(len(padded))), []byte{call, 0, localSet, 0})
	for at := 0; at < len(padded); at += word {
		value := int64(binary.LittleEndian.Uint64(padded[at:]))
		out = slices.Concat(out, []byte{localGet, 0}, constant(int64(at)), []byte{add}, constant(value), []byte{call, 1})
	}
	return slices.Concat(out, []byte{localGet, 0}, constant(int64(len(padded))), []byte{call, 2})
}

// body is a function with one local of type i64 that returns 0: OK.
func body(code []byte) []byte {
	return sized(slices.Concat([]byte{1, 1, i64}, code, []byte{0x41, 0, 0x0b}))
}

func imported(name string, typ byte) []byte {
	return slices.Concat(sized([]byte("extism:host/env")), sized([]byte(name)), []byte{0, typ})
}

func exported(name string, function byte) []byte {
	return append(sized([]byte(name)), 0, function)
}

func section(id byte, content []byte) []byte { return append([]byte{id}, sized(content)...) }

func vector(items ...[]byte) []byte {
	return append(unsigned(uint64(len(items))), slices.Concat(items...)...)
}

func sized(content []byte) []byte { return append(unsigned(uint64(len(content))), content...) }

// unsigned is LEB128, as varints of Go are.
func unsigned(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// signed is LEB128 of a two's complement.
func signed(v int64) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
