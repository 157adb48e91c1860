package bgpls

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/igp"
)

func newDatabase() *Database { return NewDatabase(slog.New(slog.DiscardHandler), nil) }

// apply decodes a message and applies it.
func (p *Peer) apply(t testing.TB, body []byte) Update {
	t.Helper()
	u, err := Decode(body, false)
	if err != nil {
		t.Fatalf("%v: %x", err, body)
	}
	p.Apply(u)
	return u
}

func (db *Database) now(t testing.TB) *igp.Topology {
	t.Helper()
	db.Renew()
	topology, err := db.Topology()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// randomTopology has links of one way, overloaded nodes, prefixes, parallel links and parts cut off.
func randomTopology(t testing.TB, rng *rand.Rand) *igp.Topology {
	n := 2 + rng.IntN(30)
	base := fixtures.Topology(rng.Uint64(), n, 4*n)
	nodes, links := slices.Clone(base.Nodes), slices.Clone(base.Links[:rng.IntN(len(base.Links)+1)])
	for i := range nodes {
		nodes[i].Overload = rng.IntN(6) == 0
		for k := range rng.IntN(3) {
			bits := rng.IntN(16)*2 + k // a node's are different NLRIs
			p, _ := netip.AddrFrom4([4]byte{20, byte(rng.IntN(3)), byte(rng.IntN(256)), 0}).Prefix(bits)
			nodes[i].Prefixes = append(nodes[i].Prefixes, igp.Prefix{Prefix: p, Metric: uint32(rng.IntN(100))})
		}
		if rng.IntN(3) == 0 {
			nodes[i].Prefixes = append(nodes[i].Prefixes, igp.Prefix{Prefix: netip.MustParsePrefix("::/0"), Metric: 7})
		}
	}
	for i := range links {
		switch rng.IntN(6) {
		case 0:
			links[i].Reverse = igp.Unused
		case 1:
			links[i].Metric = 0
		case 2:
			links[i].Reverse = uint32(rng.IntN(1<<24 - 1))
		}
	}
	topology, err := igp.New(nodes, links)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// sameWays tells what differs between two topologies with the same names: distances, and costs of addresses.
func sameWays(t *testing.T, seed uint64, want, got *igp.Topology) {
	t.Helper()
	if len(got.Nodes) != len(want.Nodes) || len(got.Links) != len(want.Links) {
		t.Fatalf("seed %d: %d nodes and %d links, want %d and %d", seed, len(got.Nodes), len(got.Links), len(want.Nodes), len(want.Links))
	}
	addrs := []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db9::1")}
	for i := range want.Nodes {
		v4, v6 := fixtures.RouterAddrs(i)
		addrs = append(addrs, v4, v6)
		for _, p := range want.Nodes[i].Prefixes {
			addrs = append(addrs, p.Prefix.Addr())
		}
	}
	for i, n := range want.Nodes {
		j, ok := got.Node(n.Name)
		if !ok {
			t.Fatalf("seed %d: no node %s", seed, n.Name)
		}
		a, b := want.Tree(uint32(i)), got.Tree(j)
		for k, m := range want.Nodes {
			l, _ := got.Node(m.Name)
			if a.Dist[k] != b.Dist[l] {
				t.Fatalf("seed %d: from %s to %s: %d, want %d", seed, n.Name, m.Name, b.Dist[l], a.Dist[k])
			}
			if len(a.FirstHops(uint32(k))) != len(b.FirstHops(l)) {
				t.Fatalf("seed %d: from %s to %s: %d first hops, want %d", seed, n.Name, m.Name, len(b.FirstHops(l)), len(a.FirstHops(uint32(k))))
			}
		}
		for _, addr := range addrs {
			x, xOK := want.Cost(a.Dist, addr)
			y, yOK := got.Cost(b.Dist, addr)
			if x != y || xOK != yOK {
				t.Fatalf("seed %d: from %s to %s: %d, %v; want %d, %v", seed, n.Name, addr, y, yOK, x, xOK)
			}
		}
	}
}

// A topology that goes over BGP-LS comes out with the same ways, from however many peers and in whatever order,
// also after parts of it were withdrawn and announced again.
func TestTopologyComesThrough(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range 60 {
		want := randomTopology(t, rng)
		routes := fixtures.LinkState(want)
		db := newDatabase()
		peers := []*Peer{db.AddPeer("a"), db.AddPeer("b")}[:1+rng.IntN(2)]
		for _, p := range peers {
			rng.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
			for _, r := range routes {
				p.apply(t, fixtures.LinkStateUpdate(false, r))
			}
		}
		sameWays(t, seed, want, db.now(t))
		for range 3 {
			some := routes[:rng.IntN(len(routes)+1)]
			for _, r := range some {
				peers[0].apply(t, fixtures.LinkStateUpdate(true, r))
			}
			_ = db.now(t) // whatever is left, it is a topology
			if len(peers) == 2 {
				sameWays(t, seed, want, db.now(t)) // the other one still has it
			}
			for _, r := range some {
				peers[0].apply(t, fixtures.LinkStateUpdate(false, r))
			}
			sameWays(t, seed, want, db.now(t))
			rng.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
		}
		for _, p := range peers {
			p.apply(t, fixtures.LinkStateUpdate(true, routes...))
		}
		if got := db.now(t); len(got.Nodes)+len(got.Links) != 0 {
			t.Fatalf("seed %d: %d nodes and %d links are left", seed, len(got.Nodes), len(got.Links))
		}
	}
}

// The codec of GoBGP reads the same of what fixtures write.
func TestFixturesAreAsTheCodecHasThem(t *testing.T) {
	topology := randomTopology(t, rand.New(rand.NewPCG(1, 1)))
	for _, r := range fixtures.LinkState(topology) {
		if bytes.Contains(r.NLRI, []byte{1, 9, 0, 1, 0}) {
			continue // a default route, which the codec does not take
		}
		u := &bgp.BGPUpdate{}
		if err := u.DecodeFromBytes(fixtures.LinkStateUpdate(false, r)); err != nil {
			t.Fatalf("%v: %x", err, r.NLRI)
		}
		o, err := Decode(fixtures.LinkStateUpdate(false, r), false)
		if err != nil || len(o.Reach) != 1 || o.Discarded+o.Ignored != 0 || o.AttributeDiscarded {
			t.Fatalf("%v, %+v: %x", err, o, r.NLRI)
		}
		for _, a := range u.PathAttributes {
			if ls, ok := a.(*bgp.PathAttributeLs); ok {
				x := ls.Extract()
				if m := x.Link.IGPMetric; m != nil && *m != o.Reach[0].metric {
					t.Errorf("metric %d, want %d", o.Reach[0].metric, *m)
				}
				if n := x.Node.Name; n != nil && *n != o.Reach[0].name {
					t.Errorf("name %q, want %q", o.Reach[0].name, *n)
				}
				if f := x.Node.Flags; f != nil && f.Overload != o.Reach[0].overload {
					t.Errorf("overload %v", o.Reach[0].overload)
				}
			}
		}
	}
}

func wide(m uint32) []byte { return []byte{byte(m >> 16), byte(m >> 8), byte(m)} }

func put(kind int, value []byte) []byte {
	head := binary.BigEndian.AppendUint16(nil, uint16(kind))
	return append(binary.BigEndian.AppendUint16(head, uint16(len(value))), value...)
}

// message is an UPDATE with one NLRI and attribute.
func message(nlri, attribute []byte) []byte {
	return fixtures.LinkStateUpdate(false, fixtures.LinkStateRoute{NLRI: nlri, Attribute: attribute})
}

// descriptor is a node descriptor of an IGP router.
func descriptor(kind int, router string) []byte {
	return put(kind, slices.Concat(put(512, []byte{0, 0, 0, 1}), put(515, []byte(router))))
}

func nlriOf(kind int, protocol byte, tlvs ...[]byte) []byte {
	return put(kind, append([]byte{protocol, 0, 0, 0, 0, 0, 0, 0, 0}, slices.Concat(tlvs...)...))
}

func addr(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

func names(t *igp.Topology) (all []string) {
	for _, n := range t.Nodes {
		all = append(all, n.Name)
	}
	return all
}

func TestNamesOfNodes(t *testing.T) {
	db := newDatabase()
	p := db.AddPeer("p")
	for router, name := range map[string]string{
		"\x0a\x00\x00\x01": "", "\x0a\x00\x00\x02": "paris", "\x0a\x00\x00\x03": "rome", "\x0a\x00\x00\x04": "rome",
		"\x0a\x00\x00\x05": "a\x1b[0m", "\x0a\x00\x00\x06": "10.0.0.1", "\x0a\x00\x00\x01\x0a\x01\x01\x01": "",
		"\x19\x21\x68\x00\x00\x01": "", "\x19\x21\x68\x00\x00\x01\x02": "", "\x0a\x00\x00\x07": "\xff", "\x0a\x00\x00\x08": strings.Repeat("x", 256),
	} {
		p.apply(t, message(nlriOf(1, 3, descriptor(256, router)), put(1026, []byte(name))))
	}
	want := []string{"10.0.0.1", "10.0.0.1:10.1.1.1", "paris", "rome 10.0.0.3", "rome 10.0.0.4", "10.0.0.5", "10.0.0.1 10.0.0.6", "10.0.0.7", "10.0.0.8", "1921.6800.0001", "1921.6800.0001.02"}
	if got := names(db.now(t)); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// link makes a direction between nodes a and b with these link descriptors.
func link(from, to string, metric []byte, ends ...[]byte) []byte {
	return message(nlriOf(2, 2, append([][]byte{descriptor(256, from+"-----"), descriptor(257, to+"-----")}, ends...)...), metric)
}

func TestDirectionsBecomeLinks(t *testing.T) {
	metric := func(m uint32) []byte { return put(1095, wide(m)) }
	there := slices.Concat(put(259, addr("10.1.1.1")), put(260, addr("10.1.1.2")))
	back := slices.Concat(put(259, addr("10.1.1.2")), put(260, addr("10.1.1.1")))
	other := slices.Concat(put(259, addr("10.1.2.1")), put(260, addr("10.1.2.2")))
	otherBack := slices.Concat(put(259, addr("10.1.2.2")), put(260, addr("10.1.2.1")))
	ids := func(local, remote byte) []byte { return put(258, []byte{0, 0, 0, local, 0, 0, 0, remote}) }
	type ways map[[2]uint32]bool // metric there and back
	for _, c := range []struct {
		name     string
		messages [][]byte
		want     ways
	}{
		{"one way alone", [][]byte{link("a", "b", metric(1), there)}, ways{}},
		{"both", [][]byte{link("a", "b", metric(1), there), link("b", "a", metric(2), back)}, ways{{1, 2}: true}},
		{"addresses find each other", [][]byte{link("a", "b", metric(1), there), link("a", "b", metric(3), other), link("b", "a", metric(4), otherBack), link("b", "a", metric(2), back)},
			ways{{1, 2}: true, {3, 4}: true}},
		{"identifiers find each other", [][]byte{link("a", "b", metric(1), ids(1, 2)), link("a", "b", metric(3), ids(3, 4)), link("b", "a", metric(4), ids(4, 3)), link("b", "a", metric(2), ids(2, 1))},
			ways{{1, 2}: true, {3, 4}: true}},
		{"without any", [][]byte{link("a", "b", metric(1)), link("b", "a", metric(2))}, ways{{1, 2}: true}},
		{"the back is of another link", [][]byte{link("a", "b", metric(1), there), link("b", "a", metric(4), otherBack)}, ways{{1, igp.Unused}: true, {igp.Unused, 4}: true}},
		{"the maximum takes a direction out", [][]byte{link("a", "b", metric(1<<24-1), there), link("b", "a", metric(2), back)}, ways{{igp.Unused, 2}: true}},
		{"no metric", [][]byte{link("a", "b", nil, there), link("b", "a", metric(2), back)}, ways{{igp.Unused, 2}: true}},
		{"narrow metrics", [][]byte{link("a", "b", put(1095, []byte{0xc0 | 10}), there), link("b", "a", put(1095, []byte{63}), back)}, ways{{10, 63}: true}},
		{"another topology", [][]byte{link("a", "b", metric(1), there, put(263, []byte{0, 2})), link("b", "a", metric(2), back)}, ways{}},
		{"the default topology", [][]byte{link("a", "b", metric(1), there, put(263, []byte{0xf0, 0})), link("b", "a", metric(2), back)}, ways{{1, 2}: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := newDatabase()
			p := db.AddPeer("p")
			for _, m := range c.messages {
				p.apply(t, m)
			}
			got := ways{}
			topology := db.now(t)
			a, _ := topology.Node("612d.2d2d.2d2d")
			for i, l := range topology.Links {
				if from, _ := topology.Ends(uint32(i)); from == a {
					got[[2]uint32{l.Metric, l.Reverse}] = true
				} else {
					got[[2]uint32{l.Reverse, l.Metric}] = true
				}
			}
			if len(got) != len(c.want) || len(topology.Links) != len(c.want) {
				t.Fatalf("%v, want %v", topology.Links, c.want)
			}
			for w := range c.want {
				if !got[w] {
					t.Errorf("%v, want %v", got, c.want)
				}
			}
		})
	}
}

// A node answers to its router addresses and its interfaces'.
func TestAddressesOfNodes(t *testing.T) {
	db := newDatabase()
	p := db.AddPeer("p")
	p.apply(t, message(nlriOf(1, 2, descriptor(256, "a-----")), slices.Concat(put(1026, []byte("a")), put(1028, addr("192.0.2.1")), put(1029, addr("2001:db8::1")))))
	p.apply(t, link("a", "b", slices.Concat(put(1095, wide(1)), put(1030, addr("192.0.2.2")), put(1031, addr("2001:db8::2"))),
		put(259, addr("10.1.1.1")), put(260, addr("10.1.1.2")), put(261, addr("fe80::1")), put(262, addr("fe80::2"))))
	p.apply(t, link("b", "a", put(1095, wide(2)), put(259, addr("10.1.1.2")), put(261, addr("::ffff:10.9.9.9"))))
	p.apply(t, message(nlriOf(3, 2, descriptor(256, "b-----"), put(265, []byte{0})), put(1155, []byte{0, 0, 0, 9})))
	p.apply(t, message(nlriOf(4, 2, descriptor(256, "b-----"), put(263, []byte{0, 2}), put(265, append([]byte{32}, addr("2001:db9::")[:4]...))), put(1155, []byte{0, 0, 0, 8})))
	p.apply(t, message(nlriOf(3, 2, descriptor(256, "b-----"), put(265, []byte{8, 77})), put(1155, []byte{0xff, 0, 0, 0})))
	topology := db.now(t)
	a, _ := topology.Node("a")
	dist := topology.Tree(a).Dist
	for _, c := range []struct {
		addr string
		cost uint64
		ok   bool
	}{
		{"192.0.2.1", 0, true}, {"2001:db8::1", 0, true}, {"10.1.1.1", 0, true},
		{"192.0.2.2", 1, true}, {"2001:db8::2", 1, true}, {"10.1.1.2", 1, true}, {"10.9.9.9", 1, true},
		{"8.8.8.8", 10, true}, {"77.1.1.1", 10, true}, {"2001:db9::5", 9, true},
		{"fe80::1", 0, false}, {"fe80::2", 0, false}, {"2001:dba::1", 0, false},
	} {
		cost, ok := topology.Cost(dist, netip.MustParseAddr(c.addr))
		if ok != c.ok || ok && cost != c.cost {
			t.Errorf("%s: %d, %v; want %d, %v", c.addr, cost, ok, c.cost, c.ok)
		}
	}
}

// What is stale counts where nothing else is there, until it is announced again or swept.
func TestStaleLinkState(t *testing.T) {
	db := newDatabase()
	p, q := db.AddPeer("p"), db.AddPeer("q")
	named := func(name string) []byte {
		return message(nlriOf(1, 2, descriptor(256, "a-----")), put(1026, []byte(name)))
	}
	only := func(want ...string) {
		t.Helper()
		if got := names(db.now(t)); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q; %+v, %+v", got, want, p.Stats(), q.Stats())
		}
	}
	p.apply(t, named("of-p"))
	q.apply(t, named("of-q"))
	only("of-p")
	p.Retain()
	only("of-q")
	q.Down()
	only("of-p")
	if s := p.Stats(); s.Objects != 1 || s.Stale != 1 {
		t.Errorf("%+v", s)
	}
	p.apply(t, named("of-p"))
	if s := p.Stats(); s.Objects != 1 || s.Stale != 0 {
		t.Errorf("announced again: %+v", s)
	}
	p.Sweep()
	only("of-p")
	p.Retain()
	p.Retain() // a second restart without a word
	only()
	p.apply(t, named("of-p"))
	p.Retain()
	p.Sweep()
	only()
	p.apply(t, named("of-p"))
	p.Remove()
	only()
	p.apply(t, named("of-p"))
	only()
}

// The end of a session, and an object announced again as it was, ask for no topology.
func TestTopologyOnlyWhereSomethingChanged(t *testing.T) {
	notified := 0
	db := NewDatabase(slog.New(slog.DiscardHandler), func() { notified++ })
	p := db.AddPeer("p")
	m := message(nlriOf(1, 2, descriptor(256, "a-----")), put(1026, []byte("a")))
	for _, c := range []struct {
		do   func()
		want int
	}{
		{func() { p.apply(t, m) }, 1}, {func() { p.apply(t, m) }, 1}, {func() { p.Sweep() }, 1}, {func() { p.Down() }, 2}, {func() { p.Down() }, 2},
	} {
		c.do()
		if notified != c.want {
			t.Fatalf("notified %d times, want %d", notified, c.want)
		}
	}
	if got, _ := db.Topology(); got == nil {
		t.Error("no topology")
	}
	if got, _ := db.Topology(); got != nil {
		t.Error("a second topology though nothing changed")
	}
}

// RFC 9552, 8.2.2: what is malformed costs the NLRI, the attribute, or the family.
func TestVerdicts(t *testing.T) {
	good := nlriOf(1, 2, descriptor(256, "a-----"))
	name := put(1026, []byte("a"))
	two := func(bad []byte) []byte {
		return fixtures.LinkStateUpdate(false, fixtures.LinkStateRoute{NLRI: bad, Attribute: name}, fixtures.LinkStateRoute{NLRI: good})
	}
	for _, c := range []struct {
		name                      string
		body                      []byte
		reach, discarded, ignored int
		attribute, fails          bool
	}{
		{name: "good", body: message(good, name), reach: 1},
		{name: "TLV too long", body: two(put(1, append([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0}, 1, 0, 0, 200))), reach: 1, discarded: 1},
		{name: "TLVs out of order", body: two(nlriOf(2, 2, descriptor(257, "b-----"), descriptor(256, "a-----"))), reach: 1, discarded: 1},
		{name: "sub-TLVs out of order", body: two(nlriOf(1, 2, put(256, slices.Concat(put(515, []byte("a-----")), put(512, []byte{0, 0, 0, 1}))))), reach: 1, discarded: 1},
		{name: "router identifier of 5 bytes", body: two(nlriOf(1, 2, descriptor(256, "a----"))), reach: 1, discarded: 1},
		{name: "without a header", body: two(put(1, []byte{2, 0})), reach: 1, discarded: 1},
		{name: "prefix longer than it says", body: two(nlriOf(3, 2, descriptor(256, "a-----"), put(265, []byte{8, 1, 2}))), reach: 1, discarded: 1},
		{name: "prefix of 33 bits", body: two(nlriOf(3, 2, descriptor(256, "a-----"), put(265, []byte{33, 1, 2, 3, 4, 5}))), reach: 1, discarded: 1},
		{name: "interface address of 5 bytes", body: two(nlriOf(2, 2, descriptor(256, "a-----"), descriptor(257, "b-----"), put(259, []byte{1, 2, 3, 4, 5}))), reach: 1, discarded: 1},
		{name: "unknown TLV and sub-TLV", body: two(nlriOf(1, 2, put(256, slices.Concat(put(515, []byte("b-----")), put(999, []byte{1}))), put(60000, []byte{1, 2}))), reach: 2},
		{name: "unknown kind", body: two(nlriOf(6, 2, descriptor(256, "a-----"))), reach: 1, ignored: 1},
		{name: "link of BGP", body: two(nlriOf(2, 7, put(256, put(516, []byte{1, 2, 3, 4})), put(257, put(516, []byte{1, 2, 3, 5})))), reach: 1, ignored: 1},
		{name: "attribute TLV too long", body: message(good, []byte{4, 2, 0, 9, 1}), reach: 1, attribute: true},
		{name: "metric of 5 bytes", body: message(good, put(1095, []byte{1, 2, 3, 4, 5})), reach: 1, attribute: true},
		{name: "flags of 2 bytes", body: message(good, put(1024, []byte{1, 2})), reach: 1, attribute: true},
		{name: "NLRI longer than the attribute", body: message(append(slices.Clone(good[:2]), append([]byte{0xff, 0xff}, good[4:]...)...), name), fails: true},
		{name: "rest of an NLRI", body: message(append(slices.Clone(good), 0, 1), name), fails: true},
		{name: "withdrawn NLRI too long", body: fixtures.LinkStateUpdate(true, fixtures.LinkStateRoute{NLRI: []byte{0, 1, 0, 9, 1}}), fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := Decode(c.body, false)
			if (err != nil) != c.fails || len(u.Reach) != c.reach || u.Discarded != c.discarded || u.Ignored != c.ignored || u.AttributeDiscarded != c.attribute {
				t.Errorf("%v, %+v", err, u)
			}
			if (u.Discarded > 0 || c.attribute) && u.Reason == "" {
				t.Error("no reason")
			}
		})
	}
	u, err := Decode(message(good, name), true)
	if err != nil || len(u.Reach) != 0 || len(u.Unreach) != 1 {
		t.Errorf("treat as withdraw: %v, %+v", err, u)
	}
	if u, err := Decode(fixtures.LinkStateUpdate(false), false); err != nil || !u.EndOfRIB || u.Parts != 1 {
		t.Errorf("end of RIB: %v, %+v", err, u)
	}
	if u, err := Decode([]byte{0, 0, 0, 0}, false); err != nil || u.EndOfRIB || u.Parts != 0 {
		t.Errorf("end of RIB of IPv4: %v, %+v", err, u)
	}
}

// FuzzDecode has whatever comes make no panic and no topology that cannot be.
func FuzzDecode(f *testing.F) {
	for _, r := range fixtures.LinkState(fixtures.Topology(1, 4, 12)) {
		f.Add(fixtures.LinkStateUpdate(false, r))
		f.Add(fixtures.LinkStateUpdate(true, r))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		u, err := Decode(body, false)
		if err != nil {
			return
		}
		db := newDatabase()
		p := db.AddPeer("p")
		p.Apply(u)
		if _, err := db.Topology(); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkTopology makes a topology of 1,000 routers and 4,000 links anew.
func BenchmarkTopology(b *testing.B) {
	db := newDatabase()
	p := db.AddPeer("p")
	for _, r := range fixtures.LinkState(fixtures.Topology(1, 1000, 8000)) {
		p.apply(b, fixtures.LinkStateUpdate(false, r))
	}
	for b.Loop() {
		_ = db.now(b)
	}
}
