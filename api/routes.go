package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

const (
	defaultLimit = 1000
	maxLimit     = 100_000
)

// routesQuery is what a request for a prefix asks for beside the prefix itself.
type routesQuery struct {
	more, less, paths, rpki bool
	limit                   int // of more-specifics
}

// any reports whether anything beside the exact route is asked for.
func (q routesQuery) any() bool { return q.more || q.less || q.paths || q.rpki }

// live reports whether the answer hangs on what is now, beside its generation.
func (q routesQuery) live() bool { return q.paths || q.rpki }

// prefix answers GET /api/v1/routes/{prefix}. A prefix that is not in the table is 404, unless
// something is asked for that it may have nevertheless (include): then its route is null.
func (a *API) prefix(c *gin.Context) {
	text := strings.TrimPrefix(c.Param("prefix"), "/")
	if text == "" { // /api/v1/routes/: as elsewhere the slash makes it another path
		a.noRoute(c)
		return
	}
	v := a.asked(c)
	if v == nil {
		return
	}
	g := a.acquire(c, v)
	if g == nil {
		return
	}
	defer g.Release()
	counts := a.metrics.finds.shard()
	p, err := parsePrefix(text)
	if err != nil {
		counts.invalid(endpointSingle)
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	q, err := parseRoutesQuery(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	seen, ok := a.seenFrom(c, v, g)
	if !ok {
		return
	}
	h := g.Table.Find(p)
	rt := exactly(g, seen, p, h)
	counts.add(endpointSingle, p.Addr().Is4(), rt.Prefix.IsValid())
	if !rt.Prefix.IsValid() && !q.any() {
		a.refuse(c, http.StatusNotFound, "%s is not in the table of generation %d; ?include=less-specifics,more-specifics shows what is around it", p, g.Number)
		return
	}
	if seen == nil && !q.live() && v.unchanged(c, g) {
		return
	}
	if err := a.writeRoutes(c, v, g, seen, p, h, rt, q); err != nil {
		a.cannotGoOn(c, g, err)
	}
}

// writeRoutes writes the answer in pieces, for it may hold maxLimit routes.
func (a *API) writeRoutes(c *gin.Context, v *view, g *rib.Generation, seen *rib.View, p netip.Prefix, h lpm.Handle, rt rib.Route, q routesQuery) error {
	emit := a.emitter(c, typeJSON)
	var vrps VRPs
	if q.rpki {
		vrps = a.vrps()
	}
	appendOne := func(dst []byte, rt rib.Route) []byte {
		dst = appendRoute(dst, rt)
		if q.rpki && rt.Prefix.IsValid() {
			dst = append(appendRPKI(dst[:len(dst)-1], vrps, rt), '}')
		}
		return dst
	}
	out := appendOne(appendExactHead(make([]byte, 0, 1024), p, g.Number), rt)

	list := func(name string, handles []lpm.Handle) error {
		out = append(out, `,"`...)
		out = append(out, name...)
		out = append(out, `":[`...)
		first := true
		for _, h := range handles {
			rt := routeAt(g, seen, h)
			if !rt.Prefix.IsValid() {
				continue // the router has none there
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = appendOne(out, rt)
			if len(out) >= outPiece {
				if err := emit(out); err != nil {
					return err
				}
				out = out[:0]
			}
		}
		out = append(out, ']')
		return nil
	}
	if q.less {
		if err := list("less_specifics", without(g.Table.Covering(nil, p), h)); err != nil {
			return err
		}
	}
	if q.more {
		// Two more than wanted: the prefix itself, and one to know that there are more.
		inside := without(g.Table.Covered(nil, p, q.limit+2), h)
		shown := inside[:min(len(inside), q.limit)]
		if err := list("more_specifics", shown); err != nil {
			return err
		}
		out = append(out, `,"truncated":`...)
		out = strconv.AppendBool(out, len(shown) < len(inside))
	}
	if q.paths {
		out = append(out, `,"paths":`...)
		out = appendCandidates(out, v.candidates(p, seen), appendOne)
	}
	if q.rpki {
		out = append(out, `,"vrps":`...)
		out = appendVRPs(out, vrps, p)
	}
	out = append(out, '}', '\n')
	if !c.Writer.Written() {
		writeJSON(c, out)
		return nil
	}
	return emit(out)
}

func (v *view) candidates(p netip.Prefix, seen *rib.View) []rib.Candidate {
	switch {
	case seen != nil:
		return seen.Paths(p)
	case v.paths == nil:
		return nil
	}
	return v.paths(p)
}

// without gives handles without h.
func without(handles []lpm.Handle, h lpm.Handle) []lpm.Handle {
	kept := handles[:0]
	for _, x := range handles {
		if x != h {
			kept = append(kept, x)
		}
	}
	return kept
}

func parseRoutesQuery(raw string) (routesQuery, error) {
	q := routesQuery{limit: defaultLimit}
	err := eachParameter(raw, func(name string, given []string) (err error) {
		if name != "include" {
			if err := once(name, given); err != nil {
				return err
			}
		}
		for _, v := range given {
			switch name {
			case "include":
				err = q.include(v)
			case "limit":
				q.limit, err = strconv.Atoi(v)
				if err != nil || q.limit < 1 || q.limit > maxLimit {
					err = fmt.Errorf("limit is %q: it must be a number from 1 to %d", cut(v, 32), maxLimit)
				}
			case tableParameter, generationParameter, fromParameter: // asked for before
			default:
				err = unknownParameter(name, nil, "include", "limit", generationParameter, tableParameter, fromParameter)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return q, err
}

func (q *routesQuery) include(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		switch name {
		case "more-specifics":
			q.more = true
		case "less-specifics":
			q.less = true
		case "paths":
			q.paths = true
		case "rpki":
			q.rpki = true
		default:
			return fmt.Errorf("include has %q: there are more-specifics, less-specifics, paths and rpki", cut(name, 32))
		}
	}
	return nil
}

// appendExact appends the answer for one prefix, whose route is rt, without its end.
func appendExact(dst []byte, p netip.Prefix, rt rib.Route, gen uint64) []byte {
	return appendRoute(appendExactHead(dst, p, gen), rt)
}

// appendExactHead appends what stands in front of the route.
func appendExactHead(dst []byte, p netip.Prefix, gen uint64) []byte {
	dst = append(dst, `{"generation":`...)
	dst = appendInt(dst, gen)
	dst = append(dst, `,"prefix":"`...)
	dst = p.AppendTo(dst)
	return append(dst, `","route":`...)
}

// appendRoute appends a route as an object, null for the zero route.
func appendRoute(dst []byte, rt rib.Route) []byte {
	if !rt.Prefix.IsValid() {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	dst = appendRouteDetails(dst, rt)
	return append(dst, '}')
}

// appendRouteDetails appends the fields of a route: those of a lookup's answer and those that
// the choice of the best path looks at.
func appendRouteDetails(dst []byte, rt rib.Route) []byte {
	dst = appendRouteFields(dst, rt)
	var at rib.Attrs
	origin := ""
	if rt.Path != (rib.Path{}) {
		at = rt.Path.Value()
		origin = rib.OriginName(at.Origin)
	}
	dst = append(dst, `,"origin":`...)
	dst = appendText(dst, origin)
	dst = append(dst, `,"med":`...)
	dst = appendOptional(dst, at.MED, at.HasMED)
	dst = append(dst, `,"local_pref":`...)
	dst = appendOptional(dst, at.LocalPref, at.HasLocalPref)
	peer := ""
	if rt.Peer != nil {
		peer = rt.Peer.Name()
	}
	dst = append(dst, `,"peer":`...)
	dst = appendText(dst, peer)
	dst = append(dst, `,"path_id":`...)
	dst = appendInt(dst, rt.PathID)
	return appendStale(dst, rt)
}

// appendCandidates appends the paths to a prefix that its peers announce, best first, each with what
// took it out: the step of the decision, what that looked at, and what of those that stayed.
func appendCandidates(dst []byte, all []rib.Candidate, appendOne func([]byte, rib.Route) []byte) []byte {
	dst = append(dst, '[')
	for _, cand := range all {
		dst = appendOne(dst, cand.Route)
		dst = append(dst[:len(dst)-1], `,"lost_by":`...)
		dst = appendText(dst, cand.LostBy)
		dst = append(dst, `,"decision":`...)
		if cand.Step.Name == "" {
			dst = append(dst, "null"...)
		} else {
			dst = append(dst, `{"step":`...)
			dst = appendString(dst, cand.Step.Name)
			dst = append(dst, `,"value":`...)
			dst = appendCompared(dst, cand.Step.Value)
			dst = append(dst, `,"best":`...)
			dst = appendCompared(dst, cand.Step.Best)
			dst = append(dst, '}')
		}
		dst = append(dst, '}', ',')
	}
	return closeArray(dst)
}

// appendCompared appends what a step of the decision compares, null for what is not known.
func appendCompared(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case string:
		return appendString(dst, v)
	case netip.Addr:
		return appendAddr(dst, v)
	}
	return fmt.Appendf(dst, "%d", v) // all others are numbers
}

// appendText appends a string, null for an empty one.
func appendText(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

// appendOptional appends a number, null where it is not set.
func appendOptional(dst []byte, v uint32, set bool) []byte {
	if !set {
		return append(dst, "null"...)
	}
	return appendInt(dst, v)
}

// appendInt appends a number that is not negative.
func appendInt[T int | uint32 | uint64](dst []byte, v T) []byte {
	return strconv.AppendUint(dst, uint64(v), 10)
}
