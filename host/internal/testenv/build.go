package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Build compiles a package of the root module, such as "./cmd/caisson-worker", to .build/NAME below the repository's root and
// returns that path. Environment entries such as "GOOS=wasip1" are added to the process's own. Test binaries that build the same
// name wait for each other, and the later ones find it up to date. The error carries the compiler's output.
func Build(pkg, name string, env ...string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}

	return buildIn(root, root, pkg, name, env)
}

// BuildBinary is Build for a test, which fails if the package does not compile.
func BuildBinary(t testing.TB, pkg, name string, env ...string) string {
	t.Helper()

	path, err := Build(pkg, name, env...)
	if err != nil {
		t.Fatal(err)
	}

	return path
}

// BuildGuest is BuildBinary for a Wasm module written in Go: a reactor for wasip1, as `caisson module build` makes it, but
// without the manifest section.
func BuildGuest(t testing.TB, pkg, name string) string {
	t.Helper()

	return BuildBinary(t, pkg, name, "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-buildmode=c-shared")
}

// buildIn builds a package, named as seen from dir, into root's .build.
func buildIn(root, dir, pkg, name string, env []string) (string, error) {
	path := filepath.Join(root, ".build", name)

	err := withLock(path+".lock", func() error { return compile(dir, pkg, path, env) })
	if err != nil {
		return "", err
	}

	return path, nil
}

// compile runs the Go command. It replaces path only if that is out of date, and never in place, so that copies that run are
// not disturbed.
func compile(dir, pkg, path string, env []string) error {
	command := exec.Command("go", "build", "-o", path, pkg) //nolint:noctx // bounded by the test's own timeout
	command.Dir = dir
	command.Env = append(os.Environ(), env...)

	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}

	return nil
}

// withLock runs do while no other process holds the lock at path. The lock goes with the process that holds it; the file stays.
func withLock(path string, do func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create build directory: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("open build lock: %w", err)
	}
	defer func() { _ = file.Close() }() // which unlocks

	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if err == nil {
			return do()
		}
		// The runtime's own signals interrupt a wait.
		if !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("take build lock: %w", err)
		}
	}
}
