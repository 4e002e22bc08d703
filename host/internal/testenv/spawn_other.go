//go:build !linux

package testenv

import "syscall"

// attributes asks for nothing special: only Linux tells a child of its parent's death.
func attributes() *syscall.SysProcAttr { return nil }

// awaitStopped does not wait: only Linux tells when the last thread has stopped.
func awaitStopped(int) error { return nil }
