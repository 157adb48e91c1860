package bgp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// patience is how long a test waits for what has to happen.
const patience = 60 * time.Second

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for: %s", what)
		case <-tick.C:
		}
	}
}

const (
	ownAS  = 64999
	peerAS = 64500
)

var (
	ownAddr  = netip.MustParseAddr("127.77.0.1")
	peerAddr = netip.MustParseAddr("127.77.0.2")
	ownID    = netip.MustParseAddr("192.0.2.99")
)

// A service is a server under test.
type service struct {
	*Server
	rib    *rib.RIB // of the default table
	other  *rib.RIB // of the table "other"
	log    *ribtest.Log
	config Config
	at     netip.Addr // where to connect to, unless it is where the server listens
}

// table is a TableFunc with two tables.
func (s *service) table(name string) (*rib.RIB, error) {
	switch name {
	case rib.DefaultTable:
		return s.rib, nil
	case "other":
		return s.other, nil
	}
	return nil, errors.New("no such table")
}

// tables is a TableFunc that has one table.
func tables(r *rib.RIB) TableFunc { return func(string) (*rib.RIB, error) { return r, nil } }

// make makes a server that will listen at ownAddr. Its peers accept all routes unless they have
// a policy.
func prepare(t *testing.T, change func(*Config), policies PolicyFunc, peers ...PeerConfig) *service {
	t.Helper()
	s := &service{rib: rib.New(rib.Options{LocalAS: ownAS}), other: rib.New(rib.Options{LocalAS: ownAS}), log: new(ribtest.Log)}
	for i := range peers {
		if peers[i].Import == "" {
			peers[i].Import = importAccept
		}
	}
	s.config = Config{ASN: ownAS, RouterID: ownID, Listen: []string{ownAddr.String() + ":0"}, Peers: peers,
		ErrorDelay: time.Millisecond, ConnectRetry: time.Second,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&s.config)
	}
	var err error
	if s.Server, err = New(s.config, s.table, policies); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log:\n%s", s.log)
		}
	})
	return s
}

// start runs such a server.
func start(t *testing.T, change func(*Config), peers ...PeerConfig) *service {
	t.Helper()
	s := prepare(t, change, nil, peers...)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) status() rib.PeerStatus { return s.rib.Peers()[0] }

// peer gives a configured peer.
func (s *service) peer(i int) *peer { return s.neighbours[i].all()[0] }

// routes is the Adj-RIB-In of the first peer.
func (s *service) routes() map[rib.NLRI]rib.Attrs {
	all := make(map[rib.NLRI]rib.Attrs)
	for n, path := range s.peer(0).routes.peer().Routes() {
		all[n] = path.Value()
	}
	return all
}

// A speaker is the other side of a session, as tests want it: it says what it is told to.
type speaker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// dial connects to a server from an address.
func dial(t *testing.T, s *service, from netip.Addr) *speaker {
	t.Helper()
	conn, err := dialWith(s, from, nil)
	if err != nil {
		t.Fatal(err)
	}
	return speak(t, conn)
}

// address is where to connect to.
func (s *service) address() string {
	a := s.Addrs()[0]
	if s.at.IsValid() {
		a = netip.AddrPortFrom(s.at, a.Port())
	}
	return a.String()
}

// dialWith has a socket prepared before it connects.
func dialWith(s *service, from netip.Addr, control func(syscall.RawConn) error) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: patience}
	if control != nil {
		d.Control = func(_, _ string, c syscall.RawConn) error { return control(c) }
	}
	return d.Dial("tcp", s.address())
}

func speak(t *testing.T, conn net.Conn) *speaker {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &speaker{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// send writes a message.
func (s *speaker) send(kind byte, body ...byte) {
	s.t.Helper()
	b := bytes.Repeat([]byte{0xff}, 16)
	b = binary.BigEndian.AppendUint16(b, uint16(header+len(body)))
	b = append(append(b, kind), body...)
	if _, err := s.conn.Write(b); err != nil {
		s.t.Fatalf("send message of type %d: %v", kind, err)
	}
}

// receive reads a message.
func (s *speaker) receive() (kind byte, body []byte, err error) {
	head := make([]byte, header)
	if _, err := io.ReadFull(s.in, head); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(binary.BigEndian.Uint16(head[16:]))-header)
	_, err = io.ReadFull(s.in, body)
	return head[18], body, err
}

// expect reads until a message of a kind and gives its body.
func (s *speaker) expect(kind byte) []byte {
	s.t.Helper()
	for {
		k, body, err := s.receive()
		if err != nil {
			s.t.Fatalf("waiting for message of type %d: %v", kind, err)
		}
		if k == kind {
			return body
		}
		if k == msgNotification {
			s.t.Fatalf("waiting for message of type %d: got NOTIFICATION %v", kind, body)
		}
	}
}

const (
	header          = 19
	msgOpen         = 1
	msgUpdate       = 2
	msgNotification = 3
	msgKeepalive    = 4
	msgRefresh      = 5
)

// openBody is an OPEN with any capabilities.
func openBody(as uint16, holdTime uint16, caps ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{4}, as)
	b = binary.BigEndian.AppendUint16(b, holdTime)
	b = append(b, 192, 0, 2, 1)
	list := slices.Concat(caps...)
	if len(list) == 0 {
		return append(b, 0)
	}
	return append(append(b, byte(2+len(list)), 2, byte(len(list))), list...)
}

// as4 is the capability of 4-byte AS numbers.
func as4(as uint32) []byte { return binary.BigEndian.AppendUint32([]byte{65, 4}, as) }

var (
	mp4      = []byte{1, 4, 0, 1, 0, 1}
	mp6      = []byte{1, 4, 0, 2, 0, 1}
	refresh  = []byte{2, 0}
	enhanced = []byte{70, 0}
	addPaths = []byte{69, 8, 0, 1, 1, 3, 0, 2, 1, 2}
)

// restart is the capability of graceful restart for families with their F bits.
func restart(seconds uint16, families ...restartFamily) []byte {
	b := binary.BigEndian.AppendUint16([]byte{64, byte(2 + 4*len(families))}, seconds)
	for _, f := range families {
		b = append(b, 0, f.afi, 1, f.flags)
	}
	return b
}

type restartFamily struct{ afi, flags byte }

const (
	forwarded    = 0x80   // the F bit, of a family
	notification = 0x4000 // the N bit (RFC 8538), beside the time
)

// longLived is that of its long-lived form for IPv4.
func longLived(flags byte, seconds uint32) []byte {
	return []byte{71, 7, 0, 1, 1, flags, byte(seconds >> 16), byte(seconds >> 8), byte(seconds)}
}

// role is that of the BGP role.
func role(r byte) []byte { return []byte{9, 1, r} }

// endOfRIB is the marker of a family.
func endOfRIB(v6 bool) []byte {
	if !v6 {
		return []byte{0, 0, 0, 0}
	}
	return []byte{0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1}
}

// establish brings the session up with an OPEN.
func (s *speaker) establish(open []byte) {
	s.t.Helper()
	s.send(msgOpen, open...)
	s.expect(msgOpen)
	s.expect(msgKeepalive)
	s.send(msgKeepalive)
}

// update4 announces IPv4 prefixes with an AS_PATH as it stands.
func update4(path []byte, nlri ...byte) []byte {
	attrs := slices.Concat([]byte{0x40, 1, 1, 0, 0x40, 2, byte(len(path))}, path, []byte{0x40, 3, 4, 192, 0, 2, 1})
	b := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attrs)))
	return slices.Concat(b, attrs, nlri)
}

// update6 announces IPv6 prefixes.
func update6(path []byte, nlri ...byte) []byte {
	reach := slices.Concat([]byte{0, 2, 1, 16, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0}, nlri)
	return withAttributes(slices.Concat([]byte{0x40, 1, 1, 0, 0x40, 2, byte(len(path))}, path, []byte{0x80, 14, byte(len(reach))}, reach))
}

// withAttributes is an UPDATE of attributes alone.
func withAttributes(attrs []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attrs))), attrs...)
}

// withAttribute puts one more attribute into an UPDATE of update4.
func withAttribute(update []byte, attr ...byte) []byte {
	end := 4 + int(binary.BigEndian.Uint16(update[2:]))
	b := slices.Insert(slices.Clone(update), end, attr...)
	binary.BigEndian.PutUint16(b[2:], uint16(end-4+len(attr)))
	return b
}

func withCommunity(update []byte, c uint32) []byte {
	return withAttribute(update, binary.BigEndian.AppendUint32([]byte{0xc0, 8, 4}, c)...)
}

// withOTC is one that went to a customer or a peer of an AS (RFC 9234).
func withOTC(update []byte, as uint32) []byte {
	return withAttribute(update, binary.BigEndian.AppendUint32([]byte{0xc0, 35, 4}, as)...)
}

var (
	path4 = []byte{2, 1, 0, 0, 0xfb, 0xf4} // 64500 in 4 bytes
	path2 = []byte{2, 1, 0xfb, 0xf4}       // and in 2
	net10 = []byte{8, 10}
)

func nlri(s string, id uint32) rib.NLRI {
	return rib.NLRI{Prefix: netip.MustParsePrefix(s), PathID: id}
}

func mustBe(t *testing.T, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("got %s, want %s", g, w)
	}
}
