package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// programPages is the code of this program, of which serving needs a third of what loading
// a module does.
type programPages struct{ code [][]byte }

// newProgramPages finds the code, and has single pages of it mapped, and of the constants.
// It must be called before the process gives up its files.
func newProgramPages(around *faultAround) *programPages {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer func() { _ = maps.Close() }() // it was only read
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	p := &programPages{}
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var start, end uint64
		var rights string
		n, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &start, &end, &rights)
		if err != nil || n != 3 || rights != "r-xp" && rights != "r--p" || !strings.HasSuffix(lines.Text(), " "+self) {
			continue
		}
		address := uintptr(start)
		memory := unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), int(end-start))
		_ = around.off(memory) // it is only smaller
		if rights == "r-xp" {
			// Only code is sure to be what the file has: constants may have been written
			// to when they were loaded.
			p.code = append(p.code, memory)
		}
	}
	return p
}

// drop leaves the code to the page cache until it is used again.
func (p *programPages) drop() {
	if p == nil {
		return
	}
	for _, code := range p.code {
		_ = unix.Madvise(code, unix.MADV_DONTNEED)
	}
}
