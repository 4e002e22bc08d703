//go:build !race

package sandbox_test

// raceEnabled says that this binary is not instrumented and is a worker like any other.
const raceEnabled = false
