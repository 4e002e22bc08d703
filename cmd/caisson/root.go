package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// run runs one command line and returns the exit code.
func run(ctx context.Context, e *environment, args []string) int {
	root := newRootCommand(e)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		_, _ = fmt.Fprintln(e.errOut, "Interrupted.")
	default:
		_, _ = fmt.Fprintln(e.errOut, "Error: "+printableLines(err.Error()))
	}
	return 1
}

// newRootCommand puts the command groups together.
func newRootCommand(e *environment) *cobra.Command {
	root := group("caisson", "Build, publish and watch provisioners that nobody has to trust",
		`Caisson lays the foundations of a platform with provisioners. Leaf provisioners are
Wasm modules, which this tool builds, inspects and publishes. It shows how Stacks are
doing, and it runs clusters on this machine to try things on.`,
		`  caisson dev up
  caisson module build ./mymodule
  caisson stack tree platform --watch`)
	root.Version = version()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(e.in)
	root.SetOut(e.out)
	root.SetErr(e.errOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return failure("see '"+cmd.CommandPath()+" --help'", "%w", err)
	})
	root.AddCommand(newModuleCommand(e), newStackCommand(e), newDevCommand(e), newDoctorCommand(e))
	return root
}

// version is what the go command recorded when it built this program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// group makes a command that only holds others; a wrong name below it is an error.
func group(use, short, long, example string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return failure("see '"+cmd.CommandPath()+" --help'", "there is no command %q", cmd.CommandPath()+" "+args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// optionalArg allows one argument.
func optionalArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return failure("see '"+cmd.CommandPath()+" --help'", "%s takes one argument at most (%s) and got %d", cmd.CommandPath(), name, len(args))
	}
}

// exactArgs demands as many arguments as there are names.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return failure("see '"+cmd.CommandPath()+" --help'", "%s takes %d arguments (%v) and got %d", cmd.CommandPath(), len(names), names, len(args))
	}
}
