// Package wasmfile reads and writes what Caisson keeps in the bytes of a module: the
// manifest in its custom section, and the lists of imports and exports.
//
// It looks at section boundaries and names only and never at code, so that the CLI
// can inspect a file without a Wasm runtime. It decides nothing: whether a module may
// run is for the host's sandbox, which parses it again.
package wasmfile
