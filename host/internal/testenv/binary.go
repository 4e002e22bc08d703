package testenv

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// BinaryVariable is the environment variable with the path of a ready-made devcluster. Without it, one is built.
const BinaryVariable = "CAISSON_DEVCLUSTER"

// devclusterBinary returns the path of a devcluster that is up to date.
func devclusterBinary() (string, error) {
	if named := os.Getenv(BinaryVariable); named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("find the devcluster that %s names: %w", BinaryVariable, err)
		}

		return named, nil
	}

	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	source, path := filepath.Join(root, "cmd", "devcluster"), filepath.Join(root, ".build", "devcluster")

	err = withLock(path+".lock", func() error {
		// Asking the Go command takes seconds for a program of two thousand packages, and every test binary would. The
		// program depends on nothing else in the repository, so its own files tell.
		if fresh, err := newerThanSource(path, source); fresh || err != nil {
			return err
		}

		return compile(source, ".", path, nil)
	})
	if err != nil {
		return "", err
	}

	return path, nil
}

// newerThanSource says whether a file is newer than all that a module in dir is built from.
func newerThanSource(path, dir string) (bool, error) {
	binary, err := os.Stat(path)
	if err != nil {
		return false, nil //nolint:nilerr // a file that cannot be seen is not fresh
	}

	var newest time.Time
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isSource(entry.Name()) {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}

		return err
	})
	if err != nil {
		return false, fmt.Errorf("look at the source of devcluster: %w", err)
	}

	return binary.ModTime().After(newest), nil
}

func isSource(name string) bool {
	if name == "go.mod" || name == "go.sum" {
		return true
	}

	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}
