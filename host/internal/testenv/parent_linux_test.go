package testenv

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEndsWithParent kills a process that has a paused cluster: not even that one may stay behind.
func TestEndsWithParent(t *testing.T) {
	t.Parallel()

	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), roleVariable+"="+rolePauser)
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	state := filepath.Dir(strings.TrimSpace(line))
	require.DirExists(t, state)

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait(), "killed")
	require.Eventually(t, func() bool {
		_, err := os.Stat(state)

		return os.IsNotExist(err) // the cluster's last act
	}, patience, pollEvery)
}
