package bgp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
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

// testLog keeps what is logged, and shows it where the test fails.
type testLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *testLog) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.b.Bytes(), []byte(s))
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
	rib *rib.RIB
	log *testLog
}

// start runs a server that listens at ownAddr.
func start(t *testing.T, change func(*Config), peers ...PeerConfig) *service {
	t.Helper()
	s := &service{rib: rib.New(rib.Options{LocalAS: ownAS}), log: &testLog{}}
	cfg := Config{ASN: ownAS, RouterID: ownID, Listen: []string{ownAddr.String() + ":0"}, Peers: peers,
		ErrorDelay: time.Millisecond, ConnectRetry: time.Second,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.Server, err = New(cfg, s.rib); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log:\n%s", s.log.b.String())
		}
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *service) status() rib.PeerStatus { return s.rib.Peers()[0] }

// routes is the Adj-RIB-In of the first peer.
func (s *service) routes() map[rib.NLRI]rib.Attrs {
	all := make(map[rib.NLRI]rib.Attrs)
	for n, path := range s.peers[0].rib.Routes() {
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
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: patience}
	conn, err := d.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	return speak(t, conn)
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
	b = binary.BigEndian.AppendUint16(b, uint16(headerLength+len(body)))
	b = append(append(b, kind), body...)
	if _, err := s.conn.Write(b); err != nil {
		s.t.Fatalf("send message of type %d: %v", kind, err)
	}
}

// receive reads a message.
func (s *speaker) receive() (kind byte, body []byte, err error) {
	header := make([]byte, headerLength)
	if _, err := io.ReadFull(s.in, header); err != nil {
		return 0, nil, err
	}
	body = make([]byte, int(binary.BigEndian.Uint16(header[16:]))-headerLength)
	_, err = io.ReadFull(s.in, body)
	return header[18], body, err
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
	addPaths = []byte{69, 8, 0, 1, 1, 3, 0, 2, 1, 2}
)

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
