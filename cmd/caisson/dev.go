package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/caisson-dev/caisson/cmd/caisson/internal/demo"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/devenv"
	"github.com/caisson-dev/caisson/cmd/caisson/internal/follow"
	"github.com/caisson-dev/caisson/host/registry/registrytest"
)

func newDevCommand(e *environment) *cobra.Command {
	cmd := group("dev", "Run clusters and a registry on this machine",
		`A local environment is two control planes without nodes, and a registry: real Kubernetes
API semantics, pods that become ready by themselves, no Docker. Everything listens on
127.0.0.1.`,
		`  caisson dev up
  caisson dev down`)
	cmd.AddCommand(newDevUpCommand(e), newDevDownCommand(e), newDevDemoCommand(e), newDevRegistryCommand())
	return cmd
}

// defaultDevDir is where the environment of a user is, unless they say otherwise.
func defaultDevDir() string {
	return filepath.Join(os.TempDir(), "caisson-dev-"+strconv.Itoa(os.Getuid()))
}

func newDevUpCommand(e *environment) *cobra.Command {
	var dir, program string
	var f format
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start two control planes and a registry, and leave them running",
		Example: `  caisson dev up
  export KUBECONFIG=$(caisson dev up --dir /tmp/try -o json | jq -r .kubeconfigs.home)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := devUp(cmd.Context(), e, dir, program)
			if err != nil {
				return err
			}
			return f.print(e.out, state, func(w io.Writer) error { return printDevState(w, dir, state) })
		},
	}
	addFormatFlag(cmd, &f, formatTable)
	cmd.Flags().StringVar(&dir, "dir", defaultDevDir(), "directory for the environment")
	cmd.Flags().StringVar(&program, "devcluster", "", "path of the devcluster program; beside this program if empty")
	return cmd
}

// devUp starts the environment. What was started is stopped again if a part fails.
func devUp(ctx context.Context, e *environment, dir, program string) (*devenv.State, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if program == "" {
		program = filepath.Join(filepath.Dir(self), "devcluster")
	}
	if _, err := os.Stat(program); err != nil {
		return nil, failure("build it with 'make build', or name it with --devcluster", "there is no program %s", program)
	}
	env, err := devenv.New(dir, devenv.Detached)
	if errors.Is(err, devenv.ErrInUse) {
		return nil, failure("end it first with 'caisson dev down --dir "+dir+"', or name another directory with --dir", "an environment is in %s already", dir)
	}
	if err != nil {
		return nil, failure("name an empty directory with --dir", "%w", err)
	}
	for _, name := range []string{"home", "workload"} {
		_, _ = fmt.Fprintf(e.errOut, "starting the %s control plane\n", name)
		if _, err := env.StartCluster(ctx, name, program); err != nil {
			return nil, errors.Join(err, env.Stop())
		}
	}
	_, _ = fmt.Fprintln(e.errOut, "starting the registry")
	if _, err := env.StartRegistry(ctx, self); err != nil {
		return nil, errors.Join(err, env.Stop())
	}
	return env.State(), nil
}

func printDevState(w io.Writer, dir string, state *devenv.State) error {
	p := newProperties(w)
	for _, name := range []string{"home", "workload"} {
		p.add(name, "export KUBECONFIG="+state.Kubeconfigs[name])
	}
	p.add("registry", state.Registry)
	p.add("logs", filepath.Join(dir, "logs"))
	p.add("end it", "caisson dev down --dir "+dir)
	return p.flush()
}

func newDevDownCommand(e *environment) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "down",
		Short:   "End what 'caisson dev up' or a kept demo left running",
		Example: "  caisson dev down\n  caisson dev down --dir /tmp/try",
		Args:    cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			state, err := devenv.Load(dir)
			if errors.Is(err, devenv.ErrNotRunning) {
				return failure("start one with 'caisson dev up', or name its directory with --dir", "no environment is in %s", dir)
			}
			if err != nil {
				return err
			}
			if err := state.Stop(dir); err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.out, "ended %d processes and removed %s\n", len(state.Processes), dir)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", defaultDevDir(), "directory of the environment")
	return cmd
}

func newDevDemoCommand(e *environment) *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Bring up a platform on two control planes, watch it, and take it down",
		Long: `Build everything from the source tree, start two local control planes and a registry,
install the operator, and run examples/platform from nothing to available, through what
happens to a platform in its life, and back. It fails unless it has seen every step happen.

  DEMO_KEEP=1                leave everything running once the platform is up, and say how
                             to look around
  DEMO_CHAPTERS=gpu,drift    show these parts of a platform's life, instead of all
  DEMO_HOME_KUBECONFIG       use this cluster as home, instead of starting one
  DEMO_WORKLOAD_KUBECONFIG   use this cluster as the workload cluster`,
		Example: "  make demo\n  DEMO_KEEP=1 make demo\n  DEMO_CHAPTERS=operator make demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			if _, err := os.Stat(filepath.Join(root, "examples", "platform", "stack.yaml")); err != nil {
				return failure("run it where Caisson's source is, or name that directory with --root", "there is no source tree of Caisson in %s", root)
			}
			return demo.Run(cmd.Context(), demo.Options{
				Root: root, Self: self, Out: e.out, Keep: os.Getenv("DEMO_KEEP") == "1",
				Screen:         func(start time.Time) follow.Screen { return newScreen(e.out, start) },
				Chapters:       splitList(os.Getenv("DEMO_CHAPTERS")),
				HomeKubeconfig: os.Getenv("DEMO_HOME_KUBECONFIG"), WorkloadKubeconfig: os.Getenv("DEMO_WORKLOAD_KUBECONFIG"),
			})
		},
	}
	cmd.Flags().StringVar(&root, "root", ".", "the source tree")
	return cmd
}

// splitList splits at commas; nothing gives none.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// newDevRegistryCommand is the registry of a local environment as a process of its own.
func newDevRegistryCommand() *cobra.Command {
	var address, dir string
	cmd := &cobra.Command{
		Use:     "registry",
		Short:   "Serve an OCI registry until interrupted",
		Example: "  caisson dev registry --listen 127.0.0.1:5000 --dir /tmp/registry",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir != "" {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					return fmt.Errorf("make directory for blobs: %w", err)
				}
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return failure("name a free address with --listen", "cannot listen on %s: %w", address, err)
			}
			return registrytest.Serve(cmd.Context(), listener, dir)
		},
	}
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:5000", "address to listen on")
	cmd.Flags().StringVar(&dir, "dir", "", "directory for blobs; in memory if empty")
	return cmd
}
