// Package leaf is the work that is measured: one module, which every way to run a leaf
// runs. Natively and in a plug-in process it is this code; compiled to Wasm it is this
// code; in other languages it is written again and must answer the same.
package leaf
