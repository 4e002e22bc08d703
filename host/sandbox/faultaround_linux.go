package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The interface of userfaultfd (include/uapi/linux/userfaultfd.h), which golang.org/x/sys
// does not have.
const (
	uffdAPIVersion   = 0xaa
	uffdAPI          = 3<<30 | unsafe.Sizeof(uffdAPIArgument{})<<16 | uffdAPIVersion<<8 | 0x3f
	uffdRegister     = 3<<30 | unsafe.Sizeof(uffdRegisterArgument{})<<16 | uffdAPIVersion<<8
	uffdUserModeOnly = 1
	// uffdWriteProtect is the mode that is registered. uffdAsync, of Linux 6.7, has the
	// kernel resolve what would otherwise be waited for, and takes memory of any kind.
	uffdWriteProtect = 1 << 1
	uffdAsync        = 1 << 15
)

type uffdAPIArgument struct{ api, features, ioctls uint64 }

type uffdRegisterArgument struct{ start, length, mode, ioctls uint64 }

// faultAround keeps the kernel from mapping sixteen pages of a file for each that is used.
// It leaves that out in memory of which it has been asked to follow the writes. Nothing
// is ever written there, nor protected, so following them is nothing but the wish.
type faultAround struct{ fd int }

// newFaultAround returns nil where the kernel cannot do this or a container forbids it. It
// must be called before the process gives up its files.
func newFaultAround() *faultAround {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if errno != 0 {
		return nil
	}
	f := &faultAround{int(fd)}
	argument := uffdAPIArgument{api: uffdAPIVersion, features: uffdAsync}
	if err := f.control(uffdAPI, unsafe.Pointer(&argument)); err != nil {
		f.close()
		return nil
	}
	return f
}

// files are the descriptors that must stay open.
func (f *faultAround) files() []uintptr {
	if f == nil {
		return nil
	}
	return []uintptr{uintptr(f.fd)}
}

func (f *faultAround) close() { _ = unix.Close(f.fd) }

func (f *faultAround) control(request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), request, uintptr(argument)); errno != 0 {
		return fmt.Errorf("follow the writes to memory: %w", errno)
	}
	return nil
}

// off has the kernel map single pages of memory that is mapped from a file.
func (f *faultAround) off(memory []byte) error {
	if f == nil {
		return nil
	}
	argument := uffdRegisterArgument{start: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))), length: uint64(len(memory)), mode: uffdWriteProtect}
	return f.control(uffdRegister, unsafe.Pointer(&argument))
}
