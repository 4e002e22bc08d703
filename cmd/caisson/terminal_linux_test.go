package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/tree"
	"github.com/caisson-dev/caisson/host/api/v1alpha1"
)

// newTerminal returns both ends of a terminal of 100 columns and 40 rows: what the person
// sees, and what the program writes to.
func newTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 100, Row: 40}))
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

func TestTerminal(t *testing.T) {
	_, program := newTerminal(t)
	cases := map[string]struct {
		reason string
		env    map[string]string
		style  tree.Style
		screen follow.Screen
	}{
		"Colours": {reason: "people see faster what is red", style: tree.Style{Coloured: true, Width: 100}, screen: &follow.LiveScreen{}},
		"NoColor": {reason: "no-color.org: redrawn, but not coloured", env: map[string]string{"NO_COLOR": "1"}, style: tree.Style{Width: 100}, screen: &follow.LiveScreen{}},
		"Dumb":    {reason: "a terminal that cannot be redrawn is a log", env: map[string]string{"TERM": "dumb"}, screen: &follow.LineScreen{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", "")
			t.Setenv("TERM", "xterm")
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			require.Equal(t, tc.style, styleOf(program), tc.reason)
			require.IsType(t, tc.screen, newScreen(program, time.Now()), tc.reason)
		})
	}
}

// On a terminal the tree is redrawn in place, and its last state stays.
func TestStackTreeOnATerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	person, program := newTerminal(t)
	s := newSession(t)
	s.env.out = program
	c, _ := s.connectTo(interceptor.Funcs{}, scene("secret"))
	ended := make(chan int, 1)
	go func() {
		ended <- run(t.Context(), s.env, []string{"stack", "tree", "platform", "--until", "available"})
	}()

	var seen strings.Builder
	buffer := make([]byte, 4096)
	more := func() {
		require.NoError(t, person.SetReadDeadline(time.Now().Add(20*time.Second)))
		n, err := person.Read(buffer)
		require.NoError(t, err)
		seen.Write(buffer[:n])
	}
	for strings.Count(seen.String(), "secret_missing)") < 2 { // drawn anew for the ages
		more()
	}
	stack := &v1alpha1.Stack{}
	require.NoError(t, c.Get(t.Context(), types.NamespacedName{Namespace: "platform", Name: "platform"}, stack))
	stack.Status = scene("available").Status
	require.NoError(t, c.Status().Update(t.Context(), stack))
	for !strings.Contains(seen.String(), "Every node is as desired.") {
		more()
	}
	require.Zero(t, <-ended)
	require.Contains(t, seen.String(), "\x1b[31mUserActionRequired\x1b[0m")
	require.Regexp(t, `\x1b\[\d+A\r\x1b\[2KStack platform/platform  \x1b\[32mProvisioned\x1b\[0m`, seen.String(), "in the place of what was there")
}
