package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
)

// Options configure a run.
type Options struct {
	// Root is the source tree, which the demo builds and takes its manifests from.
	Root string
	// Self is the path of the CLI.
	Self string
	// Out is where the show goes.
	Out io.Writer
	// Screen makes the screen that a Stack is shown on.
	Screen func(start time.Time) follow.Screen
	// Keep leaves everything running, and says how to look around.
	Keep bool
	// HomeKubeconfig and WorkloadKubeconfig are clusters to use instead of local ones.
	HomeKubeconfig, WorkloadKubeconfig string
}

// Run runs the demo. An error says which step was not seen to happen.
func Run(ctx context.Context, o Options) (err error) {
	if o.Root, err = filepath.Abs(o.Root); err != nil {
		return fmt.Errorf("find the source tree: %w", err)
	}
	dir, err := os.MkdirTemp("", "caisson-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	lifetime := devenv.WithParent
	if o.Keep {
		lifetime = devenv.Detached
	}
	env, err := devenv.New(dir, lifetime)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	s := &show{out: o.Out, start: time.Now()}
	d := &demo{Options: o, env: env, show: s, bin: filepath.Join(o.Root, "bin")}
	defer func() { err = d.end(err) }()
	for _, step := range d.steps() {
		if err := s.run(ctx, step, d.counters); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if o.Keep && step.lastIfKept {
			break
		}
	}
	s.table()
	return nil
}

// demo is one run.
type demo struct {
	Options
	env  *devenv.Env
	show *show
	bin  string

	home, workload *cluster
	registry       string
	operator       *devenv.Operator
	before         map[string]inventory
}

// steps are what is shown, in order.
func (d *demo) steps() []step {
	return []step{
		{name: "build the programs and the modules", do: d.build},
		{name: "start two control planes and a registry", do: d.startClusters},
		{name: "push the modules and the charts", do: d.push},
		{name: "install the operator", do: d.installOperator},
		{name: "bring the platform up", do: d.bringUp, counted: true},
		{name: "leave it alone", do: d.leaveAlone, counted: true, lastIfKept: true},
		{name: "take the platform down", do: d.takeDown, counted: true},
	}
}

// end stops what was started, or says how to look around.
func (d *demo) end(err error) error {
	switch {
	case d.Keep && err == nil:
		d.lookAround()
		return nil
	case errors.Is(err, context.Canceled):
		d.show.sayf("interrupted: stopping what was started")
	case err != nil:
		d.show.sayf("it failed; the logs of what ran:")
		d.show.logs(d.env.State())
	}
	return errors.Join(err, d.show.timed("stop what was started", d.env.Stop))
}

// lookAround prints commands that work as they stand.
func (d *demo) lookAround() {
	dir := d.env.Dir()
	d.show.sayf("everything is left running. Look around with:")
	for _, line := range []string{
		"export KUBECONFIG=" + d.home.kubeconfig,
		"bin/caisson stack tree platform -n platform --watch",
		"bin/caisson stack tree platform -n platform -o yaml",
		"KUBECONFIG=" + d.workload.kubeconfig + " kubectl get deployments -A      # if you have kubectl",
		"tail -f " + filepath.Join(dir, "logs", "operator.log"),
	} {
		d.show.line("    " + line)
	}
	d.show.sayf("and end it with:")
	d.show.line("    bin/caisson dev down --dir " + dir)
}
