package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/caisson-dev/caisson/abi/wasmfile"
)

// maxFileBytes bounds a file that is read into memory; registries and sandboxes have
// lower limits of their own.
const maxFileBytes = 256 << 20

// readModule reads a file and makes sure that it is Wasm.
func readModule(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure("build one with 'caisson module build'", "there is no file %s", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, failure("name a Wasm file", "%s is not a file", path)
	}
	wasm, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	if len(wasm) > maxFileBytes {
		return nil, failure("name a Wasm file", "%s has more than the %d bytes that a module may have", path, maxFileBytes)
	}
	if err := wasmfile.Check(wasm); err != nil {
		return nil, failure("build a module with 'caisson module build'", "%s is %w", path, err)
	}
	return wasm, nil
}

// writeFile replaces a file in one step, so that no half of a module is left behind.
func writeFile(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(content)
	// A module is no secret, and CreateTemp makes files for the owner alone.
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
