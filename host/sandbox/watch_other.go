//go:build !unix

package sandbox

// watchFor does nothing here.
func watchFor(uintptr) {}
