package bgp

import (
	"net"
	"net/netip"
	"testing"
)

// bothWays gives a server that connects to a speaker and listens for it, with the connection
// that it made.
func bothWays(t *testing.T, id string) (s *service, outgoing *speaker) {
	t.Helper()
	l, err := net.Listen("tcp", peerAddr.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	peer := PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Port: uint16(l.Addr().(*net.TCPAddr).Port), LocalAddr: ownAddr}
	s = start(t, func(c *Config) { c.RouterID = netip.MustParseAddr(id) }, peer)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return s, speak(t, conn)
}

// TestCollision has both sides connect at once: the connection that the side with the higher
// identifier made stays, whichever OPEN comes first (RFC 4271, 6.8).
func TestCollision(t *testing.T) {
	for _, c := range []struct {
		name      string
		id        string // ours; the speaker's is 192.0.2.1
		ours      bool   // our connection stays
		oursFirst bool   // its OPEN comes first
	}{
		{"ours is higher, its OPEN first", "192.0.2.99", true, true},
		{"ours is higher, its OPEN second", "192.0.2.99", true, false},
		{"ours is lower, its OPEN first", "192.0.1.99", false, true},
		{"ours is lower, its OPEN second", "192.0.1.99", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, outgoing := bothWays(t, c.id)
			incoming := dial(t, s, peerAddr)
			outgoing.expect(msgOpen)
			incoming.expect(msgOpen)
			first, second := incoming, outgoing
			if c.oursFirst {
				first, second = outgoing, incoming
			}
			open := openBody(peerAS, 90, as4(peerAS), mp4)
			first.send(msgOpen, open...)
			first.expect(msgKeepalive)
			second.send(msgOpen, open...)
			stays, goes := incoming, outgoing
			if c.ours {
				stays, goes = outgoing, incoming
			}
			mustBe(t, goes.notification(), []byte{6, 7})
			if stays == second {
				stays.expect(msgKeepalive)
			}
			stays.send(msgKeepalive)
			stays.send(msgUpdate, update4(path4, net10...)...)
			await(t, "route over the connection that stays", func() bool { return len(s.routes()) == 1 })
			st := s.Stats().Peers[0]
			mustBe(t, []any{st.Collisions, st.Session.Inbound, st.State, st.Ups}, []any{1, !c.ours, Established, 1})
		})
	}
}

// TestCollisionWithASession has a connection from before the session send its OPEN when that is
// up: the session stays.
func TestCollisionWithASession(t *testing.T) {
	s, outgoing := bothWays(t, "192.0.1.99")
	incoming := dial(t, s, peerAddr)
	incoming.expect(msgOpen)
	// With graceful restart, for which a new connection could be a restart.
	open := openBody(peerAS, 90, as4(peerAS), mp4, restart(120, restartFamily{1, forwarded}))
	outgoing.establish(open)
	outgoing.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	incoming.send(msgOpen, open...)
	mustBe(t, incoming.notification(), []byte{6, 7})
	outgoing.send(msgUpdate, update4(path4, 8, 11)...)
	await(t, "next route", func() bool { return len(s.routes()) == 2 })
	mustBe(t, s.Stats().Peers[0].Downs, 0)
}

// TestSecondOpenOfTheSameDirection: of two connections of the peer's, the newer one counts.
func TestSecondOpenOfTheSameDirection(t *testing.T) {
	s := start(t, nil, passivePeer)
	first, second := dial(t, s, peerAddr), dial(t, s, peerAddr)
	open := openBody(peerAS, 90, as4(peerAS), mp4)
	first.send(msgOpen, open...)
	first.expect(msgKeepalive)
	second.establish(open)
	mustBe(t, first.notification(), []byte{6, 7})
	await(t, "session", func() bool { return s.status().State == "established" })
}

func TestActivePeerTakesNoConnections(t *testing.T) {
	s := start(t, nil, PeerConfig{Addr: peerAddr, AS: peerAS, Port: 1, Active: true})
	p := dial(t, s, peerAddr)
	if _, _, err := p.receive(); err == nil {
		t.Error("it was answered")
	}
}

// TestRefusedConnectionBringsNoSession: its KEEPALIVE has crossed our decision against it.
func TestRefusedConnectionBringsNoSession(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := s.peer(0)
	c := p.newConn(nil, true, func() {})
	c.refused = true
	c.Established(nil)
	mustBe(t, []any{c.running, p.ups.Load(), p.panics.Load(), s.Stats().Peers[0].State}, []any{false, 0, 0, Active})
}
