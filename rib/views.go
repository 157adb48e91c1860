package rib

import (
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gaissmai/bart"

	"github.com/ribwarp/ribwarp/lpm"
)

// A Viewer answers what tables other routers would have (RFC 9107): the same paths, decided by other costs of
// the IGP. It goes by one generation for which prefix is looked at, and by the paths that peers announce at the moment
// for the choice. Nothing is kept for a router but what was asked. Not safe for concurrent use, nor are its views.
type Viewer struct {
	rib      *RIB
	g        *Generation
	paths    map[lpm.Handle]destinationPaths // nil: they are not remembered
	speakers []speaker
}

// Viewer makes one. The caller keeps the generation from being freed.
func (r *RIB) Viewer(g *Generation) *Viewer {
	return &Viewer{rib: r, g: g, paths: map[lpm.Handle]destinationPaths{}}
}

// View is the view of one router.
func (r *RIB) View(g *Generation, c IGPCost) *View {
	v := &Viewer{rib: r, g: g} // there is nobody to remember paths for
	return v.From(c)
}

// maxViewed is how many destinations a Viewer, and each view, remembers: 3 and 4 MiB.
const maxViewed = 1 << 16

// of gives the paths to the destination that the generation's table has at h. Where the RIB has
// something else there by now, there are none.
func (v *Viewer) of(h lpm.Handle) destinationPaths {
	if c, ok := v.paths[h]; ok {
		return c
	}
	c := destinationPaths{handle: h}
	if k, ok := keyOf(v.g.Route(h).Prefix); ok {
		v.rib.mu.Lock()
		if int(h>>pageBits) < len(v.rib.dests.pages) {
			if d := v.rib.dests.at(h); d.key() == k {
				c = v.take(h, d)
			}
		}
		v.rib.mu.Unlock()
	}
	if v.paths != nil {
		if len(v.paths) >= maxViewed {
			clear(v.paths)
		}
		v.paths[h] = c
	}
	return c
}

// at gives the paths to exactly this prefix, whether the generation has it or not.
func (v *Viewer) at(p netip.Prefix) destinationPaths {
	k, ok := keyOf(p)
	if !ok {
		return destinationPaths{}
	}
	v.rib.mu.Lock()
	defer v.rib.mu.Unlock()
	h := v.rib.index.find(k)
	if h == lpm.None {
		return destinationPaths{}
	}
	return v.take(h, v.rib.dests.at(h))
}

// take is called under the RIB's lock.
func (v *Viewer) take(h lpm.Handle, d *destination) destinationPaths {
	v.speakers = v.rib.speakers
	d.shared = d.more != nil
	return destinationPaths{first: d.first, more: d.more, handle: h}
}

// NextHops gives the next hops of all paths to the destinations that the generation's table has at these handles,
// each once.
func (v *Viewer) NextHops(handles []lpm.Handle) []netip.Addr {
	var all []netip.Addr
	seen, last := map[netip.Addr]bool{}, map[Path]bool{}
	for _, h := range handles {
		if h == lpm.None {
			continue
		}
		for c, i := v.of(h), -1; i < len(c.others()); i++ {
			x := c.first
			if i >= 0 {
				x = c.others()[i]
			}
			if !x.usable() || last[x.attrs] {
				continue
			}
			last[x.attrs] = true
			if hop := x.attrs.Value().NextHop; hop.IsValid() && !seen[hop] {
				seen[hop] = true
				all = append(all, hop)
			}
		}
	}
	return all
}

// A View is the table as a router with these costs would have it.
type View struct {
	viewer *Viewer
	d      *decision
	best   bests
}

// From gives the view by some costs.
func (v *Viewer) From(c IGPCost) *View {
	return &View{viewer: v, d: newDecision(nil, c)}
}

func (x *View) decide(p netip.Prefix, c *destinationPaths) Route {
	x.d.speakers = x.viewer.speakers
	if best := x.d.bestOf(c); best.exists() {
		return x.d.route(p, best)
	}
	return Route{}
}

// Route gives the best route to the destination that the generation's table has at h, the zero Route where
// the router has none.
func (x *View) Route(h lpm.Handle) Route {
	if h == lpm.None {
		return Route{}
	}
	if r, ok := x.best.get(h); ok {
		return r
	}
	r := x.decideAt(h)
	x.best.put(h, r)
	return r
}

// decideAt is Route for who asks about each handle once.
func (x *View) decideAt(h lpm.Handle) Route {
	c := x.viewer.of(h)
	return x.decide(x.viewer.g.Route(h).Prefix, &c)
}

// bests are routes that were decided lately, by handle: a table in which a later one takes the place of an
// earlier one, and which grows with its use.
type bests struct {
	slots []struct {
		h lpm.Handle
		r Route
	}
	puts int
}

func (b *bests) get(h lpm.Handle) (Route, bool) {
	if len(b.slots) == 0 {
		return Route{}, false
	}
	s := &b.slots[int(h)&(len(b.slots)-1)]
	return s.r, s.h == h
}

func (b *bests) put(h lpm.Handle, r Route) {
	if b.puts++; b.puts > len(b.slots) && len(b.slots) < maxViewed {
		was := b.slots
		b.slots, b.puts = make([]struct {
			h lpm.Handle
			r Route
		}, max(16, 4*len(was))), 1
		for _, s := range was {
			b.slots[int(s.h)&(len(b.slots)-1)] = s
		}
	}
	s := &b.slots[int(h)&(len(b.slots)-1)]
	s.h, s.r = h, r
}

// Exact gives the best route to exactly this prefix, also where the generation has none, as all next hops are out of
// the root's reach.
func (x *View) Exact(p netip.Prefix) Route {
	c := x.viewer.at(p)
	return x.decide(p.Masked(), &c)
}

// Paths is RIB.Paths as the router would have it.
func (x *View) Paths(p netip.Prefix) []Candidate {
	c := x.viewer.at(p)
	if !c.first.exists() {
		return nil
	}
	x.d.speakers = x.viewer.speakers
	return x.d.explain(p.Masked(), append([]path{c.first}, c.others()...))
}

// Lookup gives the route that carries an address, given the handle that the generation's table has for it: that of the
// longest prefix to which the router has a route.
func (x *View) Lookup(ip netip.Addr, h lpm.Handle) Route {
	g := x.viewer.g
	at := g.Route(h).Prefix // the zero Prefix has -1 bits
	if hidden := x.viewer.rib.hidden.over(ip); hidden == nil {
		if r := x.Route(h); r != (Route{}) || h == lpm.None {
			return r
		}
	} else {
		// Prefixes that the root has no route to, the longest first, and between them the table's.
		for _, p := range hidden {
			for ; at.Bits() >= p.Bits(); at, h = x.wider(at) {
				if r := x.Route(h); r != (Route{}) {
					return r
				}
			}
			if r := x.Exact(p); r != (Route{}) {
				return r
			}
		}
	}
	for ; h != lpm.None; at, h = x.wider(at) {
		if r := x.Route(h); r != (Route{}) {
			return r
		}
	}
	return Route{}
}

// Routes gives the routes that the router has and the filter wants, in the order of Filter.Routes, from behind a prefix on;
// of those that the generation has no route to the ones of the moment. Each is decided when it is given: about 1 us for
// each prefix in the filter's Spans.
func (x *View) Routes(f *Filter, behind netip.Prefix, most int) iter.Seq[Route] {
	return func(yield func(Route) bool) {
		wanted := f.matcher()
		give := func(r Route) bool { return r == (Route{}) || !wanted.takes(r) || yield(r) }
		hidden := x.viewer.rib.hidden.behind(behind)
		for h := range f.walk(x.viewer.g, behind, most) {
			p := x.viewer.g.Route(h).Prefix
			for len(hidden) > 0 && hidden[0].Compare(p) < 0 {
				if !give(x.Exact(hidden[0])) {
					return
				}
				hidden = hidden[1:]
			}
			if len(hidden) > 0 && hidden[0] == p { // since this generation
				hidden = hidden[1:]
			}
			if !give(x.decideAt(h)) {
				return
			}
		}
		for _, p := range hidden {
			if !give(x.Exact(p)) {
				return
			}
		}
	}
}

// wider gives the next shorter prefix of the generation's table that covers one.
func (x *View) wider(p netip.Prefix) (netip.Prefix, lpm.Handle) {
	best, at := lpm.None, netip.Prefix{}
	for _, h := range x.viewer.g.Table.Covering(nil, p) {
		if q := x.viewer.g.Route(h).Prefix; q.Bits() < p.Bits() && q.Bits() > at.Bits() {
			best, at = h, q
		}
	}
	return at, best
}

// Cost gives what the way to a route's next hop costs the router. ok is false where that is unknown.
func (x *View) Cost(r Route) (cost uint64, ok bool) {
	if r.Path == (Path{}) {
		return 0, false
	}
	cost = x.d.costs.of(r.Path)
	return cost, cost != unknownCost
}

// hidden are the prefixes that have paths, all of them with next hops out of the root's reach: other
// routers may have a route there. Safe for concurrent use.
type hidden struct {
	mu    sync.RWMutex
	table bart.Table[struct{}]
	count atomic.Int64
}

// note takes down that a prefix is hidden. It gives whether one that is not was: until the generation is there that has it,
// which who publishes that says by forget, it would be in neither of the two.
func (h *hidden) note(p netip.Prefix, is bool) (shown bool) {
	if !is {
		if h.count.Load() == 0 {
			return false
		}
		h.mu.RLock()
		defer h.mu.RUnlock()
		_, shown = h.table.Get(p)
		return shown
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table.Insert(p, struct{}{})
	h.count.Store(int64(h.table.Size()))
	return false
}

// forget takes down that prefixes are not hidden.
func (h *hidden) forget(shown []netip.Prefix) {
	if len(shown) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range shown {
		h.table.Delete(p)
	}
	h.count.Store(int64(h.table.Size()))
}

// over gives the hidden prefixes that hold an address, the longest first; nil for none.
func (h *hidden) over(ip netip.Addr) (all []netip.Prefix) {
	if h.count.Load() == 0 {
		return nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for p := range h.table.Supernets(netip.PrefixFrom(ip, ip.BitLen())) {
		all = append(all, p)
	}
	return all
}

// behind gives the hidden prefixes behind one, in order.
func (h *hidden) behind(p netip.Prefix) (all []netip.Prefix) {
	if h.count.Load() == 0 {
		return nil
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for q := range h.table.All() {
		if !p.IsValid() || q.Compare(p) > 0 {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return all
}

// usable tells whether any path may be chosen, but for its next hop.
func (c *destinationPaths) usable() bool {
	if c.first.usable() {
		return true
	}
	for _, x := range c.others() {
		if x.usable() {
			return true
		}
	}
	return false
}
