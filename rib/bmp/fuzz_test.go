package bmp

import (
	"bytes"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib"
)

// A recording is a connection over which nothing comes but what is recorded.
type recording struct{ io.Reader }

func (recording) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (recording) Close() error                     { return nil }
func (recording) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (recording) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (recording) SetDeadline(time.Time) error      { return nil }
func (recording) SetReadDeadline(time.Time) error  { return nil }
func (recording) SetWriteDeadline(time.Time) error { return nil }

// FuzzStream feeds any bytes to the station as what a router sends: nothing panics, what comes
// out are valid masked prefixes within the limits, and all of it goes with the connection.
func FuzzStream(f *testing.F) {
	const rd = 64500<<32 | 1
	addPath := upWith(pre1, openOf(routerAS, addPaths(bgp.BGP_ADD_PATH_RECEIVE, bgp.RF_IPv4_UC)), openOf(peerAS, addPaths(bgp.BGP_ADD_PATH_SEND, bgp.RF_IPv4_UC)))
	twoByte := pre1.flag(flagTwoByteAS)
	for _, messages := range [][][]byte{
		{hello()},
		{hello(), up(pre1), monitor(pre1, announce("10.0.0.0/8", "10.1.0.0/16")), monitor(pre1, withdraw("10.0.0.0/8")), monitor(pre1, endOfRIB4), down(pre1, 1)},
		{hello(), up(pre6), monitor(pre6, announce("2001:db8::/32")), monitor(pre6, withdraw("2001:db8::/32")), monitor(pre6, endOfRIB6), down(pre6, 2)},
		{hello(), addPath, monitor(pre1, updateOf(nil, goodAttrs, withID(7, "10.1.0.0/16")))},
		{hello(), upWith(twoByte, openOf(routerAS), old(peerAS)), monitor(twoByte, updateOf(nil, [][]byte{origin, asPath2, nextHop}, nlri("10.1.0.0/16")))},
		{hello(), named(up(loc), "global"), monitor(loc, announce("10.0.0.0/8")), monitor(loc.in(rd), announce("10.0.0.0/8")), down(loc, 6)},
		{hello(), up(pre1.in(rd)), monitor(pre1.in(rd), announce("10.0.0.0/8")), monitor(post1, announce("10.0.0.0/8")), monitor(out1, announce("10.0.0.0/8"))},
		{hello(), up(pre1), raw(StatisticsReport, pre1.bytes(), []byte{0, 0, 0, 1, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9}), raw(RouteMirroring, pre1.bytes(), []byte{0, 1, 0, 2, 0, 0, 0, 0, 0, 1, 7})},
		{hello(), up(pre1), monitor(pre1, updateOf(nil, append(slices.Clone(goodAttrs), attr(0xc0, 8, 1)), nlri("10.0.0.0/8"))), raw(Termination, []byte{0, 1, 0, 2, 0, 1})},
		{hello(), up(pre1), up(pre1), up(post1), raw(99, []byte("x")), {3, 0, 0, 0, 5, 0}},
	} {
		f.Add(bytes.Join(messages, nil))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		const maxTables, maxPeers, maxRoutes = 3, 5, 1000
		ribs := make(map[string]*rib.RIB)
		tables := func(name string) (*rib.RIB, error) {
			if ribs[name] == nil {
				ribs[name] = rib.New(rib.Options{MaxPending: -1, Log: slog.New(slog.DiscardHandler)})
			}
			return ribs[name], nil
		}
		s, err := New(Config{Log: slog.New(slog.DiscardHandler), Routers: []RouterConfig{
			{Name: "r", Addr: routerAddr, Port: 1, VRFTable: "{rd}", MaxTables: maxTables, MaxPeers: maxPeers, MaxRoutes: maxRoutes},
		}}, tables, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		r := s.routers["r"]
		c := recording{bytes.NewReader(stream)}
		// Its routes are looked at when the last byte is read, before they go.
		look := &atEnd{Reader: c.Reader, then: func() {
			if len(ribs) > maxTables+1 {
				t.Errorf("%d tables", len(ribs))
			}
			if st := r.stats(); len(st.Peers) > maxPeers {
				t.Errorf("%d peers", len(st.Peers))
			}
			for name, f := range r.feeds {
				for n, path := range f.peer.Routes() {
					if !n.Prefix.IsValid() || n.Prefix != n.Prefix.Masked() || !path.Value().NextHop.IsValid() {
						t.Errorf("%s: %v by %v", name, n.Prefix, path.Value().NextHop)
					}
				}
			}
		}}
		if err := s.serve(t.Context(), recording{look}, func() (*router, error) { return r, nil }); err == nil {
			t.Fatal("the end has no reason")
		}
		if n := r.stats().Panics; n > 0 {
			t.Errorf("%d panics", n)
		}
		if len(r.feeds) > 0 {
			t.Errorf("%d feeds left", len(r.feeds))
		}
		for name, table := range ribs {
			if v4, v6 := table.Counts(); v4+v6 > 0 {
				t.Errorf("%d prefixes left in %s", v4+v6, name)
			}
			for _, p := range table.Peers() {
				if p.Name != "r" {
					t.Errorf("peer %s is left in %s", p.Name, name)
				}
			}
		}
	})
}

// atEnd calls then before it tells that there is no more.
type atEnd struct {
	io.Reader
	then func()
}

func (a *atEnd) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	if err != nil && a.then != nil {
		a.then()
		a.then = nil
	}
	return n, err
}

// Any message cut anywhere, with any byte changed, costs itself only: what follows is read.
func TestEveryByteMayBeWrong(t *testing.T) {
	const rd = 64500<<32 | 1
	messages := [][]byte{
		hello(), up(pre1), named(up(loc), "global"), monitor(pre1, announce("10.0.0.0/8")), monitor(pre1, announce("2001:db8::/32")),
		down(pre1, 1), up(pre1.in(rd)), monitor(pre1.in(rd), announce("10.0.0.0/8")),
		raw(StatisticsReport, pre1.bytes(), []byte{0, 0, 0, 1, 0, 7, 0, 8, 0, 0, 0, 0, 0, 0, 0, 9}), raw(RouteMirroring, pre1.bytes(), []byte{0, 1, 0, 2, 0, 0, 0, 0, 0, 1, 7}),
	}
	var stream bytes.Buffer
	stream.Write(hello())
	n := uint64(0)
	for _, m := range messages {
		for at := commonLength; at < len(m); at++ {
			for _, v := range []byte{0, 0xff, m[at] ^ 1, m[at] ^ 0x80} {
				bad := slices.Clone(m)
				bad[at] = v
				stream.Write(bad)
				n++
			}
			cut := slices.Clone(m[:at])
			binary.BigEndian.PutUint32(cut[1:], uint32(at))
			stream.Write(cut)
			n++
		}
	}
	last := who{addr: netip.MustParseAddr("192.0.2.77"), as: peerAS}
	stream.Write(slices.Concat(up(last), monitor(last, announce("10.0.0.0/8"))))
	s := start(t, func(c *Config) { c.Log = slog.New(slog.DiscardHandler) }, RouterConfig{Name: "r1", Addr: routerAddr, MaxPeers: 10_000, VRFTable: "{rd}"})
	r := connect(t, s, routerAddr)
	r.send(stream.Bytes())
	s.has("default", "r1/192.0.2.77/pre", 1)
	st := s.stats("r1")
	mustBe(t, "connections", st.Ups, 1)
	mustBe(t, "panics", st.Panics, 0)
	var all uint64
	for _, c := range st.Messages {
		all += c
	}
	mustBe(t, "messages", all, n+3)
	if st.Damaged == 0 {
		t.Error("nothing was damaged")
	}
}
