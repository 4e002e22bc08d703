//go:build !linux

package sandbox

// codePages is what Linux shares native code with; elsewhere each worker has a copy.
type codePages struct{}

func newCodePages() *codePages { return nil }

func (c *codePages) share(string) error { return nil }

func (*codePages) files() []uintptr { return nil }

func (*codePages) drop() {}

func (*codePages) close() {}
