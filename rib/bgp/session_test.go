package bgp

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/wire"
)

var passivePeer = PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Passive: true}

// up starts a server and brings a session to it up.
func up(t *testing.T, open []byte) (*service, *speaker) {
	t.Helper()
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	p.establish(open)
	await(t, "session", func() bool { return s.status().State == "established" })
	return s, p
}

func TestOpenAnnouncesWhatWeCan(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	p.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4, mp6)...)
	body := p.expect(msgOpen)
	mustBe(t, body[:9], append([]byte{4, ownAS >> 8, ownAS & 0xff, 0, 90}, ownID.AsSlice()...))
	for _, c := range [][]byte{as4(ownAS), mp4, mp6, refresh, enhanced, {6, 0}, {5, 6, 0, 1, 0, 1, 0, 2}, {69, 8, 0, 1, 1, 1, 0, 2, 1, 1}} {
		if !bytes.Contains(body[10:], c) {
			t.Errorf("capability %v is not in %v", c, body[10:])
		}
	}
	p.expect(msgKeepalive)
	p.send(msgKeepalive)
	mustBe(t, p.expect(msgUpdate), endOfRIB(false))
	mustBe(t, p.expect(msgUpdate), endOfRIB(true))
}

func TestRoutesComeAndGoWithTheSession(t *testing.T) {
	s, p := up(t, openBody(peerAS, 90, as4(peerAS), mp4, mp6))
	mustBe(t, s.status().Awaited && !s.status().Loaded, true)
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, endOfRIB(false)...)
	await(t, "End-of-RIB of IPv4", func() bool { return s.status().EndOfRIB4 })
	mustBe(t, s.status().Loaded, false)
	p.send(msgUpdate, endOfRIB(true)...)
	await(t, "first load", func() bool { return s.status().Loaded })
	mustBe(t, s.status().RouterID, "192.0.2.1")
	mustBe(t, s.routes(), map[rib.NLRI]rib.Attrs{nlri("10.0.0.0/8", 0): {NextHop: netip.MustParseAddr("192.0.2.1"), ASPath: rib.ASPath(path4)}})

	mustBe(t, p.expect(msgUpdate), endOfRIB(false)) // closing with something unread would be a reset
	mustBe(t, p.expect(msgUpdate), endOfRIB(true))
	p.conn.Close()
	await(t, "loss", func() bool { return s.status().State == "down" })
	await(t, "withdrawal", func() bool { return len(s.routes()) == 0 })
	mustBe(t, s.status().LastError, "the peer has closed the connection")

	p = dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4, mp6))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route of the next session", func() bool { return len(s.routes()) == 1 })
	st := s.Stats().Peers[0]
	mustBe(t, []uint64{st.Ups, st.Downs, st.Messages, st.Verdicts[wire.OK]}, []uint64{2, 1, 4, 4})

	s.Stop()
	mustBe(t, p.notification(), []byte{6, 2})
	mustBe(t, s.Stats().Peers[0].LastError, "the service stops")
	v4, v6 := s.rib.Counts()
	mustBe(t, []any{len(s.rib.Peers()), v4, v6}, []any{0, 0, 0})
	if _, err := New(s.config, s.table, nil); err != nil {
		t.Errorf("the next server: %v", err) // as after a reload that has failed
	}
}

// notification reads until a NOTIFICATION, closes the connection as that asks for, and gives its
// code and subcode.
func (s *speaker) notification() []byte {
	s.t.Helper()
	for {
		kind, body, err := s.receive()
		if err != nil {
			s.t.Fatalf("waiting for a NOTIFICATION: %v", err)
		}
		if kind == msgNotification {
			s.conn.Close()
			return body[:2]
		}
	}
}

func TestPeerOfTwoByteASNumbers(t *testing.T) {
	for name, open := range map[string][]byte{"no capabilities": openBody(peerAS, 90), "others": openBody(peerAS, 90, mp4)} {
		t.Run(name, func(t *testing.T) {
			s, p := up(t, open)
			p.send(msgUpdate, update4(path2, net10...)...)
			await(t, "route", func() bool { return len(s.routes()) == 1 })
			mustBe(t, s.routes()[nlri("10.0.0.0/8", 0)].ASPath, rib.ASPath(path4))
			p.send(msgUpdate, endOfRIB(false)...)
			await(t, "first load, of IPv4 alone", func() bool { return s.status().Loaded })
		})
	}
}

func TestAddPath(t *testing.T) {
	s, p := up(t, openBody(peerAS, 90, as4(peerAS), mp4, mp6, addPaths))
	p.send(msgUpdate, update4(path4, 0, 0, 0, 1, 8, 10, 0, 0, 0, 2, 8, 10)...)
	await(t, "two paths", func() bool { return len(s.routes()) == 2 })
	if _, ok := s.routes()[nlri("10.0.0.0/8", 2)]; !ok {
		t.Errorf("got %v", s.routes())
	}
	p.send(msgUpdate, 0, 6, 0, 0, 0, 1, 8, 10, 0, 0)
	await(t, "one path", func() bool { return len(s.routes()) == 1 })
}

func TestRouteRefreshIsIgnored(t *testing.T) {
	s, p := up(t, openBody(peerAS, 90, as4(peerAS), mp4))
	p.send(msgRefresh, 0, 1, 0, 1)
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route behind it", func() bool { return len(s.routes()) == 1 })
}

func TestOpenThatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		open   []byte
		want   []byte
		reason string
	}{
		{"wrong AS", openBody(64501, 90, as4(64501)), []byte{2, 2}, "wrong peer AS: expected 64500, the peer has 64501"},
		{"wrong AS of 4 bytes", openBody(23456, 90, as4(400000)), []byte{2, 2}, "wrong peer AS: expected 64500, the peer has 400000"},
		{"hold time of 2 s", openBody(peerAS, 2, as4(peerAS)), []byte{2, 6}, "the peer proposes a hold time of 2 s: it has to be 3 s or more, or 0"},
		{"version 3", append([]byte{3}, openBody(peerAS, 90)[1:]...), []byte{2, 1}, ""},
		{"no router ID", append(openBody(peerAS, 90)[:5], 0, 0, 0, 0, 0), []byte{2, 3}, "the peer's router ID is 0.0.0.0"},
		{"parameters longer than the message", append(openBody(peerAS, 90)[:9], 9), []byte{2, 0}, ""},
		{"parameters longer than the message, no hold time", append(openBody(peerAS, 0)[:9], 9), []byte{2, 0}, ""},
		{"too short", []byte{4, 1}, []byte{1, 2}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, nil, passivePeer)
			p := dial(t, s, peerAddr)
			p.send(msgOpen, c.open...)
			mustBe(t, p.notification(), c.want)
			await(t, "reason", func() bool { return s.status().LastError != "" })
			if c.reason != "" {
				mustBe(t, s.status().LastError, c.reason)
			}
			n := s.Stats().Peers[0].LastNotification
			if n == nil || !n.Sent || n.Code != c.want[0] || n.Subcode != c.want[1] {
				t.Errorf("last notification is %v", n)
			}
			// The peer gets another chance.
			await(t, "readiness for the next", func() bool {
				q := dial(t, s, peerAddr)
				kind, _, err := q.receive()
				if err != nil || kind != msgOpen {
					return false
				}
				q.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4)...)
				q.expect(msgKeepalive)
				q.send(msgKeepalive)
				return true
			})
			await(t, "session", func() bool { return s.status().State == "established" })
		})
	}
}

func TestWrongASIsLoggedWithBothNumbers(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	p.send(msgOpen, openBody(64501, 90, as4(64501))...)
	p.notification()
	await(t, "log", func() bool { return s.log.Contains("expected 64500, the peer has 64501") })
}

// TestDamagedUpdates sends damage of each kind; another peer's session never notices.
func TestDamagedUpdates(t *testing.T) {
	other := netip.MustParseAddr("127.77.0.3")
	mpCut := slices.Concat([]byte{0, 0, 0, 20}, update4(path4)[4:], []byte{0x80, 14, 3, 0, 2, 1})
	mpCut[3] = byte(len(mpCut) - 4)
	for _, c := range []struct {
		name    string
		update  []byte
		verdict wire.Verdict
		want    []byte // NOTIFICATION
		panics  uint64
	}{
		{"AS_PATH missing", slices.Concat([]byte{0, 0, 0, 11, 0x40, 1, 1, 0, 0x40, 3, 4, 192, 0, 2, 1}, net10), wire.TreatAsWithdraw, nil, 0},
		{"prefix of 33 bits", update4(path4, 33, 1, 2, 3, 4, 5), wire.SessionReset, []byte{3, 10}, 0},
		{"lengths beyond the message", []byte{0, 200, 0, 0}, wire.SessionReset, []byte{3, 1}, 0},
		{"bytes at which the codec panics", mpCut, wire.SessionReset, []byte{3, 9}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, nil, passivePeer, PeerConfig{Name: "q", Addr: other, AS: peerAS, Passive: true})
			q := dial(t, s, other)
			q.establish(openBody(peerAS, 90, as4(peerAS), mp4))
			q.send(msgUpdate, update4(path4, net10...)...)
			p := dial(t, s, peerAddr)
			p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
			p.send(msgUpdate, update4(path4, net10...)...)
			await(t, "routes of both", func() bool {
				v4, _ := s.rib.Counts()
				return len(s.routes()) == 1 && v4 == 1 && s.rib.Peers()[1].V4 == 1
			})

			p.send(msgUpdate, c.update...)
			await(t, "withdrawal", func() bool { return len(s.routes()) == 0 })
			if c.want != nil {
				mustBe(t, p.notification(), c.want)
				await(t, "loss", func() bool { return s.status().State == "down" })
				if !strings.HasPrefix(s.status().LastError, "damaged UPDATE: ") {
					t.Errorf("reason %q", s.status().LastError)
				}
			} else {
				mustBe(t, s.status().State, "established")
			}
			st := s.Stats().Peers
			mustBe(t, []uint64{st[0].Verdicts[c.verdict], st[0].Panics, st[1].Downs}, []uint64{1, c.panics, 0})
			q.send(msgUpdate, update4(path4, 8, 11)...)
			await(t, "the other peer's next route", func() bool { return s.rib.Peers()[1].V4 == 2 })
		})
	}
}

// TestPeerWithoutHoldTime has a session all the same (RFC 4271, 4.2).
func TestPeerWithoutHoldTime(t *testing.T) {
	s, p := up(t, openBody(peerAS, 0, as4(peerAS), mp4))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	mustBe(t, s.Stats().Peers[0].Session.Peer.HoldTime, time.Duration(0))
}

func TestBytesThatAreNoBGP(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	if _, err := p.conn.Write([]byte("GET / HTTP/1.1\r\nHost: example.net\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	mustBe(t, p.notification(), []byte{1, 1})
}

func TestPeerThatSendsNoOpen(t *testing.T) {
	s := start(t, func(c *Config) { c.OpenTimeout = 20 * time.Millisecond }, passivePeer)
	p := dial(t, s, peerAddr)
	p.expect(msgOpen)
	await(t, "reason", func() bool { return s.status().LastError == "the peer has sent no OPEN" })
}

func TestConnectionsOfOthersAreRefused(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, netip.MustParseAddr("127.77.0.9"))
	if _, _, err := p.receive(); err == nil {
		t.Error("a stranger was answered")
	}
	mustBe(t, s.Stats().Refused, 1)
}

func TestSecondConnectionIsRefused(t *testing.T) {
	s, p := up(t, openBody(peerAS, 90, as4(peerAS), mp4))
	second := dial(t, s, peerAddr)
	if _, _, err := second.receive(); err == nil {
		t.Error("the second was answered")
	}
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route over the first", func() bool { return len(s.routes()) == 1 })
}

// TestActivePeer connects to a speaker that refuses it at first.
func TestActivePeer(t *testing.T) {
	l, err := net.Listen("tcp", peerAddr.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	s := start(t, func(c *Config) { c.Listen = nil }, PeerConfig{Addr: peerAddr, AS: peerAS, Port: port, LocalAddr: ownAddr})
	for range 2 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	for range 2 { // the second time after a session that was lost
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		mustBe(t, conn.RemoteAddr().(*net.TCPAddr).IP, ownAddr)
		p := speak(t, conn)
		p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
		p.send(msgUpdate, update4(path4, net10...)...)
		await(t, "route", func() bool { return len(s.routes()) == 1 })
		p.send(msgNotification, append([]byte{6, 2, 4}, "bye!"...)...)
		await(t, "loss", func() bool { return len(s.routes()) == 0 })
		await(t, "reason", func() bool { return strings.Contains(s.status().LastError, `"bye!"`) })
	}
}

func TestPeerThatIsNotThere(t *testing.T) {
	s := start(t, nil, PeerConfig{Addr: peerAddr, AS: peerAS, Port: 1})
	await(t, "reason", func() bool { return strings.Contains(s.status().LastError, "connection refused") })
	// It comes by itself in the meantime.
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.status().State == "established" })
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", ownAddr.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := New(Config{ASN: ownAS, RouterID: ownID, Listen: []string{ownAddr.String() + ":0", l.Addr().String()}}, tables(rib.New(rib.Options{})), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	err = s.Start()
	var op *net.OpError
	if !errors.As(err, &op) || !strings.Contains(err.Error(), l.Addr().String()) || !strings.Contains(err.Error(), "another program listens there") {
		t.Errorf("error %v", err)
	}
	mustBe(t, len(s.Addrs()), 0)
}

func TestSessionOverIPv6(t *testing.T) {
	loopback := netip.IPv6Loopback()
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("no IPv6 here: %v", err)
	} else {
		l.Close()
	}
	s := start(t, func(c *Config) { c.Listen = []string{"[::1]:0"} }, PeerConfig{Addr: loopback, AS: peerAS, Passive: true})
	p := dial(t, s, loopback)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	mustBe(t, s.status().Name, "::1")
}
