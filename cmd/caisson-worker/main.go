// Command caisson-worker compiles and runs Wasm modules for an operator. It is started
// by the operator, one process for each module at work, and by nobody else.
package main

import (
	"os"

	"github.com/caisson-dev/caisson/host/sandbox"
)

func main() {
	os.Exit(sandbox.WorkerMain(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
