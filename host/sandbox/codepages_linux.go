package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The compiler copies native code into memory of this process, all of it, of which a call
// uses a tenth. There is a file with the same bytes; mapped in the place of the copy it
// takes as much memory as is used, and that is the page cache's, shared by all workers of
// the module. The code is what it was and where it was, so nobody notices.

// codePages finds the compiler's copy, and replaces it.
type codePages struct {
	// maps is /proc/self/maps, which cannot be opened any more when it is needed.
	maps   *os.File
	around *faultAround
	// mapped is the code, once it is mapped.
	mapped []byte
}

// newCodePages returns nil where there is no /proc. It must be called before the process
// gives up its files.
func newCodePages(around *faultAround) *codePages {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	return &codePages{maps: maps, around: around}
}

// files are the descriptors that must stay open.
func (c *codePages) files() []uintptr {
	if c == nil {
		return nil
	}
	return []uintptr{c.maps.Fd()}
}

// errNoCopy says that the compiler has no copy of a code.
var errNoCopy = errors.New("the code is not in memory")

// close gives the list of mappings up.
func (c *codePages) close() {
	if c != nil {
		_ = c.maps.Close() // it was only read
	}
}

// share maps the code of a module in the place of the compiler's copy. After an error all
// is as it was.
func (c *codePages) share(cacheDir string) error {
	if c == nil {
		return nil
	}
	file, err := os.Open(filepath.Join(cacheDir, codeFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the mapping stays
	info, err := file.Stat()
	if err != nil {
		return err
	}
	// Whole pages are replaced, and what a file does not have of its last one is zeros.
	page := os.Getpagesize()
	size := (int(info.Size()) + page - 1) / page * page
	candidates, err := c.anonymousCode(size)
	if err != nil {
		return err
	}
	for _, memory := range candidates {
		for at := 0; at+size <= len(memory); at += page {
			same, err := equalTo(memory[at:at+size], file)
			if err != nil {
				return err
			}
			if !same {
				continue
			}
			_, err = unix.MmapPtr(int(file.Fd()), 0, unsafe.Pointer(&memory[at]), uintptr(size),
				unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED)
			if err != nil {
				return fmt.Errorf("map the code: %w", err)
			}
			c.mapped = memory[at : at+size]
			_ = c.around.off(c.mapped) // it is only smaller
			return nil
		}
	}
	return errNoCopy
}

// drop leaves the code to the page cache until it is used again.
func (c *codePages) drop() {
	if c != nil && c.mapped != nil {
		_ = unix.Madvise(c.mapped, unix.MADV_DONTNEED)
	}
}

// anonymousCode returns memory of at least that size that can be run and read and belongs
// to no file.
func (c *codePages) anonymousCode(size int) ([][]byte, error) {
	var found [][]byte
	lines := bufio.NewScanner(c.maps)
	for lines.Scan() {
		// 7f74b08bf000-7f74b1343000 r-xp 00000000 00:00 0
		var start, end, inode uint64
		var rights, offset, device string
		n, err := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %d", &start, &end, &rights, &offset, &device, &inode)
		if err != nil || n != 6 || rights != "r-xp" || inode != 0 || strings.HasSuffix(lines.Text(), "]") || end-start < uint64(size) {
			continue
		}
		address := uintptr(start)
		// It is no memory of Go's, so the collector does not mind.
		found = append(found, unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), int(end-start)))
	}
	return found, lines.Err()
}

// equalTo reports whether memory holds what a file does, and zeros where that has ended.
func equalTo(memory []byte, file *os.File) (bool, error) {
	buffer := make([]byte, 64*kib)
	for at := 0; at < len(memory); at += len(buffer) {
		buffer = buffer[:min(len(buffer), len(memory)-at)]
		n, err := file.ReadAt(buffer, int64(at))
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read the code: %w", err)
		}
		clear(buffer[n:])
		if !bytes.Equal(memory[at:at+len(buffer)], buffer) {
			return false, nil
		}
	}
	return true, nil
}
