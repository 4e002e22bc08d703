package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/doctor"
	"github.com/caisson-dev/caisson/host/sandbox"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	cluster   clusterFlags
	worker    string
	operator  string
	onlyLocal bool
	output    format
}

func newDoctorCommand(e *environment) *cobra.Command {
	f := &doctorFlags{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the sandbox of this machine, and with a cluster",
		Long: `Look for what keeps modules from being run, or from being confined as well as they can be,
and say what to do about each.

On this machine a worker is started, as the operator starts them, and reports the layers
that confine it. Each is a line; one that the machine does not have is a warning, since the
others hold without it. Run this where the operator runs: the kernel counts.

In the cluster it looks at the definitions, at whether an operator leads, and at the Modules
and Stacks that are not well. Without a kubeconfig this part is left out.

It fails if anything does not work; warnings do not make it fail. With -o json or yaml the
same is printed for machines: result (ok, skipped, warning or failed: the worst of all) and
checks (area, name, result, says, remedy).`,
		Example: `  caisson doctor
  caisson doctor --local --worker /usr/local/bin/caisson-worker
  caisson doctor -o json | jq -r '.checks[] | select(.result != "ok") | .remedy'`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), e, f) },
	}
	f.cluster.add(cmd.Flags())
	cmd.Flags().StringVar(&f.worker, "worker", "", "worker program to look at; the one in this program if not given")
	cmd.Flags().StringVar(&f.operator, "operator-namespace", "caisson-system", "namespace of the operator")
	cmd.Flags().BoolVar(&f.onlyLocal, "local", false, "look at this machine only, and at no cluster")
	addFormatFlag(cmd, &f.output, formatText)
	return cmd
}

// diagnosis is what doctor prints.
type diagnosis struct {
	Result doctor.Result  `json:"result"`
	Checks []doctor.Check `json:"checks"`
}

func runDoctor(ctx context.Context, e *environment, f *doctorFlags) error {
	checks := doctor.Sandbox(e.layers(f.worker))
	if !f.onlyLocal {
		checks = append(checks, clusterChecks(ctx, e, f)...)
	}
	d := diagnosis{Result: doctor.Worst(checks), Checks: checks}
	err := f.output.print(e.out, d, func(w io.Writer) error {
		for _, line := range doctor.Lines(d.Checks, styleOf(e.out)) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || d.Result != doctor.Failed {
		return err
	}
	return failure("see what to do above", "something does not work")
}

// clusterChecks looks at the cluster. That there is none is a fault only for somebody who
// named one.
func clusterChecks(ctx context.Context, e *environment, f *doctorFlags) []doctor.Check {
	c, _, err := e.connect(f.cluster)
	// The check has a remedy of its own.
	if bare := (*userError)(nil); errors.As(err, &bare) {
		err = bare.cause
	}
	switch {
	case err == nil:
		return doctor.Cluster(ctx, c, f.operator, time.Now())
	case f.cluster.kubeconfig != "" || f.cluster.context != "":
		return doctor.Unconnected(doctor.Failed, err)
	default:
		return doctor.Unconnected(doctor.Skipped, err)
	}
}

// layersOf starts a worker and returns the layers that it reports. The worker is this
// program again if none is named.
func layersOf(worker string) ([]sandbox.Layer, error) {
	if worker == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program to run the sandbox: %w", err)
		}
		worker = self
	}
	box, err := sandbox.New(sandbox.Options{Worker: []string{worker}, MaxWorkers: 1})
	if err != nil {
		return nil, err
	}
	layers := box.Layers()
	return layers, box.Close()
}
