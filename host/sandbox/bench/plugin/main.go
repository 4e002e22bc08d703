// Command plugin is the leaf as a hashicorp/go-plugin process.
package main

import "github.com/caisson-dev/caisson/host/sandbox/bench/internal/plug"

func main() { plug.Serve() }
