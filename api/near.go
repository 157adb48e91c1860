package api

import (
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// nearRoutes gives the routes of many handles one after the other. A route of a full table is
// three dependent cache misses away: the route, its attributes, their path and communities. So
// they are fetched for some routes at a time, in passes in which no read waits for another one,
// and the misses of a pass overlap.
type nearRoutes struct {
	gen     *rib.Generation
	handles []lpm.Handle // not fetched yet
	routes  [64]routeFields
	at, to  int // of routes, those that were not given yet
	touched byte
}

func (n *nearRoutes) begin(g *rib.Generation, handles []lpm.Handle) {
	n.gen, n.handles, n.at, n.to = g, handles, 0, 0
}

// next gives the next route, valid until the next call.
func (n *nearRoutes) next() *routeFields {
	if n.at == n.to {
		n.fetch()
	}
	n.at++
	return &n.routes[n.at-1]
}

func (n *nearRoutes) fetch() {
	n.at, n.to = 0, min(len(n.handles), len(n.routes))
	routes := n.routes[:n.to]
	for i, h := range n.handles[:n.to] {
		routes[i].Route = n.gen.Route(h)
	}
	for i := range routes {
		if path := routes[i].Path; path != (rib.Path{}) {
			routes[i].attrs = path.Value()
		} else {
			routes[i].attrs = rib.Attrs{}
		}
	}
	for i := range routes {
		n.touched += first(routes[i].attrs.ASPath) + first(routes[i].attrs.Communities)
	}
	n.handles = n.handles[n.to:]
}

// first reads the first byte of s.
func first[T ~string](s T) byte {
	if len(s) == 0 {
		return 0
	}
	return s[0]
}
