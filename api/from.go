package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// fromParameter names the router that a table is to be seen from; without it that is the IGP's root.
const fromParameter = "from"

// headerIGPGeneration is RIB-IGP-Generation, the topology's number, where a router was named.
const headerIGPGeneration = "Rib-Igp-Generation"

// seenFrom gives the table as the router sees it that the query names; nil where it names none. Where
// that cannot be it answers the request and ok is false.
func (a *API) seenFrom(c *gin.Context, v *view, g *rib.Generation) (seen *rib.View, ok bool) {
	raw := c.Request.URL.RawQuery
	if raw == "" {
		return nil, true
	}
	values, _ := url.ParseQuery(raw) // who takes other parameters says what is wrong with them
	given := values[fromParameter]
	switch {
	case len(given) == 0:
		return nil, true
	case len(given) > 1:
		a.refuse(c, http.StatusBadRequest, "%v", once(fromParameter, given))
		return nil, false
	case !a.hasIGP(c):
		return nil, false
	case v.of == nil:
		a.refuse(c, http.StatusNotFound, "table %q has no paths to choose from", v.name)
		return nil, false
	}
	t := a.deps.IGP.Topology()
	node, ok := a.igpNode(c, t, fromParameter, given[0])
	if !ok {
		return nil, false
	}
	c.Writer.Header()[headerIGPGeneration] = []string{strconv.FormatUint(t.Number, 10)}
	return v.of.RIB.View(g, a.deps.IGP.From(t, node)), true
}

// routeAt gives the route at a handle: the generation's, or the one that a router would have.
func routeAt(g *rib.Generation, seen *rib.View, h lpm.Handle) rib.Route {
	if seen == nil {
		return g.Route(h)
	}
	return seen.Route(h)
}

// carrier gives the route that carries an address, whose handle in the generation is h.
func carrier(g *rib.Generation, seen *rib.View, ip netip.Addr, h lpm.Handle) rib.Route {
	if seen == nil {
		return g.Route(h)
	}
	return seen.Lookup(ip, h)
}

// exactly gives the route to a prefix, whose handle in the generation is h.
func exactly(g *rib.Generation, seen *rib.View, p netip.Prefix, h lpm.Handle) rib.Route {
	if seen == nil {
		return g.Route(h)
	}
	return seen.Exact(p)
}
