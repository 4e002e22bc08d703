package sandbox

import (
	"os"
	"syscall"
)

// namespaces are those that a worker gets where the system lets us make them. A network
// of its own would take longer to make than everything else together; sockets are
// forbidden in other ways.
const namespaces = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC

// processAttributes puts a worker into a process group of its own, so that a signal
// for the parent's terminal is not one for it, and lets it die with its parent.
func processAttributes(i isolation) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if i == withNamespaces {
		attributes.Cloneflags = namespaces
		// The only mapping that nobody needs a right for: to oneself.
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		if os.Geteuid() == 0 && mayChangeUser() == nil {
			another := syscall.SysProcIDMap{ContainerID: workerUser, HostID: workerUser, Size: 1}
			attributes.UidMappings = append(attributes.UidMappings, another)
			attributes.GidMappings = append(attributes.GidMappings, another)
			attributes.GidMappingsEnableSetgroups = true
		}
	}
	return attributes
}

// killGroup kills a worker, and what it may have started if it was no worker.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}
