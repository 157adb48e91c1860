package rib_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// offer is a path as the decision's oracle sees it.
type offer struct {
	peer    rib.PeerConfig
	session rib.Session
	pathID  uint32
	attrs   rib.Attrs

	reject           rib.Reject // by an import policy
	stale, longLived bool
}

// rejected says why an offer takes no part, "" where it does.
func (o offer) rejected() string {
	switch {
	case slices.Contains(asns(o.attrs.ASPath), localAS):
		return "as-path-loop"
	case o.reject != rib.Accepted:
		return o.reject.String()
	}
	return ""
}

// Communities of RFC 9494.
const (
	llgrStale = 65535<<16 | 6
	noLLGR    = 65535<<16 | 7
)

// costs is an IGPCost.
type costs map[netip.Addr]uint64

func (c costs) Cost(nextHop netip.Addr) (uint64, bool) {
	cost, ok := c[nextHop]
	return cost, ok
}

const localAS = 64999

// stepNames are the decision's steps in order, as the RFCs have them.
var stepNames = []string{
	"long-lived-stale", "local-pref", "as-path-length", "origin", "med", "ebgp-over-ibgp", "igp-cost",
	"router-id", "cluster-list-length", "peer-address", "path-id", "peer-name",
}

// oracle is the decision said once more, by pairs: a step takes out every offer that another
// one still in beats. It gives the index of the best, -1 for none, and which step took out each.
func oracle(offers []offer, igp costs) (best int, lostBy []string) {
	lostBy = make([]string, len(offers))
	var left []int
	for i, o := range offers {
		lostBy[i] = o.rejected()
		if cost, known := igp[o.attrs.NextHop]; lostBy[i] == "" && known && cost == rib.UnreachableCost {
			lostBy[i] = "unreachable"
		}
		if lostBy[i] == "" {
			left = append(left, i)
		}
	}
	for _, step := range stepNames {
		var stay []int
		for _, x := range left {
			beaten := false
			for _, y := range left {
				beaten = beaten || beats(step, offers[y], offers[x], igp)
			}
			if beaten {
				lostBy[x] = step
			} else {
				stay = append(stay, x)
			}
		}
		left = stay
	}
	if len(left) == 0 {
		return -1, lostBy
	}
	return left[0], lostBy
}

func asns(p rib.ASPath) (all []uint32) {
	for s := range p.Segments() {
		all = append(all, s.ASNs...)
	}
	return all
}

func beats(step string, a, b offer, igp costs) bool {
	switch step {
	case "long-lived-stale":
		last := func(o offer) bool {
			return o.longLived || slices.Contains(o.attrs.Communities.Strings(), "65535:6")
		}
		return !last(a) && last(b)
	case "local-pref":
		pref := func(o offer) uint32 {
			if o.attrs.HasLocalPref {
				return o.attrs.LocalPref
			}
			return 100
		}
		return pref(a) > pref(b)
	case "as-path-length":
		length := func(o offer) (n int) {
			for s := range o.attrs.ASPath.Segments() {
				switch s.Type {
				case rib.SegmentSequence:
					n += len(s.ASNs)
				case rib.SegmentSet:
					n++
				}
			}
			return n
		}
		return length(a) < length(b)
	case "origin":
		return a.attrs.Origin < b.attrs.Origin
	case "med":
		med := func(o offer) uint32 {
			if o.attrs.HasMED {
				return o.attrs.MED
			}
			return 0
		}
		return a.attrs.ASPath.First() == b.attrs.ASPath.First() && med(a) < med(b)
	case "ebgp-over-ibgp":
		return !a.session.Internal && b.session.Internal
	case "igp-cost":
		cost := func(o offer) float64 {
			if c, ok := igp[o.attrs.NextHop]; ok {
				return float64(c)
			}
			return math.Inf(1)
		}
		return cost(a) < cost(b)
	case "router-id":
		id := func(o offer) string {
			if id := o.attrs.OriginatorID.Addr(); id.IsValid() {
				return sortable(id)
			}
			return sortable(o.session.RouterID)
		}
		return id(a) < id(b)
	case "cluster-list-length":
		return a.attrs.ClusterListLen < b.attrs.ClusterListLen
	case "peer-address":
		return sortable(a.peer.Addr) < sortable(b.peer.Addr)
	case "path-id":
		return a.pathID < b.pathID
	case "peer-name":
		return a.peer.Name < b.peer.Name
	}
	return false
}

// sortable orders addresses as text, the unknown one last.
func sortable(a netip.Addr) string {
	if !a.IsValid() {
		return "~"
	}
	return fmt.Sprintf("%d %x", a.BitLen()+100, a.AsSlice())
}

var aPrefix = netip.MustParsePrefix("192.0.2.0/24")

// put announces an offer to a RIB, with its peer brought up if need be.
func (o offer) put(t testing.TB, r *rib.RIB, peers map[string]*rib.Peer) {
	t.Helper()
	p := peers[o.peer.Name]
	if p == nil {
		var err error
		if p, err = r.AddPeer(o.peer); err != nil {
			t.Fatal(err)
		}
		p.Up(o.session)
		peers[o.peer.Name] = p
	}
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: aPrefix, PathID: o.pathID}}, Attrs: o.attrs})
}

func checkAgainstOracle(t *testing.T, offers []offer, igp costs) {
	t.Helper()
	options := rib.Options{LocalAS: localAS}
	if igp != nil {
		options.IGP = igp
	}
	r, peers := rib.New(options), map[string]*rib.Peer{}
	for _, o := range offers {
		o.put(t, r, peers)
	}
	got := r.Paths(aPrefix)
	if len(got) != len(offers) {
		t.Fatalf("%d candidates of %d paths", len(got), len(offers))
	}
	best, lostBy := oracle(offers, igp)
	for i, c := range got {
		j := slices.IndexFunc(offers, func(o offer) bool {
			return o.peer.Name == c.Route.Peer.Name() && o.pathID == c.Route.PathID
		})
		if c.LostBy != lostBy[j] {
			t.Fatalf("%s path %d: lost by %q, want %q\n%+v", c.Route.Peer.Name(), c.Route.PathID, c.LostBy, lostBy[j], offers)
		}
		if i == 0 && best >= 0 && j != best {
			t.Fatalf("best first: %s, want %s", c.Route.Peer.Name(), offers[best].peer.Name)
		}
		if i > 1 && slices.Index(stepNames, c.LostBy) > slices.Index(stepNames, got[i-1].LostBy) {
			t.Fatalf("%s lost by %q comes behind one lost by %q", c.Route.Peer.Name(), c.LostBy, got[i-1].LostBy)
		}
	}
	v4, _ := r.Counts()
	usable := slices.ContainsFunc(offers, func(o offer) bool { return o.rejected() == "" })
	if (v4 == 1) != usable {
		t.Fatalf("%d prefixes with a path to choose; want one: %v; oracle's best is %d", v4, usable, best)
	}
}

func TestDecisionAgreesWithOracleInAnyOrderOfArrival(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range 1500 {
		offers, igp := randomOffers(rng)
		for range 4 {
			rng.Shuffle(len(offers), func(i, j int) { offers[i], offers[j] = offers[j], offers[i] })
			checkAgainstOracle(t, offers, igp)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomOffers makes paths that differ little, so that late steps decide often.
func randomOffers(rng *rand.Rand) ([]offer, costs) {
	rare := func() bool { return rng.IntN(4) == 0 }
	addr := func(third, n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(third), byte(n)}) }
	var igp costs
	if rng.IntN(2) == 0 {
		igp = costs{addr(1, 1): 10, addr(1, 2): uint64(10 * rng.IntN(3))}
		if rare() {
			igp[addr(1, rng.IntN(4))] = rib.UnreachableCost
		}
	}
	var offers []offer
	for i := range 1 + rng.IntN(7) {
		o := offer{peer: rib.PeerConfig{Name: fmt.Sprintf("peer%d", i), Kind: rib.KindBGP}}
		if !rare() {
			o.peer.Addr = addr(2, rng.IntN(3))
		}
		if !rare() {
			o.session.RouterID = addr(3, rng.IntN(2))
		}
		o.session.Internal = rare()
		for id := range 1 + rng.IntN(2) {
			p := o
			p.pathID = uint32(id)
			p.attrs = randomAttrs(rng)
			p.attrs.NextHop = addr(1, rng.IntN(4))
			offers = append(offers, p)
		}
	}
	return offers, igp
}

func randomAttrs(rng interface{ IntN(int) int }) rib.Attrs {
	rare := func() bool { return rng.IntN(4) == 0 }
	first := uint32(64500 + rng.IntN(2))
	paths := []rib.ASPath{
		rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{first, 64510}}),
		rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{first}}, rib.Segment{Type: rib.SegmentSet, ASNs: []uint32{1, 2, 3}}),
		rib.MakeASPath(rib.Segment{Type: rib.SegmentConfedSequence, ASNs: []uint32{65001}}, rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{first, 64511}}),
	}
	a := rib.Attrs{ASPath: paths[rng.IntN(len(paths))]}
	if rng.IntN(8) == 0 {
		a.ASPath = ""
	}
	if rng.IntN(8) == 0 {
		a.ASPath = rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{first, localAS}})
	}
	if rare() {
		a.HasLocalPref, a.LocalPref = true, uint32(99+rng.IntN(3))
	}
	if rng.IntN(2) == 0 {
		a.HasMED, a.MED = true, uint32(rng.IntN(3))
	}
	if rng.IntN(8) == 0 {
		a.Origin = uint8(rng.IntN(3))
	}
	if rare() {
		a.OriginatorID = rib.RouterID{10, 0, 3, byte(rng.IntN(2))}
	}
	if rare() {
		a.ClusterListLen = uint8(rng.IntN(3))
	}
	switch rng.IntN(12) {
	case 0:
		a.Communities = rib.MakeCommunities(65000<<16|1, llgrStale)
	case 1:
		a.Communities = rib.MakeCommunities(noLLGR)
	}
	return a
}

// Every step decides between two paths that differ in nothing before it: the loser is named
// first, and each value that only a later step looks at favours the loser.
func TestEveryStepDecides(t *testing.T) {
	path := func(asns ...uint32) rib.ASPath {
		return rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: asns})
	}
	addr := netip.MustParseAddr
	base := func() (a, b offer) {
		for _, o := range []*offer{&a, &b} {
			o.peer = rib.PeerConfig{Kind: rib.KindBGP, Addr: addr("10.0.0.5")}
			o.session.RouterID = addr("10.9.9.5")
			o.attrs = rib.Attrs{ASPath: path(64500, 64501), NextHop: addr("10.1.1.1"), Origin: rib.OriginEGP, HasMED: true, MED: 5, ClusterListLen: 5}
		}
		a.peer.Name, b.peer.Name = "a", "b"
		return a, b
	}
	igp := costs{addr("10.1.1.1"): 10, addr("10.1.1.2"): 20, addr("10.1.1.3"): rib.UnreachableCost, addr("10.1.1.4"): 1 << 40}
	for _, c := range []struct {
		name, step string
		worsen     func(a *offer)
	}{
		{"own AS in the path", "as-path-loop", func(a *offer) { a.attrs.ASPath = path(localAS) }},
		{"long-lived stale where it comes from", "long-lived-stale", func(a *offer) {
			a.attrs.Communities = rib.MakeCommunities(llgrStale)
			a.attrs.LocalPref, a.attrs.HasLocalPref = 200, true
		}},
		{"lower local preference", "local-pref", func(a *offer) { a.attrs.LocalPref, a.attrs.HasLocalPref = 99, true }},
		{"local preference 0", "local-pref", func(a *offer) { a.attrs.HasLocalPref = true }},
		{"longer path", "as-path-length", func(a *offer) { a.attrs.ASPath = path(64500, 64501, 64501); a.attrs.Origin = 0 }},
		{"worse origin", "origin", func(a *offer) { a.attrs.Origin = rib.OriginIncomplete; a.attrs.MED = 0 }},
		{"higher MED of the same AS", "med", func(a *offer) { a.attrs.MED = 6; a.attrs.ClusterListLen = 0 }},
		{"internal", "ebgp-over-ibgp", func(a *offer) { a.session.Internal = true; a.attrs.ClusterListLen = 0 }},
		{"farther next hop", "igp-cost", func(a *offer) { a.attrs.NextHop = addr("10.1.1.2"); a.session.RouterID = addr("1.1.1.1") }},
		{"next hop farther than 32 bits count", "igp-cost", func(a *offer) { a.attrs.NextHop = addr("10.1.1.4"); a.session.RouterID = addr("1.1.1.1") }},
		{"next hop out of reach", "unreachable", func(a *offer) {
			a.attrs.NextHop = addr("10.1.1.3")
			a.attrs.LocalPref, a.attrs.HasLocalPref = 200, true
		}},
		{"next hop of unknown cost", "igp-cost", func(a *offer) { a.attrs.NextHop = addr("10.1.1.9"); a.session.RouterID = addr("1.1.1.1") }},
		{"no next hop", "igp-cost", func(a *offer) { a.attrs.NextHop = netip.Addr{} }},
		{"higher router ID", "router-id", func(a *offer) { a.session.RouterID = addr("10.9.9.50"); a.attrs.ClusterListLen = 0 }},
		{"higher originator ID", "router-id", func(a *offer) {
			a.attrs.OriginatorID = rib.RouterID{10, 9, 9, 50}
			a.session.RouterID = addr("1.1.1.1")
		}},
		{"unknown router ID", "router-id", func(a *offer) { a.session.RouterID = netip.Addr{} }},
		{"longer cluster list", "cluster-list-length", func(a *offer) { a.attrs.ClusterListLen = 6; a.peer.Addr = addr("10.0.0.1") }},
		{"higher peer address", "peer-address", func(a *offer) { a.peer.Addr = addr("10.0.0.50") }},
		{"unknown peer address", "peer-address", func(a *offer) { a.peer.Addr = netip.Addr{} }},
		{"higher path ID", "path-id", func(a *offer) { a.pathID = 7 }},
		{"later name", "peer-name", func(a *offer) { a.peer.Name = "c" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			loser, winner := base()
			c.worsen(&loser)
			for _, offers := range [][]offer{{loser, winner}, {winner, loser}} {
				r, peers := rib.New(rib.Options{LocalAS: localAS, IGP: igp}), map[string]*rib.Peer{}
				for _, o := range offers {
					o.put(t, r, peers)
				}
				got := r.Paths(aPrefix)
				if got[0].Route.Peer.Name() != winner.peer.Name || got[0].LostBy != "" || got[1].LostBy != c.step {
					t.Errorf("best is %s (lost by %q), the other lost by %q; want %s and %q",
						got[0].Route.Peer.Name(), got[0].LostBy, got[1].LostBy, winner.peer.Name, c.step)
				}
				checkAgainstOracle(t, offers, igp)
			}
		})
	}
}

// The textbook case in which comparing paths in pairs gives an answer that depends on their
// order: B beats A (router ID), C beats B (MED of the same AS), A beats C (router ID).
func TestMEDDoesNotDependOnOrder(t *testing.T) {
	make3 := func(name, routerID string, as, med uint32) offer {
		return offer{
			peer:    rib.PeerConfig{Name: name, Kind: rib.KindBGP, Addr: netip.MustParseAddr(routerID)},
			session: rib.Session{RouterID: netip.MustParseAddr(routerID)},
			attrs: rib.Attrs{
				ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{as, 64510}}),
				HasMED: true, MED: med,
			},
		}
	}
	offers := []offer{make3("a", "10.0.0.2", 64501, 0), make3("b", "10.0.0.1", 64502, 20), make3("c", "10.0.0.3", 64502, 10)}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		r, peers := rib.New(rib.Options{}), map[string]*rib.Peer{}
		for _, i := range order {
			offers[i].put(t, r, peers)
		}
		got := r.Paths(aPrefix)
		if got[0].Route.Peer.Name() != "a" || got[1].Route.Peer.Name() != "c" || got[1].LostBy != "router-id" || got[2].LostBy != "med" {
			t.Errorf("order %d: %s, then %s lost by %s and %s lost by %s", order,
				got[0].Route.Peer.Name(), got[1].Route.Peer.Name(), got[1].LostBy, got[2].Route.Peer.Name(), got[2].LostBy)
		}
	}
}
