package bgp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// prefixes8 are n IPv4 prefixes of 8 bits from 20.0.0.0/8 on.
func prefixes8(n int) (b []byte) {
	for i := range n {
		b = append(b, 8, byte(20+i))
	}
	return b
}

func TestTooManyPrefixes(t *testing.T) {
	cfg := passivePeer
	cfg.MaxPrefixes4, cfg.MaxPrefixesWarn = 10, 50
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	// Nothing is kept of it for all that the peer has graceful restart.
	p.establish(graceful(120, forwarded))
	p.send(msgUpdate, update4(path4, prefixes8(5)...)...)
	await(t, "half of the prefixes", func() bool { return len(s.routes()) == 5 })
	mustBe(t, s.Stats().Peers[0].PrefixesWarnings, 0)
	p.send(msgUpdate, update4(path4, prefixes8(10)...)...)
	await(t, "as many as may be", func() bool { return len(s.routes()) == 10 })
	await(t, "warning", func() bool { return s.Stats().Peers[0].PrefixesWarnings == 1 })
	p.send(msgUpdate, update4(path4, prefixes8(9)...)...) // again: not counted twice
	p.send(msgUpdate, update4(path4, prefixes8(11)...)...)
	for {
		kind, body, err := p.receive()
		if err != nil {
			t.Fatal(err)
		}
		if kind == msgNotification {
			mustBe(t, body[:9], []byte{6, 1, 0, 1, 1, 0, 0, 0, 10})
			break
		}
	}
	await(t, "withdrawal", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
	mustBe(t, s.status().LastError, "more than 10 ipv4 prefixes")
	await(t, "rest", func() bool { return s.Stats().Peers[0].State == Idle })
	st := s.Stats().Peers[0]
	mustBe(t, []uint64{st.PrefixesWarnings, st.PrefixesExceeded}, []uint64{1, 1})

	// It is left alone until it is told.
	q := dial(t, s, peerAddr)
	if _, _, err := q.receive(); err == nil {
		t.Error("the peer was answered")
	}
	if err := s.Reset("p"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s.Stats().Peers[0].State, Active)
	q = dial(t, s, peerAddr)
	q.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.status().State == "established" })
}

func TestTooManyPrefixesForAWhile(t *testing.T) {
	l, err := net.Listen("tcp", peerAddr.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := start(t, nil, PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Port: uint16(l.Addr().(*net.TCPAddr).Port), MaxPrefixes6: 1, MaxPrefixesRestart: 50 * time.Millisecond})
	for range 2 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p := speak(t, conn)
		p.establish(openBody(peerAS, 90, as4(peerAS), mp4, mp6))
		p.send(msgUpdate, update6(path4, 16, 0x20, 1, 16, 0x20, 2)...)
		mustBe(t, p.notification(), []byte{6, 1})
	}
	mustBe(t, s.Stats().Peers[0].Ups, 2)
}

// inPrefix is for the neighbours in 127.77.0.0/24.
var inPrefix = PeerConfig{Name: "any", Prefix: netip.MustParsePrefix("127.77.0.0/24"), AS: peerAS, Limit: 2}

func TestNeighboursOfAPrefix(t *testing.T) {
	s := start(t, nil, inPrefix)
	open := openBody(peerAS, 90, as4(peerAS), mp4)
	var all []*speaker
	for _, a := range []string{"127.77.0.11", "127.77.0.12"} {
		p := dial(t, s, netip.MustParseAddr(a))
		p.establish(open)
		p.send(msgUpdate, update4(path4, net10...)...)
		all = append(all, p)
	}
	await(t, "routes of both", func() bool {
		peers := s.rib.Peers()
		return len(peers) == 2 && peers[0].V4+peers[1].V4 == 2
	})
	mustBe(t, []string{s.rib.Peers()[0].Name, s.rib.Peers()[1].Name}, []string{"any/127.77.0.11", "any/127.77.0.12"})
	mustBe(t, s.rib.Peers()[0].Awaited, false)
	st := s.Stats().Peers
	mustBe(t, []any{len(st), st[0].Name, st[0].Dynamic, st[0].State}, []any{2, "any/127.77.0.11", true, Established})

	third := dial(t, s, netip.MustParseAddr("127.77.0.13"))
	third.send(msgOpen, open...)
	mustBe(t, third.notification(), []byte{6, 5})
	mustBe(t, s.Stats().RefusedLimit, 1)
	wrong := dial(t, s, netip.MustParseAddr("127.77.0.14"))
	wrong.send(msgOpen, openBody(64501, 90, as4(64501))...)
	mustBe(t, wrong.notification(), []byte{2, 2})
	outside := dial(t, s, netip.MustParseAddr("127.77.1.11"))
	if _, _, err := outside.receive(); err == nil {
		t.Error("somebody outside was answered")
	}

	if _, err := s.find("any/127.77.0.11"); err != nil {
		t.Error(err)
	}
	all[0].send(msgNotification, 6, 2)
	await(t, "end of one", func() bool { return len(s.rib.Peers()) == 1 })
	await(t, "nothing left of those that were refused", func() bool { return len(s.Stats().Peers) == 1 })
	p := dial(t, s, netip.MustParseAddr("127.77.0.13"))
	p.establish(open)
	await(t, "the next one in its place", func() bool { return len(s.rib.Peers()) == 2 })
	s.Stop()
	mustBe(t, p.notification(), []byte{6, 2})
}

// TestNeighbourOfAPrefixRestarts: its routes are kept while it is away.
func TestNeighbourOfAPrefixRestarts(t *testing.T) {
	s := start(t, nil, inPrefix)
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { v4, _ := s.rib.Counts(); return v4 == 1 })
	p.expect(msgUpdate)
	p.expect(msgUpdate)
	p.conn.Close()
	await(t, "loss", func() bool { return s.rib.Peers()[0].State == "stale" })
	p = dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	await(t, "return", func() bool { return s.rib.Peers()[0].State == "established" })
	mustBe(t, s.rib.Peers()[0].Stale4, 1)
}

// TestPeerInAPrefix: a peer's own entry comes before that of the prefix that it is in, and of
// two prefixes the longer one's.
func TestPeerInAPrefix(t *testing.T) {
	wide := PeerConfig{Name: "wide", Prefix: netip.MustParsePrefix("127.0.0.0/8"), AS: 64501, Limit: 1}
	s := start(t, nil, passivePeer, wide, inPrefix)
	for from, want := range map[string]string{"127.77.0.2": "p", "127.77.0.3": "any", "127.78.0.3": "wide"} {
		mustBe(t, s.neighbourAt(netip.MustParseAddr(from)).name, want)
	}
	if s.neighbourAt(netip.MustParseAddr("192.0.2.1")) != nil {
		t.Error("a stranger has a neighbour")
	}
}

func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	cfg := inPrefix
	cfg.Limit = 10
	s := start(t, func(c *Config) { c.MaxHalfOpen, c.MaxHalfOpenPerAddr = 3, 2 }, passivePeer, cfg)
	waiting := func(from string) bool {
		p := dial(t, s, netip.MustParseAddr(from))
		kind, _, err := p.receive()
		return err == nil && kind == msgOpen
	}
	for _, c := range []struct {
		from string
		want bool
	}{
		{"127.77.0.11", true}, {"127.77.0.11", true}, {"127.77.0.11", false}, // of one address
		{"127.77.0.12", true}, {"127.77.0.13", false}, // in total
		{"127.77.0.2", true}, {"127.77.0.2", true}, {"127.77.0.2", false}, // a configured peer has places of its own
	} {
		if got := waiting(c.from); got != c.want {
			t.Errorf("connection from %s: answered %v, want %v", c.from, got, c.want)
		}
	}
	mustBe(t, []any{s.Stats().RefusedHalfOpen, s.Stats().HalfOpen}, []any{3, 5})
}

// TestHalfOpenPlacesAreGivenBack: those that become sessions, and those that end, count no more.
func TestHalfOpenPlacesAreGivenBack(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxHalfOpen = 1 }, inPrefix)
	p := dial(t, s, netip.MustParseAddr("127.77.0.11"))
	p.expect(msgOpen)
	p.conn.Close()
	await(t, "its end", func() bool { return s.Stats().HalfOpen == 0 })
	for _, a := range []string{"127.77.0.12", "127.77.0.13"} {
		p := dial(t, s, netip.MustParseAddr(a))
		p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
		await(t, "session", func() bool { return s.Stats().HalfOpen == 0 })
	}
	await(t, "both", func() bool { return len(s.rib.Peers()) == 2 })
}

// TestErrorsAreFollowedByRest: each longer than the last.
func TestErrorsAreFollowedByRest(t *testing.T) {
	s := start(t, func(c *Config) { c.ErrorDelay = time.Minute }, passivePeer)
	p := dial(t, s, peerAddr)
	p.send(msgOpen, openBody(64501, 90, as4(64501))...)
	mustBe(t, p.notification(), []byte{2, 2})
	await(t, "rest", func() bool { return s.Stats().Peers[0].State == Idle })
	p = dial(t, s, peerAddr)
	if _, _, err := p.receive(); err == nil {
		t.Error("the peer was answered")
	}
	if err := s.Reset("p"); err != nil {
		t.Fatal(err)
	}
	p = dial(t, s, peerAddr)
	p.send(msgOpen, openBody(64501, 90, as4(64501))...)
	mustBe(t, p.notification(), []byte{2, 2})
	await(t, "rest", func() bool { return s.Stats().Peers[0].State == Idle })
	if left := time.Until(s.Stats().Peers[0].HeldUntil); left < 90*time.Second {
		t.Errorf("the second rest is %v, want some 2 min", left)
	}
}

// TestSessionsThatEndAtOnce are an error when there are many of them.
func TestSessionsThatEndAtOnce(t *testing.T) {
	for _, cfg := range []PeerConfig{passivePeer, inPrefix} {
		s := start(t, func(c *Config) { c.ErrorDelay, c.ConnectRetry = time.Hour, time.Hour }, cfg)
		for i := range manyShort {
			p := dial(t, s, peerAddr)
			p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
			p.send(msgNotification, 6, 4)
			await(t, "end", func() bool { return s.Stats().Peers[0].Downs == uint64(i+1) && len(s.peer(0).connections()) == 0 })
		}
		await(t, "rest", func() bool { return s.Stats().Peers[0].State == Idle })
		s.Stop()
	}
}

func (p *peer) connections() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.conns)
}

// panicking is an import policy that panics at a prefix.
type panicking struct{ at netip.Prefix }

func (i panicking) Check(p netip.Prefix, _ *rib.Attrs) rib.Reject {
	if p == i.at {
		panic("a mistake")
	}
	return rib.Accepted
}

// TestPanicCostsOneSession: what breaks in a peer's session breaks nothing else.
func TestPanicCostsOneSession(t *testing.T) {
	other := netip.MustParseAddr("127.77.0.3")
	bad := passivePeer
	bad.Import = "bad"
	s := prepare(t, nil, func(name string, _ PeerConfig) (rib.Import, error) {
		if name == "bad" {
			return panicking{netip.MustParsePrefix("66.0.0.0/8")}, nil
		}
		return nil, nil
	}, bad, PeerConfig{Name: "q", Addr: other, AS: peerAS, Passive: true})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	p, q := dial(t, s, peerAddr), dial(t, s, other)
	// Nothing is kept of it, though a NOTIFICATION need not end this peer's routes.
	p.establish(graceful(notification|120, forwarded))
	q.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	p.send(msgUpdate, update4(path4, net10...)...)
	q.send(msgUpdate, update4(path4, net10...)...)
	await(t, "routes", func() bool { return len(s.routes()) == 1 && s.rib.Peers()[1].V4 == 1 })
	p.send(msgUpdate, update4(path4, 8, 66)...)
	mustBe(t, p.notification(), []byte{6, 8})
	await(t, "withdrawal", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
	if !s.log.Contains("a mistake") || !s.log.Contains("0842") { // the bytes of 66.0.0.0/8
		t.Error("the log does not have the panic with the bytes")
	}
	st := s.Stats().Peers
	mustBe(t, []uint64{st[0].Panics, st[1].Panics, st[1].Downs}, []uint64{1, 0, 0})
	q.send(msgUpdate, update4(path4, 8, 11)...)
	await(t, "next route of the other", func() bool { return s.rib.Peers()[1].V4 == 2 })
	p = dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "next session", func() bool { return s.status().State == "established" })
}

// TestStopWhileTheRIBIsFull: a session that waits for the publisher ends all the same.
func TestStopWhileTheRIBIsFull(t *testing.T) {
	r := rib.New(rib.Options{LocalAS: ownAS, MaxPending: 4})
	s := start(t, nil)
	cfg := s.config
	cfg.Peers = []PeerConfig{passivePeer}
	cfg.Peers[0].Import = importAccept
	server, err := New(cfg, tables(r), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Server = server
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	for i := range 20 {
		p.send(msgUpdate, update4(path4, 8, byte(20+i))...)
	}
	await(t, "full RIB", func() bool { return r.Peers()[0].V4 >= 4 })
	server.Stop()
	v4, v6 := r.Counts()
	mustBe(t, []any{len(r.Peers()), v4, v6}, []any{0, 0, 0})
}

func TestTables(t *testing.T) {
	other := netip.MustParseAddr("127.77.0.3")
	s := start(t, nil, passivePeer, PeerConfig{Name: "q", Addr: other, AS: peerAS, Passive: true, Table: "other"})
	q := dial(t, s, other)
	q.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	q.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route in its table", func() bool { v4, _ := s.other.Counts(); return v4 == 1 })
	v4, _ := s.rib.Counts()
	mustBe(t, v4, 0)
	mustBe(t, s.Stats().Peers[1].Table, "other")
	cfg := s.config
	cfg.Peers = []PeerConfig{{Addr: other, AS: peerAS, Table: "none"}}
	if _, err := New(cfg, s.table, nil); err == nil || !strings.Contains(err.Error(), `table "none": no such table`) {
		t.Errorf("error %v", err)
	}
}

// A peer that restarts gracefully may begin a new connection while the last one still ends. It is
// left alone all the same.
func TestPeerThatIsBackBeforeItIsHeld(t *testing.T) {
	cfg := passivePeer
	cfg.MaxPrefixes4 = 2
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	p.send(msgUpdate, update4(path4, prefixes8(3)...)...)
	await(t, "too many prefixes", func() bool { return s.peer(0).exceeded.Load() == 1 })
	q := dial(t, s, peerAddr) // the other one has a second to be closed
	q.send(msgOpen, graceful(120, forwarded)...)
	for {
		kind, body, err := q.receive()
		if err != nil {
			break // it came too late
		}
		if kind == msgKeepalive {
			q.send(msgKeepalive)
		}
		if kind == msgNotification {
			mustBe(t, body[:2], []byte{6, 5})
			break
		}
	}
	await(t, "rest", func() bool { return s.Stats().Peers[0].State == Idle })
	mustBe(t, []any{s.Stats().Peers[0].Ups, s.status().State, len(s.routes())}, []any{1, "down", 0})
}

// Nor is it, then, with a connection that it has begun before and kept in reserve.
func TestHeldPeerWithAConnectionInReserve(t *testing.T) {
	cfg := passivePeer
	cfg.MaxPrefixes4 = 2
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	q := dial(t, s, peerAddr)
	await(t, "two connections", func() bool { return len(s.peer(0).connections()) == 2 })
	p.send(msgUpdate, update4(path4, prefixes8(3)...)...)
	mustBe(t, q.notification(), []byte{6, 5})
	await(t, "rest", func() bool { return s.Stats().Peers[0].State == Idle })
	mustBe(t, s.Stats().Peers[0].Ups, 1)
}

// communities is an attribute with n of them that begin with a number.
func communities(number uint32, n int) []byte {
	b := []byte{0xd0, 8, byte(4 * n >> 8), byte(4 * n)}
	for i := range n {
		b = binary.BigEndian.AppendUint32(b, number+uint32(i))
	}
	return b
}

// What counts is the memory: many routes with few sets of attributes are few bytes, and a peer that
// gives each of some routes a large set of its own is turned away, without anything that
// graceful restart would keep.
func TestTooManyAttributeBytes(t *testing.T) {
	cfg := passivePeer
	cfg.MaxAttributeBytes = 50_000
	cfg.MaxPrefixesRestart = 50 * time.Millisecond
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	p.establish(graceful(notification|120, forwarded))
	p.send(msgUpdate, withAttribute(update4(path4, prefixes8(200)...), communities(0, 500)...)...)
	for n := range byte(20) { // and again: what is there no more does not count
		p.send(msgUpdate, withAttribute(update4(path4, 8, 10), communities(uint32(n)<<16, 500)...)...)
	}
	await(t, "routes", func() bool { return s.Stats().Peers[0].Messages == 21 && len(s.routes()) == 201 })
	size := int64(2 * (112 + len(path4) + 2000))
	mustBe(t, []any{s.Stats().Peers[0].AttributeBytes, s.Stats().Peers[0].AttributesExceeded}, []any{size, 0})
	for n := range byte(24) {
		p.send(msgUpdate, withAttribute(update4(path4, 16, 10, n), communities(uint32(n)<<16, 500)...)...)
	}
	for {
		kind, body, err := p.receive()
		if err != nil {
			t.Fatal(err)
		}
		if kind == msgNotification {
			mustBe(t, body, []byte{6, 8})
			break
		}
	}
	await(t, "withdrawal", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
	mustBe(t, s.status().LastError, "more than 50000 bytes of path attributes")
	st := s.Stats().Peers[0]
	mustBe(t, []any{st.AttributesExceeded, st.PrefixesExceeded, st.AttributeBytes}, []any{1, 0, 0})
	await(t, "end of the rest", func() bool { return s.Stats().Peers[0].State != Idle })
	q := dial(t, s, peerAddr)
	q.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.status().State == "established" })
}

// A lower bound of a reload ends a session that is over it.
func TestReloadWithFewerAttributeBytes(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	p.send(msgUpdate, withAttribute(update4(path4, net10...), communities(0, 500)...)...)
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	cfg := s.config
	cfg.Peers = slices.Clone(cfg.Peers)
	cfg.Peers[0].MaxAttributeBytes = 4000
	if _, err := s.Reload(cfg, nil); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s.Stats().Peers[0].Established, true)
	cfg.Peers = slices.Clone(cfg.Peers)
	cfg.Peers[0].MaxAttributeBytes = 1000
	if _, err := s.Reload(cfg, nil); err != nil {
		t.Fatal(err)
	}
	mustBe(t, p.notification(), []byte{6, 8})
}
