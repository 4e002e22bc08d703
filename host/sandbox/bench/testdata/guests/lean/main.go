//go:build wasip1

// Command lean is the leaf as a lean module of the Go SDK.
package main

import (
	guest "github.com/caisson-dev/caisson/guest-sdk"
	"github.com/caisson-dev/caisson/host/sandbox/bench/internal/lean"
)

var _ = guest.Register(lean.New())

func main() {}
