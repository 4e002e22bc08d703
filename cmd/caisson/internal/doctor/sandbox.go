package doctor

import (
	"fmt"

	"github.com/caisson-dev/caisson/host/sandbox"
)

const areaSandbox = "sandbox"

// Sandbox judges the layers that a worker reported, or the error with which it did not
// start.
func Sandbox(layers []sandbox.Layer, err error) []Check {
	worker := Check{Area: areaSandbox, Name: "worker", Result: OK, Says: "it starts, and reports how it is confined"}
	if err != nil {
		worker.Result, worker.Says = Failed, err.Error()
		worker.Remedy = "name a caisson-worker of the same version with --worker; no module can be run without one"
		return []Check{worker}
	}
	checks := []Check{worker}
	for _, layer := range layers {
		c := Check{Area: areaSandbox, Name: layer.Name, Result: OK, Says: holds(layer.Name)}
		if layer.Missing != "" {
			c.Result, c.Says = Warning, layer.Missing
			c.Remedy = fmt.Sprintf("%s; the other layers hold without it", remedyOf(layer.Name))
		}
		checks = append(checks, c)
	}
	return checks
}

// holds is what a layer keeps from a module that breaks out of its runtime.
func holds(layer string) string {
	switch layer {
	case sandbox.LayerNamespaces:
		return "it sees no other process and is nobody outside"
	case sandbox.LayerDescriptors:
		return "it has no file open but three pipes"
	case sandbox.LayerLimits:
		return "its memory, its processor time and its files are bounded"
	case sandbox.LayerMemoryPriority:
		return "it is ended first when memory is short"
	case sandbox.LayerPrivileges:
		return "nothing that it starts can gain privileges"
	case sandbox.LayerDump:
		return "nobody else reads its memory"
	case sandbox.LayerUser:
		return "the operator is root, and it is somebody else"
	case sandbox.LayerCapabilities:
		return "it has none, whoever runs the operator"
	case sandbox.LayerFiles:
		return "it can open no file and no TCP connection"
	case sandbox.LayerCalls:
		return "it can make only the system calls that a Go program needs"
	case sandbox.LayerProcessorTime:
		return "a call that computes for too long is ended before its deadline"
	case sandbox.LayerProcessorPriority:
		return "a call that computes for long gives way to the operator and to other modules"
	default:
		return ""
	}
}

// remedyOf is what gives a machine a layer that it lacks.
func remedyOf(layer string) string {
	switch layer {
	case sandbox.LayerNamespaces:
		return "let users make namespaces: sysctl user.max_user_namespaces above 0, and kernel.apparmor_restrict_unprivileged_userns=0 where there is AppArmor; in a container the runtime must allow it too"
	case sandbox.LayerUser:
		return "run the operator as another user than root (runAsNonRoot), which is better anyway"
	case sandbox.LayerFiles:
		return "run Linux 5.13 or later with landlock among its security modules (lsm=landlock,... on the kernel's command line), and a worker that was built with CGO_ENABLED=0"
	case sandbox.LayerCalls:
		return "run a kernel with seccomp filters (CONFIG_SECCOMP_FILTER), and a worker that was built with CGO_ENABLED=0"
	case sandbox.LayerProcessorTime:
		return "run the operator on Linux; without it spec.limits.cpu of a Module does not hold, and its timeout does"
	case sandbox.LayerProcessorPriority:
		return "run the operator on Linux with CAP_SYS_NICE, or with cores to spare: without it a module that computes slows others down where there are few"
	case sandbox.LayerLimits:
		return "raise the hard limits of the operator to what its workers are given (ulimit -H)"
	default:
		return "run the operator on Linux, with a worker that was built with CGO_ENABLED=0"
	}
}
