package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// keptFile is a file of the cache that stays open, so that its content takes no memory
// and can be read even when somebody has tidied the cache.
type keptFile struct {
	file   *os.File
	size   int
	digest string
}

// keep writes a file into the cache.
func keep(name string, content []byte) (*keptFile, error) {
	if err := writeAtomically(name, content); err != nil {
		return nil, fmt.Errorf("keep %s: %w", name, err)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", name, err)
	}
	return &keptFile{file, len(content), digestOf(content)}, nil
}

// read returns the content and proves that it is still the same.
func (k *keptFile) read() ([]byte, error) {
	content := make([]byte, k.size)
	if _, err := io.ReadFull(io.NewSectionReader(k.file, 0, int64(k.size)), content); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil, ErrClosed
		}
		return nil, fmt.Errorf("read the module back: %w", err)
	}
	if digestOf(content) != k.digest {
		return nil, fmt.Errorf("read the module back: the file in the cache has been changed; remove %s and load the module again", k.file.Name())
	}
	return content, nil
}

// close gives the file up; one that never was is given up already.
func (k *keptFile) close() {
	if k != nil {
		_ = k.file.Close() // it was only read
	}
}
