package host_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/abi"
	"github.com/caisson-dev/caisson/abi/wasmfile"
	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

// The value types of Wasm, and the instructions that pulse needs.
const (
	wasmI32, wasmI64, wasmExternref                   = 0x7f, 0x7e, 0x6f
	opEnd, opCall, opGet, opSet, opDrop               = 0x0b, 0x10, 0x20, 0x21, 0x1a
	opConstI32, opConstI64, opAddI64, opNull, opTable = 0x41, 0x42, 0x7c, 0xd0, 0xfc
)

// pulse is a module of some hundred bytes that does nothing. The lethal one kills its
// worker when it is called: it asks for a table of a gigabyte, which its Module has to
// allow and the limit of its process does not.
func pulse(t *testing.T, version string, lethal bool) []byte {
	t.Helper()
	manifest := fmt.Sprintf(`{"abi":1,"name":"pulse","version":%q,"capabilities":[]}`, version)
	var grow []byte
	if lethal {
		const entries = 134_000_000
		grow = slices.Concat([]byte{opNull, wasmExternref, opConstI32}, sleb(entries), []byte{opTable, 0x0f, 0, opDrop})
	}
	imports := wasmVector(wasmImport("alloc", 1), wasmImport("store_u64", 2), wasmImport("output_set", 2))
	exports := wasmVector(wasmExport(abi.ExportDescribe, 3), wasmExport(abi.ExportProvision, 4), wasmExport(abi.ExportDeprovision, 5))
	types := wasmVector([]byte{0x60, 0, 1, wasmI32}, []byte{0x60, 1, wasmI64, 1, wasmI64}, []byte{0x60, 2, wasmI64, wasmI64, 0})
	code := wasmVector(wasmFunction(wasmSay(manifest)), wasmFunction(grow, wasmSay("{}")), wasmFunction(wasmSay("{}")))
	wasm := []byte("\x00asm\x01\x00\x00\x00")
	for _, section := range []struct {
		id      byte
		content []byte
	}{
		{1, types}, {2, imports}, {3, []byte{3, 0, 0, 0}}, {4, wasmVector([]byte{wasmExternref, 0, 1})}, {7, exports}, {10, code},
	} {
		wasm = slices.Concat(wasm, []byte{section.id}, wasmSized(section.content))
	}
	wasm, err := wasmfile.Embed(wasm, []byte(manifest))
	require.NoError(t, err)
	return wasm
}

// wasmSay is code that gives a text to the host as the output, by means of the imports.
func wasmSay(text string) []byte {
	const word = 8
	for len(text)%word != 0 {
		text += " "
	}
	constant := func(v int64) []byte { return append([]byte{opConstI64}, sleb(v)...) }
	code := slices.Concat(constant(int64(len(text))), []byte{opCall, 0, opSet, 0})
	for at := 0; at < len(text); at += word {
		value := int64(binary.LittleEndian.Uint64([]byte(text[at:])))
		code = slices.Concat(code, []byte{opGet, 0}, constant(int64(at)), []byte{opAddI64}, constant(value), []byte{opCall, 1})
	}
	return slices.Concat(code, []byte{opGet, 0}, constant(int64(len(text))), []byte{opCall, 2})
}

// wasmFunction has one local of type i64, and returns 0, which is OK.
func wasmFunction(code ...[]byte) []byte {
	return wasmSized(slices.Concat([]byte{1, 1, wasmI64}, slices.Concat(code...), []byte{opConstI32, 0, opEnd}))
}

func wasmImport(name string, typ byte) []byte {
	return slices.Concat(wasmSized([]byte("extism:host/env")), wasmSized([]byte(name)), []byte{0, typ})
}

func wasmExport(name string, function byte) []byte {
	return append(wasmSized([]byte(name)), 0, function)
}

func wasmVector(items ...[]byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(items))), slices.Concat(items...)...)
}

func wasmSized(content []byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(content))), content...)
}

// sleb is a number as Wasm's signed LEB128.
func sleb(v int64) []byte {
	var out []byte
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && low&0x40 == 0) || (v == -1 && low&0x40 != 0) {
			return append(out, low)
		}
		out = append(out, low|0x80)
	}
}

// pushPulse publishes a pulse under a tag of a shelf, and returns its digest.
func pushPulse(t *testing.T, shelf *registrytest.Registry, path, version string, lethal bool) string {
	t.Helper()
	push, err := registry.New(registry.Options{})
	require.NoError(t, err)
	ref, err := registry.ParseReference(shelf.Ref(path))
	require.NoError(t, err)
	digest, err := push.Push(t.Context(), ref, pulse(t, version, lethal), nil)
	require.NoError(t, err)
	return digest
}
