//go:build wasip1

// Command module is the smallest module in Go that speaks the ABI without an SDK. The
// tests of the CLI build it with the real go command.
package main

const manifest = `{
  "abi": 1,
  "name": "raw",
  "version": "0.2.0+go",
  "description": "Speaks the ABI by hand.",
  "capabilities": ["app_ensure", "secret_read"],
  "reasons": [{"code": "not_today", "sentence": "The module does not feel like it."}]
}`

//go:wasmimport extism:host/env alloc
func alloc(size uint64) uint64

//go:wasmimport extism:host/env store_u8
func storeU8(offset uint64, value uint32)

//go:wasmimport extism:host/env output_set
func outputSet(offset, size uint64)

//go:wasmimport extism:host/user app_ensure
func appEnsure(request uint64) uint64

func output(text string) uint64 {
	offset := alloc(uint64(len(text)))
	for i := range len(text) {
		storeU8(offset+uint64(i), uint32(text[i]))
	}
	outputSet(offset, uint64(len(text)))
	return offset
}

//go:wasmexport describe
func describe() int32 {
	output(manifest)
	return 0
}

//go:wasmexport provision
func provision() int32 {
	appEnsure(output(`{}`))
	output(`{"reason":"not_today"}`)
	return 1
}

//go:wasmexport deprovision
func deprovision() int32 { return 0 }

func main() {}
