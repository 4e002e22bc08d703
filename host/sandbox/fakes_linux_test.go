package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// systemFakes are programs that try what only Linux has.
func systemFakes() map[string]func() {
	return map[string]func(){"filtered": filtered}
}

// filtered puts the first filter on, in a process with several threads of which none has
// given its privileges up, and says which of them still have not.
func filtered() {
	var ready sync.WaitGroup
	for range 4 {
		ready.Add(1)
		go func() {
			runtime.LockOSThread()
			ready.Done()
			select {}
		}()
	}
	ready.Wait()
	if err := firstFilter(); err != nil {
		fmt.Println(err)
		return
	}
	threads, _ := filepath.Glob("/proc/self/task/*/status")
	privileged := 0
	for _, name := range threads {
		status, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
			privileged++
		}
	}
	fmt.Println(len(threads) > 4, privileged)
}
