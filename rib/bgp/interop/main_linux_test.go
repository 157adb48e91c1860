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
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
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
		code, err := ribtest.InNamespaces(syscall.CLONE_NEWNET|syscall.CLONE_NEWPID|syscall.CLONE_NEWNS, fmt.Sprintf("%s=%d", insideVariable, os.Getuid()))
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
