// Package golden compares what the CLI shows with files that people have read.
package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// Update is the environment variable that writes the files instead of comparing.
const Update = "UPDATE_GOLDEN"

// Equal fails the test unless text is what the file testdata/<name>.txt below the
// directory of the test has. UPDATE_GOLDEN=1 go test writes it.
func Equal(t testing.TB, name, text string) {
	t.Helper()
	EqualFile(t, filepath.Join("testdata", name+".txt"), text)
}

// EqualFile is Equal for a path of the caller's own.
func EqualFile(t testing.TB, path, text string) {
	t.Helper()
	if os.Getenv(Update) != "" {
		if err := write(path, text); err != nil {
			t.Fatalf("write the golden file: %v", err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; %s=1 go test writes it", err, Update)
	}
	if string(want) != text {
		t.Errorf("golden file %s (%s=1 go test writes it) has\n%s\nand not\n%s", path, Update, want, text)
	}
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
