package bmp

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	codec "github.com/osrg/gobgp/v3/pkg/packet/bmp"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/wire"
)

func TestRoutesOfAPeer(t *testing.T) {
	s := start(t, nil, r1)
	pending := func() string { return strings.Join(s.ribs["default"].Pending(), " ") }
	mustBe(t, "awaited before it comes", pending(), "r1")
	r := join(t, s, routerAddr)
	r.send(up(pre1), up(pre6), monitor(pre1, announce("10.0.0.0/8", "10.1.0.0/16")), monitor(pre1, announce("2001:db8::/32")))
	s.has("default", "r1/192.0.2.1/pre", 3)
	mustBe(t, "state of the router", s.peer("default", "r1").State, "established")
	p := s.peer("default", "r1/192.0.2.1/pre")
	mustBe(t, "AS", p.AS, peerAS)
	mustBe(t, "address", p.Addr, peer1)
	mustBe(t, "router ID", p.RouterID, netip.MustParseAddr("192.0.2.200"))
	mustBe(t, "kind", p.Kind, rib.KindBMP)
	c, _ := s.path("default", "r1/192.0.2.1/pre", "10.1.0.0/16")
	mustBe(t, "AS path", c.Path.Value().ASPath, rib.ASPath(sequence(4, peerAS, 64501)))

	r.send(monitor(pre1, withdraw("10.1.0.0/16")), monitor(pre1, withdraw("2001:db8::/32")))
	s.has("default", "r1/192.0.2.1/pre", 1)
	r.send(monitor(pre1, endOfRIB4), monitor(pre1, endOfRIB6))
	await(t, "End-of-RIB of the first peer", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Loaded })
	mustBe(t, "awaited with one of two peers", pending(), "r1")
	r.send(monitor(pre6, announce("10.0.0.0/8")), monitor(pre6, endOfRIB4), monitor(pre6, endOfRIB6))
	await(t, "first load", func() bool { return pending() == "" })

	for reason, says := range map[uint8]string{
		1: "the router has sent NOTIFICATION 6/2", 2: "event 24", 3: "the peer has sent NOTIFICATION 6/2",
		4: "the peer has closed the session", 5: "no longer monitors", 6: "closed the table", 77: "reason 77",
	} {
		r.send(monitor(pre1, announce("10.2.0.0/16")))
		s.has("default", "r1/192.0.2.1/pre", 2)
		r.send(down(pre1, reason))
		await(t, "peer down", func() bool { return s.peer("default", "r1/192.0.2.1/pre").State == "down" })
		p := s.peer("default", "r1/192.0.2.1/pre")
		mustBe(t, "routes of a peer that is down", p.V4+p.V6, 0)
		if !strings.Contains(p.LastError, says) {
			t.Errorf("reason %d: %q", reason, p.LastError)
		}
		mustBe(t, "routes of the other peer", s.peer("default", "r1/2001:db8::6/pre").V4, 1)
		r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
		s.has("default", "r1/192.0.2.1/pre", 1)
	}
	// A Peer Up of a peer that is up: its session was lost and came back in between.
	r.send(up(pre1), monitor(pre1, announce("10.9.0.0/16")))
	await(t, "routes of the new session only", func() bool {
		_, before := s.path("default", "r1/192.0.2.1/pre", "10.0.0.0/8")
		_, now := s.path("default", "r1/192.0.2.1/pre", "10.9.0.0/16")
		return now && !before
	})
	// With another AS number it is another peer.
	other := pre1
	other.as = 64777
	r.send(up(other), monitor(other, announce("10.0.0.0/8")))
	await(t, "peer with another AS", func() bool { return s.peer("default", "r1/192.0.2.1/pre").AS == 64777 })
	s.has("default", "r1/192.0.2.1/pre", 1)

	_ = r.Close()
	await(t, "withdrawal with the router", func() bool { return len(s.ribs["default"].Peers()) == 1 })
	v4, v6 := s.ribs["default"].Counts()
	mustBe(t, "prefixes left", v4+v6, 0)
	mustBe(t, "state", s.peer("default", "r1").State, "down")
	mustBe(t, "damaged", s.stats("r1").Damaged, 0)
}

func TestViews(t *testing.T) {
	names := map[View]string{ViewPre: "r1/192.0.2.1/pre", ViewPost: "r1/192.0.2.1/post", ViewLocRIB: "r1/loc-rib"}
	all := map[View][]byte{
		ViewPre: monitor(pre1, announce("10.0.0.0/8")), ViewPost: monitor(post1, announce("10.0.0.0/8")), ViewLocRIB: monitor(loc, announce("10.0.0.0/8")),
	}
	order := []View{ViewPost, ViewLocRIB, ViewPre}
	for _, want := range []View{ViewPre, ViewPost, ViewLocRIB, ViewFirst} {
		t.Run("view "+string(want), func(t *testing.T) {
			c := r1
			c.View = want
			s := start(t, nil, c)
			r := join(t, s, routerAddr)
			r.send(named(up(loc.flag(flagFiltered)), "global"), up(pre1))
			for range 2 {
				for _, v := range order {
					r.send(all[v])
				}
			}
			r.send(monitor(out1, announce("10.5.0.0/16")), monitor(out1.flag(flagPost), announce("10.5.0.0/16")))
			await(t, "all messages", func() bool { return s.stats("r1").Messages[RouteMonitoring] == 8 })
			if want == ViewFirst {
				want = order[0]
			}
			for v, name := range names {
				routes := 0
				if v == want {
					routes = 1
				}
				mustBe(t, "routes of "+name, s.peer("default", name).V4, routes)
			}
			st := s.stats("r1")
			mustBe(t, "ignored views", st.Ignored[IgnoredView], 4)
			mustBe(t, "ignored Adj-RIB-Out", st.Ignored[IgnoredAdjRIBOut], 2)
			l := st.Peers[1]
			if l.Name != "r1/loc-rib" || l.Table != "global" || !l.Filtered {
				t.Errorf("Loc-RIB: %+v", l)
			}
		})
	}
}

// FRR 8.4 ends a first load with an End-of-RIB of both views, that of the one which it does not
// mirror first. Only a route decides which view feeds the table.
func TestEndOfRIBDoesNotDecideAboutTheView(t *testing.T) {
	s := start(t, nil, r1)
	r := join(t, s, routerAddr)
	post2 := pre2.flag(flagPost)
	both := func(pre, post who) {
		r.send(up(pre), monitor(post, endOfRIB4), monitor(pre, endOfRIB4), monitor(post, endOfRIB6), monitor(pre, endOfRIB6))
	}
	loaded := func() bool { return len(s.ribs["default"].Pending()) == 0 }
	r.send(up(pre2), monitor(post2, endOfRIB4))
	both(pre1, post1)
	r.send(monitor(post1, updateOf(nil, goodAttrs, nil))) // no route either
	await(t, "all messages", func() bool { return s.stats("r1").Messages[RouteMonitoring] == 6 })
	mustBe(t, "peers before any route", len(s.ribs["default"].Peers()), 1)
	mustBe(t, "loaded while one of two peers has not ended", loaded(), false)
	r.send(monitor(post2, endOfRIB6))
	await(t, "first load of a router without routes", loaded)

	r.send(monitor(pre1, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 1)
	mustBe(t, "a peer that had ended", s.peer("default", "r1/192.0.2.1/pre").Loaded, true)
	mustBe(t, "a peer that has ended the other view", s.peer("default", "r1/192.0.2.2/pre").Name, "")
	r.send(monitor(post1, announce("10.1.0.0/16")), monitor(post1, endOfRIB4))
	await(t, "the other view", func() bool { return s.stats("r1").Ignored[IgnoredView] == 2 })
	mustBe(t, "routes", s.peer("default", "r1/192.0.2.1/pre").V4, 1)
	mustBe(t, "damaged", s.stats("r1").Damaged, 0)
}

// A peer that has come back without routes has its stale ones swept, whatever decides about the view.
func TestEarlyEndOfRIBCounts(t *testing.T) {
	c := r1
	c.StaleTime = time.Hour
	s := start(t, nil, c)
	r := join(t, s, routerAddr)
	r.send(up(pre1), up(pre2), monitor(pre1, announce("10.0.0.0/8")), monitor(pre2, announce("10.2.0.0/16")))
	s.has("default", "r1/192.0.2.2/pre", 1)
	_ = r.Close()
	await(t, "stale routes", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Stale4 == 1 })
	r = join(t, s, routerAddr)
	r.send(up(pre1), up(pre2), monitor(pre1, endOfRIB4), monitor(pre1, endOfRIB6), monitor(pre2, announce("10.2.0.0/16")))
	s.has("default", "r1/192.0.2.1/pre", 0)
	await(t, "its first load", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Loaded })
	s.has("default", "r1/192.0.2.2/pre", 1)

	// What feeds no table any more has decided nothing.
	r.send(down(pre1, 4), down(pre2, 4), up(pre1))
	const rd = 64500<<32 | 1
	r.send(up(pre1.in(rd)), monitor(pre1.in(rd), announce("10.0.0.0/8")))
	await(t, "a VRF without a table", func() bool { return s.stats("r1").Ignored[IgnoredVRF] == 1 })
	session := s.of("r1")[0].current
	session.cancel(nil) // so that only this goroutine looks
	_ = r.Close()
	<-session.done
	mustBe(t, "views that are decided", len(session.views), 1)
}

func TestPeerUpForEveryView(t *testing.T) {
	c := r1
	c.View = ViewPre
	s := start(t, nil, c)
	r := join(t, s, routerAddr)
	r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")), up(post1), monitor(pre1, announce("10.1.0.0/16")))
	s.has("default", "r1/192.0.2.1/pre", 2)
}

func TestLocRIBWithoutPeerUp(t *testing.T) {
	s := start(t, nil, r1)
	r := join(t, s, routerAddr)
	r.send(monitor(loc, announce("10.0.0.0/8")), monitor(loc, announce("2001:db8::/32")), monitor(loc, endOfRIB4), monitor(loc, endOfRIB6))
	s.has("default", "r1/loc-rib", 2)
	await(t, "first load", func() bool { return len(s.ribs["default"].Pending()) == 0 })
	mustBe(t, "address", s.peer("default", "r1/loc-rib").Addr, routerAddr)
	r.send(down(loc, 6), monitor(loc, announce("10.0.0.0/8")))
	await(t, "what comes behind its end", func() bool { return s.stats("r1").Ignored[IgnoredNoPeerUp] == 1 })
	mustBe(t, "routes", s.peer("default", "r1/loc-rib").V4, 0)
}

// withID puts a path identifier before the one prefix.
func withID(id uint32, prefix string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, id), nlri(prefix)...)
}

// What UPDATEs mean depends on the OPENs, and for the size of AS numbers on a flag.
func TestUpdatesAreReadAsThePeersAgreed(t *testing.T) {
	four := rib.ASPath(sequence(4, peerAS, 64501))
	rx, tx, rxtx := bgp.BGP_ADD_PATH_RECEIVE, bgp.BGP_ADD_PATH_SEND, bgp.BGP_ADD_PATH_BOTH
	plain, ids := nlri("10.1.0.0/16"), withID(7, "10.1.0.0/16")
	twoByte := pre1.flag(flagTwoByteAS)
	internal := pre1
	internal.as = routerAS
	for _, c := range []struct {
		name           string
		who            who
		sent, received *bgp.BGPMessage
		path           []byte
		nlri           []byte
		noAddPath      bool
		id             uint32
		localPref      bool
	}{
		{name: "4-byte AS", who: pre1, sent: openOf(routerAS), received: openOf(peerAS), path: asPath, nlri: plain},
		{name: "2-byte AS by the flag", who: twoByte, sent: openOf(routerAS), received: old(peerAS), path: asPath2, nlri: plain},
		{name: "the flag wins over the OPENs", who: twoByte, sent: openOf(routerAS), received: openOf(peerAS), path: asPath2, nlri: plain},
		{name: "4-byte AS of a 2-byte peer", who: pre1, sent: openOf(routerAS), received: old(peerAS), path: asPath, nlri: plain},
		{name: "2-byte AS without the flag", who: pre1, sent: openOf(routerAS), received: old(peerAS), path: asPath2, nlri: plain},
		{name: "the flag means nothing to a Loc-RIB", who: loc.flag(flagTwoByteAS), sent: openOf(routerAS), received: openOf(routerAS), path: asPath, nlri: plain, localPref: true},
		{name: "ADD-PATH", who: pre1, sent: openOf(routerAS, addPaths(rx, bgp.RF_IPv4_UC)), received: openOf(peerAS, addPaths(tx, bgp.RF_IPv4_UC)), path: asPath, nlri: ids, id: 7},
		{name: "ADD-PATH both ways", who: pre1, sent: openOf(routerAS, addPaths(rxtx, bgp.RF_IPv4_UC)), received: openOf(peerAS, addPaths(rxtx, bgp.RF_IPv4_UC)), path: asPath, nlri: ids, id: 7},
		{name: "ADD-PATH the other way", who: pre1, sent: openOf(routerAS, addPaths(tx, bgp.RF_IPv4_UC)), received: openOf(peerAS, addPaths(rx, bgp.RF_IPv4_UC)), path: asPath, nlri: plain},
		{name: "ADD-PATH of the other family", who: pre1, sent: openOf(routerAS, addPaths(rx, bgp.RF_IPv6_UC)), received: openOf(peerAS, addPaths(tx, bgp.RF_IPv6_UC)), path: asPath, nlri: plain},
		{name: "ADD-PATH that the router leaves out", who: pre1, sent: openOf(routerAS, addPaths(rx, bgp.RF_IPv4_UC)), received: openOf(peerAS, addPaths(tx, bgp.RF_IPv4_UC)), path: asPath, nlri: plain, noAddPath: true},
		{name: "ADD-PATH of a Loc-RIB", who: loc, sent: openOf(routerAS, addPaths(tx, bgp.RF_IPv4_UC)), received: openOf(routerAS), path: asPath, nlri: ids, id: 7, localPref: true},
		{name: "LOCAL_PREF from another AS, after policy", who: post1, sent: openOf(routerAS), received: openOf(peerAS), path: asPath, nlri: plain, localPref: true},
		{name: "LOCAL_PREF of iBGP", who: internal, sent: openOf(routerAS), received: openOf(routerAS), path: asPath, nlri: plain, localPref: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rc := r1
			rc.NoAddPath = c.noAddPath
			s := start(t, nil, rc)
			r := join(t, s, routerAddr)
			r.send(upWith(c.who, c.sent, c.received), monitor(c.who, updateOf(nil, [][]byte{origin, c.path, nextHop, localPref}, c.nlri)))
			var paths []rib.Candidate
			await(t, "the route", func() bool {
				paths = s.ribs["default"].Paths(netip.MustParsePrefix("10.1.0.0/16"))
				return len(paths) == 1
			})
			a := paths[0].Route.Path.Value()
			mustBe(t, "AS path", a.ASPath, four)
			mustBe(t, "path identifier", paths[0].Route.PathID, c.id)
			mustBe(t, "has LOCAL_PREF", a.HasLocalPref, c.localPref)
			mustBe(t, "sound messages", s.stats("r1").Verdicts[wire.OK], 1)
		})
	}
}

func TestVRFs(t *testing.T) {
	const rd0, rd1, rd2, rd2small, odd = 64500<<32 | 1, 1<<48 | 0xc0000201<<16 | 5, 2<<48 | 400000<<16 | 9, 2<<48 | 64500<<16 | 1, 9<<48 | 1
	for rd, want := range map[distinguisher]string{
		0: "global", rd0: "64500:1", rd1: "192.0.2.1:5", rd2: "400000:9", rd2small: "0.64500:1", odd: "0x0009000000000001",
	} {
		mustBe(t, "distinguisher", rd.String(), want)
	}
	everything := func(t *testing.T, c RouterConfig) (*service, *scripted) {
		s := start(t, nil, c)
		r := join(t, s, routerAddr)
		for _, w := range []who{pre1, pre1.in(rd0), pre1.in(rd1), pre1.in(rd2)} {
			r.send(up(w), monitor(w, announce("10.0.0.0/8")))
		}
		r.send(hello()) // a message is counted before it is applied: with the next one it has been
		await(t, "all messages", func() bool { return s.stats("r1").Messages[Initiation] == 2 })
		return s, r
	}
	t.Run("a table each", func(t *testing.T) {
		c := r1
		c.VRFTable = "{router}:{rd}"
		s, r := everything(t, c)
		for table, peer := range map[string]string{
			"default": "r1/192.0.2.1/pre", "r1:64500:1": "r1/192.0.2.1/64500:1/pre", "r1:192.0.2.1:5": "r1/192.0.2.1/192.0.2.1:5/pre", "r1:400000:9": "r1/192.0.2.1/400000:9/pre",
		} {
			mustBe(t, "routes in "+table, s.peer(table, peer).V4, 1)
		}
		r.send(monitor(pre1.in(rd0), endOfRIB4))
		// The view of each VRF is its own.
		r.send(up(loc.in(77)), monitor(loc.in(77), announce("10.0.0.0/8")))
		s.has("r1:0:77", "r1/loc-rib/0:77", 1)
		r.send(down(pre1.in(rd1), 4))
		s.has("r1:192.0.2.1:5", "r1/192.0.2.1/192.0.2.1:5/pre", 0)
		mustBe(t, "routes of the same peer elsewhere", s.peer("default", "r1/192.0.2.1/pre").V4, 1)
		_ = r.Close()
		s.has("r1:64500:1", "r1/192.0.2.1/64500:1/pre", 0)
	})
	t.Run("one template for all", func(t *testing.T) {
		c := r1
		c.Table = "{router}:{rd}"
		s, _ := everything(t, c)
		mustBe(t, "routes", s.peer("r1:global", "r1/192.0.2.1/pre").V4, 1)
		mustBe(t, "routes", s.peer("r1:64500:1", "r1/192.0.2.1/64500:1/pre").V4, 1)
	})
	t.Run("ignored", func(t *testing.T) {
		s, _ := everything(t, r1)
		mustBe(t, "ignored", s.stats("r1").Ignored[IgnoredVRF], 3)
		mustBe(t, "routes", s.peer("default", "r1/192.0.2.1/pre").V4, 1)
		mustBe(t, "tables", len(s.ribs), 1)
	})
	t.Run("too many", func(t *testing.T) {
		c := r1
		c.VRFTable, c.MaxTables = "{rd}", 2
		s, _ := everything(t, c)
		mustBe(t, "ignored", s.stats("r1").Ignored[IgnoredTable], 2)
		mustBe(t, "tables", len(s.ribs), 2)
	})
	t.Run("no such table", func(t *testing.T) {
		c := r1
		c.VRFTable = "fails:{rd}"
		s, r := everything(t, c)
		mustBe(t, "ignored", s.stats("r1").Ignored[IgnoredTable], 1)
		r.send(monitor(pre1, announce("10.1.0.0/16")))
		s.has("default", "r1/192.0.2.1/pre", 2)
	})
	t.Run("VRFs that look the same", func(t *testing.T) {
		c := r1
		c.VRFTable = "{rd}"
		s := start(t, nil, c)
		r := join(t, s, routerAddr)
		a, b := pre1.in(rd0), pre1.in(rd0)
		b.kind = 2
		r.send(up(a), up(b), monitor(a, announce("10.0.0.0/8")), monitor(b, announce("10.1.0.0/16")), monitor(a, announce("10.2.0.0/16")))
		s.has("64500:1", "r1/192.0.2.1/64500:1/pre", 2)
		mustBe(t, "ignored", s.stats("r1").Ignored[IgnoredTable], 1)
	})
}

// Damage costs what it is in, and no more.
func TestDamage(t *testing.T) {
	s := start(t, nil, r1)
	r := join(t, s, routerAddr)
	r.send(up(pre1), up(pre2), monitor(pre1, announce("10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16")), monitor(pre2, announce("10.0.0.0/8")))
	s.has("default", "r1/192.0.2.1/pre", 3)
	s.has("default", "r1/192.0.2.2/pre", 1)
	head := pre1.bytes()
	damaged := [][]byte{
		raw(RouteMonitoring), raw(PeerUp), raw(PeerDown), raw(StatisticsReport), raw(RouteMirroring),
		raw(RouteMonitoring, head[:41]),
		raw(RouteMonitoring, head), raw(RouteMonitoring, head, bgpMessage(bgp.BGP_MSG_UPDATE)[:18]),
		raw(RouteMonitoring, head, bgpMessage(bgp.BGP_MSG_UPDATE, 0, 0, 0, 0)[:22]),
		raw(RouteMonitoring, head, bgpMessage(bgp.BGP_MSG_KEEPALIVE)),
		raw(RouteMonitoring, head, append(make([]byte, 16), 0, 18, 2)),
		raw(Initiation, []byte{0, 2, 0, 9, 'x'}), raw(Initiation, []byte{0, 2}),
		raw(StatisticsReport, head, []byte{0, 0}), raw(StatisticsReport, head, []byte{0, 0, 0, 1}),
		raw(StatisticsReport, head, []byte{0xff, 0xff, 0xff, 0xff, 0, 7, 0, 8, 1}), raw(StatisticsReport, head, []byte{0, 0, 0, 1, 0, 7, 0, 1, 1}),
		raw(RouteMirroring, head, []byte{0, 0, 0, 9}), raw(RouteMirroring, head, []byte{0, 1, 0, 1, 0}),
	}
	r.send(damaged...)
	r.send(raw(200, []byte("of the future")), raw(RouteMonitoring, who{kind: 9, addr: peer1}.bytes()))
	with := func(more ...[]byte) []byte {
		return updateOf(nil, append(slices.Clone(goodAttrs), more...), nlri("10.1.0.0/16"))
	}
	r.send(monitor(pre1, with(attr(0xc0, 8, 1)))) // treat-as-withdraw
	r.send(monitor(pre1, with(origin)))           // attribute discard, and the route is back
	r.send(monitor(pre1, []byte{0xff, 0xff}))     // session reset: the message is lost
	r.send(monitor(pre1, updateOf(nil, [][]byte{origin, nextHop}, nlri("10.2.0.0/16"))))
	s.has("default", "r1/192.0.2.1/pre", 2)
	r.send(monitor(pre1, announce("10.3.0.0/16")))
	s.has("default", "r1/192.0.2.1/pre", 3)
	st := s.stats("r1")
	mustBe(t, "damaged messages", st.Damaged, uint64(len(damaged)))
	mustBe(t, "of unknown types", st.Messages[UnknownKind], 1)
	mustBe(t, "of unknown peers", st.Ignored[IgnoredPeerType], 1)
	mustBe(t, "verdicts", st.Verdicts, [wire.NumVerdicts]uint64{wire.OK: 3, wire.AttributeDiscard: 1, wire.TreatAsWithdraw: 2, wire.SessionReset: 1})
	mustBe(t, "panics", st.Panics, 0)
	mustBe(t, "connections", st.Ups, 1)
	mustBe(t, "routes of the other peer", s.peer("default", "r1/192.0.2.2/pre").V4, 1)
	if !s.log.Contains("ffff") || !s.log.Contains("treat-as-withdraw") {
		t.Error("the log lacks the verdict or the bytes")
	}

	// A Peer Up with damaged OPENs is one all the same, and a Peer Down without a reason.
	r.send(raw(PeerDown, head))
	s.has("default", "r1/192.0.2.1/pre", 0)
	for _, opens := range [][]byte{nil, make([]byte, 20), append(make([]byte, 20), bgpMessage(bgp.BGP_MSG_OPEN, 4, 0)...), append(make([]byte, 20), bgpMessage(bgp.BGP_MSG_KEEPALIVE)...)} {
		r.send(raw(PeerUp, head, opens), monitor(pre1, announce("10.7.0.0/16")))
		s.has("default", "r1/192.0.2.1/pre", 1)
		r.send(down(pre1, 4))
		s.has("default", "r1/192.0.2.1/pre", 0)
	}
	mustBe(t, "connections", s.stats("r1").Ups, 1)
}

func TestReports(t *testing.T) {
	s := start(t, nil, r1)
	r := join(t, s, routerAddr)
	await(t, "the router", func() bool { return s.stats("r1").Connected })
	report := func(v uint64) []byte {
		return encode(codec.NewBMPStatisticsReport(pre1.header(), []codec.BMPStatsTLVInterface{
			codec.NewBMPStatsTLV64(codec.BMP_STAT_TYPE_ADJ_RIB_IN, v), codec.NewBMPStatsTLV32(codec.BMP_STAT_TYPE_WITHDRAW_UPDATE, 3),
			codec.NewBMPStatsTLVPerAfiSafi64(codec.BMP_STAT_TYPE_PER_AFI_SAFI_LOC_RIB, 2, 1, 9),
		}))
	}
	mirror := raw(RouteMirroring, pre1.bytes(), []byte{0, 0, 0, 4, 1, 2, 3, 4})
	mirrorError := raw(RouteMirroring, pre1.bytes(), []byte{0, 1, 0, 2, 0, 0, 0, 0, 0, 4, 0xab, 0xad, 0xca, 0xfe})
	mirrorLost := raw(RouteMirroring, pre1.bytes(), []byte{0, 1, 0, 2, 0, 1})
	r.send(report(1), up(pre1), report(5), report(6), mirror, mirrorError, mirrorLost)
	await(t, "all messages", func() bool { return s.stats("r1").Messages[RouteMirroring] == 3 })
	st := s.stats("r1")
	mustBe(t, "name", st.SysName, "edge1")
	mustBe(t, "description", st.SysDescr, "a scripted router")
	mustBe(t, "reports without a peer", st.Ignored[IgnoredNoPeerUp], 1)
	mustBe(t, "mirrored", st.Mirrored, 2)
	mustBe(t, "mirrored with errors", st.MirrorErrs, 1)
	mustBe(t, "not mirrored", st.MirrorLost, 1)
	if !s.log.Contains("abadcafe") {
		t.Error("the mirrored error is not in the log")
	}
	got := make(map[string]uint64)
	for k, v := range st.Peers[0].Reported {
		got[k.String()] = v
	}
	for name, want := range map[string]uint64{"adj-rib-in-routes": 6, "updates-treated-as-withdraw": 3, "loc-rib-routes-family-2-1": 9} {
		mustBe(t, name, got[name], want)
	}
	var many []codec.BMPStatsTLVInterface
	for i := range uint16(200) {
		many = append(many, codec.NewBMPStatsTLV64(1000+i, 1))
	}
	// The codec writes what it knows only; the rest is by hand.
	body := []byte{0, 0, 0, 200}
	for i := range uint16(len(many)) {
		body = append(binary.BigEndian.AppendUint16(body, 1000+i), 0, 4, 0, 0, 0, 1)
	}
	r.send(raw(StatisticsReport, pre1.bytes(), body), mirror)
	await(t, "the last message", func() bool { return s.stats("r1").Messages[RouteMirroring] == 4 })
	mustBe(t, "statistics kept", len(s.stats("r1").Peers[0].Reported), maxReported)
}

func TestTermination(t *testing.T) {
	for reason, says := range map[uint16]string{0: "administratively closed", 3: "redundant connection", 99: "reason 99"} {
		s := start(t, nil, r1)
		r := join(t, s, routerAddr)
		r.send(up(pre1), monitor(pre1, announce("10.0.0.0/8")))
		s.has("default", "r1/192.0.2.1/pre", 1)
		r.send(encode(codec.NewBMPTermination([]codec.BMPTermTLVInterface{
			codec.NewBMPTermTLVString(codec.BMP_TERM_TLV_TYPE_STRING, "maintenance"), codec.NewBMPTermTLV16(codec.BMP_TERM_TLV_TYPE_REASON, reason)})))
		r.closed()
		await(t, "withdrawal", func() bool { return s.peer("default", "r1/192.0.2.1/pre").Name == "" })
		if e := s.peer("default", "r1").LastError; !strings.Contains(e, says) || !strings.Contains(e, "maintenance") {
			t.Errorf("reason %d: %q", reason, e)
		}
	}
}
