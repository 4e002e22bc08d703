// Package module is the Wasm leaf: a node of a tree whose work a guest module does.
//
// In a pass, a [Provisioner] builds the envelope of package abi, calls the guest through
// a [Runtime], answers its host functions, and turns what comes back into the errors of
// host/provisioner. The runtime is an interface that the sandbox satisfies; nothing here
// knows how a guest is run.
//
// Everything that a guest sends is hostile. The dispatcher asks three questions in this
// order: does the manifest declare the function, does the grant allow it, is the request
// one that this module may make. A guest never chooses a destination or an identity: both
// come with the scope. Failures of host functions are answers, never traps.
//
// A [Memo] saves calls: while neither the envelope nor an answer of the driver changes, a
// pass repeats the driver calls of the last one and returns its outcome without running
// the guest.
package module
