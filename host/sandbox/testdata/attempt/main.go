// Command attempt confines itself as a worker does and then tries what it must not be
// able to do. It is built with the tag attempts.
package main

import "github.com/caisson-dev/caisson/host/sandbox"

func main() { sandbox.RunAttempt() }
