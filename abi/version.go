package abi

// Version is the major version of the ABI that this package describes. A host
// refuses a module whose manifest names another one.
const Version = 1

// ManifestSection is the name of the Wasm custom section that holds the
// module's manifest as JSON. `caisson module build` writes it.
const ManifestSection = "caisson.manifest"

// The exports of a module. Each has the Wasm type () -> i32; the result of
// Provision and Deprovision is a [Disposition].
const (
	ExportDescribe    = "describe"
	ExportProvision   = "provision"
	ExportDeprovision = "deprovision"
)

// The Wasm modules that a guest may import from.
const (
	// ImportEnv is the memory, input, output and log interface of Extism.
	ImportEnv = "extism:host/env"
	// ImportUser is where the host functions of Caisson live.
	ImportUser = "extism:host/user"
	// ImportWASI is WASI preview 1, served without files, sockets or environment.
	ImportWASI = "wasi_snapshot_preview1"
)
