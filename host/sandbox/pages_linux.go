package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The interface of PAGEMAP_SCAN, of Linux 6.7 and later (include/uapi/linux/fs.h), which
// golang.org/x/sys does not have.
const (
	pagemapScan = 3<<30 | unsafe.Sizeof(scanArgument{})<<16 | 'f'<<8 | 16

	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4
)

type pageRegion struct{ start, end, categories uint64 }

type scanArgument struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	inverted, mask, anyOf, returned                         uint64
}

// scanRegions is how many runs of pages one scan reports; a scan that finds more goes on
// where it stopped.
const scanRegions = 512

// wipeBytes is from where on giving pages back is cheaper than writing zeros. Pages that
// are given back cost a fault when they are used again.
const wipeBytes = 512 * kib

// pageTracker finds the pages of a memory that differ from its image. A memory that maps
// its image privately gets a page of its own for each that is written to; so the pages
// that are there and belong to no file are those that have ever been written to. Their
// number levels off at what calls use, and finding them takes one system call.
type pageTracker struct {
	pagemap *os.File
	fd      uintptr
	regions []pageRegion
	size    int // of a page
}

// newPageTracker returns nil where the kernel cannot do this or does it wrong. It must be
// called before the process gives up its files.
func newPageTracker() *pageTracker {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	t := &pageTracker{pagemap: pagemap, fd: pagemap.Fd(), regions: make([]pageRegion, scanRegions), size: os.Getpagesize()}
	if t.works() {
		return t
	}
	_ = pagemap.Close() // it was only read
	return nil
}

// files are the descriptors that must stay open.
func (t *pageTracker) files() []uintptr {
	if t == nil {
		return nil
	}
	return []uintptr{t.fd}
}

// works tries the tracker on three pages: an emulated kernel may know the number of the
// call and not do what is asked.
func (t *pageTracker) works() bool {
	s := reserve(uint64(3 * t.size))
	defer s.release()
	memory := s.bytes()
	if memory == nil {
		return false
	}
	memory[0] = 1
	img, err := t.image(memory)
	if err != nil {
		return false
	}
	defer img.close()
	var read byte
	for i := range memory { // a page that was only read is not a page that was written to
		read |= memory[i]
	}
	memory[t.size] = 2
	var found [][2]int
	err = t.scan(memory, func(from, to int) { found = append(found, [2]int{from, to}) })
	return err == nil && read == 1 && slices.Equal(found, [][2]int{{t.size, 2 * t.size}}) && img.restore(memory) == nil && memory[t.size] == 0
}

// errImageLost says that a memory may have lost its content while its image was taken.
var errImageLost = errors.New("the memory could not be mapped again")

// image makes an image of a memory, of whole pages, and maps the memory to it. After an
// error other than errImageLost the memory is as it was.
func (t *pageTracker) image(memory []byte) (*mappedImage, error) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // the mappings stay
	if err := unix.Ftruncate(fd, int64(len(memory))); err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	content, err := unix.Mmap(fd, 0, len(memory), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	img := &mappedImage{tracker: t, content: content, zero: make([]bool, len(memory)/t.size)}
	for i := range img.zero {
		page := memory[i*t.size : (i+1)*t.size]
		// Pages that are all zeros stay holes of the file and take no memory.
		if img.zero[i] = isZero(page); !img.zero[i] {
			copy(content[i*t.size:], page)
		}
	}
	if err := unix.Mprotect(content, unix.PROT_READ); err != nil {
		img.close()
		return nil, fmt.Errorf("make an image: %w", err)
	}
	_, err = unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(memory)), uintptr(len(memory)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		img.close()
		return nil, fmt.Errorf("%w: %w", errImageLost, err)
	}
	return img, nil
}

// scan calls found with each run of bytes whose pages have been written to.
func (t *pageTracker) scan(memory []byte, found func(from, to int)) error {
	base := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	end := base + uint64(len(memory))
	for start := base; start < end; {
		argument := scanArgument{
			size: uint64(unsafe.Sizeof(scanArgument{})), start: start, end: end,
			vec: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(t.regions)))), vecLen: uint64(len(t.regions)),
			inverted: pageIsFile, mask: pageIsFile, anyOf: pageIsPresent | pageIsSwapped, returned: pageIsPresent,
		}
		n, _, errno := syscall.Syscall(unix.SYS_IOCTL, t.fd, pagemapScan, uintptr(unsafe.Pointer(&argument)))
		if errno != 0 {
			return fmt.Errorf("look for written pages: %w", errno)
		}
		if int(n) > len(t.regions) || argument.walkEnd <= start {
			return errors.New("look for written pages: the kernel does not go on")
		}
		for _, r := range t.regions[:n] {
			if r.start < base || r.end > end || r.start >= r.end {
				return errors.New("look for written pages: the kernel found some elsewhere")
			}
			found(int(r.start-base), int(r.end-base))
		}
		start = argument.walkEnd
	}
	return nil
}

// mappedImage is the image of a memory that maps it privately.
type mappedImage struct {
	tracker *pageTracker
	content []byte
	zero    []bool // by page
}

// restore implements image.
func (i *mappedImage) restore(memory []byte) error {
	return i.tracker.scan(memory, func(from, to int) {
		size := i.tracker.size
		for from < to {
			zero := i.zero[from/size]
			next := from + size
			for next < to && i.zero[next/size] == zero {
				next += size
			}
			if zero {
				clear(memory[from:next])
			} else {
				copy(memory[from:next], i.content[from:next])
			}
			from = next
		}
	})
}

// close implements image.
func (i *mappedImage) close() { _ = unix.Munmap(i.content) }

// newImage makes an image of a memory.
func newImage(t *pageTracker, memory []byte) (image, error) {
	if t == nil {
		return newCopiedImage(memory), nil
	}
	img, err := t.image(memory)
	if err == nil {
		return img, nil
	}
	if errors.Is(err, errImageLost) {
		return nil, err
	}
	return newCopiedImage(memory), nil
}

// wipe writes zeros. It may give pages back instead, so b must be memory of reserve that
// maps no image.
func wipe(b []byte) {
	if len(b) >= wipeBytes {
		size := uintptr(os.Getpagesize())
		address := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		head := int((size - address%size) % size)
		whole := (len(b) - head) / int(size) * int(size)
		if unix.Madvise(b[head:head+whole], unix.MADV_DONTNEED) == nil {
			clear(b[:head])
			b = b[head+whole:]
		}
	}
	clear(b)
}
