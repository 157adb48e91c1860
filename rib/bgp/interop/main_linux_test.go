// Package interop tries the BGP sessions of rib/bgp with other implementations: BIRD, FRR, ExaBGP,
// OpenBGPD and GoBGP, as Debian has them. TestMatrix runs every case (cases_linux_test.go) with every
// speaker (a file each) and compares the result with docs/interop.md; with -update it writes that
// file.
//
// The tests run in a network namespace of their own, so that each speaker has addresses, port 179
// and /run for itself, and in a PID namespace, so that none outlives the tests. That takes root, or
// a system where users may make namespaces; OpenBGPD needs root.
package interop

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var update = flag.Bool("update", false, "write docs/interop.md anew")

const (
	// insideVariable tells the process in the namespaces that it is there; its value is the UID outside.
	insideVariable = "RIBWARP_INTEROP_UID"
	// inParallel is how many cells run at once. Most of the time they wait.
	inParallel = 12
)

// noNamespace says why there are none, nil where there are.
var noNamespace error

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(insideVariable) == "" {
		code, err := inNamespaces()
		if err == nil {
			os.Exit(code)
		}
		noNamespace = err
	} else if err := furnish(); err != nil {
		noNamespace = err
	}
	_ = flag.Set("test.parallel", strconv.Itoa(inParallel))
	os.Exit(m.Run())
}

// inNamespaces runs this program once more, in namespaces of its own, and gives its exit status.
func inNamespaces() (code int, err error) {
	runtime.LockOSThread() // Pdeathsig is about the thread
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", insideVariable, os.Getuid()))
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("a network namespace of its own needs root, or users that may make one: %w", err)
	}
	_ = c.Wait() // the status says it
	return c.ProcessState.ExitCode(), nil
}

// furnish gives the namespaces what speakers want: loopback addresses of both families, and a /run
// where nobody else is.
func furnish() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		options              string
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE, ""},
		{"tmpfs", "/run", "tmpfs", 0, "mode=755"},
		{"tmpfs", "/var/tmp", "tmpfs", 0, "mode=1777"}, // FRR's logs of crashes
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := os.Mkdir("/run/openbgpd", 0o755); err != nil { // where it locks itself in
		return err
	}
	var batch bytes.Buffer
	batch.WriteString("link set lo up\naddress add 10.77.0.1/16 dev lo\n") // which makes all of them local
	for n := range len(implementations) * len(cases) {
		for host := 1; host <= hosts; host++ {
			fmt.Fprintf(&batch, "address add %s/128 dev lo nodad\n", address(n, host, true))
		}
	}
	c := exec.Command("ip", "-batch", "-")
	c.Stdin = &batch
	if out, err := c.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		return errors.New("ip is not installed (Debian's package iproute2)")
	} else if err != nil {
		return fmt.Errorf("ip: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// isRoot tells whether the tests were started by root.
func isRoot() bool { return os.Getenv(insideVariable) == "0" }

// missing ends a test for which something is not there: it fails with CI=true, and skips otherwise.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
