package api

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

const (
	defaultASNLimit = 100
	maxNeighbours   = 100 // that are named
)

// asnAnswer is the answer of /api/v1/asns/{asn}: what an AS is in the paths of the best routes.
type asnAnswer struct {
	Generation uint64   `json:"generation"`
	ASN        uint32   `json:"asn"`
	Originated families `json:"originated"` // prefixes that it originates
	Transited  families `json:"transited"`  // prefixes of others whose path leads through it
	// Upstreams are the ASes that come before it in paths, nearer to here, downstreams those behind it,
	// with the number of prefixes whose path has both; peers are those that the routes come from.
	Upstreams   neighbours `json:"upstreams"`
	Downstreams neighbours `json:"downstreams"`
	Peers       []named    `json:"peers"`
}

// neighbours are the ASes that occur most, and how many there are.
type neighbours struct {
	Count int         `json:"count"`
	Most  []neighbour `json:"most"`
}

type neighbour struct {
	ASN      uint32 `json:"asn"`
	Prefixes int    `json:"prefixes"`
}

type named struct {
	Name     string `json:"name"`
	Prefixes int    `json:"prefixes"`
}

// A role is what an AS is in a path.
type role struct {
	origin, transit bool
	before, behind  uint32 // its neighbours, 0 for none
}

// roleOf finds an AS in a path. An AS that repeats itself is one; in a set nobody has neighbours, for
// it has no order.
func roleOf(path rib.ASPath, as uint32) (r role) {
	r.origin = path.OriginatedBy(as)
	var last uint32 // AS before, 0 behind a set
	inside := false // last is the AS itself
	for kind, asns, rest := cutSegment(path); kind != 0; kind, asns, rest = cutSegment(rest) {
		if kind == rib.SegmentSet || kind == rib.SegmentConfedSet {
			for i := 0; i+4 <= len(asns); i += 4 {
				r.transit = r.transit || number(string(asns), i) == as
			}
			last, inside = 0, false
			continue
		}
		for i := 0; i+4 <= len(asns); i += 4 {
			x := number(string(asns), i)
			switch {
			case x == as && !inside:
				r.transit, inside = true, true
				if r.before == 0 {
					r.before = last
				}
			case x != as && inside:
				inside = false
				if r.behind == 0 {
					r.behind = x
				}
			}
			last = x
		}
	}
	r.transit = r.transit && !r.origin
	return r
}

// asn answers GET /api/v1/asns/{asn}. It looks at all routes: some 100 ms for a full table.
func (a *API) asn(c *gin.Context) {
	v := a.asked(c)
	if v == nil {
		return
	}
	as, err := parseASN(c.Param("asn"))
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%q: %v", cut(c.Param("asn"), 32), err)
		return
	}
	limit, err := parseASNQuery(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	if v.unchanged(c, g) { // before the work, so that it costs nothing
		return
	}
	answer, routes := describeAS(g, as, limit+1) // one more than wanted, to know that there are more
	if answer.Originated == (families{}) && answer.Transited == (families{}) {
		delete(c.Writer.Header(), "Etag")
		a.refuse(c, http.StatusNotFound, "AS%d is in no AS path of generation %d", as, g.Number)
		return
	}
	v.held.hold(g) // for the rest of the routes
	out, err := marshal(answer)
	if err != nil {
		a.deps.Log.Error("answer not encoded", "path", c.Request.URL.Path, "error", err)
		a.refuse(c, http.StatusInternalServerError, "the answer could not be encoded: %v", err)
		return
	}
	out = append(out[:len(out)-2], `,"routes":[`...) // behind the last field
	for _, r := range routes[:min(len(routes), limit)] {
		out = append(appendRoute(out, r), ',')
	}
	more := ""
	if len(routes) > limit {
		query := url.Values{"origin": {strconv.FormatUint(uint64(as), 10)}, "cursor": {cursor{g.Number, routes[limit-1].Prefix}.String()}}
		if v != a.main {
			query.Set(tableParameter, v.name)
		}
		more = "/api/v1/routes?" + query.Encode()
	}
	out = closeArray(out)
	out = append(out, `,"more":`...)
	out = appendText(out, more)
	writeJSON(c, append(out, '}', '\n'))
}

func parseASNQuery(raw string) (limit int, err error) {
	limit = defaultASNLimit
	err = eachParameter(raw, func(name string, given []string) (err error) {
		switch name {
		case "limit":
			limit, err = strconv.Atoi(given[0])
			if err != nil || limit < 1 || limit > defaultLimit {
				return fmt.Errorf("limit is %q: it must be a number from 1 to %d", cut(given[0], 32), defaultLimit)
			}
		case tableParameter, generationParameter: // asked for before
		default:
			return unknownParameter(name, nil, "limit", generationParameter, tableParameter)
		}
		return once(name, given)
	})
	if err != nil {
		return 0, err
	}
	return limit, nil
}

// describeAS counts, and gives the first routes that the AS originates, most at most.
func describeAS(g *rib.Generation, as uint32, most int) (answer *asnAnswer, originated []rib.Route) {
	answer = &asnAnswer{Generation: g.Number, ASN: as}
	first := func() {
		slices.SortFunc(originated, func(a, b rib.Route) int { return a.Prefix.Compare(b.Prefix) })
		originated = originated[:min(len(originated), most)]
	}
	before, behind, peers := map[uint32]int{}, map[uint32]int{}, map[*rib.Peer]int{}
	for r, is := range rib.ByAttrs(g, func(at *rib.Attrs) role { return roleOf(at.ASPath, as) }) {
		if !is.origin && !is.transit {
			continue
		}
		count := &answer.Originated
		if is.transit {
			count = &answer.Transited
		} else if originated = append(originated, r); len(originated) >= 2*most {
			first()
		}
		if r.Prefix.Addr().Is4() {
			count.IPv4++
		} else {
			count.IPv6++
		}
		if is.before != 0 {
			before[is.before]++
		}
		if is.behind != 0 {
			behind[is.behind]++
		}
		if r.Peer != nil {
			peers[r.Peer]++
		}
	}
	answer.Upstreams, answer.Downstreams = mostOf(before), mostOf(behind)
	answer.Peers = []named{}
	for p, n := range peers {
		answer.Peers = append(answer.Peers, named{p.Name(), n})
	}
	slices.SortFunc(answer.Peers, func(a, b named) int {
		return cmp.Or(cmp.Compare(b.Prefixes, a.Prefixes), cmp.Compare(a.Name, b.Name))
	})
	first()
	return answer, originated
}

func mostOf(counts map[uint32]int) neighbours {
	n := neighbours{Count: len(counts), Most: []neighbour{}}
	for as, prefixes := range counts {
		n.Most = append(n.Most, neighbour{as, prefixes})
	}
	slices.SortFunc(n.Most, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.Prefixes, a.Prefixes), cmp.Compare(a.ASN, b.ASN))
	})
	n.Most = n.Most[:min(len(n.Most), maxNeighbours)]
	return n
}
