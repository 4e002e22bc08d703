// Package scope is the cluster that a provisioner acts on: which one it is, how to
// reach it, as whom, and how what was made there is to be removed.
//
// A [Scope] is immutable. It is the one value of ours that a context carries: the
// controller puts the home scope in, a remote bracket replaces it for what runs
// inside, and a leaf reads it with [FromContext].
package scope
