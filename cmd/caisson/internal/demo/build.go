package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// demoModules are the first-party modules of the demo's Stack.
func demoModules() []string { return []string{"cilium", "storage", "ingress"} }

// interruptGrace is how long a command may take to end when it is interrupted: as long as
// the longest single compilation.
const interruptGrace = 10 * time.Second

// build compiles what the demo runs. Compiling the control plane takes most of the time
// of a first run, and is left out where both clusters are given.
func (d *demo) build(ctx context.Context) error {
	programs := []string{"caisson-worker", "caisson-operator"}
	if d.HomeKubeconfig == "" || d.WorkloadKubeconfig == "" {
		programs = append(programs, "devcluster")
	}
	for _, p := range programs {
		err := d.show.timed("build "+p, func() error {
			if p == "caisson-worker" {
				// Threads of C cannot be confined.
				return d.command(ctx, "env", "CGO_ENABLED=0", "go", "build", "-o", filepath.Join(d.bin, p), "./cmd/"+p)
			}
			return d.command(ctx, "go", "build", "-o", filepath.Join(d.bin, p), "./cmd/"+p)
		})
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(d.bin, "modules"), 0o750); err != nil {
		return fmt.Errorf("make a directory for the modules: %w", err)
	}
	for _, m := range demoModules() {
		err := d.show.timed("build module "+m+" (Go to Wasm)", func() error {
			return d.command(ctx, d.Self, "module", "build", "./modules/"+m, "-o", d.wasm(m))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) wasm(module string) string { return filepath.Join(d.bin, "modules", module+".wasm") }

// command runs a program in the source tree. Its output is shown only if it fails.
func (d *demo) command(ctx context.Context, program string, args ...string) error {
	_, err := d.answer(ctx, program, args...)
	return err
}

// answer runs a program in the source tree and returns what it says.
func (d *demo) answer(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = d.Root
	// A go command that is killed leaves its compilers running; one that is interrupted
	// ends them first.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptGrace
	out, err := cmd.CombinedOutput()
	if err == nil {
		return string(out), nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(string(out)))
}
