package faults

import (
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/bgp"
)

// floodOf is how many connections a flood has, all open at once.
const floodOf = 3000

// TestHalfOpenFlood makes thousands of connections that never send an OPEN. The service holds a
// few of them, and neither a witness's session notices nor, where it is at the same address, one
// that is there.
func TestHalfOpenFlood(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < floodOf+500 {
		fixtures.Missing(t, "%d descriptors are too few, ulimit -n has to give %d", limit.Max, floodOf+500)
	}
	const perAddress, ofPrefixes = 4, 40 // connections that the service may hold
	many := func(n network) []netip.Addr {
		var all []netip.Addr
		for i := range 2 * ofPrefixes {
			all = append(all, n.host(9, byte(i)))
		}
		return all
	}
	const target, other = 3, 7
	for _, c := range []struct {
		name    string
		from    func(network) []netip.Addr
		session [][]byte // capabilities of a session at the flooded address; nil: there is none
		mayHold int
	}{
		{"strangers", func(n network) []netip.Addr { return []netip.Addr{n.host(0, other)} }, nil, 0},
		{"address of a peer", func(n network) []netip.Addr { return []netip.Addr{n.host(0, target)} }, nil, perAddress},
		{"address of a peer with a session", func(n network) []netip.Addr { return []netip.Addr{n.host(0, target)} }, [][]byte{refresh}, perAddress},
		{"address of a peer that may restart", func(n network) []netip.Addr { return []netip.Addr{n.host(0, target)} }, [][]byte{restarts}, perAddress},
		{"neighbours of a prefix", many, nil, ofPrefixes},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNetwork()
			s := start(t, options{at: n.own(), config: func(c *bgp.Config) {
				c.OpenTimeout, c.MaxHalfOpenPerAddr, c.MaxHalfOpen = time.Second, perAddress, ofPrefixes
			}},
				bgp.PeerConfig{Name: "witness", Addr: n.host(0, 2)},
				bgp.PeerConfig{Name: "target", Addr: n.host(0, target)},
				bgp.PeerConfig{Name: "prefix", Prefix: netip.PrefixFrom(n.host(9, 0), 24), Limit: 1000})
			w := s.witness(t, "witness", n.host(0, 2))
			if c.session != nil {
				p := dial(t, s, n.host(0, target))
				p.establish(t, minimalHold, c.session...)
				p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
				await(t, "route", func() bool { return s.has(numbered(20, 0)) })
			}
			sessions, waiting := accepted(t, s.at)
			if waiting > 0 {
				t.Fatalf("%d connections wait", waiting)
			}
			before, from, most := heap(), c.from(n), 0
			w.during(t, func() {
				for i := range floodOf {
					connectRaw(t, from[i%len(from)], s.at)
					if i%100 == 0 {
						held, _ := accepted(t, s.at)
						most = max(most, held)
					}
				}
				await(t, "the service to have seen all", func() bool {
					held, waiting := accepted(t, s.at)
					most = max(most, held)
					return waiting == 0 && held <= sessions+c.mayHold
				})
			})
			// Some may be on their way to be refused, and the kernel's list is not of one moment.
			const slack = 16
			if most > sessions+c.mayHold+slack {
				t.Errorf("%d descriptors are held, want %d of sessions and %d", most, sessions, c.mayHold)
			}
			// What holding all would take is at least 64 KiB each.
			const mayGrow = 16 << 20
			if grown := heap() - before; grown > mayGrow {
				t.Errorf("the heap has grown by %d bytes", grown)
			}
			await(t, "end of all that are half-open", func() bool {
				held, _ := accepted(t, s.at)
				return held == sessions && s.Stats().HalfOpen == 0
			})
			if c.session != nil {
				if p := s.peer("target"); p.Ups != 1 || p.Downs != 0 || !s.has(numbered(20, 0)) {
					t.Errorf("the session at the flooded address: %+v", p)
				}
			}
			w.mustBeWell(t)
		})
	}
}

// connectRaw makes a connection that costs this process nothing but a descriptor.
func connectRaw(t *testing.T, from netip.Addr, to netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4()}); err != nil {
		t.Fatal(err)
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	}
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
}

// TestPeerComesUpAfterAFlood: connections that sent no OPEN are not held against the peer whose
// address they came from.
func TestPeerComesUpAfterAFlood(t *testing.T) {
	t.Parallel()
	n := newNetwork()
	s := start(t, options{at: n.own(), config: func(c *bgp.Config) {
		c.OpenTimeout, c.ErrorDelay = 100*time.Millisecond, time.Hour
	}}, bgp.PeerConfig{Name: "p", Addr: n.host(0, 2)})
	for range 100 {
		connectRaw(t, n.host(0, 2), s.at)
	}
	await(t, "end of the flood", func() bool {
		held, waiting := accepted(t, s.at)
		return held+waiting == 0
	})
	p := dial(t, s, n.host(0, 2))
	p.establish(t, 90)
	p.mustUpdate(t, updateOf(netip.Prefix{}, numbered(20, 0)))
	await(t, "route", func() bool { return s.has(numbered(20, 0)) })
}

// TestFloodOfOpens has thousands of connections of neighbours of a prefix, each with an OPEN and
// then silence: they get no further than the limit, and the hold timer ends them.
func TestFloodOfOpens(t *testing.T) {
	t.Parallel()
	const limit = 10
	n := newNetwork()
	s := start(t, options{at: n.own(), config: func(c *bgp.Config) { c.ErrorDelay = 100 * time.Millisecond }},
		bgp.PeerConfig{Name: "witness", Addr: n.host(0, 2)},
		bgp.PeerConfig{Name: "prefix", Prefix: netip.PrefixFrom(n.host(9, 0), 24), Limit: limit})
	w := s.witness(t, "witness", n.host(0, 2))
	w.during(t, func() {
		for i := range 1000 {
			p := speak(t, connect(t, n.host(9, byte(i%250)), s.at))
			_, _ = p.conn.Write(openOf(minimalHold)) // it may be refused already
			await(t, "what is refused to be forgotten", func() bool {
				st := s.Stats()
				return len(st.Peers) <= 1+limit+st.HalfOpen
			})
		}
		await(t, "end of all", func() bool { return s.Stats().HalfOpen == 0 && len(s.Stats().Peers) == 1 })
	})
	if n := s.Stats().RefusedLimit; n == 0 {
		t.Error("none was over the limit of the prefix")
	}
	mustBe(t, "peers in the RIB", len(s.rib.Peers()), 1)
}
