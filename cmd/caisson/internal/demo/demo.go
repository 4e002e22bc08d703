package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// Chapters are the parts that are shown; all of them if empty.
	Chapters []string
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
	steps, err := chosen(d.steps(), o.Chapters)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if o.Keep && step.notIfKept {
			continue
		}
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
	// lost is the cluster that will be lost; nil until it is started.
	lost *cluster
	// nextIsBuilt says that the next version of cilium is there.
	nextIsBuilt bool
}

// steps are what is shown, in order.
func (d *demo) steps() []step {
	return []step{
		{name: "build the programs and the modules", do: d.build},
		{name: "start two control planes and a registry", do: d.startClusters},
		{name: "push the modules and the charts", do: d.push},
		{name: "install the operator", do: d.installOperator},
		{name: "bring the platform up without a Secret", do: d.park, counted: true},
		{name: "leave the parked Stack alone", chapter: "parking", do: d.stayParked, counted: true, notIfKept: true},
		{name: "create the Secret", do: d.revive, counted: true},
		{name: "leave it alone", do: d.leaveAlone, counted: true, lastIfKept: true},
		{name: "switch a part off and on", chapter: "gpu", do: d.switchGPU, counted: true},
		{name: "upgrade an application", chapter: "upgrade", do: d.upgrade, counted: true},
		{name: "push a new version of a module", chapter: "module", do: d.updateModule, counted: true},
		{name: "push a module that kills its worker", chapter: "fault", do: d.faultModule, counted: true},
		{name: "stop the workload cluster for a while", chapter: "workload", do: d.pauseWorkload, counted: true},
		{name: "stop the registry for a while", chapter: "registry", do: d.pauseRegistry, counted: true},
		{name: "kill the workers in the middle of calls", chapter: "worker", do: d.killWorker, counted: true},
		{name: "kill the operator, and restart it", chapter: "operator", do: d.killOperator},
		{name: "kill the leader of two operators", chapter: "replica", do: d.failOver},
		{name: "delete a Deployment by hand", chapter: "drift", do: d.repair, counted: true},
		{name: "suspend, resume, delete while suspended", chapter: "suspend", do: d.suspend, counted: true},
		{name: "delete with Discard and with Orphan", chapter: "teardown", do: d.teardowns, counted: true},
		{name: "delete when the cluster is gone for good", chapter: "lost", do: d.loseCluster, counted: true},
		{name: "take the platform down", do: d.takeDown, counted: true},
	}
}

// chosen are the steps that others build on, and those of the chapters; those of all
// chapters if none is named.
func chosen(steps []step, chapters []string) ([]step, error) {
	if len(chapters) == 0 {
		return steps, nil
	}
	var known []string
	var found []step
	for _, st := range steps {
		if st.chapter != "" {
			known = append(known, st.chapter)
		}
		if st.chapter == "" || slices.Contains(chapters, st.chapter) {
			found = append(found, st)
		}
	}
	for _, c := range chapters {
		if !slices.Contains(known, c) {
			return nil, fmt.Errorf("there is no chapter %q; there are %s", c, strings.Join(known, ", "))
		}
	}
	return found, nil
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
		"bin/caisson stack explain platform -n platform",
		"KUBECONFIG=" + d.workload.kubeconfig + " kubectl get deployments -A      # if you have kubectl",
		"tail -f " + filepath.Join(dir, "logs", "operator.log"),
	} {
		d.show.line("    " + line)
	}
	d.show.sayf("and end it with:")
	d.show.line("    bin/caisson dev down --dir " + dir)
}
