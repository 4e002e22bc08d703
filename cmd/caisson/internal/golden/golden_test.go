package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/golden"
)

// told keeps what a test would be told.
type told struct {
	testing.TB
	errors, fatal []string
}

func (x *told) Helper() {}

func (x *told) Errorf(format string, args ...any) {
	x.errors = append(x.errors, fmt.Sprintf(format, args...))
}

func (x *told) Fatalf(format string, args ...any) {
	x.fatal = append(x.fatal, fmt.Sprintf(format, args...))
}

func TestEqual(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(golden.Update, "")
	x := &told{TB: t}
	golden.Equal(x, "screen", "hello\n")
	require.Len(t, x.fatal, 1, "there is no file yet")
	require.Contains(t, x.fatal[0], "UPDATE_GOLDEN=1 go test writes it")

	t.Setenv(golden.Update, "1")
	golden.Equal(t, "screen", "hello\n")
	content, err := os.ReadFile(filepath.Join("testdata", "screen.txt"))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(content))

	t.Setenv(golden.Update, "")
	golden.Equal(t, "screen", "hello\n")
	x = &told{TB: t}
	golden.Equal(x, "screen", "goodbye\n")
	require.Len(t, x.errors, 1)
	require.Contains(t, x.errors[0], "hello\n\nand not\ngoodbye\n")
}

func TestUnwritable(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("testdata", nil, 0o600))
	t.Setenv(golden.Update, "1")
	x := &told{TB: t}
	golden.Equal(x, "screen", "hello\n")
	require.Contains(t, x.fatal[0], "write the golden file: ")
}
