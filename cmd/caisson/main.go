package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/caisson-dev/caisson/host/sandbox"
)

func main() {
	// Modules are described in a child process, which is this program again.
	sandbox.RunWorkerIfRequested()
	// The Kubernetes client logs through a global logger; a command says what it has to say
	// by itself.
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, systemEnvironment(), os.Args[1:])
	stop()
	os.Exit(code)
}
