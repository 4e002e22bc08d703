//go:build !linux

package testenv

import "syscall"

// attributes asks for nothing special: only Linux tells a child of its parent's death.
func attributes() *syscall.SysProcAttr { return nil }
