package differential_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/caisson-dev/caisson/host/sandbox"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/oracle"
)

// TestMain makes the test binary its own worker.
func TestMain(m *testing.M) {
	sandbox.RunWorkerIfRequested()
	oracle.LogEverything()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	code := m.Run()
	if opened == nil {
		return code
	}
	if err := opened.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// The sandbox of all tests, which run one after the other, and its log.
var (
	opening     sync.Once
	opened      *sandbox.Sandbox
	sandboxLogs = &lockedBuffer{}
)

func shared(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	opening.Do(func() {
		path, err := os.Executable()
		require.NoError(t, err)
		opened, err = sandbox.New(sandbox.Options{Worker: []string{path}, Logger: sandboxLogs.logger()})
		require.NoError(t, err)
	})
	require.NotNil(t, opened, "the sandbox could not be opened")
	return opened
}
