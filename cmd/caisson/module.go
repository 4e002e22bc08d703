package main

import "github.com/spf13/cobra"

func newModuleCommand(e *environment) *cobra.Command {
	cmd := group("module", "Build, inspect and publish Wasm modules",
		`A module is a provisioner in a Wasm file. Its author builds and pushes it; an admin
inspects it and decides what it may do with a Module object.`,
		`  caisson module build ./mymodule
  caisson module inspect mymodule.wasm
  caisson module push mymodule.wasm ghcr.io/acme/mymodule:1.0.0`)
	cmd.AddCommand(newModuleBuildCommand(e), newModuleInspectCommand(e), newModulePushCommand(e))
	return cmd
}
