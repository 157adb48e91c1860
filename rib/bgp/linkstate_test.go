package bgp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgpls"
	"github.com/ribwarp/ribwarp/rib/hotpotato"
	"github.com/ribwarp/ribwarp/rib/igp"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// mpLS is the capability of BGP-LS.
var mpLS = []byte{1, 4, 0x40, 0x04, 0, 71}

// triangle is three routers with a link between any two.
func triangle(t *testing.T) (*igp.Topology, []fixtures.LinkStateRoute) {
	t.Helper()
	topology, err := igp.New(
		[]igp.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		[]igp.Link{{From: "a", To: "b", Metric: 1, Reverse: 1}, {From: "b", To: "c", Metric: 1, Reverse: 1}, {From: "c", To: "a", Metric: 1, Reverse: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return topology, fixtures.LinkState(topology)
}

// linked starts a server whose peer may announce link state.
func linked(t *testing.T, change func(*PeerConfig)) (*service, *bgpls.Database) {
	t.Helper()
	db := bgpls.NewDatabase(slog.New(slog.DiscardHandler), nil)
	cfg := passivePeer
	cfg.LinkState = true
	if change != nil {
		change(&cfg)
	}
	return start(t, func(c *Config) { c.LinkState = db }, cfg), db
}

// shape is how many nodes and links there are.
func shape(db *bgpls.Database) [2]int {
	db.Renew()
	t, err := db.Topology()
	if err != nil {
		panic(err)
	}
	return [2]int{len(t.Nodes), len(t.Links)}
}

func (s *speaker) announceLinkState(routes []fixtures.LinkStateRoute) {
	s.t.Helper()
	for _, r := range routes {
		s.send(msgUpdate, fixtures.LinkStateUpdate(false, r)...)
	}
}

func TestLinkStateOfASession(t *testing.T) {
	s, db := linked(t, nil)
	_, routes := triangle(t)
	p := dial(t, s, peerAddr)
	p.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4, mpLS)...)
	if open := p.expect(msgOpen); !bytes.Contains(open, mpLS) {
		t.Errorf("the OPEN does not ask for link state: %x", open)
	}
	p.expect(msgKeepalive)
	p.send(msgKeepalive)
	mustBe(t, p.expect(msgUpdate), endOfRIB(false))
	mustBe(t, p.expect(msgUpdate), fixtures.LinkStateUpdate(false))
	p.announceLinkState(routes)
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "triangle", func() bool { return shape(db) == [2]int{3, 3} })
	p.send(msgUpdate, fixtures.LinkStateUpdate(true, routes[3])...) // a link goes in one direction
	await(t, "withdrawal", func() bool { return shape(db) == [2]int{3, 2} })
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	stats := s.Stats().Peers[0]
	mustBe(t, []any{stats.Ignored, stats.LinkState.Objects, stats.Verdicts[0]}, []any{0, 8, 11})
	p.conn.Close()
	await(t, "loss", func() bool { return shape(db) == [2]int{0, 0} })
}

func TestLinkStateThatNobodyAskedFor(t *testing.T) {
	s := start(t, nil, passivePeer)
	_, routes := triangle(t)
	p := dial(t, s, peerAddr)
	p.send(msgOpen, openBody(peerAS, 90, as4(peerAS), mp4, mpLS)...)
	if open := p.expect(msgOpen); bytes.Contains(open, mpLS) {
		t.Errorf("the OPEN asks for link state: %x", open)
	}
	p.send(msgKeepalive)
	p.announceLinkState(routes)
	await(t, "count of what is passed over", func() bool { return s.Stats().Peers[0].Ignored == uint64(len(routes)) })
	mustBe(t, s.Stats().Peers[0].Established, true)
}

// What both sides did not agree upon is passed over.
func TestLinkStateThatWasNotAgreedUpon(t *testing.T) {
	s, db := linked(t, nil)
	_, routes := triangle(t)
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	p.announceLinkState(routes)
	await(t, "count of what is passed over", func() bool { return s.Stats().Peers[0].Ignored == uint64(len(routes)) })
	mustBe(t, shape(db), [2]int{0, 0})
}

// restartLS is graceful restart for IPv4 and link state.
func restartLS(seconds byte) []byte {
	return []byte{64, 10, 0, seconds, 0, 1, 1, forwarded, 0x40, 0x04, 71, 0}
}

func TestLinkStateIsKeptThroughARestart(t *testing.T) {
	s, db := linked(t, nil)
	_, routes := triangle(t)
	open := openBody(peerAS, 90, as4(peerAS), mp4, mpLS, restartLS(100))
	p := dial(t, s, peerAddr)
	p.establish(open)
	p.announceLinkState(routes)
	await(t, "triangle", func() bool { return shape(db) == [2]int{3, 3} })
	p.conn.Close()
	await(t, "loss", func() bool { return s.Stats().Peers[0].LinkState.Stale == len(routes) })
	mustBe(t, shape(db), [2]int{3, 3})

	p = dial(t, s, peerAddr)
	p.establish(open)
	p.announceLinkState(routes[:3]) // its links are gone
	await(t, "nodes announced again", func() bool { return s.Stats().Peers[0].LinkState.Stale == len(routes)-3 })
	mustBe(t, shape(db), [2]int{3, 3})
	p.send(msgUpdate, fixtures.LinkStateUpdate(false)...)
	await(t, "sweep", func() bool { return shape(db) == [2]int{3, 0} })

	// One that comes back and does not say that it was restarting has nothing kept.
	p.conn.Close()
	await(t, "loss", func() bool { return s.Stats().Peers[0].LinkState.Stale == 3 })
	p = dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4, mpLS))
	await(t, "end of what was kept", func() bool { return shape(db) == [2]int{0, 0} })
}

func TestKeptLinkStateIsGivenUp(t *testing.T) {
	s, db := linked(t, func(c *PeerConfig) { c.StaleTime = 200 * time.Millisecond })
	_, routes := triangle(t)
	open := openBody(peerAS, 90, as4(peerAS), mp4, mpLS, restartLS(100))
	for _, back := range []bool{false, true} {
		p := dial(t, s, peerAddr)
		p.establish(open)
		p.announceLinkState(routes)
		await(t, "triangle", func() bool { return shape(db) == [2]int{3, 3} })
		p.conn.Close()
		if back { // without a word
			await(t, "loss", func() bool { return s.Stats().Peers[0].LinkState.Stale > 0 })
			p = dial(t, s, peerAddr)
			p.establish(open)
		}
		await(t, "end", func() bool { return shape(db) == [2]int{0, 0} })
		p.conn.Close()
		await(t, "loss", func() bool { return !s.Stats().Peers[0].Established })
	}
}

// RFC 9552, 8.2.2: damage costs as little as it may.
func TestDamagedLinkState(t *testing.T) {
	_, routes := triangle(t)
	bad := slices.Clone(routes[0].NLRI)
	bad[len(bad)-7] = 0xff // the length of a sub-TLV
	for _, ipv4 := range []bool{true, false} {
		s, db := linked(t, nil)
		caps := [][]byte{as4(peerAS), mpLS}
		if ipv4 {
			caps = append(caps, mp4)
		}
		p := dial(t, s, peerAddr)
		p.establish(openBody(peerAS, 90, caps...))
		p.announceLinkState(routes)
		p.send(msgUpdate, fixtures.LinkStateUpdate(false, fixtures.LinkStateRoute{NLRI: bad})...)
		await(t, "NLRI discard", func() bool { return s.Stats().Peers[0].LinkState.Discarded == 1 })
		mustBe(t, shape(db), [2]int{3, 3})
		p.send(msgUpdate, fixtures.LinkStateUpdate(false, fixtures.LinkStateRoute{NLRI: routes[0].NLRI[:20]})...)
		if !ipv4 {
			for kind := byte(0); kind != msgNotification; {
				var body []byte
				var err error
				if kind, body, err = p.receive(); err != nil {
					t.Fatal(err)
				}
				if kind == msgNotification {
					mustBe(t, body[:2], []byte{3, 9})
				}
			}
			await(t, "end", func() bool { return shape(db) == [2]int{0, 0} })
			continue
		}
		await(t, "end of the family", func() bool { return shape(db) == [2]int{0, 0} })
		p.announceLinkState(routes)
		p.send(msgUpdate, update4(path4, net10...)...)
		await(t, "route", func() bool { return len(s.routes()) == 1 })
		mustBe(t, []any{shape(db), s.Stats().Peers[0].Established}, []any{[2]int{0, 0}, true})
	}
}

func TestLinkStateNeedsADatabase(t *testing.T) {
	cfg := passivePeer
	cfg.LinkState = true
	_, err := New(Config{ASN: ownAS, RouterID: ownID, Listen: []string{"127.0.0.1:0"}, Peers: []PeerConfig{cfg}}, tables(rib.New(rib.Options{})), nil)
	if err == nil {
		t.Error("no error")
	}
}

// linkStatePath is a path of BGP-LS as GoBGP's API has it. It writes link-state attributes with wrong types, so
// that they go as bytes, and no link without addresses of both families.
func linkStatePath(t *testing.T, kind api.LsNLRIType, nlri proto.Message, attribute []byte) *api.Path {
	t.Helper()
	pack := func(m proto.Message) *anypb.Any {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	return &api.Path{
		Family: &api.Family{Afi: api.Family_AFI_LS, Safi: api.Family_SAFI_LS},
		Nlri:   pack(&api.LsAddrPrefix{Type: kind, Nlri: pack(nlri), ProtocolId: api.LsProtocolID_LS_PROTOCOL_ISIS_L2}),
		Pattrs: []*anypb.Any{
			pack(&api.OriginAttribute{}), pack(&api.NextHopAttribute{NextHop: "192.0.2.1"}),
			pack(&api.UnknownAttribute{Flags: 0x80, Type: 29, Value: attribute}),
		},
	}
}

// gobgpNode names router i.
func gobgpNode(i int) *api.LsNodeDescriptor {
	return &api.LsNodeDescriptor{Asn: 64500, IgpRouterId: fmt.Sprintf("%06d", i)}
}

// Two exits of an iBGP peer, which announces the topology, too: GoBGP's server. Whatever changes in the
// topology decides between them.
func TestExitsByBGPLSFromGoBGP(t *testing.T) {
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := rib.New(rib.Options{LocalAS: ownAS})
	publisher := rib.NewPublisher(r, engine, rib.PublisherOptions{})
	go func() { _ = publisher.Run(t.Context()) }()
	keeper := hotpotato.New(hotpotato.Options{Tables: r})
	db := bgpls.NewDatabase(slog.Default(), keeper.Notify)
	keeper.Set(hotpotato.Config{Root: "paris", Source: "bgp-ls"}, db)
	go keeper.Run(t.Context())
	s, err := New(Config{ASN: ownAS, RouterID: ownID, Listen: []string{ownAddr.String() + ":0"}, LinkState: db,
		Peers: []PeerConfig{{Name: "rr", Addr: peerAddr, AS: ownAS, Passive: true, LinkState: true}}}, tables(r), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)

	g := ribtest.StartGoBGP(t, ownAS, peerAddr, 0)
	g.Peer(peerAddr, ownAddr, ownAS, s.Addrs()[0].Port(), nil, ribtest.Unicast(api.Family_AFI_IP, 4),
		&api.AfiSafi{Config: &api.AfiSafiConfig{Family: &api.Family{Afi: api.Family_AFI_LS, Safi: api.Family_SAFI_LS}, Enabled: true}})
	node := func(i int, name, addr string, overload bool) *api.Path {
		attribute := lsTLV(1026, []byte(name))
		if overload {
			attribute = append(lsTLV(1024, []byte{0x80}), attribute...)
		}
		attribute = append(attribute, lsTLV(1028, netip.MustParseAddr(addr).AsSlice())...)
		return linkStatePath(t, api.LsNLRIType_LS_NLRI_NODE, &api.LsNodeNLRI{LocalNode: gobgpNode(i)}, attribute)
	}
	link := func(from, to int, metric byte) *api.Path {
		local, remote := fmt.Sprintf("10.0.%d.%d", min(from, to)*10+max(from, to), from+1), fmt.Sprintf("10.0.%d.%d", min(from, to)*10+max(from, to), to+1)
		return linkStatePath(t, api.LsNLRIType_LS_NLRI_LINK, &api.LsLinkNLRI{LocalNode: gobgpNode(from), RemoteNode: gobgpNode(to),
			LinkDescriptor: &api.LsLinkDescriptor{InterfaceAddrIpv4: local, NeighborAddrIpv4: remote, InterfaceAddrIpv6: "2001:db8::" + local, NeighborAddrIpv6: "2001:db8::" + remote}}, lsTLV(1095, []byte{0, 0, metric}))
	}
	both := func(a, b int, metric byte) {
		t.Helper()
		g.Add(link(a, b, metric))
		g.Add(link(b, a, metric))
	}
	const paris, rome, oslo, bern = 0, 1, 2, 3
	for i, n := range []string{"paris", "rome", "oslo", "bern"} {
		g.Add(node(i, n, fmt.Sprintf("192.0.2.%d", 10+i), false))
	}
	both(paris, rome, 10)
	both(paris, oslo, 20)
	both(paris, bern, 1)
	both(bern, oslo, 3)

	for id, exit := range map[uint32]string{1: "192.0.2.11", 2: "192.0.2.12"} {
		path := g.Path("10.0.0.0/8", id)
		hop, _ := anypb.New(&api.NextHopAttribute{NextHop: exit})
		path.Pattrs = []*anypb.Any{path.Pattrs[0], hop}
		g.Add(path)
	}
	exit := func(want string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Logf("%+v\n%+v", s.Stats().Peers[0], keeper.Status())
			}
		}()
		await(t, "exit "+want, func() bool {
			gen := publisher.Generations().Acquire()
			if gen == nil {
				return false
			}
			defer gen.Release()
			route := gen.Route(gen.Table.Find(netip.MustParsePrefix("10.0.0.0/8")))
			if route == (rib.Route{}) {
				return want == ""
			}
			return route.Path.Value().NextHop.String() == want
		})
	}
	const toRome, toOslo = "192.0.2.11", "192.0.2.12"
	exit(toOslo) // 4 by bern
	g.Add(node(bern, "bern", "192.0.2.13", true))
	exit(toRome) // nothing goes through bern any more
	g.Add(node(bern, "bern", "192.0.2.13", false))
	exit(toOslo)
	both(bern, oslo, 15)
	exit(toRome)
	both(bern, oslo, 8)
	exit(toOslo)
	g.Drop(link(oslo, bern, 8)) // the two-way check takes the link out
	exit(toRome)
	g.Drop(link(rome, paris, 10))
	exit(toOslo) // rome is out of reach
	g.Drop(link(paris, oslo, 20))
	exit("") // so is oslo
	both(paris, rome, 10)
	exit(toRome)
	if err := g.ResetPeer(t.Context(), &api.ResetPeerRequest{Address: ownAddr.String()}); err != nil {
		t.Fatal(err)
	}
	exit(toRome)
	stats := keeper.Status()
	if stats.RootNode != "paris" || stats.Nodes != 4 || stats.Failures != 0 || stats.DecidedAgain == 0 {
		t.Errorf("%+v", stats)
	}
	g.Stop()
	await(t, "end", func() bool { return len(keeper.Topology().Nodes) == 0 })
}

func lsTLV(kind int, value []byte) []byte {
	return append([]byte{byte(kind >> 8), byte(kind), 0, byte(len(value))}, value...)
}
