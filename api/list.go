package api

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

// A cursor is a place in the listing of a generation: behind a prefix, which need not be in it.
type cursor struct {
	generation uint64 // 0: no cursor, the listing begins anew
	behind     netip.Prefix
}

// String gives the text of a cursor: "7,192.0.2.0/24".
func (at cursor) String() string { return fmt.Sprintf("%d,%s", at.generation, at.behind) }

// parseCursor is the inverse of String.
func parseCursor(text string) (cursor, error) {
	number, prefix, ok := strings.Cut(text, ",")
	if !ok {
		return cursor{}, errors.New("there is no comma in it")
	}
	generation, err := strconv.ParseUint(number, 10, 64)
	if err != nil || generation == 0 {
		return cursor{}, errors.New("before the comma is no generation, a number from 1 on")
	}
	p, err := cursorPrefix(prefix)
	if err != nil {
		return cursor{}, err
	}
	return cursor{generation, p}, nil
}

// cursorPrefix reads the prefix of a cursor. An IPv4-mapped prefix of a table is an IPv6 one, and
// must stay one here: as IPv4 it would take a listing back to where it was long ago.
func cursorPrefix(text string) (netip.Prefix, error) {
	p, err := readPrefix(text)
	if err != nil {
		return p, fmt.Errorf("behind the comma is %w", err)
	}
	if m := p.Masked(); m != p {
		return p, fmt.Errorf("prefix %s has host bits set: no route is %s", p, p)
	}
	return p, nil
}

// listQuery is what a request for a listing asks for.
type listQuery struct {
	filter *rib.Filter
	limit  int
	from   cursor
	number uint64 // of the generation, 0 for the newest
	rpki   bool   // show the state of each route
	live   bool   // the answer hangs on what is now, beside its generation
}

func parseListQuery(raw string, vrps func() VRPs) (listQuery, error) {
	q := listQuery{limit: math.MaxInt}
	var filter routeFilter
	err := eachParameter(raw, func(name string, given []string) (err error) {
		v := given[0]
		switch name {
		case "limit":
			q.limit, err = parseLimit(v)
		case "cursor":
			if q.from, err = parseCursor(v); err != nil {
				err = fmt.Errorf("cursor is %q, as in cursor=7,192.0.2.0/24 it must be a generation and the last prefix that you have: %w", cut(v, maxAddrText), err)
			}
		case "include":
			if q.rpki = v == "rpki"; !q.rpki {
				err = fmt.Errorf("include has %q: there is rpki", cut(v, 32))
			}
		case generationParameter:
			q.number, err = parseNumber(name, v)
		case tableParameter, fromParameter: // asked for elsewhere
		default:
			known, err := filter.add(name, given, vrps) // looks at all of them
			if !known {
				err = unknownParameter(name, filterParameters, "limit", "cursor", "include", generationParameter, tableParameter, fromParameter)
			}
			return err
		}
		if err != nil {
			return err
		}
		return once(name, given)
	})
	if err != nil {
		return q, err
	}
	if q.from.generation != 0 && q.number != 0 && q.from.generation != q.number {
		return q, fmt.Errorf("generation is %d and the cursor is of %d: leave out one", q.number, q.from.generation)
	}
	q.number = max(q.number, q.from.generation)
	q.filter, q.live = filter.done(), q.rpki || filter.live
	return q, nil
}

func parseLimit(v string) (int, error) {
	limit, err := strconv.Atoi(v)
	if err != nil || limit < 1 {
		return 0, fmt.Errorf("limit is %q: it must be a number from 1 on; leave it out for all", cut(v, 32))
	}
	return limit, nil
}

// list answers GET /api/v1/routes: the routes of one generation, in order, as NDJSON. A last line
// says that they are complete, or where to go on; an answer without it was cut.
func (a *API) list(c *gin.Context) {
	v := a.asked(c)
	if v == nil {
		return
	}
	q, err := parseListQuery(c.Request.URL.RawQuery, a.vrps)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	g := a.acquireNumber(c, v, q.number)
	if g == nil {
		return
	}
	defer g.Release()
	seen, ok := a.seenFrom(c, v, g)
	switch {
	case !ok:
		return
	case q.live || seen != nil: // the tag says from which generation to go on, and nothing of the RPKI and the IGP
		v.tag(c, g)
	case v.unchanged(c, g):
		return
	}
	if c.Request.Method == http.MethodHead {
		c.Writer.Header()["Content-Type"] = typeNDJSON
		return
	}
	defer v.held.hold(g)
	if err := a.writeListing(c, v, g, seen, q); err != nil {
		a.cannotGoOn(c, g, err)
	}
}

// writeListing writes routes in pieces. A client that does not read holds it up, one that is gone
// ends it.
func (a *API) writeListing(c *gin.Context, v *view, g *rib.Generation, seen *rib.View, q listQuery) error {
	routes := func(behind netip.Prefix, most int) iter.Seq[rib.Route] { return q.filter.Routes(g, behind, most) }
	if seen != nil {
		routes = func(behind netip.Prefix, most int) iter.Seq[rib.Route] { return seen.Routes(q.filter, behind, most) }
	}
	out := a.newLineWriter(c, func() { v.held.hold(g) })
	var vrps VRPs
	if q.rpki {
		vrps = a.vrps()
	}
	given, last := 0, q.from.behind
	for r := range routes(q.from.behind, q.limit) {
		if given == q.limit {
			out.text = fmt.Appendf(out.text, "{\"cursor\":%q}\n", cursor{g.Number, last})
			return out.flush()
		}
		given, last = given+1, r.Prefix
		out.text = append(out.text, '{')
		out.text = appendRouteDetails(out.text, r)
		if q.rpki {
			out.text = appendRPKI(out.text, vrps, r)
		}
		out.text = append(out.text, '}', '\n')
		if err := out.line(); err != nil {
			return err
		}
	}
	out.text = fmt.Appendf(out.text, "{\"end\":true,\"routes\":%d}\n", total(routes, q, given))
	return out.flush()
}

// total counts the routes of a whole listing, of which the last ones were given.
func total(routes func(behind netip.Prefix, most int) iter.Seq[rib.Route], q listQuery, given int) int {
	if q.from.generation == 0 {
		return given
	}
	return given + countUpTo(q.from.behind, routes(netip.Prefix{}, math.MaxInt), func(r rib.Route) netip.Prefix { return r.Prefix })
}

// countUpTo counts what comes up to a prefix.
func countUpTo[T any](p netip.Prefix, all iter.Seq[T], prefix func(T) netip.Prefix) (n int) {
	for x := range all {
		if prefix(x).Compare(p) > 0 {
			break
		}
		n++
	}
	return n
}

// A lineWriter writes an answer of lines in pieces.
type lineWriter struct {
	text []byte // what was not written yet
	emit func([]byte) error
	held func() // called before each piece
}

// newLineWriter makes one. A piece is written within Limits.Progress or never: what held holds for a
// longer time stays held.
func (a *API) newLineWriter(c *gin.Context, held func()) *lineWriter {
	return &lineWriter{text: make([]byte, 0, outPiece+4096), emit: a.emitter(c, typeNDJSON), held: held}
}

// line is called behind each line.
func (w *lineWriter) line() error {
	if len(w.text) < outPiece {
		return nil
	}
	return w.flush()
}

func (w *lineWriter) flush() error {
	w.held()
	err := w.emit(w.text)
	w.text = w.text[:0]
	return err
}
