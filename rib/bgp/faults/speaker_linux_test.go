package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	msgOpen         = 1
	msgUpdate       = 2
	msgNotification = 3
	msgKeepalive    = 4
	msgRefresh      = 5

	headerLength = 19
	// minimalHold is the shortest hold time that there is, in seconds (RFC 4271, 4.2).
	minimalHold = 3
	// keepaliveEvery is more often than needed, so that a machine with much to do is no fault.
	keepaliveEvery = 250 * time.Millisecond
)

// message puts a header before a body.
func message(kind byte, body ...byte) []byte {
	m := bytes.Repeat([]byte{0xff}, 16)
	m = binary.BigEndian.AppendUint16(m, uint16(headerLength+len(body)))
	return append(append(m, kind), body...)
}

var keepalive = message(msgKeepalive)

// Capabilities.
var (
	ipv4     = []byte{1, 4, 0, 1, 0, 1}
	refresh  = []byte{2, 0}
	enhanced = []byte{70, 0}
	// restarts has a restart time of two minutes, and IPv4 forwarded meanwhile (RFC 4724).
	restarts = []byte{64, 6, 0, 120, 0, 1, 1, 0x80}
	// outlives is that, and a NOTIFICATION is no reason to give the routes up (RFC 8538).
	outlives = []byte{64, 6, 0x40, 120, 0, 1, 1, 0x80}
)

// openOf is an OPEN.
func openOf(holdTime uint16, capabilities ...[]byte) []byte {
	list := slices.Concat(append([][]byte{ipv4, binary.BigEndian.AppendUint32([]byte{65, 4}, peerAS)}, capabilities...)...)
	body := binary.BigEndian.AppendUint16([]byte{4}, peerAS)
	body = binary.BigEndian.AppendUint16(body, holdTime)
	body = append(body, 192, 0, 2, 1, byte(2+len(list)), 2, byte(len(list)))
	return message(msgOpen, append(body, list...)...)
}

// endOfRIB is that of IPv4.
var endOfRIB = message(msgUpdate, 0, 0, 0, 0)

// updateOf announces prefixes of 24 bits, and withdraws one, unless it is the zero one.
func updateOf(withdrawn netip.Prefix, announced ...netip.Prefix) []byte {
	var body []byte
	add := func(p netip.Prefix) {
		a := p.Addr().As4()
		body = append(append(body, byte(p.Bits())), a[:(p.Bits()+7)/8]...)
	}
	if withdrawn.IsValid() {
		add(withdrawn)
	}
	body = append(binary.BigEndian.AppendUint16(nil, uint16(len(body))), body...)
	attributes := []byte{0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfb, 0xf4, 0x40, 3, 4, 192, 0, 2, 1}
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(attributes))), attributes...)
	for _, p := range announced {
		add(p)
	}
	return message(msgUpdate, body...)
}

// numbered is one of 65,536 prefixes in a block of 8 bits.
func numbered(block byte, n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{block, byte(n >> 8), byte(n), 0}), 24)
}

// A speaker is the other side of a session.
type speaker struct {
	conn *net.TCPConn
	up   chan struct{} // closed when the service has sent a KEEPALIVE
	over chan struct{} // closed when nothing more comes
	last []byte        // the NOTIFICATION's body, once it is over
	err  error         // why it is over

	heard atomic.Int64 // KEEPALIVEs

	mu    sync.Mutex // of writing
	quiet bool       // KEEPALIVEs are not sent any more
}

// dial connects to a service from an address.
func dial(t *testing.T, s *service, from netip.Addr) *speaker {
	t.Helper()
	return speak(t, connect(t, from, s.at))
}

func connect(t *testing.T, from netip.Addr, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := dialer(from).Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

func dialer(from netip.Addr) *net.Dialer {
	return &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: patience}
}

// speak makes a speaker of a connection, which is closed at the end of the test.
func speak(t *testing.T, c *net.TCPConn) *speaker {
	t.Cleanup(func() { _ = c.Close() })
	return newSpeaker(c)
}

func newSpeaker(c *net.TCPConn) *speaker {
	return &speaker{conn: c, up: make(chan struct{}), over: make(chan struct{})}
}

// mustBeUp checks that the session is not over.
func (s *speaker) mustBeUp(t *testing.T) {
	t.Helper()
	select {
	case <-s.over:
		t.Errorf("the session is over: %v, NOTIFICATION %v", s.err, s.last)
	default:
	}
}

// establish brings the session up and keeps it up.
func (s *speaker) establish(t *testing.T, holdTime uint16, capabilities ...[]byte) {
	t.Helper()
	if err := s.write(slices.Concat(openOf(holdTime, capabilities...), keepalive)); err != nil {
		t.Fatal(err)
	}
	go s.read()
	select {
	case <-s.up:
	case <-s.over:
		t.Fatalf("the session does not come up: %v, NOTIFICATION %v", s.err, s.last)
	case <-time.After(patience):
		t.Fatal("the session does not come up")
	}
	go s.keepUp()
}

// read takes messages until there are no more.
func (s *speaker) read() {
	defer close(s.over)
	for {
		kind, body, err := receive(s.conn)
		switch {
		case err != nil:
			s.err = err
			return
		case kind == msgNotification:
			s.last = body
		case kind == msgKeepalive:
			if s.heard.Add(1) == 1 {
				close(s.up)
			}
		}
	}
}

func receive(from io.Reader) (kind byte, body []byte, err error) {
	header := make([]byte, headerLength)
	if _, err := io.ReadFull(from, header); err != nil {
		return 0, nil, err
	}
	length := int(binary.BigEndian.Uint16(header[16:]))
	if length < headerLength {
		return 0, nil, fmt.Errorf("a message of %d bytes", length)
	}
	body = make([]byte, length-headerLength)
	_, err = io.ReadFull(from, body)
	return header[18], body, err
}

// keepUp sends KEEPALIVEs.
func (s *speaker) keepUp() {
	tick := time.NewTicker(keepaliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		if s.quiet {
			s.mu.Unlock()
			return
		}
		_, err := s.conn.Write(keepalive)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// silence ends the KEEPALIVEs.
func (s *speaker) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = true
}

// write sends messages.
func (s *speaker) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.conn.Write(b)
	return err
}

// update sends an UPDATE. The error of a session that is over says why.
func (s *speaker) update(m []byte) error {
	err := s.write(m)
	if err == nil {
		return nil
	}
	select {
	case <-s.over:
		return fmt.Errorf("the session is over: %w, NOTIFICATION %v", s.err, s.last)
	default:
		return err
	}
}

// mustUpdate is update for the test's goroutine.
func (s *speaker) mustUpdate(t *testing.T, m []byte) {
	t.Helper()
	if err := s.update(m); err != nil {
		t.Fatal(err)
	}
}

// notification waits for the end and gives code and subcode of the NOTIFICATION; none is 0, 0.
func (s *speaker) notification(t *testing.T) (code, subcode byte) {
	t.Helper()
	select {
	case <-s.over:
	case <-time.After(patience):
		t.Fatal("the session does not end")
	}
	if len(s.last) < 2 {
		return 0, 0
	}
	return s.last[0], s.last[1]
}

// vanish closes the connection with a reset, which nobody sees where the link is cut.
func (s *speaker) vanish(t *testing.T) {
	t.Helper()
	if err := errors.Join(s.conn.SetLinger(0), s.conn.Close()); err != nil {
		t.Fatal(err)
	}
}
