package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// eachCommand visits our own commands, not those that cobra adds.
func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, child := range cmd.Commands() {
		if child.Name() != "help" && child.Name() != "completion" && !child.Hidden {
			eachCommand(child, visit)
		}
	}
}

func TestEveryCommandIsDocumented(t *testing.T) {
	eachCommand(newRootCommand(newSession(t).env), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		require.NotEmpty(t, cmd.Short, path)
		require.NotEmpty(t, cmd.Example, path)
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			require.LessOrEqual(t, len(line), 100, "%s: %s", path, line)
		}
	})
}

func TestEveryExampleParses(t *testing.T) {
	env := newSession(t).env
	var examples []string
	eachCommand(newRootCommand(env), func(cmd *cobra.Command) {
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				examples = append(examples, line)
			}
		}
	})
	require.NotEmpty(t, examples)
	for _, example := range examples {
		// A shell would take away what follows a redirection or a pipe, and comments.
		line, _, _ := strings.Cut(example, " #")
		line, _, _ = strings.Cut(line, " >")
		line, _, _ = strings.Cut(line, " |")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "caisson" {
			continue
		}
		cmd, rest, err := newRootCommand(env).Find(words[1:])
		require.NoError(t, err, example)
		require.NoError(t, cmd.ParseFlags(rest), example)
		require.NoError(t, cmd.ValidateArgs(cmd.Flags().Args()), example)
		require.True(t, cmd.Runnable(), example)
	}
}

func TestHelp(t *testing.T) {
	s := newSession(t)
	for _, args := range [][]string{{"module"}, {"module", "build", "--help"}, {"module", "inspect", "--help"}, {"module", "push", "--help"}} {
		name := "help-" + strings.Join(strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "--help", "")), "-")
		s.golden(name, s.ok(args...))
	}
	require.Contains(t, s.ok(), "module", "without arguments it says what there is")
	require.NotEmpty(t, s.ok("--version"))
}
