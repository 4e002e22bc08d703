//go:build !linux

package sandbox

import "errors"

// setImportance has no way that all systems know.
func setImportance(int, importance) error { return errors.ErrUnsupported }
