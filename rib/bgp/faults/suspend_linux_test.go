package faults

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib/bgp"
)

// TestSuspendedProcess stops the whole service, as a hypervisor or an operator does, for less and
// for more than the hold time. Time goes on without it; when it continues it looks at what has come
// meanwhile before it takes a peer for dead: one that went on talking keeps its session, one that
// is silent loses it.
func TestSuspendedProcess(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	p := serve(t, configuration(t, n, "", n.host(0, 2).String(), n.host(0, 3).String()+",name=silent"))
	at := netip.AddrPortFrom(n.own(), bgpPort)
	session := func(from netip.Addr) *speaker {
		s := speak(t, connect(t, from, at))
		s.establish(t, minimalHold)
		return s
	}
	alive, silent := session(n.host(0, 2)), session(n.host(0, 3))
	silent.mustUpdate(t, updateOf(netip.Prefix{}, numbered(21, 0)))
	await(t, "route of the silent one", func() bool { return p.has(t, numbered(21, 0)) })
	const holdTime = minimalHold * time.Second
	for i, stopped := range []time.Duration{holdTime / 2, 2 * holdTime} {
		if i == 1 {
			silent.silence()
		}
		p.signal(t, syscall.SIGSTOP)
		time.Sleep(stopped)
		p.signal(t, syscall.SIGCONT)
		alive.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, i)))
		heard := alive.heard.Load()
		await(t, "a route on the session from before", func() bool { return p.has(t, numbered(20, i)) && p.has(t, numbered(20, 0)) })
		await(t, "KEEPALIVEs on it", func() bool { return alive.heard.Load() > heard+1 })
		if i == 0 && !p.has(t, numbered(21, 0)) {
			t.Error("the other session was lost")
		}
	}
	if code, subcode := silent.notification(t); code != 4 || subcode != 0 {
		t.Errorf("the silent peer got NOTIFICATION %d/%d, want Hold Timer Expired", code, subcode)
	}
	await(t, "withdrawal", func() bool { return !p.has(t, numbered(21, 0)) })
	alive.mustBeUp(t)
}

// TestSuspendedPeer stops the process of a peer: its system goes on to acknowledge, nobody reads or
// says anything. For less than the hold time that is nothing, for more the session ends, and the
// routes go or stay as the peer has asked for.
func TestSuspendedPeer(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	peers := []bgp.PeerConfig{{Name: "witness", Addr: n.host(0, 2)}, {Name: "plain", Addr: n.host(0, 3)}, {Name: "kept", Addr: n.host(0, 4)}}
	s := start(t, options{at: n.own(), config: func(c *bgp.Config) { c.ErrorDelay = 100 * time.Millisecond }}, peers...)
	w := s.witness(t, "witness", n.host(0, 2))
	stopped := map[string]*exec.Cmd{}
	routes := map[string]netip.Prefix{"plain": numbered(peerBlock, 3), "kept": numbered(peerBlock, 4)}
	all := func(signal os.Signal) {
		t.Helper()
		for name, c := range stopped {
			if err := c.Process.Signal(signal); err != nil {
				t.Fatalf("%v to peer %s: %v", signal, name, err)
			}
		}
	}
	for _, p := range peers[1:] {
		stopped[p.Name] = startPeer(t, p.Addr, s.at, p.Name == "kept")
	}
	for name := range stopped {
		await(t, "route of "+name, func() bool { return s.has(routes[name]) })
	}

	all(syscall.SIGSTOP)
	w.during(t, func() { time.Sleep(minimalHold * time.Second / 2) })
	all(syscall.SIGCONT)
	w.during(t, func() { time.Sleep(minimalHold * time.Second) })
	for name := range stopped {
		st := s.peer(name)
		mustBe(t, "sessions of "+name+", lost", []uint64{st.Ups, st.Downs}, []uint64{1, 0})
	}

	all(syscall.SIGSTOP)
	w.during(t, func() {
		for name := range stopped {
			await(t, "end of the session of "+name, func() bool { return s.peer(name).Downs == 1 })
			mustBe(t, "reason", s.peer(name).LastError, "the hold time is over: the peer has been silent")
		}
	})
	await(t, "withdrawal", func() bool { return !s.has(routes["plain"]) })
	await(t, "stale route", func() bool { r, ok := s.route(routes["kept"]); return ok && r.Stale })
	all(syscall.SIGCONT)
	for name, c := range stopped { // it finds the NOTIFICATION, and is started once more
		_ = c.Wait()
		mustBe(t, "exit status of "+name, c.ProcessState.ExitCode(), 0)
	}
	w.mustBeWell(t)
	for _, p := range peers[1:] {
		startPeer(t, p.Addr, s.at, p.Name == "kept")
		await(t, "route of the next session of "+p.Name, func() bool { r, ok := s.route(routes[p.Name]); return ok && !r.Stale })
	}
	w.mustBeWell(t)
}

// peerVariable has this program be a peer, which is a process of its own: ADDR ADDR:PORT BOOL, where
// it is, where the service, and whether its routes are to be kept.
const peerVariable = "RIBWARP_FAULTS_PEER"

// peerBlock is where such a peer's route is: numbered by the last byte of its address.
const peerBlock = 22

// startPeer starts one, which ends with its session or the test.
func startPeer(t *testing.T, from netip.Addr, to netip.AddrPort, keeps bool) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%v %v %v", peerVariable, from, to, keeps))
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if starter().run(func() { err = c.Start() }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // or it has ended before
	})
	return c
}

// bePeer is the main function of such a process: it connects until a session comes up, as it may be
// left alone for a moment, and returns when the hold timer has ended that, as the tests have it. All
// else is an error.
func bePeer(is string) error {
	var from, to string
	var keeps bool
	if _, err := fmt.Sscan(is, &from, &to, &keeps); err != nil {
		return err
	}
	addr, err := netip.ParseAddr(from)
	if err != nil {
		return err
	}
	capabilities := restarts
	if keeps {
		capabilities = outlives
	}
	route := updateOf(netip.Prefix{}, numbered(peerBlock, int(addr.As4()[3])))
	said := slices.Concat(openOf(minimalHold, capabilities), keepalive, route, endOfRIB)
	for until := time.Now().Add(patience); ; time.Sleep(betweenChecks) {
		c, err := dialer(addr).Dial("tcp", to)
		if err != nil {
			return err
		}
		s := newSpeaker(c.(*net.TCPConn))
		if err := s.write(said); err != nil {
			return err
		}
		go s.keepUp()
		s.read()
		switch {
		case len(s.last) >= 2 && s.last[0] == 4:
			return nil
		case s.heard.Load() > 0 || time.Now().After(until):
			return fmt.Errorf("the session ended with %w, NOTIFICATION %v", s.err, s.last)
		}
	}
}
