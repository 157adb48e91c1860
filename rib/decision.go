package rib

import (
	"cmp"
	"net/netip"
	"slices"
)

// Candidate is one path to a prefix and what decided against it.
type Candidate struct {
	Route Route
	// LostBy names the step of the decision that took it out, or why it was rejected; "" for the
	// best path.
	LostBy string
	// Step is what took it out; zero for the best path.
	Step DecisiveStep
}

// defaultLocalPref is the LOCAL_PREF of a path that has none.
const defaultLocalPref = 100

// A contender is a path during the decision, with what the steps compare.
type contender struct {
	path
	speaker           *speaker
	routerID          netip.Addr
	igpCost           uint64
	localPref         uint32
	pathLength        int
	neighbour         uint32 // AS
	med               uint32
	origin            uint8
	clusterListLength uint8
	lostBy            int // index into steps, len(steps) for a path still in
}

// unreachable tells whether no way leads to its next hop.
func (c *contender) unreachable() bool { return c.igpCost == UnreachableCost }

// A step moves the contenders that it takes out to the end and gives the number of the others.
// It gets those that the steps before have left, at least one, and leaves at least one, except
// for the first step, which may take all out.
type step struct {
	name      string // Candidate.LostBy
	eliminate func(in []contender) (left int)
}

// steps is the decision of RFC 4271, 9.1, in order. Every step looks at the whole set that is
// left, never at two paths by their order of arrival, so the result depends on the set alone;
// the last two steps make the order total.
var steps = []step{
	// A path that was rejected takes no part, nor does one whose next hop cannot be reached (RFC
	// 4271, 9.1.2); Candidate.LostBy is the reason.
	{"rejected", func(in []contender) int {
		return keep(in, func(c *contender) bool { return c.usable() && !c.unreachable() })
	}},
	// RFC 9494, 4.2 and 4.3: whatever else speaks for it, a long-lived stale path is the last resort.
	{"long-lived-stale", least(func(a, b *contender) int { return compareBool(a.is(leastPreferred), b.is(leastPreferred)) })},
	// RFC 4271, 9.1.1 and 9.1.2: the highest degree of preference. A path without one has 100,
	// as routers give it by default.
	{"local-pref", least(func(a, b *contender) int { return cmp.Compare(b.localPref, a.localPref) })},
	// RFC 4271, 9.1.2.2 a: the shortest AS path; RFC 5065, 5.3: without confederation segments.
	{"as-path-length", least(func(a, b *contender) int { return cmp.Compare(a.pathLength, b.pathLength) })},
	// RFC 4271, 9.1.2.2 b: IGP before EGP before incomplete.
	{"origin", least(func(a, b *contender) int { return cmp.Compare(a.origin, b.origin) })},
	// RFC 4271, 9.1.2.2 c: the lowest MED among the paths of the same neighbouring AS; one
	// without has 0. Paths without a neighbouring AS (empty, or starting with a set) are
	// compared among themselves.
	{"med", leastMED},
	// RFC 4271, 9.1.2.2 d: external before internal sessions.
	{"ebgp-over-ibgp", least(func(a, b *contender) int { return compareBool(a.speaker.internal, b.speaker.internal) })},
	// RFC 4271, 9.1.2.2 e: the nearest next hop. One of unknown cost is the farthest and still
	// usable (IGPCost).
	{"igp-cost", least(func(a, b *contender) int { return cmp.Compare(a.igpCost, b.igpCost) })},
	// RFC 4271, 9.1.2.2 f: the lowest BGP identifier; RFC 4456, 9: of the originator where a
	// route reflector tells it. An unknown one comes last.
	{"router-id", least(func(a, b *contender) int { return compareAddr(a.routerID, b.routerID) })},
	// RFC 4456, 9: the shortest way through route reflectors.
	{"cluster-list-length", least(func(a, b *contender) int { return cmp.Compare(a.clusterListLength, b.clusterListLength) })},
	// RFC 4271, 9.1.2.2 g: the lowest peer address. An unknown one comes last.
	{"peer-address", least(func(a, b *contender) int {
		return compareAddr(a.speaker.peer.config.Addr, b.speaker.peer.config.Addr)
	})},
	// No RFC: one peer's ADD-PATH identifiers, then names, which are unique.
	{"path-id", least(func(a, b *contender) int { return cmp.Compare(a.id, b.id) })},
	{"peer-name", least(func(a, b *contender) int {
		return cmp.Compare(a.speaker.peer.config.Name, b.speaker.peer.config.Name)
	})},
}

// keep moves the contenders that keeps holds for to the front and gives their number.
func keep(in []contender, keeps func(*contender) bool) (left int) {
	for i := range in {
		if keeps(&in[i]) {
			if i != left { // a contender is large
				in[left], in[i] = in[i], in[left]
			}
			left++
		}
	}
	return left
}

// least makes a step that leaves the contenders that compare orders first.
func least(compare func(a, b *contender) int) func(in []contender) (left int) {
	return func(in []contender) int {
		first := 0
		for i := range in {
			if compare(&in[i], &in[first]) < 0 {
				first = i
			}
		}
		if first != 0 {
			in[0], in[first] = in[first], in[0]
		}
		return 1 + keep(in[1:], func(c *contender) bool { return compare(c, &in[0]) == 0 })
	}
}

// leastMED leaves the contenders with the lowest MED of their neighbouring AS.
func leastMED(in []contender) (left int) {
	same := true
	for i := range in {
		same = same && in[i].med == in[0].med
	}
	if same {
		return len(in) // as nearly always: spare the map
	}
	lowest := make(map[uint32]uint32, len(in))
	for _, c := range in {
		if low, ok := lowest[c.neighbour]; !ok || c.med < low {
			lowest[c.neighbour] = c.med
		}
	}
	return keep(in, func(c *contender) bool { return c.med == lowest[c.neighbour] })
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return +1
}

// compareAddr orders the invalid address, an unknown one, behind all others.
func compareAddr(a, b netip.Addr) int {
	if a.IsValid() != b.IsValid() {
		return compareBool(!a.IsValid(), !b.IsValid())
	}
	return a.Compare(b)
}

// A decision chooses among the paths to a prefix. It may be used for one prefix after another.
// Not safe for concurrent use.
type decision struct {
	speakers   []speaker
	costs      hopCosts
	contenders []contender // scratch
}

func newDecision(speakers []speaker, igp IGPCost) *decision {
	return &decision{speakers: speakers, costs: newHopCosts(igp)}
}

// best gives the best of the paths; ok is false where there is none.
func (d *decision) best(first path, others []path) (p path, ok bool) {
	if len(others) == 0 { // nearly always in a table from one peer: nothing to compare
		return first, first.usable() && d.costs.of(first.attrs) != UnreachableCost
	}
	d.start(first, others)
	in := d.run()
	if len(in) == 0 {
		return path{}, false
	}
	return in[0].path, true
}

// route makes a path the Route of a generation.
func (d *decision) route(prefix netip.Prefix, p path) Route {
	return Route{Prefix: prefix, Path: p.attrs, Peer: d.speakers[p.peer].peer, PathID: p.id, Stale: p.is(stale)}
}

// explain is best with what happened to every path.
func (d *decision) explain(prefix netip.Prefix, paths []path) []Candidate {
	if len(paths) == 0 {
		return nil
	}
	d.start(paths[0], paths[1:])
	d.run()
	slices.SortFunc(d.contenders, func(a, b contender) int {
		return cmp.Or(
			cmp.Compare(b.lostBy, a.lostBy),
			cmp.Compare(a.speaker.peer.config.Name, b.speaker.peer.config.Name),
			cmp.Compare(a.id, b.id),
		)
	})
	candidates := make([]Candidate, len(paths))
	for i, c := range d.contenders {
		candidates[i].Route = d.route(prefix, c.path)
		candidates[i].Step = d.decisive(&c)
		candidates[i].LostBy = candidates[i].Step.Name
		if !c.usable() {
			candidates[i].LostBy = c.reject.String()
		}
	}
	return candidates
}

// start fills d.contenders.
func (d *decision) start(first path, others []path) {
	d.contenders = slices.Grow(d.contenders[:0], 1+len(others))
	d.enter(first)
	for _, p := range others {
		d.enter(p)
	}
}

func (d *decision) enter(p path) {
	attrs, from := p.attrs.Value(), &d.speakers[p.peer]
	c := contender{
		path: p, speaker: from, lostBy: len(steps),
		routerID:  from.routerID,
		localPref: defaultLocalPref, pathLength: attrs.ASPath.Len(), neighbour: attrs.ASPath.First(),
		origin: attrs.Origin, clusterListLength: attrs.ClusterListLen,
	}
	if attrs.HasLocalPref {
		c.localPref = attrs.LocalPref
	}
	if attrs.HasMED {
		c.med = attrs.MED
	}
	if id := attrs.OriginatorID.Addr(); id.IsValid() {
		c.routerID = id
	}
	c.igpCost = d.costs.to(attrs.NextHop)
	d.contenders = append(d.contenders, c)
}

// run takes the contenders through the steps. What is left, one or none, comes first in
// d.contenders; the others stay behind it.
func (d *decision) run() (in []contender) {
	in = d.contenders
	for i, s := range steps {
		left := s.eliminate(in)
		for j := range in[left:] {
			in[left+j].lostBy = i
		}
		if in = in[:left]; left <= 1 {
			break
		}
	}
	return in
}
