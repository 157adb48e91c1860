package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
	"github.com/ribwarp/ribwarp/rib"
)

const listPath = "/api/v1/routes"

// edges are prefixes that listings are easily wrong about, in order.
var edges = []string{
	"0.0.0.0/0", "0.0.0.0/32", "10.0.0.0/8", "127.255.255.255/32", "128.0.0.0/1", "255.255.255.255/32",
	"::/0", "::/128", "::ffff:10.0.0.0/104", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128",
}

// orderPrefixes is the order of listings.
func orderPrefixes(a, b netip.Prefix) int {
	if a4, b4 := a.Addr().Is4(), b.Addr().Is4(); a4 != b4 {
		if a4 {
			return -1
		}
		return +1
	}
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// routesTo gives a route to each of these prefixes and to the edges, in order, each once.
func routesTo(prefixes []netip.Prefix, at rib.Attrs) (routes []rib.Route) {
	for _, text := range edges {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	slices.SortFunc(prefixes, orderPrefixes)
	for _, p := range slices.Compact(prefixes) {
		routes = append(routes, route(p.String(), at))
	}
	return routes
}

// crowdedRoutes are routes to random prefixes, near to each other and nested.
func crowdedRoutes(r *rand.Rand, n int, at rib.Attrs) []rib.Route {
	rs := lpmtest.RandomRoutes(r, n, 1)
	var ps []netip.Prefix
	for _, x := range rs.V4 {
		ps = append(ps, x.Prefix())
	}
	for _, x := range rs.V6 {
		ps = append(ps, x.Prefix())
	}
	return routesTo(ps, at)
}

// fullRoutes are 100,000 routes as on the Internet, more of IPv4 than one slice of a listing.
var fullRoutes = sync.OnceValue(func() []rib.Route {
	var ps []netip.Prefix
	for _, x := range fixtures.Generate(1, 85_000, 15_000).Routes {
		ps = append(ps, x.Prefix)
	}
	return routesTo(ps, plainAttrs)
})

func families4and6(routes []rib.Route) (v4, v6 []rib.Route) {
	i := slices.IndexFunc(routes, func(rt rib.Route) bool { return rt.Prefix.Addr().Is6() })
	return routes[:i], routes[i:]
}

// publishShuffled makes a generation of routes that were learned in any order.
func (w *world) publishShuffled(r *rand.Rand, number uint64, routes []rib.Route) {
	w.t.Helper()
	routes = slices.Clone(routes)
	r.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
	w.publish(number, routes)
}

// listed is a listing, or what came of it.
type listed struct {
	generation string // of the header
	etag       string
	lines      []string // the routes
	prefixes   []netip.Prefix
	cursor     string // of the last line
	end        bool
	total      int
}

// parseListing reads lines up to the last one that is whole.
func parseListing(t testing.TB, body string) (l listed) {
	t.Helper()
	for line := range strings.Lines(body) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if l.end || l.cursor != "" {
			t.Fatalf("behind the last line is %q", line)
		}
		var x struct {
			Prefix *netip.Prefix `json:"prefix"`
			Cursor string        `json:"cursor"`
			End    bool          `json:"end"`
			Routes int           `json:"routes"`
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("line %d: %v: %q", len(l.lines)+1, err, line)
		}
		if x.Prefix == nil {
			l.cursor, l.end, l.total = x.Cursor, x.End, x.Routes
			continue
		}
		l.lines, l.prefixes = append(l.lines, strings.TrimSuffix(line, "\n")), append(l.prefixes, *x.Prefix)
	}
	return l
}

func (w *world) list(query string) listed {
	w.t.Helper()
	rec := w.get(listPath + "?" + query)
	if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "application/x-ndjson" {
		w.t.Fatalf("%s: status %d, %v: %s", query, rec.Code, rec.Header(), rec.Body)
	}
	l := parseListing(w.t, rec.Body.String())
	l.generation, l.etag = rec.Header().Get("RIB-Generation"), rec.Header().Get("ETag")
	if !l.end && l.cursor == "" {
		w.t.Fatalf("%s: no last line", query)
	}
	return l
}

// wantPrefixes checks that a listing is exactly these routes.
func wantPrefixes(t testing.TB, what string, got []netip.Prefix, want []rib.Route) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i].Prefix {
			t.Fatalf("%s: route %d of %d is %s, want %s", what, i, len(got), got[i], want[i].Prefix)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d routes, want %d", what, len(got), len(want))
	}
}

func TestListingIsTheWholeTableInOrder(t *testing.T) {
	w := emptyWorld(t, nil)
	routes := fullRoutes()
	w.publishShuffled(rand.New(rand.NewPCG(1, 1)), 7, routes)
	v4, v6 := families4and6(routes)
	if len(v4) <= 1<<16 {
		t.Fatalf("%d IPv4 routes fit into one slice: the test does not see the border between two", len(v4))
	}
	for query, want := range map[string][]rib.Route{"": routes, "family=ipv4": v4, "family=ipv6": v6, "limit=" + strconv.Itoa(len(routes)): routes} {
		l := w.list(query)
		wantPrefixes(t, query, l.prefixes, want)
		if !l.end || l.total != len(want) || l.generation != "7" {
			t.Errorf("%q: end %v, %d routes, generation %s", query, l.end, l.total, l.generation)
		}
	}
}

func TestListingHasAllOfARoute(t *testing.T) {
	w := newWorld(t, nil)
	l := parseListing(t, w.get(listPath).Body.String())
	if !l.end || l.total != len(testRoutes()) {
		t.Errorf("end %v, %d routes", l.end, l.total)
	}
	for i, p := range l.prefixes {
		wantJSON(t, w.get("/api/v1/routes/"+p.String()).Body.String(), fmt.Sprintf(`{"generation":1,"prefix":"%s","route":%s}`, p, l.lines[i]))
	}
	w.publish(2, nil)
	wantJSON(t, w.get(listPath).Body.String(), `{"end":true,"routes":0}`)
	wantJSON(t, w.get(listPath+"?cursor=2,10.0.0.0/8").Body.String(), `{"end":true,"routes":0}`)
}

func TestListingBeforeTheFirstGenerationIs503(t *testing.T) {
	wantProblem(t, emptyWorld(t, nil).get(listPath), http.StatusServiceUnavailable, "no generation is published yet")
}

// A listing goes on behind any prefix, in the table or not, with exactly the rest.
func TestListingGoesOnBehindAnyPrefix(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	w := emptyWorld(t, nil)
	routes := crowdedRoutes(r, 60, plainAttrs)
	w.publishShuffled(r, 3, routes)
	w.list("limit=1") // holds generation 3
	w.publish(4, testRoutes())

	cursors := append(crowdedRoutes(r, 60, plainAttrs), routes...) // others, and all that are there
	for _, at := range slices.Clone(routes) {
		host := netip.PrefixFrom(at.Prefix.Addr(), at.Prefix.Addr().BitLen())
		cursors = append(cursors, rib.Route{Prefix: host})
		if at.Prefix.Bits() > 0 {
			cursors = append(cursors, rib.Route{Prefix: netip.PrefixFrom(at.Prefix.Addr(), at.Prefix.Bits()-1).Masked()})
		}
	}
	behind := func(routes []rib.Route, p netip.Prefix) []rib.Route {
		i, found := slices.BinarySearchFunc(routes, p, func(rt rib.Route, p netip.Prefix) int { return orderPrefixes(rt.Prefix, p) })
		if found {
			i++
		}
		return routes[i:]
	}
	v4, v6 := families4and6(routes)
	for _, at := range cursors {
		from := "cursor=3," + at.Prefix.String()
		for family, all := range map[string][]rib.Route{"": routes, "&family=ipv4": v4, "&family=ipv6": v6} {
			want := behind(all, at.Prefix)
			l := w.list(from + family)
			wantPrefixes(t, from+family, l.prefixes, want)
			if !l.end || l.total != len(all) || l.generation != "3" {
				t.Fatalf("%s: end %v, %d routes, generation %s", from+family, l.end, l.total, l.generation)
			}
			limit := 1 + r.IntN(5)
			l = w.list(from + family + "&limit=" + strconv.Itoa(limit))
			wantPrefixes(t, from+family, l.prefixes, want[:min(limit, len(want))])
			if l.end != (len(want) <= limit) || !l.end && l.cursor != fmt.Sprintf("3,%s", want[limit-1].Prefix) {
				t.Fatalf("%s, %d of %d routes: end %v, cursor %q", from+family, limit, len(want), l.end, l.cursor)
			}
		}
	}
}

// Pages put together are the table, and stay one generation though others are published.
func TestPagesAreOneGeneration(t *testing.T) {
	w := emptyWorld(t, nil)
	r := rand.New(rand.NewPCG(2, 2))
	routes := crowdedRoutes(r, 300, announced(1))
	w.publishShuffled(r, 1, routes)
	var got []netip.Prefix
	next := ""
	for page := 2; ; page++ {
		l := w.list("limit=37" + next)
		got = append(got, l.prefixes...)
		for _, line := range l.lines {
			if !strings.Contains(line, `"origin_asns":[1]`) {
				t.Fatalf("a route of another generation: %s", line)
			}
		}
		if l.generation != "1" {
			t.Fatalf("generation %s", l.generation)
		}
		if l.end {
			if l.total != len(got) {
				t.Errorf("the end says %d routes, there were %d", l.total, len(got))
			}
			break
		}
		next = "&cursor=" + l.cursor
		w.publishShuffled(r, uint64(page), crowdedRoutes(r, 10, announced(uint32(page))))
	}
	wantPrefixes(t, "pages", got, routes)
}

func TestListingRefusesBadRequests(t *testing.T) {
	w := newWorld(t, nil)
	// With a slash it would be a listing that is no bulk request.
	wantProblem(t, w.get(listPath+"/"), http.StatusNotFound, "leave the slash at the end away, ask for /api/v1/routes")
	for _, c := range []struct{ query, detail string }{
		{"family=ipv5", `family is "ipv5": it must be ipv4 or ipv6`},
		{"family=", `family is ""`},
		{"family=ipv4&family=ipv6", "family is given 2 times"},
		{"limit=0", `limit is "0": it must be a number from 1 on`},
		{"limit=-1", "from 1 on"},
		{"limit=", "from 1 on"},
		{"limit=99999999999999999999", "from 1 on"},
		{"limit=1&limit=2", "limit is given 2 times"},
		{"cursor=", "no comma"},
		{"cursor=1", "no comma"},
		{"cursor=,10.0.0.0/8", "before the comma is no generation"},
		{"cursor=0,10.0.0.0/8", "before the comma is no generation"},
		{"cursor=-1,10.0.0.0/8", "before the comma is no generation"},
		{"cursor=18446744073709551616,10.0.0.0/8", "before the comma is no generation"},
		{"cursor=1,", "no prefix: it is empty"},
		{"cursor=1,10.0.0.0", "has no length"},
		{"cursor=1,10.0.0.1/8", "host bits"},
		{"cursor=1,10.0.0.0/33", "prefix length out of range"},
		{"cursor=1,10.0.0.0/8,", "not a prefix"},
		{"cursor=1,fe80::%25eth0/64", "zone"},
		{"cursor=1," + strings.Repeat("1", 100), "too long"},
		{"cursor=1,10.0.0.0/8&cursor=1,10.0.0.0/8", "cursor is given 2 times"},
		{"include=paths", `include has "paths": there is rpki`},
		{"origins=1", `unknown parameter "origins": there are family, origin, as, as_path, community, next_hop, peer, within, covers, overlaps, rpki, stale, limit, cursor, include, generation, table and from`},
		{"cursor=1,10.0.0.0/8&generation=2", "generation is 2 and the cursor is of 1"},
		{"limit=%zz", "query"},
	} {
		t.Run(c.query, func(t *testing.T) {
			rec := w.get(listPath + "?" + c.query)
			wantProblem(t, rec, http.StatusBadRequest, c.detail)
			if rec.Header().Get("RIB-Generation") != "1" {
				t.Error("no generation named")
			}
		})
	}
	if n := w.api.main.held.count(); n != 0 {
		t.Errorf("%d generations are held for requests that were refused", n)
	}
}

// countedTable counts its closes, and tells what it is asked for.
type countedTable struct {
	lpm.Table
	closed  *atomic.Int64
	covered func(limit int) // called before
}

func (c countedTable) Close() error { c.closed.Add(1); return c.Table.Close() }

func (c countedTable) Covered(dst []lpm.Handle, p netip.Prefix, limit int) []lpm.Handle {
	if c.covered != nil {
		c.covered(limit)
	}
	return c.Table.Covered(dst, p, limit)
}

// publishCounted publishes a generation whose table counts its closes.
func (w *world) publishCounted(number uint64, routes []rib.Route, closed *atomic.Int64) {
	w.t.Helper()
	g := makeGeneration(w.t, number, routes)
	g.Table = countedTable{Table: g.Table, closed: closed}
	w.gens.Publish(g)
}

func (w *world) wantHeld(n int) {
	w.t.Helper()
	if got := w.get("/metrics").Body.String(); !strings.Contains(got, fmt.Sprintf("ribwarp_held_generations{table=\"default\"} %d\n", n)) {
		w.t.Errorf("want %d generations held: %s", n, grep(got, "held_generations"))
	}
}

const gone = "list from the beginning, without cursor"

func TestAGenerationIsHeldForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := emptyWorld(t, nil)
		var closed atomic.Int64
		w.publishCounted(1, testRoutes(), &closed)
		w.list("limit=3")
		time.Sleep(time.Millisecond)
		first := w.list("limit=3") // just after: no reason to end the minute early
		w.publishCounted(2, testRoutes(), &closed)
		w.wantHeld(1)
		time.Sleep(holdTime - 1)
		second := w.list("limit=3&cursor=" + first.cursor) // begins the minute anew
		if second.generation != "1" {
			t.Fatalf("generation %s", second.generation)
		}
		time.Sleep(holdTime - 1)
		if head := w.do(http.MethodHead, listPath+"?cursor="+second.cursor, "", ""); head.Code != http.StatusOK { // does not
			t.Fatalf("status %d", head.Code)
		}
		if closed.Load() != 0 {
			t.Fatal("closed while held")
		}
		time.Sleep(1 * time.Nanosecond)
		synctest.Wait()
		if closed.Load() != 1 {
			t.Error("not closed after its time")
		}
		w.wantHeld(0)
		rec := w.get(listPath + "?cursor=" + second.cursor)
		wantProblem(t, rec, http.StatusGone, "generation 1 is gone")
		wantProblem(t, rec, http.StatusGone, gone)
		if rec.Header().Get("RIB-Generation") != "2" {
			t.Errorf("header %v: it names the newest", rec.Header())
		}
		if l := w.list("cursor=2,10.0.0.0/8"); l.generation != "2" { // the newest is there without being held
			t.Errorf("generation %s", l.generation)
		}
		wantProblem(t, w.get(listPath+"?cursor=3,10.0.0.0/8"), http.StatusGone, gone)
		w.api.Close()
	})
}

// The minute begins when a listing ends, not when its last piece began to go out.
func TestAGenerationIsHeldFromTheEndOfItsListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, broken := range []bool{false, true} {
			w := newWorld(t, nil)
			out := &pieceWriter{discardWriter: discardWriter{http.Header{}}, slow: 29 * time.Second}
			if broken {
				out.fail = -1
			}
			func() {
				defer func() { _ = recover() }() // of the one that breaks off
				w.api.Handler().ServeHTTP(out, httptest.NewRequest(http.MethodGet, listPath, nil))
			}()
			w.publish(2, nil)
			time.Sleep(holdTime - 1)
			if l := w.list("cursor=1,10.0.0.0/8"); l.generation != "1" {
				t.Errorf("broken %v: generation %s", broken, l.generation)
			}
			w.api.Close()
		}
	})
}

// Listings of many generations keep only the last of them.
func TestAtMostFourGenerationsAreHeld(t *testing.T) {
	w := emptyWorld(t, nil)
	var closed atomic.Int64
	const n = 10
	for i := range uint64(n) {
		w.publishCounted(1+i, testRoutes(), &closed)
		w.list("limit=1")
		w.list("")
	}
	w.wantHeld(maxHeld)
	if got := closed.Load(); got != n-maxHeld {
		t.Errorf("%d of %d tables are closed, want all but %d", got, n, maxHeld)
	}
	wantProblem(t, w.get(listPath+"?cursor=6,10.0.0.0/8"), http.StatusGone, "generation 6 is gone")
	w.list("cursor=7,10.0.0.0/8") // now the latest that was used
	w.publishCounted(n+1, testRoutes(), &closed)
	w.list("")
	w.list("cursor=7,10.0.0.0/8")
	wantProblem(t, w.get(listPath+"?cursor=8,10.0.0.0/8"), http.StatusGone, "generation 8 is gone")

	w.gens.Withdraw()
	if got := closed.Load(); got != n+1-maxHeld {
		t.Errorf("%d tables are closed before the end", got)
	}
	w.api.Close()
	w.api.Close()
	if got := closed.Load(); got != n+1 {
		t.Errorf("%d of %d tables are closed after the end", got, n+1)
	}
	w.wantHeld(0)
}

// The shutdown of a server gives everything back, what listings under way would hold too.
func TestShutdownGivesHeldGenerationsBack(t *testing.T) {
	w := emptyWorld(t, nil)
	var closed atomic.Int64
	g := makeGeneration(t, 1, testRoutes())
	entered, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g.Table = countedTable{Table: g.Table, closed: &closed, covered: func(int) {
		once.Do(func() { close(entered); <-leave })
	}}
	w.gens.Publish(g)
	srv := NewServer("", w.api.Handler(), Limits{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Serve(l) })
	running.Go(func() {
		resp, err := http.Get("http://" + l.Addr().String() + listPath)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(body), "{\"end\":true,\"routes\":7}\n") {
			t.Errorf("a listing under way is not brought to its end: %v, %q", err, body)
		}
	})
	<-entered
	w.api.main.held.hold(g)
	stopped := make(chan error)
	go func() { stopped <- srv.Shutdown(context.Background()) }()
	for w.api.main.held.count() > 0 {
		time.Sleep(time.Millisecond)
	}
	close(leave)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	running.Wait()
	w.gens.Withdraw()
	if closed.Load() != 1 {
		t.Error("the table is not closed")
	}
}

func TestHeadOfAListingHoldsNothing(t *testing.T) {
	w := newWorld(t, nil)
	srv := w.serve()
	for _, path := range []string{listPath, listPath + "?limit=1&cursor=1,10.0.0.0/8"} {
		resp, err := http.Head(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("RIB-Generation") != "1" || resp.Header.Get("Content-Type") != "application/x-ndjson" || resp.Header.Get("ETag") == "" {
			t.Errorf("%s: status %s, %v", path, resp.Status, resp.Header)
		}
	}
	w.wantHeld(0)
}

// After a restart a number names another generation; its ETag is another one too.
func TestListingTellsARestartByItsETag(t *testing.T) {
	w, again := newWorld(t, nil), newWorld(t, nil)
	first := w.list("limit=2")
	ask := func(w *world, etag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, listPath+"?cursor="+first.cursor, nil)
		r.Header.Set("If-Match", etag)
		rec := httptest.NewRecorder()
		w.api.Handler().ServeHTTP(rec, r)
		return rec
	}
	for _, etag := range []string{first.etag, "*", `"x", ` + first.etag} {
		if rec := ask(w, etag); rec.Code != http.StatusOK {
			t.Errorf("If-Match %s: status %d", etag, rec.Code)
		}
	}
	wantProblem(t, ask(again, first.etag), http.StatusPreconditionFailed, "the service was started anew")
	if first.etag == "" || first.etag == again.list("").etag {
		t.Errorf("ETag %s of two generations", first.etag)
	}
}

// pieceWriter is a response writer that measures what it is given.
type pieceWriter struct {
	discardWriter
	bytes, longest int
	fail           int // writes that succeed before one fails; 0: none does; -1: the first
	writes         int
	slow           time.Duration // what a write takes
}

var errGone = errors.New("connection reset")

func (w *pieceWriter) Write(b []byte) (int, error) {
	time.Sleep(w.slow)
	if w.writes++; w.fail != 0 && w.writes > w.fail {
		return 0, errGone
	}
	w.bytes += len(b)
	w.longest = max(w.longest, len(b))
	return len(b), nil
}

// A listing buffers a piece and a slice of handles, however long it is, and asks for nothing that
// nobody will read.
func TestListingTakesConstantMemory(t *testing.T) {
	w := emptyWorld(t, nil)
	g := makeGeneration(t, 1, fullRoutes())
	var asked, most int
	g.Table = countedTable{Table: g.Table, closed: new(atomic.Int64), covered: func(limit int) {
		asked++
		if limit < 0 || limit > 1<<16+1 {
			t.Errorf("%d handles at once", limit)
		}
		most = max(most, limit)
	}}
	w.gens.Publish(g)
	out := &pieceWriter{discardWriter: discardWriter{http.Header{}}}
	request := func(query string) *http.Request { return httptest.NewRequest(http.MethodGet, listPath+query, nil) }
	w.api.Handler().ServeHTTP(out, request(""))
	if out.longest > 2*outPiece || out.bytes < 100*len(fullRoutes()) {
		t.Errorf("%d bytes, longest piece %d", out.bytes, out.longest)
	}
	most = 0
	w.api.Handler().ServeHTTP(out, request("?limit=10"))
	if most > 11 {
		t.Errorf("%d handles for a page of 10 routes", most)
	}
	asked = 0
	gone := &pieceWriter{discardWriter: discardWriter{http.Header{}}, fail: 2}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("the listing ends with %v", p)
			}
		}()
		w.api.Handler().ServeHTTP(gone, request(""))
	}()
	if gone.writes != 3 || asked != 1 {
		t.Errorf("after the client went: %d writes, %d slices of handles", gone.writes, asked)
	}
	waitMetric(t, w, `ribwarp_http_aborted_total{reason="client"} 1`)
}

// listOver asks over a connection of its own and gives the answer with the connection. The answer of
// fullRoutes is longer than what the buffers of both ends take.
func listOver(t *testing.T, srv *httptest.Server, query string) (*http.Response, *net.TCPConn) {
	t.Helper()
	conn := dial(t, srv.Listener, "GET "+listPath+"?"+query+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp, conn
}

// A client reads as slowly as it likes, as long as it reads.
func TestSlowReaderGetsEverything(t *testing.T) {
	w := emptyWorld(t, nil)
	routes := fullRoutes()
	w.publish(1, routes)
	resp, _ := listOver(t, w.serve(), "")
	var text strings.Builder
	piece := make([]byte, 100_000)
	for published := uint64(2); ; {
		n, err := io.ReadFull(resp.Body, piece)
		text.Write(piece[:n])
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatal(err)
			}
			break
		}
		if published < 10 { // it stays with its generation
			w.publish(published, testRoutes())
			published++
			if l := w.list("limit=1&cursor=1,10.0.0.0/8"); l.generation != "1" { // for whom the connection broke, and the service does not know
				t.Errorf("generation %s", l.generation)
			}
		}
	}
	l := parseListing(t, text.String())
	wantPrefixes(t, "read slowly", l.prefixes, routes)
	if !l.end {
		t.Error("no end")
	}
}

// A connection breaks somewhere; the rest comes over the next ones, from the same generation.
func TestBrokenListingGoesOn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	w := emptyWorld(t, nil)
	routes := fullRoutes()
	w.publish(5, routes)
	srv := w.serve()
	var got []netip.Prefix
	query := ""
	breaks := 0
	for {
		resp, conn := listOver(t, srv, query)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("RIB-Generation") != "5" {
			t.Fatalf("status %s, %v", resp.Status, resp.Header)
		}
		body := io.Reader(resp.Body)
		if breaks < 5 {
			body = io.LimitReader(body, 1000+int64(r.IntN(4<<20)))
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetLinger(0) // a reset, as if the client had crashed
		_ = conn.Close()
		l := parseListing(t, string(text))
		got = append(got, l.prefixes...)
		if l.end {
			break
		}
		breaks++
		w.publish(uint64(5+breaks), testRoutes())
		query = "cursor=5," + got[len(got)-1].String()
	}
	wantPrefixes(t, fmt.Sprintf("after %d breaks", breaks), got, routes)
}

func TestListingOfAClientThatDoesNotReadIsCutOffAndGoesOn(t *testing.T) {
	w := emptyWorld(t, func(d *Deps) { d.Limits.Progress = 50 * time.Millisecond })
	routes := fullRoutes()
	w.publish(1, routes)
	resp, _ := listOver(t, w.serve(), "")
	w.publish(2, nil)
	waitMetric(t, w, `ribwarp_http_aborted_total{reason="timeout"} 1`)
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		t.Fatal("a listing that was cut ends as if it were whole")
	}
	l := parseListing(t, string(text))
	if l.end || l.cursor != "" || len(l.prefixes) == 0 {
		t.Fatalf("%d routes, end %v, cursor %q", len(l.prefixes), l.end, l.cursor)
	}
	rest := w.list("cursor=1," + l.prefixes[len(l.prefixes)-1].String())
	wantPrefixes(t, "both", append(l.prefixes, rest.prefixes...), routes)
}

// Listings, pages and generations at the same time: each listing is of one generation, whole.
func TestConcurrentListings(t *testing.T) {
	w := emptyWorld(t, nil)
	publish := func(n int) {
		var ps []netip.Prefix
		for i := range n { // generation n has n routes more than the edges, all with origin n
			ps = append(ps, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
		}
		w.publish(uint64(n), routesTo(ps, announced(uint32(n))))
	}
	publish(1)
	done := make(chan struct{})
	var asking sync.WaitGroup
	for _, limit := range []string{"", "", "limit=40"} {
		asking.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				var lines []string
				l := w.list(limit)
				generation := l.generation
				for lines = append(lines, l.lines...); !l.end; lines = append(lines, l.lines...) {
					rec := w.get(listPath + "?" + limit + "&cursor=" + l.cursor)
					if rec.Code == http.StatusGone { // generations come faster than pages
						break
					}
					l = parseListing(t, rec.Body.String())
				}
				want := `"origin_asns":[` + generation + `]`
				for _, line := range lines {
					if !strings.Contains(line, want) {
						t.Errorf("in generation %s: %s", generation, line)
						return
					}
				}
				if l.end && (l.total != len(lines) || strconv.Itoa(l.total-len(edges)) != generation) {
					t.Errorf("generation %s: %d routes, the end says %d", generation, len(lines), l.total)
					return
				}
			}
		})
	}
	for n := 2; n < 60; n++ {
		publish(n)
	}
	close(done)
	asking.Wait()
	if n := w.api.main.held.count(); n > maxHeld {
		t.Errorf("%d generations are held", n)
	}
}

// A cursor that is taken is written as it was read, and its prefix is one that a table can hold.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{
		"7,192.0.2.0/24", "1,::/0", "18446744073709551615,2001:db8::/32", "7,::ffff:10.0.0.0/104", "7,::ffff:0.0.0.0/90",
		"", ",", "0,0.0.0.0/0", "07,10.0.0.0/8", "+7,10.0.0.0/8", "7,10.0.0.1/8", "7,10.0.0.0/08", "7,fe80::%eth0/64", "7,10.0.0.0/8,", "7, 10.0.0.0/8", "\xff,\xff", "1,2001:DB8::/32",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseCursor(text)
		if err != nil {
			if at != (cursor{}) {
				t.Errorf("%q: %v beside %v", text, at, err)
			}
			return
		}
		if at.generation == 0 || !at.behind.IsValid() || at.behind != at.behind.Masked() || at.behind.Addr().Zone() != "" {
			t.Errorf("%q gives %v", text, at)
		}
		again, err := parseCursor(at.String())
		if err != nil || again != at {
			t.Errorf("%q gives %v, which reads as %v, %v", text, at, again, err)
		}
	})
}

// BenchmarkListing is a listing of a full table, and of it in pages.
func BenchmarkListing(b *testing.B) {
	table := fixtures.Generate(1, 1_042_325, 246_175)
	var ps []netip.Prefix
	for _, x := range table.Routes {
		ps = append(ps, x.Prefix)
	}
	routes := routesTo(ps, plainAttrs)
	w := emptyWorld(b, nil)
	w.publish(1, routes)
	for _, limit := range []int{0, 100_000, 1000} {
		b.Run("limit="+strconv.Itoa(limit), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for next, at := "", 0; ; next = "&cursor=1," + routes[at-1].Prefix.String() {
					target := listPath + "?"
					if at += limit; limit > 0 {
						target += "limit=" + strconv.Itoa(limit)
					}
					w.api.Handler().ServeHTTP(&discardWriter{http.Header{}}, httptest.NewRequest(http.MethodGet, target+next, nil))
					if limit == 0 || at >= len(routes) {
						break
					}
				}
			}
			b.ReportMetric(float64(len(routes))*float64(b.N)/b.Elapsed().Seconds(), "routes/s")
		})
	}
}
