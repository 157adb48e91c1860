package bmp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	codec "github.com/osrg/gobgp/v3/pkg/packet/bmp"

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

func mustBe[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

const (
	routerAS = 64999
	peerAS   = 64500
)

var (
	stationAddr = netip.MustParseAddr("127.78.0.1")
	routerAddr  = netip.MustParseAddr("127.78.0.2")
	otherAddr   = netip.MustParseAddr("127.78.0.3")
	routerID    = netip.MustParseAddr("192.0.2.99")
	peer1       = netip.MustParseAddr("192.0.2.1")
	peer2       = netip.MustParseAddr("192.0.2.2")
	peer6       = netip.MustParseAddr("2001:db8::6")

	// r1 is a router that connects to us.
	r1 = RouterConfig{Name: "r1", Addr: routerAddr}
)

// A service is a station under test.
type service struct {
	*Station
	t   *testing.T
	log *ribtest.Log

	mu   sync.Mutex
	ribs map[string]*rib.RIB
	opt  rib.Options
}

var errNoTable = errors.New("no such table")

// table is a TableFunc that makes what is asked for, but for names with "fails" or "panics".
func (s *service) table(name string) (*rib.RIB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch name {
	case "fails:64500:1":
		return nil, errNoTable
	case "panics:64500:1":
		panic("table panics")
	}
	if s.ribs[name] == nil {
		s.ribs[name] = rib.New(s.opt)
	}
	return s.ribs[name], nil
}

// prepare makes a station that listens at stationAddr and does not run yet.
func prepare(t *testing.T, change func(*Config), opt rib.Options, policies PolicyFunc, routers ...RouterConfig) *service {
	t.Helper()
	s := &service{t: t, log: new(ribtest.Log), ribs: make(map[string]*rib.RIB), opt: opt}
	cfg := Config{Listen: []string{stationAddr.String() + ":0"}, Routers: routers, ConnectRetry: time.Second,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.Station, err = New(cfg, s.table, policies); err != nil {
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

func start(t *testing.T, change func(*Config), routers ...RouterConfig) *service {
	t.Helper()
	s := prepare(t, change, rib.Options{}, nil, routers...)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// peer is the state of a peer in a table; the zero one where it is not there.
func (s *service) peer(table, name string) rib.PeerStatus {
	s.mu.Lock()
	r := s.ribs[table]
	s.mu.Unlock()
	if r == nil {
		return rib.PeerStatus{}
	}
	for _, p := range r.Peers() {
		if p.Name == name {
			return p
		}
	}
	return rib.PeerStatus{}
}

// path is the path of a peer to a prefix.
func (s *service) path(table, name, prefix string) (rib.Route, bool) {
	s.mu.Lock()
	r := s.ribs[table]
	s.mu.Unlock()
	for _, c := range r.Paths(netip.MustParsePrefix(prefix)) {
		if c.Route.Peer.Name() == name {
			return c.Route, true
		}
	}
	return rib.Route{}, false
}

// has waits until a peer has so many routes.
func (s *service) has(table, name string, routes int) {
	s.t.Helper()
	await(s.t, name+" has its routes", func() bool {
		p := s.peer(table, name)
		return p.V4+p.V6 == routes
	})
}

// router gives the counters of a router.
func (s *service) stats(name string) RouterStats {
	for _, r := range s.Stats().Routers {
		if r.Name == name {
			return r
		}
	}
	return RouterStats{}
}

// A scripted is a router that says what it is told to.
type scripted struct {
	t *testing.T
	net.Conn
}

// connect connects to the station from an address.
func connect(t *testing.T, s *service, from netip.Addr) *scripted {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	c, err := d.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &scripted{t, c}
}

// join connects and says hello.
func join(t *testing.T, s *service, from netip.Addr) *scripted {
	t.Helper()
	r := connect(t, s, from)
	r.send(hello())
	return r
}

func (r *scripted) send(messages ...[]byte) {
	r.t.Helper()
	for _, m := range messages {
		if _, err := r.Write(m); err != nil {
			r.t.Fatal(err)
		}
	}
}

// closed waits until the station has closed the connection.
func (r *scripted) closed() {
	r.t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	n, err := r.Read(make([]byte, 1))
	var late net.Error
	if n > 0 || errors.As(err, &late) && late.Timeout() {
		r.t.Fatalf("waited in vain for the end of the connection: %d bytes, %v", n, err)
	}
}

// encode is a message as GoBGP writes it.
func encode(m *codec.BMPMessage) []byte {
	b, err := m.Serialize()
	if err != nil {
		panic(err)
	}
	return b
}

func hello() []byte {
	return encode(codec.NewBMPInitiation([]codec.BMPInfoTLVInterface{
		codec.NewBMPInfoTLVString(codec.BMP_INIT_TLV_TYPE_SYS_NAME, "edge1"),
		codec.NewBMPInfoTLVString(codec.BMP_INIT_TLV_TYPE_SYS_DESCR, "a scripted router"),
	}))
}

// raw is a message as the RFC has it, made by hand.
func raw(kind Kind, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	b := binary.BigEndian.AppendUint32([]byte{3}, uint32(6+len(body)))
	return append(append(b, byte(kind)), body...)
}

// A who is the peer that a message is about.
type who struct {
	kind, flags uint8
	rd          uint64
	addr        netip.Addr
	as          uint32
}

var (
	pre1  = who{addr: peer1, as: peerAS}
	post1 = who{flags: flagPost, addr: peer1, as: peerAS}
	out1  = who{flags: flagOut, addr: peer1, as: peerAS}
	pre2  = who{addr: peer2, as: peerAS}
	pre6  = who{addr: peer6, as: peerAS}
	loc   = who{kind: peerLocRIB, addr: netip.IPv4Unspecified(), as: routerAS}
)

// in is the same peer in a VRF.
func (w who) in(rd uint64) who {
	w.rd = rd
	if w.kind == peerGlobal {
		w.kind = 1
	}
	return w
}

func (w who) flag(f uint8) who {
	w.flags |= f
	return w
}

func (w who) header() codec.BMPPeerHeader {
	return *codec.NewBMPPeerHeader(w.kind, w.flags, w.rd, w.addr.String(), w.as, "192.0.2.200", 1.5)
}

// bytes is the per-peer header made by hand.
func (w who) bytes() []byte {
	b := make([]byte, perPeerLength)
	b[0], b[1] = w.kind, w.flags
	binary.BigEndian.PutUint64(b[2:], w.rd)
	if w.addr.Is6() {
		b[1] |= flagIPv6
		copy(b[10:], w.addr.AsSlice())
	} else {
		copy(b[22:], w.addr.AsSlice())
	}
	binary.BigEndian.PutUint32(b[26:], w.as)
	copy(b[30:], []byte{192, 0, 2, 200})
	return b
}

// bgpMessage is a BGP message with header.
func bgpMessage(kind uint8, body ...byte) []byte {
	b := bytes.Repeat([]byte{0xff}, 16)
	b = binary.BigEndian.AppendUint16(b, uint16(19+len(body)))
	return append(append(b, kind), body...)
}

// both are the families that an OPEN lists unless it is given others.
var both = []bgp.ParameterCapabilityInterface{bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapMultiProtocol(bgp.RF_IPv6_UC)}

// openOf is an OPEN with 4-byte AS numbers, both families and more.
func openOf(as uint32, more ...bgp.ParameterCapabilityInterface) *bgp.BGPMessage {
	caps := slices.Concat(both, []bgp.ParameterCapabilityInterface{bgp.NewCapFourOctetASNumber(as)}, more)
	return bgp.NewBGPOpenMessage(uint16(min(as, 23456)), 90, "192.0.2.200", []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(caps)})
}

// old is an OPEN of before RFC 6793, with both families.
func old(as uint16) *bgp.BGPMessage {
	return bgp.NewBGPOpenMessage(as, 90, "192.0.2.200", []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(both)})
}

func addPaths(mode bgp.BGPAddPathMode, families ...bgp.RouteFamily) bgp.ParameterCapabilityInterface {
	var tuples []*bgp.CapAddPathTuple
	for _, f := range families {
		tuples = append(tuples, bgp.NewCapAddPathTuple(f, mode))
	}
	return bgp.NewCapAddPath(tuples)
}

// up is a Peer Up.
func up(w who) []byte { return upWith(w, openOf(routerAS), openOf(w.as)) }

func upWith(w who, sent, received *bgp.BGPMessage) []byte {
	return encode(codec.NewBMPPeerUpNotification(w.header(), "192.0.2.99", 179, 40000, sent, received))
}

// named adds a table name (RFC 9069) to a Peer Up.
func named(up []byte, name string) []byte {
	up = slices.Concat(up, []byte{0, 3, 0, byte(len(name))}, []byte(name))
	binary.BigEndian.PutUint32(up[1:], uint32(len(up)))
	return up
}

func down(w who, reason uint8) []byte {
	return encode(codec.NewBMPPeerDownNotification(w.header(), reason,
		bgp.NewBGPNotificationMessage(bgp.BGP_ERROR_CEASE, bgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN, nil), []byte{0, 24}))
}

// monitor is a Route Monitoring of an UPDATE without header.
func monitor(w who, update []byte) []byte {
	return raw(RouteMonitoring, w.bytes(), bgpMessage(bgp.BGP_MSG_UPDATE, update...))
}

// attr writes a path attribute.
func attr(flags, kind byte, value ...byte) []byte {
	if flags&0x10 != 0 { // extended length
		return append([]byte{flags, kind, byte(len(value) >> 8), byte(len(value))}, value...)
	}
	return append([]byte{flags, kind, byte(len(value))}, value...)
}

// sequence is an AS_PATH of one sequence.
func sequence(size int, asns ...uint32) []byte {
	b := []byte{rib.SegmentSequence, byte(len(asns))}
	for _, as := range asns {
		four := binary.BigEndian.AppendUint32(nil, as)
		b = append(b, four[4-size:]...)
	}
	return b
}

var (
	origin    = attr(0x40, 1, 0)
	asPath    = attr(0x40, 2, sequence(4, peerAS, 64501)...)
	asPath2   = attr(0x40, 2, sequence(2, peerAS, 64501)...)
	nextHop   = attr(0x40, 3, 192, 0, 2, 1)
	localPref = attr(0x40, 5, 0, 0, 0, 200)
	goodAttrs = [][]byte{origin, asPath, nextHop}
)

func updateOf(withdrawn []byte, attrs [][]byte, nlri []byte) []byte {
	list := slices.Concat(attrs...)
	b := binary.BigEndian.AppendUint16(nil, uint16(len(withdrawn)))
	b = append(b, withdrawn...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(list)))
	return slices.Concat(b, list, nlri)
}

// nlri writes prefixes.
func nlri(prefixes ...string) (b []byte) {
	for _, text := range prefixes {
		p := netip.MustParsePrefix(text)
		b = append(b, byte(p.Bits()))
		b = append(b, p.Addr().AsSlice()[:(p.Bits()+7)/8]...)
	}
	return b
}

// announce is an UPDATE that announces prefixes of one family; withdraw takes them back.
func announce(prefixes ...string) []byte {
	if netip.MustParsePrefix(prefixes[0]).Addr().Is4() {
		return updateOf(nil, goodAttrs, nlri(prefixes...))
	}
	reach := slices.Concat([]byte{0, 2, 1, 16}, netip.MustParseAddr("2001:db8::1").AsSlice(), []byte{0}, nlri(prefixes...))
	return updateOf(nil, [][]byte{origin, asPath, attr(0x80, 14, reach...)}, nil)
}

func withdraw(prefixes ...string) []byte {
	if netip.MustParsePrefix(prefixes[0]).Addr().Is4() {
		return updateOf(nlri(prefixes...), nil, nil)
	}
	return updateOf(nil, [][]byte{attr(0x80, 15, slices.Concat([]byte{0, 2, 1}, nlri(prefixes...))...)}, nil)
}

var (
	endOfRIB4 = updateOf(nil, nil, nil)
	endOfRIB6 = updateOf(nil, [][]byte{attr(0x80, 15, 0, 2, 1)}, nil)
)
