package rib

import (
	"iter"
	"net/netip"

	"github.com/ribwarp/ribwarp/lpm"
)

// Withheld gives all paths to the destinations that a generation of this publisher, nil for none,
// has no route to: those that no import policy lets be chosen now, and those that are not published
// yet. What rejects them may be a cache of VRPs that is not back, so whoever saves a generation
// saves them, too. It walks the whole table, as Peer.Routes does, and in the same order of things:
// of what changes while it runs it may give the old state or the new one.
func (p *Publisher) Withheld(g *Generation) iter.Seq[Route] {
	return func(yield func(Route) bool) {
		var found []Route // of one visit: the caller looks at them without the lock
		for n := 0; p.rib.visit(n, func(first lpm.Handle, some []destination) {
			found = found[:0]
			for i := range some {
				d := &some[i]
				if d.empty() {
					continue
				}
				prefix := d.key().prefix()
				if g != nil && g.Routes.At(int(first)+i).Prefix == prefix {
					continue
				}
				found = append(found, p.rib.withheld(prefix, d.first))
				for _, x := range d.others() {
					found = append(found, p.rib.withheld(prefix, x))
				}
			}
		}); n++ {
			for _, r := range found {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// withheld is called under the lock.
func (r *RIB) withheld(prefix netip.Prefix, x path) Route {
	return Route{Prefix: prefix, Path: x.attrs, Peer: r.speakers[x.peer].peer, PathID: x.id, Stale: x.is(stale)}
}
