package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrInUse says that another process has the directory. The caller should ask for another directory.
var ErrInUse = errors.New("state directory is in use by another devcluster")

// Dir is an open state directory.
type Dir struct {
	path      string
	temporary bool
	lock      *os.File
}

// Open opens the directory at path and creates it if need be; with an empty path, a new temporary one.
// It returns ErrInUse if another process has it open.
func Open(path string) (*Dir, error) {
	dir := &Dir{path: path, temporary: path == ""}
	if dir.temporary {
		made, err := os.MkdirTemp("", "devcluster-")
		if err != nil {
			return nil, fmt.Errorf("create temporary state directory: %w", err)
		}
		dir.path = made
	}

	absolute, err := filepath.Abs(dir.path)
	if err != nil {
		return nil, fmt.Errorf("resolve state directory: %w", err)
	}
	dir.path = absolute
	if err := os.MkdirAll(dir.path, 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	if dir.lock, err = lock(filepath.Join(dir.path, "lock")); err != nil {
		return nil, err
	}

	return dir, nil
}

// lock locks the file for as long as this process lives or has it open.
func lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of state directory: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, ErrInUse)
		}

		return nil, fmt.Errorf("lock state directory: %w", err)
	}

	return file, nil
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Close gives the directory up, and removes it if it is a temporary one.
func (d *Dir) Close() error {
	var removed error
	if d.temporary {
		removed = os.RemoveAll(d.path)
	}

	return errors.Join(removed, d.lock.Close())
}
