package main

import (
	"context"
	"io"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/caisson-dev/caisson/host/registry"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// environment is everything that commands take from outside, so that tests can run
// them in the process.
type environment struct {
	in  io.Reader
	out io.Writer
	// errOut gets progress, warnings and errors.
	errOut io.Writer
	// goCommand is the go command that builds modules.
	goCommand string
	// describe runs a module's describe export and returns what it wrote.
	describe func(ctx context.Context, wasm []byte) ([]byte, error)
	// layers returns how a worker of this machine is confined; it is this program again if
	// none is named.
	layers func(worker string) ([]sandbox.Layer, error)
	// credentials log in to registries.
	credentials registry.Credentials
	// connect returns a client for a cluster, and the namespace to use.
	connect func(clusterFlags) (client.WithWatch, string, error)
}

func systemEnvironment() *environment {
	return &environment{
		in:          os.Stdin,
		out:         os.Stdout,
		errOut:      os.Stderr,
		goCommand:   "go",
		describe:    describeInSandbox,
		layers:      layersOf,
		credentials: registry.LocalCredentials(),
		connect:     connect,
	}
}
