package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/caisson-dev/caisson/host/sandbox"
)

// describeInSandbox runs describe in a worker, which is this program again. The module
// can do no more harm there than it could in an operator.
func describeInSandbox(ctx context.Context, wasm []byte) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to run the sandbox: %w", err)
	}
	box, err := sandbox.New(sandbox.Options{Worker: []string{self}, MaxWorkers: 1})
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	defer func() { _ = box.Close() }()
	module, err := box.Load(ctx, wasm, sandbox.Limits{})
	if err != nil {
		return nil, err
	}
	defer module.Close()
	return bytes.Clone(module.Described()), nil
}
