package sandbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/caisson-dev/caisson/abi"
)

// A guest moves its input and output through Extism's load and store functions, eight
// bytes at a time. As Go functions they cost some 50 ns each, because every call leaves
// the compiled code; as Wasm functions they cost some 5 ns. So the six of them are the
// kernel: a module of our own whose linear memory is the arena, and which is what guests
// import as extism:host/env. Everything else of that interface is Go, which the kernel
// imports from kernelImport and exports again: that costs nothing.
//
// The kernel keeps no state. It compares an offset with the bounds that arena writes into
// the header, and then reads or writes; an access that is out of bounds is noted there,
// reads 0 and writes nothing. Its bytes are made here, so that they can be read.

// kernelImport is the module of the Go functions. Preflight knows no such module, so no
// guest can import from it.
const kernelImport = "caisson:env"

// bounds is where the header says what a kernel function may reach.
type bounds struct {
	// base is the first valid offset, count the field of the header with their number.
	base  int64
	count uint64
	// input makes offsets relative to the start of the input.
	input bool
}

// kernelFunction is one of the functions that are Wasm.
type kernelFunction struct {
	name   string
	within bounds
	// access is the load or store; its alignment and offset are 0.
	access byte
}

// Instructions of the kernel.
const (
	opIf       = 0x04
	opElse     = 0x05
	opEnd      = 0x0b
	opGet      = 0x20
	opLoad64   = 0x29
	opLoadByte = 0x2d // as an i32
	opStore32  = 0x36
	opStore64  = 0x37
	opSetByte  = 0x3a // of an i32
	opConst32  = 0x41
	opConst64  = 0x42
	opLess64   = 0x54 // unsigned
	opAdd64    = 0x7c
	opSub64    = 0x7d
	opWrap     = 0xa7 // i64 to i32
	typeNone   = 0x40
)

// kernelFunctions are the functions that a guest calls once for each word.
func kernelFunctions() []kernelFunction {
	bytes, words := bounds{base: arenaBase, count: headerArenaBytes}, bounds{base: arenaBase, count: headerArenaWords}
	return []kernelFunction{
		{"input_load_u64", bounds{count: headerInputWords, input: true}, opLoad64},
		{"input_load_u8", bounds{count: headerInputBytes, input: true}, opLoadByte},
		{"load_u64", words, opLoad64},
		{"load_u8", bytes, opLoadByte},
		{"store_u64", words, opStore64},
		{"store_u8", bytes, opSetByte},
	}
}

// body is the code of the function:
//
//	if (offset - base) < header[count]: access; else: header[missed] = 1, and 0
func (f kernelFunction) body() []byte {
	var b []byte
	load := func(field uint64) {
		b = append(b, opConst32, 0, opLoad64, 0)
		b = binary.AppendUvarint(b, field)
	}
	b = append(b, 0, opGet, 0) // no locals but the parameters
	if f.within.base != 0 {
		b = append(b, opConst64)
		b = append(appendSigned(b, f.within.base), opSub64)
	}
	load(f.within.count)
	stores := f.access == opStore64 || f.access == opSetByte
	result := byte(typeNone)
	switch f.access {
	case opLoad64:
		result = typeI64
	case opLoadByte:
		result = typeI32
	}
	b = append(b, opLess64, opIf, result, opGet, 0)
	if f.within.input {
		load(headerInput)
		b = append(b, opAdd64)
	}
	b = append(b, opWrap)
	if stores {
		b = append(b, opGet, 1)
	}
	b = append(b, f.access, 0, 0, opElse, opConst32, 0, opConst32, 1, opStore32, 0, headerMissed)
	switch result {
	case typeI64:
		b = append(b, opConst64, 0)
	case typeI32:
		b = append(b, opConst32, 0)
	}
	return append(b, opEnd, opEnd)
}

// kernelModule writes the kernel: it imports the named functions, whose types are those
// of envSignature, and exports them and its own.
func kernelModule(imported []string) ([]byte, error) {
	own := kernelFunctions()
	var types, imports, functions, exports, bodies [][]byte
	addType := func(name string) ([]byte, error) {
		s, known := envSignature(name)
		if !known {
			return nil, fmt.Errorf("%s has no function %s", abi.ImportEnv, name)
		}
		params, results := s.valueTypes()
		types = append(types, slices.Concat([]byte{typeFunction}, vectorOf(params), vectorOf(results)))
		return binary.AppendUvarint(nil, uint64(len(types)-1)), nil
	}
	for i, name := range imported {
		typ, err := addType(name)
		if err != nil {
			return nil, err
		}
		imports = append(imports, slices.Concat(vectorOf([]byte(kernelImport)), vectorOf([]byte(name)), []byte{kindFunction}, typ))
		exports = append(exports, exportOf(name, i))
	}
	for i, f := range own {
		typ, err := addType(f.name)
		if err != nil {
			return nil, err
		}
		functions = append(functions, typ)
		exports = append(exports, exportOf(f.name, len(imported)+i))
		bodies = append(bodies, vectorOf(f.body()))
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		sectionOf(sectionType, types), sectionOf(sectionImport, imports), sectionOf(sectionFunction, functions),
		// One page, which newKernel grows to what the arena may have: so the limits change
		// nothing in the code, and the code is compiled once.
		sectionOf(sectionMemory, [][]byte{{0, 1}}),
		sectionOf(sectionExport, exports), sectionOf(sectionCode, bodies)), nil
}

// newKernel links the interface of Extism: functions are its Go half. It returns the
// memory of the kernel, all zeros, which holds an arena of limit bytes.
func newKernel(ctx context.Context, r wazero.Runtime, functions map[string]func([]uint64), limit int) ([]byte, error) {
	if err := link(ctx, r, kernelImport, envSignature, functions); err != nil {
		return nil, fmt.Errorf("link %s: %w", kernelImport, err)
	}
	wasm, err := kernelModule(slices.Sorted(maps.Keys(functions)))
	if err != nil {
		return nil, err
	}
	compiled, err := r.CompileModule(ctx, wasm)
	if err != nil {
		return nil, fmt.Errorf("compile the kernel: %w", err)
	}
	pages := (arenaBase + uint64(limit) + wasmPageBytes - 1) / wasmPageBytes
	ctx = experimental.WithMemoryAllocator(ctx, newGuestMemory(int64(pages*wasmPageBytes)))
	instance, err := r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName(abi.ImportEnv))
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", abi.ImportEnv, err)
	}
	memory := instance.Memory()
	if _, ok := memory.Grow(uint32(pages) - 1); !ok {
		return nil, fmt.Errorf("link %s: there is no room for %d bytes of blocks", abi.ImportEnv, limit)
	}
	data, _ := memory.Read(0, memory.Size())
	return data, nil
}

// sectionOf writes a section that is a vector.
func sectionOf(id byte, items [][]byte) []byte {
	content := binary.AppendUvarint(nil, uint64(len(items)))
	content = append(content, slices.Concat(items...)...)
	return append([]byte{id}, vectorOf(content)...)
}

// vectorOf writes bytes after their number.
func vectorOf[T ~[]byte](b T) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

// exportOf writes the export of a function.
func exportOf(name string, index int) []byte {
	return binary.AppendUvarint(append(vectorOf([]byte(name)), kindFunction), uint64(index))
}

// appendSigned writes a signed LEB128 number.
func appendSigned(b []byte, n int64) []byte {
	for {
		low := byte(n & 0x7f)
		n >>= 7
		if n == 0 && low&0x40 == 0 || n == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}
