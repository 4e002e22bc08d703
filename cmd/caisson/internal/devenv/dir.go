package devenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrInUse says that an environment is in a directory already.
var ErrInUse = errors.New("an environment is there already")

// claim makes a directory ours. Of two that try, one succeeds.
func claim(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make environment: %w", err)
	}
	if err := owned(dir); err != nil {
		return fmt.Errorf("make environment: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("make environment in %s: %w", dir, ErrInUse)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("make environment: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("make environment: %s is not empty, and would be removed in the end", dir)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make environment in %s: %w", dir, ErrInUse)
	}
	if err != nil {
		return fmt.Errorf("make environment: %w", err)
	}
	defer file.Close() //nolint:errcheck // What was written is looked at by nobody but us.
	if _, err := file.WriteString("{}"); err != nil {
		return fmt.Errorf("make environment: %w", err)
	}
	return nil
}

// owned fails for a directory of somebody else: the default one has a name that others can
// guess and make first, and what it says is ended and removed.
func owned(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}
