package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// listSlice is how many handles a listing asks its table for at once: what it takes of memory,
// however long it is.
const listSlice = 1 << 16

var (
	all4 = netip.MustParsePrefix("0.0.0.0/0")
	all6 = netip.MustParsePrefix("::/0")
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
	// An IPv4-mapped prefix of a table is an IPv6 one, and must stay one here: as IPv4 it would take
	// a listing back to where it was long ago.
	p, err := readPrefix(prefix)
	if err != nil {
		return cursor{}, fmt.Errorf("behind the comma is %w", err)
	}
	if m := p.Masked(); m != p {
		return cursor{}, fmt.Errorf("prefix %s has host bits set: no route is %s", p, p)
	}
	return cursor{generation, p}, nil
}

// listQuery is what a request for a listing asks for.
type listQuery struct {
	families []netip.Prefix // all4, all6
	limit    int
	from     cursor
}

func parseListQuery(raw string) (listQuery, error) {
	q := listQuery{families: []netip.Prefix{all4, all6}, limit: math.MaxInt}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("query: %w", err)
	}
	for name, given := range values {
		v := given[0]
		switch name {
		case "family":
			switch v {
			case "ipv4":
				q.families = []netip.Prefix{all4}
			case "ipv6":
				q.families = []netip.Prefix{all6}
			default:
				err = fmt.Errorf("family is %q: it must be ipv4 or ipv6; leave it out for both", cut(v, 32))
			}
		case "limit":
			q.limit, err = strconv.Atoi(v)
			if err != nil || q.limit < 1 {
				err = fmt.Errorf("limit is %q: it must be a number from 1 on; leave it out for all routes", cut(v, 32))
			}
		case "cursor":
			if q.from, err = parseCursor(v); err != nil {
				err = fmt.Errorf("cursor is %q, as in cursor=7,192.0.2.0/24 it must be a generation and the last prefix that you have: %w", cut(v, maxAddrText), err)
			}
		case tableParameter: // asked for before
		default:
			err = fmt.Errorf("unknown parameter %q: there are family, limit, cursor and table", cut(name, 32))
		}
		if err == nil && len(given) > 1 {
			err = fmt.Errorf("%s is given %d times: once is all it may be", name, len(given))
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// list answers GET /api/v1/routes: the routes of one generation, in order, as NDJSON. A last line
// says that they are complete, or where to go on; an answer without it was cut.
func (a *API) list(c *gin.Context) {
	v := a.asked(c)
	if v == nil {
		return
	}
	q, err := parseListQuery(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return
	}
	g := a.generationOf(c, v, q.from)
	if g == nil {
		return
	}
	defer g.Release()
	tag := entityTag(g)
	if want := c.Request.Header.Get("If-Match"); want != "" && want != "*" && !strings.Contains(want, tag) {
		a.refuse(c, http.StatusPreconditionFailed, "generation %d is not the one of If-Match, its ETag is %s: the service was started anew, or routes changed; list from the beginning", g.Number, tag)
		return
	}
	c.Writer.Header()["Etag"] = []string{tag}
	if c.Request.Method == http.MethodHead {
		c.Writer.Header()["Content-Type"] = typeNDJSON
		return
	}
	defer v.held.hold(g)
	if err := a.writeListing(c, v, g, q); err != nil {
		a.cannotGoOn(c, g, err)
	}
}

// generationOf gives the generation that a listing is of, which the caller must release, and
// names it in the header. Where there is none it answers the request and gives nil.
func (a *API) generationOf(c *gin.Context, v *view, from cursor) *rib.Generation {
	if g := v.held.find(from.generation); g != nil {
		v.nameGeneration(c, g.Number)
		return g
	}
	g := a.acquire(c, v)
	if g == nil || from.generation == 0 || from.generation == g.Number {
		return g
	}
	g.Release()
	a.refuse(c, http.StatusGone, "generation %d is gone: one that was replaced is held for %d s after a listing of it last moved, and %d at most are held; list from the beginning, without cursor", from.generation, int(holdTime.Seconds()), maxHeld)
	return nil
}

// entityTag tells generations apart, those of the same number after a restart too.
func entityTag(g *rib.Generation) string {
	return fmt.Sprintf(`"%d-%x"`, g.Number, g.Created.UnixNano())
}

// writeListing writes routes in pieces. A client that does not read holds it up, one that is gone
// ends it.
func (a *API) writeListing(c *gin.Context, v *view, g *rib.Generation, q listQuery) error {
	write := a.emitter(c, typeNDJSON)
	emit := func(piece []byte) error {
		v.held.hold(g) // a piece is written within Limits.Progress or never: it stays held
		return write(piece)
	}
	routes := listing{gen: g, families: q.families, last: q.from.behind}
	out := make([]byte, 0, outPiece+4096)
	for left := q.limit; left > 0; left -= len(routes.handles) {
		routes.next(min(left, listSlice))
		if len(routes.handles) == 0 {
			break
		}
		for _, h := range routes.handles {
			out = append(appendRoute(out, g.Route(h)), '\n')
			if len(out) >= outPiece {
				if err := emit(out); err != nil {
					return err
				}
				out = out[:0]
			}
		}
	}
	at := cursor{g.Number, routes.last}
	if routes.next(1); len(routes.handles) > 0 {
		out = fmt.Appendf(out, "{\"cursor\":%q}\n", at)
		return emit(out)
	}
	total := 0
	for _, family := range q.families {
		if family == all4 {
			total += g.V4
		} else {
			total += g.V6
		}
	}
	return emit(fmt.Appendf(out, "{\"end\":true,\"routes\":%d}\n", total))
}

// A listing gives the handles of a generation's routes in order, some at a time.
type listing struct {
	gen      *rib.Generation
	families []netip.Prefix // those that are not at their end
	last     netip.Prefix   // what was given goes up to here; invalid: nothing was
	handles  []lpm.Handle
}

// next puts the handles of the next routes, at most n, into l.handles; none at the end.
func (l *listing) next(n int) {
	l.handles = l.handles[:0]
	for ; len(l.families) > 0; l.families = l.families[1:] {
		family := l.families[0]
		switch is4 := l.last.Addr().Is4(); {
		case !l.last.IsValid(), is4 && family == all6: // all of the family is still to come
			l.handles = l.gen.Table.Covered(l.handles, family, n)
		case is4 == (family == all4):
			l.handles = appendBehind(l.handles, l.gen.Table, l.last, n)
		}
		if given := len(l.handles); given > 0 {
			l.last = l.gen.Route(l.handles[given-1]).Prefix
			return
		}
	}
}

// appendBehind appends the handles of the routes that come behind p, in order of address and then
// length, at most limit to an empty dst. They are those inside p, and then, for each bit of p that
// is 0, from the last to the first, those inside the other half, where the bit is 1. So a page costs
// what it holds, not what the table does.
func appendBehind(dst []lpm.Handle, t lpm.Table, p netip.Prefix, limit int) []lpm.Handle {
	dst = t.Covered(dst, p, limit+1) // p itself is the first of them
	if t.Find(p) != lpm.None {
		dst = slices.Delete(dst, 0, 1)
	}
	dst = dst[:min(len(dst), limit)]
	for bits := p.Bits(); bits > 0 && len(dst) < limit; bits-- {
		if half, ok := otherHalf(p, bits); ok {
			dst = t.Covered(dst, half, limit-len(dst))
		}
	}
	return dst
}

// otherHalf gives the prefix of this many bits that differs from p in the last of them, if that
// is 0 in p.
func otherHalf(p netip.Prefix, bits int) (netip.Prefix, bool) {
	b := p.Addr().AsSlice()
	i, bit := (bits-1)/8, byte(0x80>>((bits-1)%8))
	if b[i]&bit != 0 {
		return netip.Prefix{}, false
	}
	b[i] |= bit
	addr, _ := netip.AddrFromSlice(b) // as long as one
	return netip.PrefixFrom(addr, bits).Masked(), true
}
