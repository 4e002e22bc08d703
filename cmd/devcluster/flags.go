package main

import (
	"flag"
	"fmt"
	"io"
	"math"

	"k8s.io/apimachinery/pkg/util/validation"
)

// flags is the parsed command line.
type flags struct {
	// dir is the state directory; empty means a temporary one.
	dir string
	// port is the API's port on 127.0.0.1; 0 means any free one.
	port int
	// kubeconfig is where the administrator's kubeconfig goes; empty means into the state directory.
	kubeconfig string
	// name tells this cluster from others, in the kubeconfig and as the name of the node.
	name string
	// parentPID is the process to end with; 0 means none.
	parentPID int
}

// parseFlags reads the command line. Help and complaints about it go to output. It returns flag.ErrHelp if help was asked for.
func parseFlags(arguments []string, output io.Writer) (flags, error) {
	var parsed flags
	set := flag.NewFlagSet("devcluster", flag.ContinueOnError)
	set.SetOutput(output)
	set.StringVar(&parsed.dir, "dir", "", "directory for the state (default: a temporary one, removed at the end)")
	set.IntVar(&parsed.port, "port", 0, "port of the API on 127.0.0.1; 0 takes a free one")
	set.StringVar(&parsed.kubeconfig, "kubeconfig", "", "file for the admin kubeconfig, written when the cluster is ready and removed at the end (default: DIR/kubeconfig)")
	set.StringVar(&parsed.name, "name", "devcluster", "name of the cluster and its node")
	set.IntVar(&parsed.parentPID, "parent-pid", 0, "end when the process with this id has ended")
	if err := set.Parse(arguments); err != nil {
		return flags{}, err
	}

	if set.NArg() > 0 {
		return flags{}, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if parsed.port < 0 || parsed.port > math.MaxUint16 {
		return flags{}, fmt.Errorf("--port %d is not a port", parsed.port)
	}
	if parsed.parentPID < 0 {
		return flags{}, fmt.Errorf("--parent-pid %d is not a process id", parsed.parentPID)
	}
	if problems := validation.IsDNS1123Label(parsed.name); len(problems) > 0 {
		return flags{}, fmt.Errorf("--name %q: %s", parsed.name, problems[0])
	}

	return parsed, nil
}
