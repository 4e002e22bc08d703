// Package abi holds what the host and a guest module say to each other: the
// version, the disposition codes, the manifest, the call envelope and the
// requests and answers of every host function.
//
// It is pure data, imports the standard library only, and is compiled into both
// sides, so a change here is a change of the contract. SPEC.md beside this file
// is the normative text; where it and this package disagree, that is a bug.
package abi
