package bmp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// A Kind is a type of message (RFC 7854, 4.1).
type Kind uint8

const (
	RouteMonitoring Kind = iota
	StatisticsReport
	PeerDown
	PeerUp
	Initiation
	Termination
	RouteMirroring
	// UnknownKind is all others, which are passed over.
	UnknownKind
	// NumKinds is how many there are, for arrays of counters.
	NumKinds
)

// String is a short stable word, fit for a metric label.
func (k Kind) String() string {
	if k >= NumKinds {
		return fmt.Sprintf("kind-%d", uint8(k))
	}
	return [NumKinds]string{
		"route-monitoring", "statistics-report", "peer-down", "peer-up", "initiation", "termination", "route-mirroring", "unknown",
	}[k]
}

const (
	version       = 3
	commonLength  = 6  // common header
	perPeerLength = 42 // per-peer header
	// maxMessage is the longest message that is taken: twice what an UPDATE of RFC 8654 needs, so
	// that a Peer Up with two OPENs fits as well. A longer one is taken for lost framing.
	maxMessage = 1 << 17
)

// errShort is what is wrong with a message that ends too early.
var errShort = errors.New("message is too short for what it says it holds")

// A reader takes the messages off a connection.
type reader struct {
	conn    net.Conn
	in      *bufio.Reader
	timeout time.Duration // for a message, once it has begun
	used    int           // length of the last message
}

func newReader(c net.Conn, timeout time.Duration) *reader {
	return &reader{conn: c, in: bufio.NewReaderSize(c, maxMessage), timeout: timeout}
}

// next gives a message without its common header, which is valid until the next call. It has to
// begin before the deadline; a zero one is none. An error is the end of the connection: io.EOF
// where it ended between two messages.
func (r *reader) next(deadline time.Time) (Kind, []byte, error) {
	// What was looked at before is in the buffer, so it can be dropped.
	_, _ = r.in.Discard(r.used)
	r.used = 0
	if r.in.Buffered() == 0 {
		if err := r.conn.SetReadDeadline(deadline); err != nil {
			return 0, nil, err
		}
		if _, err := r.in.Peek(1); err != nil {
			return 0, nil, err
		}
	}
	var begun time.Time
	header, err := r.peek(commonLength, &begun)
	if err != nil {
		return 0, nil, err
	}
	if header[0] != version {
		return 0, nil, fmt.Errorf("framing lost: version %d instead of %d", header[0], version)
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length < commonLength || length > maxMessage {
		return 0, nil, fmt.Errorf("framing lost: a message of %d bytes, %d to %d are possible", length, commonLength, maxMessage)
	}
	kind := min(Kind(header[5]), UnknownKind)
	message, err := r.peek(int(length), &begun)
	if err != nil {
		return 0, nil, err
	}
	r.used = int(length)
	return kind, message[commonLength:], nil
}

// peek waits for n bytes of a message that has begun. The time it has starts with the first wait.
func (r *reader) peek(n int, begun *time.Time) ([]byte, error) {
	if r.in.Buffered() < n && begun.IsZero() {
		*begun = time.Now()
		if err := r.conn.SetReadDeadline(begun.Add(r.timeout)); err != nil {
			return nil, err
		}
	}
	b, err := r.in.Peek(n)
	var late net.Error
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("connection closed in the middle of a message: %w", io.ErrUnexpectedEOF)
	case errors.As(err, &late) && late.Timeout():
		return nil, fmt.Errorf("silent in the middle of a message for %v: %w", r.timeout, err)
	}
	return b, err
}

// Types of peers (RFC 7854, 4.2; RFC 9069, 4.1).
const (
	peerGlobal = 0
	peerLocRIB = 3
)

// Flags of a per-peer header; those of a Loc-RIB peer are others.
const (
	flagIPv6      = 0x80
	flagPost      = 0x40
	flagTwoByteAS = 0x20 // AS_PATH is in the form of before RFC 6793
	flagOut       = 0x10 // Adj-RIB-Out (RFC 8671, 4)
	flagFiltered  = 0x80 // of a Loc-RIB: it is not all of it (RFC 9069, 4.2)
)

// A peerKey is how a router tells its peers apart. Flags are no part of it: one Peer Up is about
// all views.
type peerKey struct {
	kind uint8
	rd   distinguisher
	addr netip.Addr
}

// A perPeer is the header of the messages about one peer. The time in it is not kept.
type perPeer struct {
	peerKey
	flags    uint8
	as       uint32
	routerID netip.Addr
}

// cutPerPeer takes the per-peer header off a message.
func cutPerPeer(b []byte) (h perPeer, rest []byte, err error) {
	if len(b) < perPeerLength {
		return h, nil, errShort
	}
	h.kind, h.flags = b[0], b[1]
	h.rd = distinguisher(binary.BigEndian.Uint64(b[2:]))
	if h.kind > peerLocRIB {
		return h, nil, &ignoredError{IgnoredPeerType, fmt.Errorf("type %d", h.kind)}
	}
	switch {
	case h.kind == peerLocRIB: // no address
	case h.flags&flagIPv6 != 0:
		h.addr = netip.AddrFrom16([16]byte(b[10:26]))
	default:
		h.addr = netip.AddrFrom4([4]byte(b[22:26]))
	}
	h.as = binary.BigEndian.Uint32(b[26:])
	h.routerID = netip.AddrFrom4([4]byte(b[30:34]))
	return h, b[perPeerLength:], nil
}

// view is the view that a Route Monitoring message with this header is about; out tells that it
// is none of them but Adj-RIB-Out.
func (h *perPeer) view() (v View, out bool) {
	switch {
	case h.kind == peerLocRIB:
		return ViewLocRIB, false
	case h.flags&flagOut != 0:
		return ViewFirst, true
	case h.flags&flagPost != 0:
		return ViewPost, false
	}
	return ViewPre, false
}

// cutTLV takes a type, length and value off b. ok is false at its end; rest of a damaged one are
// the bytes that make none.
func cutTLV(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, b, false
	}
	n := 4 + int(binary.BigEndian.Uint16(b[2:]))
	if len(b) < n {
		return 0, nil, b, false
	}
	return binary.BigEndian.Uint16(b), b[4:n], b[n:], true
}

// bgpHeaderLength is what the header of a BGP message takes.
const bgpHeaderLength = 19

// cutBGP takes a BGP message off b and gives its type and body.
func cutBGP(b []byte) (kind uint8, body, rest []byte, err error) {
	if len(b) < bgpHeaderLength {
		return 0, nil, nil, errShort
	}
	n := int(binary.BigEndian.Uint16(b[16:]))
	if n < bgpHeaderLength || n > len(b) {
		return 0, nil, nil, fmt.Errorf("BGP message of %d bytes in %d", n, len(b))
	}
	return b[18], b[bgpHeaderLength:n], b[n:], nil
}

// maxText is how much of a router's text is kept.
const maxText = 255

// text is what a router says about itself, fit for logs and pages.
func text(b []byte) string {
	return strings.Clone(strings.ToValidUTF8(string(b[:min(len(b), maxText)]), "?"))
}
