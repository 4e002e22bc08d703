package provisioner

// Input names an object that a pass read and whose change must wake its owner. It
// holds no contents.
type Input struct {
	// ScopeID is the scope that it was read in.
	ScopeID string
	// Kind is Secret, ConfigMap, Module or Application.
	Kind      string
	Namespace string
	Name      string
	// Absent says that it did not exist.
	Absent bool
	// Version is the resource version, or the digest of a Module, that was read.
	Version string
}

// InputRecorder takes note of inputs. It must be safe for concurrent use.
type InputRecorder interface {
	RecordInput(Input)
}

// InputRecorderFunc adapts a function to [InputRecorder].
type InputRecorderFunc func(Input)

// RecordInput implements InputRecorder.
func (f InputRecorderFunc) RecordInput(i Input) { f(i) }

var _ InputRecorder = InputRecorderFunc(nil)
