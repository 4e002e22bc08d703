//go:build !linux

package sandbox

// codePages is what Linux shares native code with; elsewhere each worker has a copy.
type codePages struct{}

func newCodePages(*faultAround) *codePages { return nil }

func (c *codePages) share(string) error { return nil }

func (*codePages) files() []uintptr { return nil }

func (*codePages) drop() {}

func (*codePages) close() {}

// faultAround and programPages are nothing elsewhere.
type (
	faultAround  struct{}
	programPages struct{}
)

func newFaultAround() *faultAround { return nil }

func (*faultAround) files() []uintptr { return nil }

func newProgramPages(*faultAround) *programPages { return nil }

func (*programPages) drop() {}
