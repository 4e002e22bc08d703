//go:build !linux

package sandbox

// systemFakes are none here.
func systemFakes() map[string]func() { return nil }
