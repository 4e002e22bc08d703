//go:build race

package sandbox_test

// raceEnabled says that this binary is instrumented: it needs several times the memory
// and dies of other causes, so it is no fit worker.
const raceEnabled = true
