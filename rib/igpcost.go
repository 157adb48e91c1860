package rib

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// IGPCost is the seam for the cost of the way to a next hop (RFC 4271, 9.1.2.2 e): one state of the
// IGP, as one router sees it. Its answers never change; RIB.SetIGP puts another one in force. Without
// one every next hop costs the same. Safe for concurrent use; it calls nothing of the RIB.
type IGPCost interface {
	// Cost gives the cost, UnreachableCost where the next hop is known and no way leads to it: such a
	// path is not chosen (RFC 4271, 9.1.2). ok is false where the next hop is unknown: the path is
	// the farthest of all, and may be chosen.
	Cost(nextHop netip.Addr) (cost uint64, ok bool)
}

const (
	// UnreachableCost is the cost of a next hop that no way leads to.
	UnreachableCost = math.MaxUint64
	// unknownCost has paths with an unknown next hop come last.
	unknownCost = UnreachableCost - 1
	// lostUnreachable is Candidate.LostBy of a path with such a next hop.
	lostUnreachable = "unreachable"
)

// costOf gives the cost of a path as the decision compares it.
func costOf(igp IGPCost, nextHop netip.Addr) uint64 {
	switch {
	case igp == nil:
		return 0
	case !nextHop.IsValid():
		return unknownCost
	}
	cost, ok := igp.Cost(nextHop)
	switch {
	case !ok:
		return unknownCost
	case cost == UnreachableCost:
		return cost
	}
	return min(cost, unknownCost-1)
}

// hopCosts asks an IGPCost once for each next hop. Not safe for concurrent use.
type hopCosts struct {
	igp  IGPCost
	last Path // the path that was asked about before, and its answer: neighbours have it again
	was  uint64
	memo map[netip.Addr]uint64
}

func newHopCosts(igp IGPCost) hopCosts {
	return hopCosts{igp: igp, memo: map[netip.Addr]uint64{}}
}

// of gives the cost of a path with these attributes.
func (c *hopCosts) of(p Path) uint64 {
	if c.igp == nil || p == c.last {
		return c.was // 0 without an IGP
	}
	c.last, c.was = p, c.to(p.Value().NextHop)
	return c.was
}

func (c *hopCosts) to(nextHop netip.Addr) uint64 {
	if c.igp == nil {
		return 0
	}
	cost, ok := c.memo[nextHop]
	if !ok {
		cost = costOf(c.igp, nextHop)
		c.memo[nextHop] = cost
	}
	return cost
}

// SetIGP puts another state of the IGP in force, nil for none, and has decided again what it may
// decide otherwise: destinations with a path whose next hop is reachable now and was not, or the other way
// round, or with two paths whose costs compare otherwise than before. It gives their number. It costs
// one walk over the table, on all cores; who changes the table meanwhile gets the lock in between. What it
// changes becomes visible in one generation, when the walk is over. One call at a time is under way.
func (r *RIB) SetIGP(c IGPCost) (affected int) {
	r.igpTurn.Lock()
	defer r.igpTurn.Unlock()
	started := time.Now()
	r.mu.Lock()
	was := r.igp
	r.igp = c // from here on: what is decided meanwhile, and then once more, is right already
	r.mu.Unlock()
	if was == nil && c == nil {
		return 0
	}
	found := r.scan(func() scanner {
		s := costScan{was: was, is: c, memo: map[netip.Addr]*costChange{}}
		return s.find
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, some := range found {
		affected += len(some)
	}
	if affected == 0 {
		return 0
	}
	if len(r.dirty) == 0 || started.Before(r.since) {
		r.since = started
	}
	// Marked together with the list, and not by the walk: what is dirty must be in the list, or a change of the
	// meantime would wait for the end of the walk, and be missing behind a Flush.
	r.dirty = slices.Grow(r.dirty, affected)
	for _, some := range found {
		for _, h := range some {
			if d := r.dests.at(h); !d.dirty && !d.empty() {
				d.dirty = true
				r.dirty = append(r.dirty, h)
			}
		}
	}
	// Nobody is told before the end: a generation for each part would take longer than all of it.
	r.notify()
	return affected
}

// A costChange is what a next hop costs before and after a change of the IGP.
type costChange struct{ was, is uint64 }

// A costScan finds what a change of the IGP may decide otherwise. Not safe for concurrent use.
type costScan struct {
	was, is IGPCost
	memo    map[netip.Addr]*costChange
	// The last path of each place among a destination's: prefixes that came in one message lie
	// beside each other.
	last    [4]Path
	lastOf  [4]*costChange
	changes []costChange // scratch
}

// at gives the change for path number i of a destination.
func (s *costScan) at(i int, p Path) *costChange {
	i &= len(s.last) - 1
	if s.last[i] == p {
		return s.lastOf[i]
	}
	hop := p.Value().NextHop
	c := s.memo[hop]
	if c == nil {
		c = &costChange{costOf(s.was, hop), costOf(s.is, hop)}
		s.memo[hop] = c
	}
	s.last[i], s.lastOf[i] = p, c
	return c
}

// find is a scanner: it wants the destinations that the change may decide otherwise.
func (s *costScan) find(dst []lpm.Handle, first lpm.Handle, some []destination) []lpm.Handle {
	var last *destination
	affected := false // last
	for i := range some {
		d := &some[i]
		if d.dirty || d.empty() {
			continue
		}
		if last == nil || !samePaths(d.first, last.first, d.others(), last.others()) {
			affected = s.affects(d)
		}
		if last = d; affected {
			dst = append(dst, first+lpm.Handle(i))
		}
	}
	return dst
}

// affects tells whether the change may decide a destination otherwise. The decision only compares costs,
// so where all comparisons come out as before so does the best path.
func (s *costScan) affects(d *destination) bool {
	if d.more == nil {
		if !d.first.usable() {
			return false
		}
		c := s.at(0, d.first.attrs)
		return (c.was == UnreachableCost) != (c.is == UnreachableCost)
	}
	s.changes = s.changes[:0]
	same := true
	for i := range 1 + len(*d.more) {
		x := d.at(i)
		if !x.usable() {
			continue
		}
		c := s.at(i, x.attrs)
		same = same && c.was == c.is
		s.changes = append(s.changes, *c)
	}
	if same {
		return false
	}
	// In order, so that neighbours speak for all pairs: there may be tens of thousands of paths.
	if len(s.changes) > 2 {
		slices.SortFunc(s.changes, func(a, b costChange) int { return cmp.Or(cmp.Compare(a.was, b.was), cmp.Compare(a.is, b.is)) })
	}
	for i, a := range s.changes {
		if (a.was == UnreachableCost) != (a.is == UnreachableCost) {
			return true
		}
		if i > 0 && cmp.Compare(s.changes[i-1].was, a.was) != cmp.Compare(s.changes[i-1].is, a.is) {
			return true
		}
	}
	return false
}

// SetIGP is RIB.SetIGP for all tables, those that are still to be made among them. It gives the number of
// destinations to decide again.
func (t *Tables) SetIGP(c IGPCost) (affected int) {
	t.mu.Lock()
	t.options.RIB.IGP = c
	t.mu.Unlock()
	for _, table := range t.All() {
		affected += table.RIB.SetIGP(c)
	}
	return affected
}
