package ribtest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// InNamespaces runs this program once more with the same arguments, with a variable ("NAME=VALUE")
// added to its environment and in namespaces of its own (CLONE_NEW… flags), and gives its exit
// status. Users other than root get a user namespace beside them. It dies with this process.
func InNamespaces(flags uintptr, variable string) (code int, err error) {
	runtime.LockOSThread() // Pdeathsig is about the thread
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), variable)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("namespaces of its own need root, or users that may make some: %w", err)
	}
	_ = c.Wait() // the status says it
	return c.ProcessState.ExitCode(), nil
}
