package bgp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needLinux skips where there is no TCP-MD5 and no TTL security.
func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("TCP-MD5 and TTL security are there on Linux only, this is %s", runtime.GOOS)
	}
}

// signed prepares a speaker's socket.
func signed(password string) func(syscall.RawConn) error {
	return func(c syscall.RawConn) error {
		return setMD5(c, netip.PrefixFrom(ownAddr, 32), password)
	}
}

// refusedByTCP tells whether a connection comes to nothing: the segments are dropped in silence.
func refusedByTCP(s *service, from netip.Addr, control func(syscall.RawConn) error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	if control != nil {
		d.Control = func(_, _ string, c syscall.RawConn) error { return control(c) }
	}
	conn, err := d.DialContext(ctx, "tcp", s.address())
	if err == nil {
		conn.Close()
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout")
}

func TestMD5OfAPeerThatConnects(t *testing.T) {
	needLinux(t)
	for name, c := range map[string]struct {
		listen string
		peer   PeerConfig
	}{
		"address":           {ownAddr.String() + ":0", PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Passive: true, MD5: "secret"}},
		"prefix":            {ownAddr.String() + ":0", PeerConfig{Name: "any", Prefix: netip.MustParsePrefix("127.77.0.0/24"), AS: peerAS, Limit: 4, MD5: "secret"}},
		"address, any host": {":0", PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Passive: true, MD5: "secret"}},
		"prefix, any host":  {":0", PeerConfig{Name: "any", Prefix: netip.MustParsePrefix("127.77.0.0/24"), AS: peerAS, Limit: 4, MD5: "secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			other := netip.MustParseAddr("127.78.0.2")
			s := start(t, func(cfg *Config) { cfg.Listen = []string{c.listen} }, c.peer, PeerConfig{Name: "q", Addr: other, AS: peerAS, Passive: true})
			s.at = ownAddr
			for what, control := range map[string]func(syscall.RawConn) error{"none": nil, "another": signed("other")} {
				if !refusedByTCP(s, peerAddr, control) {
					t.Errorf("a connection with %s as the password was accepted", what)
				}
			}
			conn, err := dialWith(s, peerAddr, signed("secret"))
			if err != nil {
				t.Fatal(err)
			}
			speak(t, conn).establish(openBody(peerAS, 90, as4(peerAS), mp4))
			q := dial(t, s, other) // has none and needs none
			q.establish(openBody(peerAS, 90, as4(peerAS), mp4))
			await(t, "sessions", func() bool {
				peers := s.rib.Peers()
				return len(peers) == 2 && peers[0].State == "established" && peers[1].State == "established"
			})
		})
	}
}

func TestMD5OfAPeerThatIsConnectedTo(t *testing.T) {
	needLinux(t)
	l, err := listen(peerAddr.String() + ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := setMD5(raw, netip.PrefixFrom(ownAddr, 32), "secret"); err != nil {
		t.Fatal(err)
	}
	s := start(t, nil, PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Port: uint16(l.Addr().(*net.TCPAddr).Port), LocalAddr: ownAddr, MD5: "secret"})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	speak(t, conn).establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.status().State == "established" })
}

// TestPasswordGoesWithItsPeer: a Reload without the password takes it from the listener.
func TestPasswordGoesWithItsPeer(t *testing.T) {
	needLinux(t)
	cfg := passivePeer
	cfg.MD5 = "secret"
	s := start(t, nil, cfg)
	if !refusedByTCP(s, peerAddr, nil) {
		t.Fatal("a connection without the password was accepted")
	}
	next := s.config
	next.Peers = []PeerConfig{passivePeer}
	if _, err := s.Reload(next, nil); err != nil {
		t.Fatal(err)
	}
	dial(t, s, peerAddr).establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.status().State == "established" })
}

// sendTTL prepares a socket to send with a TTL: 255 is that of a neighbour on the link, and one
// less that of a peer behind a router.
func sendTTL(ttl int) func(syscall.RawConn) error {
	return func(c syscall.RawConn) error { return setSendTTL(c, ttl) }
}

func TestTTLSecurity(t *testing.T) {
	needLinux(t)
	for name, listen := range map[string]string{"one host": ownAddr.String() + ":0", "any host": ":0"} {
		t.Run(name, func(t *testing.T) {
			cfg := passivePeer
			cfg.TTLSecurity = 2
			s := start(t, func(c *Config) { c.Listen = []string{listen} }, cfg)
			s.at = ownAddr
			far, err := dialWith(s, peerAddr, sendTTL(253))
			if err != nil {
				t.Fatal(err)
			}
			p := speak(t, far)
			p.expect(msgOpen)
			p.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4)...)
			// What it sends does not arrive, and no KEEPALIVE answers it. A nearer one is served meanwhile.
			near, err := dialWith(s, peerAddr, func(c syscall.RawConn) error {
				if err := sendTTL(254)(c); err != nil {
					return err
				}
				return setTTL(c, ownAddr, 1) // and it looks at our TTL, from the SYN on
			})
			if err != nil {
				t.Fatal(err)
			}
			speak(t, near).establish(openBody(peerAS, 90, as4(peerAS), mp4))
			await(t, "session", func() bool { return s.status().State == "established" })
			mustBe(t, s.Stats().Peers[0].Collisions, 0)
		})
	}
}

func TestTTLSecurityOfAPeerThatIsConnectedTo(t *testing.T) {
	needLinux(t)
	l, err := listen(peerAddr.String() + ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := setTTL(raw, ownAddr, 1); err != nil { // answers with 255, takes nothing below
		t.Fatal(err)
	}
	s := start(t, nil, PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Port: uint16(l.Addr().(*net.TCPAddr).Port), LocalAddr: ownAddr, TTLSecurity: 1})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	speak(t, conn).establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.status().State == "established" })
}

// TestProtectionOverIPv6 has both, on the one loopback address that there is.
func TestProtectionOverIPv6(t *testing.T) {
	needLinux(t)
	loopback := netip.IPv6Loopback()
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skipf("no IPv6 here: %v", err)
	} else {
		l.Close()
	}
	s := start(t, func(c *Config) { c.Listen = []string{"[::1]:0"} }, PeerConfig{Addr: loopback, AS: peerAS, Passive: true, MD5: "secret", TTLSecurity: 1})
	if !refusedByTCP(s, loopback, nil) {
		t.Error("a connection without the password was accepted")
	}
	password := func(c syscall.RawConn) error { return setMD5(c, netip.PrefixFrom(loopback, 128), "secret") }
	conn, err := dialWith(s, loopback, password)
	if err != nil {
		t.Fatal(err)
	}
	far := speak(t, conn)
	far.expect(msgOpen)
	far.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4)...) // with 64 hops: it does not arrive
	conn, err = dialWith(s, loopback, func(c syscall.RawConn) error { return errors.Join(password(c), setTTL(c, loopback, 1)) })
	if err != nil {
		t.Fatal(err)
	}
	speak(t, conn).establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.status().State == "established" })
	mustBe(t, s.Stats().Peers[0].Collisions, 0)
}

// TestProtectionThatIsNotThere: without it a configuration that asks for it is refused.
func TestProtectionThatIsNotThere(t *testing.T) {
	cfg := passivePeer
	cfg.MD5 = "secret"
	c := Config{ASN: ownAS, RouterID: ownID, Listen: []string{ownAddr.String() + ":0"}, Peers: []PeerConfig{cfg}}
	_, err := c.withDefaults()
	if available := runtime.GOOS == "linux"; (err == nil) != available {
		t.Errorf("error %v on %s", err, runtime.GOOS)
	}
}

// TestRestDuringAnAttempt: an error of the peer's connection while ours is under way, which ends
// before the rest does, is no end to attempts.
func TestRestDuringAnAttempt(t *testing.T) {
	needLinux(t)
	l, err := listen(peerAddr.String() + ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := setMD5(raw, netip.PrefixFrom(ownAddr, 32), "secret"); err != nil { // our attempts come to nothing
		t.Fatal(err)
	}
	s := start(t, func(c *Config) { c.ErrorDelay, c.ConnectRetry = 1500*time.Millisecond, 300*time.Millisecond },
		PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Port: uint16(l.Addr().(*net.TCPAddr).Port), LocalAddr: ownAddr})
	p := dial(t, s, peerAddr)
	p.send(msgOpen, openBody(64501, 90, as4(64501))...)
	mustBe(t, p.notification(), []byte{2, 2})
	await(t, "rest", func() bool { return s.log.Contains("left alone") })
	await(t, "end of the attempt", func() bool { return s.Stats().Peers[0].State != Connect })
	await(t, "next attempt", func() bool { return s.Stats().Peers[0].State == Connect })
}
