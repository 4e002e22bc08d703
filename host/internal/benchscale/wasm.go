package main

import (
	"fmt"
	"slices"

	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// Opcodes and types of Wasm, as far as the modules below need them.
const (
	wasmI32, wasmI64      byte = 0x7f, 0x7e
	opEnd, opCall         byte = 0x0b, 0x10
	opLocalGet, opSet     byte = 0x20, 0x21
	opI32Const, opI64Add  byte = 0x41, 0x7c
	opI64Const            byte = 0x42
	opLoop, opBranch      byte = 0x03, 0x0c
	blockVoid             byte = 0x40
	sectionType           byte = 1
	sectionImport         byte = 2
	sectionFunction       byte = 3
	sectionTable          byte = 4
	sectionExport         byte = 7
	sectionCode           byte = 10
	funcAlloc, funcStore       = 0, 1
	funcSet, firstOwn          = 2, 3
	typeAlloc, typeStore       = 0, 1
	typeSet, typeExport        = 2, 3
	externref             byte = 0x6f
	moreThanAWorkerMayUse      = 134_217_000
)

// small is a module that a compiler of a small language could have made: no memory of its
// own, some kilobytes, and an answer that is always the same. It is real in all else: it
// is pulled, checked, compiled and called in a worker.
type small struct {
	// name is what tells one digest from another.
	name string
	// answer is the output of provision, and code what it returns.
	answer string
	code   int32
	// body replaces that answer.
	body []byte
}

// loops never comes back.
func loops() []byte { return []byte{opLoop, blockVoid, opBranch, 0, opEnd, opI32Const, 0} }

// tableOfTheModule is what a Module must allow so that growsTable ends its worker, instead
// of being refused.
const tableOfTheModule = 1 << 27

// growsTable asks for a table that its Module allows and its process does not, which ends
// its worker.
func growsTable() []byte {
	return slices.Concat([]byte{0xd0, externref, opI32Const}, signed(moreThanAWorkerMayUse), []byte{0xfc, 0x0f, 0})
}

// wasm returns the file, with its manifest in it.
func (s small) wasm() ([]byte, error) {
	manifest := fmt.Sprintf(`{"abi":1,"name":%q,"version":"1.0.0","reasons":[{"code":"waiting","sentence":"It waits for something that does not come."}]}`, s.name)
	provision := s.body
	if provision == nil {
		provision = says(s.answer, s.code)
	}
	export := func(name string, index byte) []byte { return append(text(name), 0, index) }
	function := func(body []byte) []byte {
		whole := slices.Concat([]byte{1, 1, wasmI64}, body, []byte{opEnd}) // one local of 64 bits
		return append(unsigned(len(whole)), whole...)
	}
	imported := func(name string, typ byte) []byte {
		return slices.Concat(text("extism:host/env"), text(name), []byte{0, typ})
	}
	file := slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(sectionType, []byte{
			4,
			0x60, 1, wasmI64, 1, wasmI64,
			0x60, 2, wasmI64, wasmI32, 0,
			0x60, 2, wasmI64, wasmI64, 0,
			0x60, 0, 1, wasmI32,
		}),
		section(sectionImport, []byte{3}, imported("alloc", typeAlloc), imported("store_u8", typeStore), imported("output_set", typeSet)),
		section(sectionFunction, []byte{3, typeExport, typeExport, typeExport}),
		section(sectionTable, []byte{1, externref, 0, 1}),
		section(sectionExport, []byte{3}, export("describe", firstOwn), export("provision", firstOwn+1), export("deprovision", firstOwn+2)),
		section(sectionCode, []byte{3}, function(says(manifest, 0)), function(provision), function(says("{}", 0))),
	)
	return wasmfile.Embed(file, []byte(manifest))
}

// says writes a text into a block of Extism's memory, byte by byte, makes it the output,
// and returns a code.
func says(output string, code int32) []byte {
	body := slices.Concat([]byte{opI64Const}, signed(len(output)), []byte{opCall, funcAlloc, opSet, 0})
	for i := range len(output) {
		body = slices.Concat(body, []byte{opLocalGet, 0, opI64Const}, signed(i), []byte{opI64Add, opI32Const}, signed(int(output[i])), []byte{opCall, funcStore})
	}
	return slices.Concat(body, []byte{opLocalGet, 0, opI64Const}, signed(len(output)), []byte{opCall, funcSet, opI32Const}, signed(int(code)))
}

func section(id byte, parts ...[]byte) []byte {
	content := slices.Concat(parts...)
	return slices.Concat([]byte{id}, unsigned(len(content)), content)
}

func text(s string) []byte { return append(unsigned(len(s)), s...) }

// unsigned and signed are LEB128.
func unsigned(n int) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

func signed(n int) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}
