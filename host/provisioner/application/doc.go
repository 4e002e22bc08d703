// Package application is the leaf without code: one application of the catalogue, or any
// other Helm release that can be described as data.
//
// A [Provisioner] asks for its spec and hands it to the driver in the scope that the
// context carries. Making the spec is a row of pure steps: [Lookup] finds the catalogue
// entry, [Resolve] picks a version, [ReadValues] reads values from ConfigMaps and
// Secrets, and [Compose] merges it all; [Build] does the four in a row. A removal does
// none of them: it needs the identity and nothing else, so that a vanished catalogue
// entry, version or Secret never blocks it.
//
// Package module uses the same steps for the applications of Wasm modules.
package application
