package wasmtest

import "slices"

// I32Const pushes a number.
func I32Const(n int32) []byte { return Join([]byte{0x41}, Signed(int64(n))) }

// I64Const pushes a number.
func I64Const(n int64) []byte { return Join([]byte{0x42}, Signed(n)) }

// Call calls a function.
func Call(function uint32) []byte { return Join([]byte{0x10}, Leb(uint64(function))) }

// Get pushes a local, Set pops one.
func Get(local uint32) []byte { return Join([]byte{0x20}, Leb(uint64(local))) }

// Set pops a local.
func Set(local uint32) []byte { return Join([]byte{0x21}, Leb(uint64(local))) }

// GetGlobal pushes a global.
func GetGlobal(global uint32) []byte { return Join([]byte{0x23}, Leb(uint64(global))) }

// SetGlobal pops a global.
func SetGlobal(global uint32) []byte { return Join([]byte{0x24}, Leb(uint64(global))) }

// Drop drops the top of the stack.
func Drop() []byte { return []byte{0x1a} }

// Unreachable traps.
func Unreachable() []byte { return []byte{0x00} }

// AddI32 adds.
func AddI32() []byte { return []byte{0x6a} }

// Loop runs a body for ever.
func Loop(body ...[]byte) []byte {
	return Join([]byte{0x03, 0x40}, Join(body...), []byte{0x0c, 0, 0x0b})
}

// Repeat writes the same code n times.
func Repeat(n int, code ...[]byte) []byte { return slices.Repeat(Join(code...), n) }

// GrowMemory pops a number of pages and pushes the old size or -1.
func GrowMemory() []byte { return []byte{0x40, 0} }

// StoreI32 and StoreI64 pop an address and a value.
func StoreI32() []byte { return []byte{0x36, 2, 0} }

// StoreI64 pops an address and a value.
func StoreI64() []byte { return []byte{0x37, 3, 0} }
