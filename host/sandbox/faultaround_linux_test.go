package sandbox

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mappedPages counts the pages of memory that are mapped.
func mappedPages(t *testing.T, memory []byte) int {
	t.Helper()
	pagemap, err := os.Open("/proc/self/pagemap")
	require.NoError(t, err)
	defer func() { require.NoError(t, pagemap.Close()) }()
	size := os.Getpagesize()
	entries := make([]byte, len(memory)/size*8)
	_, err = pagemap.ReadAt(entries, int64(uintptr(unsafe.Pointer(&memory[0])))/int64(size)*8)
	require.NoError(t, err)
	n := 0
	for ; len(entries) > 0; entries = entries[8:] {
		if binary.LittleEndian.Uint64(entries)>>63 == 1 { // present
			n++
		}
	}
	return n
}

// MapsSinglePages reports whether workers do on this machine.
func MapsSinglePages() bool {
	around := newFaultAround()
	if around == nil {
		return false
	}
	around.close()
	return true
}

// TestFaultAround uses one page of a file with it and without.
func TestFaultAround(t *testing.T) {
	around := newFaultAround()
	if around == nil {
		t.Skip("this kernel cannot, or a container forbids it")
	}
	defer around.close()
	const pages = 64
	size := os.Getpagesize()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, make([]byte, pages*size), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	use := func(prepare func([]byte)) int {
		memory, err := unix.Mmap(int(file.Fd()), 0, pages*size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		require.NoError(t, err)
		defer func() { require.NoError(t, unix.Munmap(memory)) }()
		prepare(memory)
		for range 2 {
			require.Zero(t, memory[pages/2*size])
			n := mappedPages(t, memory)
			require.NoError(t, unix.Madvise(memory, unix.MADV_DONTNEED))
			require.Zero(t, mappedPages(t, memory))
			require.Zero(t, memory[pages/2*size])
			require.Equal(t, n, mappedPages(t, memory), "it stays so")
		}
		return mappedPages(t, memory)
	}
	require.Greater(t, use(func([]byte) {}), 1, "the kernel maps more than is used")
	require.Equal(t, 1, use(func(memory []byte) { require.NoError(t, around.off(memory)) }))

	require.Error(t, around.off(make([]byte, 1)), "no whole page")
	require.NoError(t, (*faultAround)(nil).off(nil), "where there is none nothing is done")
	require.Empty(t, (*faultAround)(nil).files())
}

// TestProgramPages drops the code that drops it.
func TestProgramPages(t *testing.T) {
	p := newProgramPages(nil)
	require.NotEmpty(t, p.code)
	before := 0
	for _, code := range p.code {
		before += mappedPages(t, code)
	}
	p.drop()
	after := 0
	for _, code := range p.code {
		after += mappedPages(t, code)
	}
	require.Less(t, after, before)
	(*programPages)(nil).drop()
}
