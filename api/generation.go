package api

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/ribwarp/ribwarp/rib"
)

// generationParameter names the generation that a request is about; without it that is the newest.
const generationParameter = "generation"

// headerGeneration is RIB-Generation as a key of a header map.
const headerGeneration = "Rib-Generation"

// generationHeader is what names a generation as header values, kept until the next one.
type generationHeader struct {
	number  uint64
	created time.Time // of the generation of tag
	value   []string
	tag     []string // ETag; nil before it was asked for
}

// nameGeneration sets the header RIB-Generation.
func (v *view) nameGeneration(c *gin.Context, number uint64) {
	h := v.header.Load()
	if h == nil || h.number != number {
		h = &generationHeader{number: number, value: []string{strconv.FormatUint(number, 10)}}
		v.header.Store(h)
	}
	c.Writer.Header()[headerGeneration] = h.value
}

// entityTag tells generations apart, those of the same number after a restart too.
func entityTag(g *rib.Generation) string {
	return fmt.Sprintf(`"%d-%x"`, g.Number, g.Created.UnixNano())
}

// unchanged sets the header ETag of an answer that hangs on its generation alone. It is true where the
// client has that answer: then it was told so.
func (v *view) unchanged(c *gin.Context, g *rib.Generation) bool { return unchanged(c, v.tag(c, g)) }

// tag sets the header ETag, and gives it.
func (v *view) tag(c *gin.Context, g *rib.Generation) []string {
	h := v.header.Load()
	if h == nil || h.number != g.Number || h.tag == nil || !h.created.Equal(g.Created) {
		h = &generationHeader{g.Number, g.Created, []string{strconv.FormatUint(g.Number, 10)}, []string{entityTag(g)}}
		v.header.Store(h)
	}
	c.Writer.Header()["Etag"] = h.tag
	return h.tag
}

// unchanged is the same for any tag.
func unchanged(c *gin.Context, tag []string) bool {
	c.Writer.Header()["Etag"] = tag
	known := c.Request.Header["If-None-Match"]
	if known == nil || !slices.ContainsFunc(known, func(line string) bool { return matchesTag(line, tag[0]) }) {
		return false
	}
	c.Status(http.StatusNotModified)
	return true
}

// acquire gives the generation of a table that a request is about, which the caller must release,
// and names it in the header: the one of the parameter "generation" or of If-Match, and the newest
// one where there is neither. Where there is none it answers the request and gives nil.
func (a *API) acquire(c *gin.Context, v *view) *rib.Generation {
	if c.Request.URL.RawQuery == "" && c.Request.Header["If-Match"] == nil { // nearly always
		return a.acquireNumber(c, v, 0)
	}
	number, err := parseGeneration(c.Request.URL.RawQuery)
	if err != nil {
		a.refuse(c, http.StatusBadRequest, "%v", err)
		return nil
	}
	return a.acquireNumber(c, v, number)
}

// parseGeneration gives the generation that a query names, 0 for none.
func parseGeneration(query string) (number uint64, err error) {
	values, err := url.ParseQuery(query)
	if err != nil { // or what it means would be answered from another generation
		return 0, fmt.Errorf("query: %w", err)
	}
	switch given := values[generationParameter]; len(given) {
	case 0:
		return 0, nil
	case 1:
		return parseNumber(generationParameter, given[0])
	default:
		return 0, once(generationParameter, given)
	}
}

// parseNumber reads the number of a generation.
func parseNumber(name, text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		return 0, fmt.Errorf("%s is %q: it must be the number of a generation, from 1 on", name, cut(text, 32))
	}
	return number, nil
}

// acquireNumber is acquire for a generation that was named in another way; 0 is no number.
func (a *API) acquireNumber(c *gin.Context, v *view, number uint64) *rib.Generation {
	return a.acquireMatching(c, v, number, ifMatch(c))
}

// ifMatch gives the header If-Match, "" for none.
func ifMatch(c *gin.Context) string { return strings.Join(c.Request.Header["If-Match"], ",") }

// acquireMatching is acquireNumber for a generation that also has to be one of these entity tags, "" for any.
func (a *API) acquireMatching(c *gin.Context, v *view, number uint64, wanted string) *rib.Generation {
	g := v.generations.Acquire()
	if g == nil {
		a.fail(c, problem{
			Status:     http.StatusServiceUnavailable,
			Detail:     "no generation is published yet: the sources of routes are still loading, see /readyz",
			RetryAfter: retryAfter,
		})
		return nil
	}
	if number == 0 && wanted == "" || number == 0 && matchesTag(wanted, entityTag(g)) {
		v.nameGeneration(c, g.Number)
		return g
	}
	if number != g.Number {
		old := v.earlier(func(old *rib.Generation) bool {
			return old.Number == number || number == 0 && matchesTag(wanted, entityTag(old))
		})
		newest := g.Number
		g.Release()
		if old == nil {
			v.nameGeneration(c, newest)
			a.gone(c, v, number)
			return nil
		}
		g = old
	}
	v.nameGeneration(c, g.Number)
	if tag := entityTag(g); wanted != "" && !matchesTag(wanted, tag) {
		a.refuse(c, http.StatusPreconditionFailed, "generation %d is not the one of If-Match, its ETag is %s: the service was started anew, or the table; begin anew", g.Number, tag)
		g.Release()
		return nil
	}
	if c.Request.Method != http.MethodHead {
		v.held.hold(g) // who asks for it may ask again
	}
	return g
}

// earlier gives a generation that is held, with a reference that the caller must release; nil where
// there is none such.
func (v *view) earlier(is func(*rib.Generation) bool) *rib.Generation {
	if g := v.held.find(is); g != nil {
		return g
	}
	return v.past.find(is)
}

// gone answers for a generation that is not held; number 0: for those of If-Match.
func (a *API) gone(c *gin.Context, v *view, number uint64) {
	there := v.thereAre()
	numbers := make([]uint64, len(there))
	texts := make([]string, len(there))
	for i, x := range there {
		numbers[i], texts[i] = x.Number, strconv.FormatUint(x.Number, 10)
	}
	list := strings.Join(texts, ", ")
	if number == 0 {
		a.fail(c, problem{Status: http.StatusPreconditionFailed, Held: numbers, Detail: "no generation that is held is the one of If-Match: there are " + list + "; begin anew"})
		return
	}
	a.fail(c, problem{
		Status: http.StatusGone, Held: numbers,
		Detail: fmt.Sprintf("generation %d is gone: there are %s. One that was replaced is held for %d s after a request for it, %d of these at most, some for longer, see /api/v1/generations; ask for another one, and list from the beginning, without cursor", number, list, int(holdTime.Seconds()), maxHeld),
	})
}

// generationAnswer is a generation that can be asked.
type generationAnswer struct {
	Number     uint64    `json:"number"`
	ETag       string    `json:"etag"`
	Newest     bool      `json:"newest"`
	Created    time.Time `json:"created"`
	AgeSeconds float64   `json:"age_seconds"`
	HeldUntil  time.Time `json:"held_until"`
	Source     string    `json:"source"`
	Routes     families  `json:"routes"`
}

// thereAre describes the generations that can be asked, the newest one first.
func (v *view) thereAre() []generationAnswer {
	newest := v.generations.Acquire()
	if newest == nil {
		return []generationAnswer{}
	}
	defer newest.Release()
	byGeneration := map[*rib.Generation]time.Time{newest: {}}
	note := func(g *rib.Generation, until time.Time) {
		if until.After(byGeneration[g]) {
			byGeneration[g] = until
		}
	}
	v.held.each(note)
	v.past.each(note)
	all := make([]generationAnswer, 0, len(byGeneration))
	for g, until := range byGeneration {
		all = append(all, generationAnswer{
			Number: g.Number, ETag: entityTag(g), Newest: g == newest, Created: g.Created, AgeSeconds: time.Since(g.Created).Seconds(),
			HeldUntil: until, Source: g.Source, Routes: families{g.V4, g.V6},
		})
	}
	slices.SortFunc(all, func(a, b generationAnswer) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Number, a.Number))
	})
	return all
}

// listGenerations answers GET /api/v1/generations. The newest one is held from then on, so that all
// that are named can be asked for a while.
func (a *API) listGenerations(c *gin.Context) {
	if !a.hasOnly(c, tableParameter) {
		return
	}
	v := a.asked(c)
	if v == nil {
		return
	}
	g := a.acquireMatching(c, v, 0, "")
	if g == nil {
		return
	}
	defer g.Release()
	v.held.hold(g)
	a.encode(c, v, g.Number, struct {
		Generation  uint64             `json:"generation"`
		Generations []generationAnswer `json:"generations"`
	}{g.Number, v.thereAre()})
}
