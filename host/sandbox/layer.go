package sandbox

// Layer is one of the ways in which a worker is confined. Each holds without the others.
type Layer struct {
	// Name says what it is, in a stable word.
	Name string `json:"name"`
	// Missing says why this machine does not have it, in a phrase; it is empty where the
	// layer holds.
	Missing string `json:"missing,omitempty"`
}

// The layers, in the order in which they are put on.
const (
	// LayerNamespaces gives a worker namespaces for users, processes and IPC of its own:
	// it sees no other process and is nobody outside.
	LayerNamespaces = "namespaces"
	// LayerDescriptors closes every file but the three pipes.
	LayerDescriptors = "descriptors"
	// LayerLimits are the resource limits: address space, CPU, files, file sizes, cores.
	LayerLimits = "limits"
	// LayerMemoryPriority makes the kernel kill workers first when memory is short.
	LayerMemoryPriority = "memory-priority"
	// LayerPrivileges lets no program that it might start gain privileges.
	LayerPrivileges = "no-new-privileges"
	// LayerDump keeps its memory from being read by others of its user, and from a core.
	LayerDump = "not-dumpable"
	// LayerUser makes a worker of an operator that is root somebody else before its module
	// runs. Where the operator is not root there is no such layer.
	LayerUser = "user"
	// LayerCapabilities takes every capability away, but those for changing the user until
	// that is done.
	LayerCapabilities = "capabilities"
	// LayerFiles is Landlock: no file can be opened but native code of the one module, and
	// none at all once that is loaded; no TCP, and no signals to others.
	LayerFiles = "landlock"
	// LayerCalls is seccomp: of the system calls, only those that a Go runtime needs.
	LayerCalls = "seccomp"
	// LayerProcessorTime is the parent's: it reads for how long a worker has computed, and
	// ends a call whose processor time is over before its deadline.
	LayerProcessorTime = "processor-time"
	// LayerProcessorPriority is the parent's as well: a worker that computes for long gives way
	// to everything else that it runs, and is as important again when its call is over.
	LayerProcessorPriority = "processor-priority"
)

// maxLayers and maxLayersBytes bound what is believed of a worker's report.
const (
	maxLayers      = 32
	maxLayersBytes = 16 * kib
)

// Layers returns how workers are confined on this machine, as the one reported that
// [New] started to find out. The order is that in which they are put on.
func (s *Sandbox) Layers() []Layer { return append([]Layer(nil), s.layers...) }
