//go:build wasip1

// Command go is the leaf as a module of the Go SDK.
package main

import (
	guest "github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/leaf"
)

var _ = guest.Register(leaf.New())

func main() {}
