package concurrent_test

import (
	"runtime"
	"testing"
	"time"
)

// exit ends the goroutine, as t.FailNow does in a test's helper.
func exit() { runtime.Goexit() }

// requireEventually polls until the condition holds. It may run in any goroutine.
func requireEventually(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Error("the condition did not come true in time")
			return
		}
		runtime.Gosched()
	}
}
