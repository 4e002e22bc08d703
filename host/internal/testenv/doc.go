// Package testenv gives integration tests a real Kubernetes API and the project's own programs.
//
// Start runs cmd/devcluster, which lives in a module of its own and so can only be run, never imported, and ends it with the
// test; StartMain does so for a TestMain. Build and its variants compile a command or a Wasm guest into .build at the root of the
// repository. Test binaries of several packages run at once: whatever they share is built by one of them under a file lock.
// Apply and Namespace are the two things that nearly every test does first.
//
// The package is for tests only; nothing that ships imports it.
package testenv
