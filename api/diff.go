package api

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

// diffQuery is what a request for differences asks for.
type diffQuery struct {
	filter   *rib.Filter
	limit    int
	from, to uint64       // generations; 0 of to is the newest
	behind   netip.Prefix // invalid: from the beginning
	same     func(a, b rib.Route) bool
	live     bool // the answer hangs on what is now, beside its generations
}

// parseIgnore says which routes are the same: from any peer with ignore=peer.
func parseIgnore(v string) (same func(a, b rib.Route) bool, err error) {
	if v != "peer" {
		return rib.SameRoute, fmt.Errorf("ignore is %q: there is peer", cut(v, 32))
	}
	return rib.SamePath, nil
}

// A diffCursor is a place in the differences of two generations.
type diffCursor struct {
	from, to uint64
	behind   netip.Prefix
}

// String gives the text of a cursor: "3,7,192.0.2.0/24".
func (at diffCursor) String() string { return fmt.Sprintf("%d,%d,%s", at.from, at.to, at.behind) }

// parseDiffCursor is the inverse of String.
func parseDiffCursor(text string) (at diffCursor, err error) {
	parts := strings.SplitN(text, ",", 3)
	if len(parts) != 3 {
		return diffCursor{}, errors.New("there are no two commas in it")
	}
	if at.from, err = parseNumber("the first part", parts[0]); err != nil {
		return diffCursor{}, err
	}
	if at.to, err = parseNumber("the second part", parts[1]); err != nil {
		return diffCursor{}, err
	}
	if at.behind, err = cursorPrefix(parts[2]); err != nil {
		return diffCursor{}, err
	}
	return at, nil
}

func (a *API) parseDiffQuery(raw string) (diffQuery, error) {
	q := diffQuery{limit: math.MaxInt, same: rib.SameRoute}
	var filter routeFilter
	var at diffCursor
	err := eachParameter(raw, func(name string, given []string) (err error) {
		v := given[0]
		switch name {
		case "from":
			q.from, err = parseNumber(name, v)
		case "to":
			q.to, err = parseNumber(name, v)
		case "ignore":
			q.same, err = parseIgnore(v)
		case "limit":
			q.limit, err = parseLimit(v)
		case "cursor":
			if at, err = parseDiffCursor(v); err != nil {
				err = fmt.Errorf("cursor is %q, as in cursor=3,7,192.0.2.0/24 it must be two generations and the last prefix that you have: %w", cut(v, maxAddrText), err)
			}
		case tableParameter: // asked for before
		default:
			known, err := filter.add(name, given, a.vrps) // looks at all of them
			if !known {
				err = unknownParameter(name, filterParameters, "from", "to", "ignore", "limit", "cursor", tableParameter)
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
	if at.from != 0 {
		if q.from != 0 && q.from != at.from || q.to != 0 && q.to != at.to {
			return q, fmt.Errorf("the cursor is of generations %d and %d: leave out from and to, or give the same", at.from, at.to)
		}
		q.from, q.to, q.behind = at.from, at.to, at.behind
	}
	if q.from == 0 {
		return q, errNoFrom
	}
	q.filter, q.live = filter.done(), filter.live
	return q, nil
}

var errNoFrom = errors.New("from is missing: it is the number of a generation that is held, see /api/v1/generations")

// acquireTwo gives two generations, which the caller must release. The header names the second. Where
// one is gone, or they are not those of If-Match, it answers the request and gives nil.
func (a *API) acquireTwo(c *gin.Context, v *view, from, to uint64) (*rib.Generation, *rib.Generation) {
	old := a.acquireMatching(c, v, from, "")
	if old == nil {
		return nil, nil
	}
	g := a.acquireMatching(c, v, to, "")
	if g == nil {
		old.Release()
		return nil, nil
	}
	if wanted, tag := ifMatch(c), entityTagOfTwo(old, g); wanted != "" && !matchesTag(wanted, tag) {
		a.refuse(c, http.StatusPreconditionFailed, "generations %d and %d are not those of If-Match, their ETag is %s: the service was started anew, or the table; begin anew", old.Number, g.Number, tag)
		old.Release()
		g.Release()
		return nil, nil
	}
	return old, g
}

// entityTagOfTwo is entityTag for what hangs on two generations.
func entityTagOfTwo(from, to *rib.Generation) string {
	return strings.TrimSuffix(entityTag(from), `"`) + "." + strings.TrimPrefix(entityTag(to), `"`)
}

// diff answers GET /api/v1/diff: the prefixes whose route differs between two generations, in order,
// as NDJSON. A last line says that they are complete, or where to go on.
func (a *API) diff(c *gin.Context) {
	v := a.asked(c)
	if v == nil {
		return
	}
	q, err := a.parseDiffQuery(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	from, to := a.acquireTwo(c, v, q.from, q.to)
	if from == nil {
		return
	}
	defer from.Release()
	defer to.Release()
	if tag := []string{entityTagOfTwo(from, to)}; q.live {
		c.Writer.Header()["Etag"] = tag
	} else if unchanged(c, tag) {
		return
	}
	if c.Request.Method == http.MethodHead {
		c.Writer.Header()["Content-Type"] = typeNDJSON
		return
	}
	if err := a.writeDiff(c, v, from, to, q); err != nil {
		a.cannotGoOn(c, to, err)
	}
}

func (a *API) writeDiff(c *gin.Context, v *view, from, to *rib.Generation, q diffQuery) error {
	hold := func() {
		v.held.hold(from)
		v.held.hold(to)
	}
	defer hold()
	out := a.newLineWriter(c, hold)
	given, last := 0, q.behind
	for d := range q.differences(from, to, q.behind) {
		if given == q.limit {
			out.text = fmt.Appendf(out.text, "{\"cursor\":%q}\n", diffCursor{from.Number, to.Number, last})
			return out.flush()
		}
		given, last = given+1, d.Prefix()
		out.text = append(AppendDifference(out.text, d), '\n')
		if err := out.line(); err != nil {
			return err
		}
	}
	if q.behind.IsValid() {
		given += countUpTo(q.behind, q.differences(from, to, netip.Prefix{}), rib.Difference.Prefix)
	}
	out.text = fmt.Appendf(out.text, "{\"end\":true,\"changes\":%d}\n", given)
	return out.flush()
}

// differences are those of which the filter wants the route before, or the one after.
func (q *diffQuery) differences(from, to *rib.Generation, behind netip.Prefix) iter.Seq[rib.Difference] {
	all, f := rib.Diff(from, to, behind, q.same), q.filter
	if f.Empty() {
		return all
	}
	return func(yield func(rib.Difference) bool) {
		for d := range all {
			if (f.Matches(d.From) || f.Matches(d.To)) && !yield(d) {
				return
			}
		}
	}
}

// AppendDifference appends a line of the answer of GET /api/v1/diff without its end:
// {"change":"changed","prefix":"...","from":{...},"to":{...}}.
func AppendDifference(dst []byte, d rib.Difference) []byte {
	change := "changed"
	switch {
	case !d.From.Prefix.IsValid():
		change = "added"
	case !d.To.Prefix.IsValid():
		change = "removed"
	}
	dst = append(dst, `{"change":"`...)
	dst = append(dst, change...)
	dst = append(dst, `","prefix":"`...)
	dst = d.Prefix().AppendTo(dst)
	dst = append(dst, `","from":`...)
	dst = appendRoute(dst, d.From)
	dst = append(dst, `,"to":`...)
	dst = appendRoute(dst, d.To)
	return append(dst, '}')
}
