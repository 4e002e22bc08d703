package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/caisson-dev/caisson/cmd/devcluster/controlplane"
	"github.com/caisson-dev/caisson/cmd/devcluster/kubeconfig"
	"github.com/caisson-dev/caisson/cmd/devcluster/lifetime"
	"github.com/caisson-dev/caisson/cmd/devcluster/statedir"
)

// startPatience is how long a start may take before it is given up. Alone it takes seconds; on a loaded machine with several
// clusters starting at once it has taken half a minute.
const startPatience = 3 * time.Minute

// errStartTooSlow is why a start was given up.
var errStartTooSlow = fmt.Errorf("not ready after %s", startPatience)

// announcement is the one line on standard output, written when the cluster is ready.
type announcement struct {
	Name         string  `json:"name"`
	Server       string  `json:"server"`
	Kubeconfig   string  `json:"kubeconfig"`
	StartSeconds float64 `json:"startSeconds"`
}

func main() {
	options, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(options, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "devcluster: %v\n", err)
		os.Exit(1)
	}
	// Exiting ends what Stop had no patience for.
	os.Exit(0)
}

// run runs a cluster until a signal, the end of the parent, or a failure. Only the last is an error.
func run(options flags, output io.Writer) error {
	signalled, stopSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stopSignals()
	ctx, cancel := lifetime.WithParent(signalled, options.parentPID)
	defer cancel()

	dir, err := statedir.Open(options.dir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // what cannot be removed at the end is left behind

	log, err := openLog(dir.Path())
	if err != nil {
		return err
	}

	putBack, err := redirectStderr(log)
	if err != nil {
		return err
	}

	err = serve(ctx, options, dir.Path(), output)
	if ctx.Err() != nil {
		// Whatever failed, failed because the program was asked to end.
		return nil
	}

	return errors.Join(putBack(), copyTail(os.Stderr, log), err)
}

// serve starts a cluster on dir, announces it, and returns when ctx ends or the cluster fails.
func serve(ctx context.Context, options flags, dir string, output io.Writer) error {
	path := options.kubeconfig
	if path == "" {
		path = filepath.Join(dir, "kubeconfig")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("resolve path of kubeconfig: %w", err)
	}
	if err := kubeconfig.Prepare(path); err != nil {
		return err
	}

	began := time.Now()
	starting, cancel := context.WithTimeoutCause(ctx, startPatience, errStartTooSlow)
	defer cancel()
	cluster, err := controlplane.Start(starting, controlplane.Options{Dir: dir, Port: options.port, Node: options.name})
	if err != nil {
		return err
	}
	defer cluster.Stop()

	access := kubeconfig.Access{Name: options.name, Server: cluster.Server(), CA: cluster.CA(), Token: cluster.Token()}
	data, err := kubeconfig.Encode(access)
	if err != nil {
		return err
	}
	if err := kubeconfig.Write(path, data); err != nil {
		return err
	}
	defer func() { _ = os.Remove(path) }() // its existence means that the cluster is there

	ready := announcement{Name: options.name, Server: cluster.Server(), Kubeconfig: path, StartSeconds: time.Since(began).Seconds()}
	if err := json.NewEncoder(output).Encode(ready); err != nil {
		return fmt.Errorf("announce the cluster: %w", err)
	}

	select {
	case <-ctx.Done():
		return nil
	case err := <-cluster.Failed():
		return err
	}
}
