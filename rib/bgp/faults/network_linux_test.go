package faults

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib/bgp"
)

// forGaps is the hold time, in seconds, of sessions over a link that is cut for a while: TCP sends
// again after 0.2 s, 0.4 s, 0.8 s, ..., so a gap of a third of it is one that a session has to
// outlive, and twice the hold time one that it must not.
const forGaps = 6

// overLink is a service with a peer at the end of a link and a witness on the loopback interface.
func overLink(t *testing.T, l *link, change func(*bgp.PeerConfig)) (*service, *witness) {
	t.Helper()
	far := bgp.PeerConfig{Name: "far", Addr: l.far}
	if change != nil {
		change(&far)
	}
	n := newNetwork()
	s := start(t, options{at: netip.IPv4Unspecified(), config: func(c *bgp.Config) {
		c.ErrorDelay, c.ConnectRetry = 100*time.Millisecond, time.Second
	}}, far, bgp.PeerConfig{Name: "witness", Addr: n.host(0, 2)})
	port := s.at.Port()
	s.at = netip.AddrPortFrom(n.own(), port)
	w := s.witness(t, "witness", n.host(0, 2))
	s.at = netip.AddrPortFrom(l.near, port)
	return s, w
}

// TestDelayAndLoss has a session over a link that delays packets by a tenth of a second, so that
// they overtake each other, and loses every twentieth, for longer than the hold time.
func TestDelayAndLoss(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	s, w := overLink(t, l, nil)
	l.set(func(l *link) { l.delay, l.jitter, l.loss = 80*time.Millisecond, 40*time.Millisecond, 0.05 })
	p := l.dial(t, s)
	holdTime := seconds(t, forGaps)
	p.establish(t, holdTime)
	const messages = 2000
	w.during(t, func() {
		rest := 2 * time.Duration(holdTime) * time.Second / messages
		for i := range messages {
			withdrawn := netip.Prefix{}
			if i > 0 && i%2 == 0 {
				withdrawn = numbered(20, i-1) // of each two one stays
			}
			p.mustUpdate(t, updateOf(withdrawn, numbered(20, i)))
			time.Sleep(rest)
		}
		await(t, "the last route", func() bool { return s.has(numbered(20, messages-1)) })
	})
	for i := range messages {
		if got, want := s.has(numbered(20, i)), i%2 == 0 || i == messages-1; got != want {
			t.Errorf("route %d: %v, want %v", i, got, want)
		}
	}
	st := s.peer("far")
	mustBe(t, "sessions, lost", []uint64{st.Ups, st.Downs}, []uint64{1, 0})
	l.set(func(l *link) {
		if l.lost == 0 {
			t.Error("nothing was lost: this tests too little")
		}
	})
}

// TestBlackholeWithinTheHoldTime: the session stays, and what was announced meanwhile arrives.
func TestBlackholeWithinTheHoldTime(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	s, w := overLink(t, l, nil)
	p := l.dial(t, s)
	holdTime := seconds(t, forGaps)
	p.establish(t, holdTime)
	w.during(t, func() {
		for round := range 2 {
			p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, round)))
			await(t, "route", func() bool { return s.has(numbered(20, round)) })
			l.blackhole()
			p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(21, round)))
			time.Sleep(time.Duration(holdTime) * time.Second / 4)
			if s.has(numbered(21, round)) {
				t.Error("a route came through: the link was not cut")
			}
			l.heal()
			await(t, "what was announced meanwhile", func() bool { return s.has(numbered(21, round)) })
		}
	})
	st := s.peer("far")
	mustBe(t, "sessions, lost", []uint64{st.Ups, st.Downs}, []uint64{1, 0})
}

// TestBlackholeBeyondTheHoldTime: the session ends by the hold timer and not before, its routes
// are withdrawn, or kept as stale where the peer asked for that, and all is well when it is back.
func TestBlackholeBeyondTheHoldTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		capabilities [][]byte
		keeps        bool
	}{{"withdrawn", [][]byte{restarts}, false}, {"kept", [][]byte{outlives}, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLink(t)
			s, w := overLink(t, l, nil)
			holdTime := seconds(t, minimalHold)
			p := l.dial(t, s)
			p.establish(t, holdTime, c.capabilities...)
			p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0), numbered(20, 1)))
			p.mustUpdate(t, endOfRIB)
			await(t, "routes", func() bool { return s.has(numbered(20, 0)) && s.has(numbered(20, 1)) })
			since := time.Now()
			l.blackhole()
			deadline := time.Duration(holdTime) * time.Second
			w.during(t, func() {
				if err := waitForLong("end of the session", deadline, func() bool { return s.peer("far").Downs == 1 }); err != nil {
					t.Fatal(err)
				}
			})
			if took := time.Since(since); took < deadline-keepaliveEvery*4 {
				t.Errorf("the session ended after %v", took)
			}
			mustBe(t, "reason", s.peer("far").LastError, "the hold time is over: the peer has been silent")
			if c.keeps {
				await(t, "stale route", func() bool { r, ok := s.route(numbered(20, 0)); return ok && r.Stale })
			} else {
				await(t, "withdrawal", func() bool { return !s.has(numbered(20, 0)) })
			}
			p.vanish(t)
			l.heal()
			p = l.dialUntilUp(t, s, holdTime, c.capabilities...)
			p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
			p.mustUpdate(t, endOfRIB)
			await(t, "route of the next session", func() bool { r, ok := s.route(numbered(20, 0)); return ok && !r.Stale && !s.has(numbered(20, 1)) })
			w.mustBeWell(t)
		})
	}
}

// waitForLong is waitFor for what takes some known time before.
func waitForLong(what string, d time.Duration, holds func() bool) error {
	for until := time.Now().Add(d); !holds() && time.Now().Before(until); {
		time.Sleep(2 * time.Millisecond)
	}
	return waitFor(what, holds)
}

// dialUntilUp connects until the service takes the session.
func (l *link) dialUntilUp(t *testing.T, s *service, holdTime uint16, capabilities ...[]byte) *speaker {
	t.Helper()
	var p *speaker
	await(t, "session of the next connection", func() bool {
		p = l.dial(t, s)
		if p.write(append(openOf(holdTime, capabilities...), keepalive...)) != nil {
			return false
		}
		go p.read()
		select {
		case <-p.up:
			go p.keepUp()
			return true
		case <-p.over:
			return false
		}
	})
	return p
}

// TestPeerVanishes has a host lose its power and come back before its session's hold time is over:
// with graceful restart its new connection takes over at once (RFC 4724, 5), and lookups have its
// routes all the time.
func TestPeerVanishes(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	s, w := overLink(t, l, nil)
	p := l.dial(t, s)
	p.establish(t, 90, restarts)
	p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0), numbered(20, 1)))
	p.mustUpdate(t, endOfRIB)
	await(t, "route", func() bool { return s.has(numbered(20, 0)) })
	w.during(t, func() {
		l.set(func(l *link) { l.gone = uint16(p.conn.LocalAddr().(*net.TCPAddr).Port) })
		p.vanish(t)
		p = l.dialUntilUp(t, s, 90, restarts)
		await(t, "the next session", func() bool { return s.peer("far").Ups == 2 })
		if _, ok := s.route(numbered(20, 0)); !ok {
			t.Error("the route was withdrawn")
		}
		p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
		p.mustUpdate(t, endOfRIB)
		await(t, "end of what is not announced again", func() bool { return !s.has(numbered(20, 1)) })
	})
	if r, ok := s.route(numbered(20, 0)); !ok || r.Stale {
		t.Errorf("route %+v, %v", r, ok)
	}
}

// TestConnectThroughBlackhole has the service connect to a peer that cannot be reached: attempts
// end, and one comes through as soon as the peer can.
func TestConnectThroughBlackhole(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	l.blackhole()
	var listener net.Listener
	var err error
	l.space.run(func() { listener, err = net.Listen("tcp", netip.AddrPortFrom(l.far, 0).String()) })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s, w := overLink(t, l, func(p *bgp.PeerConfig) { p.Port = uint16(listener.Addr().(*net.TCPAddr).Port) })
	w.during(t, func() {
		await(t, "an attempt that failed", func() bool { return s.log.Contains("connect to the peer") })
		l.heal()
		c, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p := speak(t, c.(*net.TCPConn))
		p.establish(t, 90)
		p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
		await(t, "route", func() bool { return s.has(numbered(20, 0)) })
	})
}
