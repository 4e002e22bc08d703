//go:build !linux

package sandbox

import "runtime"

// harden does nothing where there is no /proc and no prctl: on such a system a worker
// is a process of its own with a deadline and a guest memory cap, which is enough to
// develop modules with and too little to run those of strangers.
func harden(setup, ...uintptr) ([]Layer, error) {
	names := []string{
		LayerNamespaces, LayerDescriptors, LayerLimits, LayerMemoryPriority, LayerPrivileges,
		LayerDump, LayerCapabilities, LayerFiles, LayerCalls,
	}
	layers := make([]Layer, len(names))
	for i, name := range names {
		layers[i] = Layer{Name: name, Missing: "there is no such thing on " + runtime.GOOS}
	}
	return layers, nil
}

// hardenMore has nothing to add.
func hardenMore([]Layer) error { return nil }
