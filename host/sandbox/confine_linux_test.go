package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Attempt runs one in a process that is started and confined as a worker is.
// program is testdata/attempt.
func Attempt(t *testing.T, program, name, stage, dir string) (said string, state *os.ProcessState) {
	t.Helper()
	var err error
	s := newSpawner(nil, 0)
	defer s.close()
	s.isolation = withNamespaces
	run := func() (string, *os.ProcessState, error) {
		var out, errOut strings.Builder
		why := ""
		if s.isolation == withoutNamespaces {
			why = "this machine has none"
		}
		cmd := exec.CommandContext(t.Context(), program, name, stage, dir, why)
		cmd.Env, cmd.Stdout, cmd.Stderr = []string{}, &out, &errOut
		cmd.SysProcAttr = processAttributes(s.isolation)
		if err := s.run(cmd); err != nil {
			return "", nil, err
		}
		_ = cmd.Wait() // its state says the same
		return out.String() + firstLine(errOut.String()), cmd.ProcessState, nil
	}
	said, state, err = run()
	if err != nil {
		s.isolation = withoutNamespaces
		said, state, err = run()
	}
	require.NoError(t, err)
	return said, state
}

// TestRulesetKnowsEachVersion: a kernel refuses a ruleset with rights that it does not know.
func TestRulesetKnowsEachVersion(t *testing.T) {
	var before uint64
	for version := 1; version <= 9; version++ {
		a, size := rulesetOf(version)
		require.GreaterOrEqual(t, a.Handled_access_fs, before, "a newer one forbids no less")
		require.Equal(t, version >= 4, a.Handled_access_net != 0)
		require.Equal(t, version >= 6, a.Scoped != 0)
		require.Contains(t, []uintptr{8, 16, 24}, size)
		before = a.Handled_access_fs
	}
}

// KernelRestrictsFiles reports whether this kernel has Landlock.
func KernelRestrictsFiles() bool {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0
}
