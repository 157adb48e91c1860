// Package faults tries rib/bgp with what goes wrong around it: a network that delays, loses and
// swallows, peers that flood, dribble and do not read, a process that is stopped, killed or out of
// descriptors, a disk that is full or read-only, an engine that takes for ever.
//
// The tests run in a network and a mount namespace of their own. That takes root, or a system where
// users may make namespaces; in CI there has to be one. By default hold times are the shortest that
// there are. RIBWARP_FAULTS=long (and go test -timeout 30m) has those of the Internet, the send hold
// timer, and a clock that jumps.
package faults

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

const (
	// insideVariable tells the process in the namespaces that it is there.
	insideVariable = "RIBWARP_FAULTS_INSIDE"
	longVariable   = "RIBWARP_FAULTS"
)

// inParallel is how many tests run at once of those that wait most of the time.
const inParallel = 10

// patience is how long a test waits for what has to happen.
const patience = 60 * time.Second

// long tells whether tests may take minutes.
var long = os.Getenv(longVariable) == "long"

// noNamespace says why there are none, nil where there are.
var noNamespace error

func TestMain(m *testing.M) {
	if is := os.Getenv(peerVariable); is != "" {
		if err := bePeer(is); err != nil {
			fmt.Fprintln(os.Stderr, "peer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if os.Getenv(insideVariable) == "" {
		code, err := ribtest.InNamespaces(unix.CLONE_NEWNET|unix.CLONE_NEWNS, insideVariable+"=true")
		if err == nil {
			os.Exit(code)
		}
		noNamespace = err
	} else if err := furnish(); err != nil {
		noNamespace = err
	}
	_ = flag.Set("test.parallel", strconv.Itoa(inParallel)) // it is there
	code := m.Run()
	removeBinary()
	os.Exit(code)
}

// furnish gives the namespaces a loopback interface, and mounts that nobody outside sees.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount /: %w", err)
	}
	return linkUp("lo")
}

// needNamespaces is for tests that change the network or mounts.
func needNamespaces(t *testing.T) {
	t.Helper()
	if noNamespace != nil {
		fixtures.Missing(t, "%v", noNamespace)
	}
}

// seconds is a hold time: a short one, or in the long variant that of the Internet.
func seconds(t *testing.T, short uint16) uint16 {
	t.Helper()
	if long {
		return 90
	}
	t.Logf("the hold time is %d s: %s=long has one of 90 s, for which tests take minutes", short, longVariable)
	return short
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := waitFor(what, holds); err != nil {
		t.Fatal(err)
	}
}

// waitFor is await for goroutines.
func waitFor(what string, holds func() bool) error {
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			return errors.New("waited in vain for: " + what)
		case <-tick.C:
		}
	}
	return nil
}

func mustBe(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}
