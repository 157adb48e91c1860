package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unique"

	"github.com/ribwarp/ribwarp/api"
	"github.com/ribwarp/ribwarp/api/client"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
	"github.com/ribwarp/ribwarp/rib"
)

// newService starts a service over a few routes. around may put a handler around it; nil: none.
func newService(t testing.TB, around func(http.Handler) http.Handler) *httptest.Server {
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := unique.Make(rib.Attrs{
		NextHop: netip.MustParseAddr("198.51.100.1"),
		ASPath:  rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, 64501}}, rib.Segment{Type: rib.SegmentSet, ASNs: []uint32{64502, 64503}}),
	})
	plain := unique.Make(rib.Attrs{NextHop: netip.MustParseAddr("2001:db8::1"), ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64510}})})
	routes := []rib.Route{
		{},
		{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Path: path},
		{Prefix: netip.MustParsePrefix("192.0.2.128/25"), Path: plain},
		{Prefix: netip.MustParsePrefix("2001:db8::/32"), Path: plain},
		{Prefix: netip.MustParsePrefix("203.0.113.0/24")},
	}
	var in lpm.Routes
	for h, r := range routes[1:] {
		in.Add(r.Prefix, lpm.Handle(h+1))
	}
	table, err := engine.Build(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	var generations lpm.Published[rib.Route]
	generations.Publish(&rib.Generation{Number: 1, Created: time.Now(), V4: 3, V6: 1, Table: table, Routes: cow.Of(routes)})
	service := api.New(api.Deps{Generations: &generations, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	var handler http.Handler = service
	if around != nil {
		handler = around(handler)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	t.Cleanup(service.Close)
	return srv
}

func newClient(t testing.TB, srv *httptest.Server, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(srv.URL, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLookup(t *testing.T) {
	c := newClient(t, newService(t, nil))
	got, err := c.Lookup(t.Context(), netip.MustParseAddr("192.0.2.1"))
	if err != nil || got.Prefix != netip.MustParsePrefix("192.0.2.0/24") || got.NextHop != netip.MustParseAddr("198.51.100.1") ||
		fmt.Sprint(got.ASPath) != "[[64500] [64501] [64502 64503]]" || !slices.Equal(got.OriginASNs, []uint32{64502, 64503}) || got.Generation != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = c.Lookup(t.Context(), netip.MustParseAddr("9.9.9.9"))
	if err != nil || got.Prefix.IsValid() || got.NextHop.IsValid() || got.IP != netip.MustParseAddr("9.9.9.9") {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = c.Lookup(t.Context(), netip.MustParseAddr("fe80::1%eth0"))
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != http.StatusBadRequest || !strings.Contains(p.Detail, "zone") || p.Generation != 1 {
		t.Errorf("%v", err)
	}
	_, err = newClient(t, newService(t, nil), client.WithTable("blue")).Lookup(t.Context(), netip.MustParseAddr("192.0.2.1"))
	if !errors.As(err, &p) || p.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
	for _, base := range []string{"", "127.0.0.1:8080", "ftp://x", ":"} {
		if _, err := client.New(base); err == nil {
			t.Errorf("base %q is taken", base)
		}
	}
}

// known are addresses with the prefix that carries each.
var known = [][2]string{{"192.0.2.1", "192.0.2.0/24"}, {"192.0.2.200", "192.0.2.128/25"}, {"2001:db8::1", "2001:db8::/32"}, {"203.0.113.9", "203.0.113.0/24"}, {"9.9.9.9", ""}, {"::1", ""}}

func TestBulkAndBatchesAreWhatLookupsAre(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	c := newClient(t, newService(t, nil))
	const n = 150_000
	addrs, want := make([]netip.Addr, n), make([]string, n)
	for i := range addrs {
		k := known[r.IntN(len(known))]
		addrs[i], want[i] = netip.MustParseAddr(k[0]), k[1]
	}
	i := 0
	for a, err := range c.Bulk(t.Context(), slices.Values(addrs)) {
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Prefix; a.IP != addrs[i] || got.IsValid() != (want[i] != "") || got.IsValid() && got.String() != want[i] {
			t.Fatalf("answer %d for %s: %+v", i, addrs[i], a)
		}
		i++
	}
	if i != n {
		t.Errorf("%d answers", i)
	}
	i = 0
	for b, err := range c.Batches(t.Context(), slices.Chunk(addrs, 40_000)) {
		if err != nil {
			t.Fatal(err)
		}
		for row := range b.Len() {
			if b.Prefix(row) != want[i] || b.Found(row) != (want[i] != "") || (b.Handle(row) != 0) != (want[i] != "") {
				t.Fatalf("row %d for %s: %s", i, addrs[i], b.Prefix(row))
			}
			if want[i] != "" && b.Length(row) != netip.MustParsePrefix(want[i]).Bits() {
				t.Fatalf("row %d: length %d", i, b.Length(row))
			}
			i++
		}
	}
	if i != n {
		t.Errorf("%d rows", i)
	}
	four := []uint32{192<<24 | 2<<8 | 1, 192<<24 | 2<<8 | 129, 9 << 24}
	for b, err := range c.Batches4(t.Context(), slices.Chunk(four, 3)) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Len() != 3 || b.Prefix(1) != "192.0.2.128/25" || b.Origin(1) != 64510 || b.Origin(0) != 0 || b.NextHop(1) != "2001:db8::1" || b.Found(2) {
			t.Errorf("%v", b.RecordBatch)
		}
	}
}

// Who stops early leaves nothing behind that waits.
func TestStreamsEndWhereTheCallerStops(t *testing.T) {
	srv := newService(t, nil)
	c := newClient(t, srv)
	endless := func(ended *atomic.Bool) iter.Seq[netip.Addr] {
		return func(yield func(netip.Addr) bool) {
			defer ended.Store(true)
			for yield(netip.MustParseAddr("192.0.2.1")) {
			}
		}
	}
	var ended, endedToo atomic.Bool
	for _, err := range c.Bulk(t.Context(), endless(&ended)) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	n := 0
	for _, err := range c.Bulk(ctx, endless(&endedToo)) {
		if n++; n == 1000 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("ended by %v", last)
	}
	for deadline := time.Now().Add(20 * time.Second); !ended.Load() || !endedToo.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("addresses are still asked for")
		}
	}
}

// A service that is busy is asked again, when it says; one that stays so is an error.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		refusals, status int
		retryAfter       string
		good             bool
	}{
		{2, 503, "0", true}, {2, 429, "0", true}, {2, 503, "", true}, {9, 503, "0", false}, {1, 500, "0", false}, {1, 404, "0", false},
	} {
		var left atomic.Int64
		left.Store(int64(c.refusals))
		srv := newService(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if left.Add(-1) < 0 {
					h.ServeHTTP(w, r)
					return
				}
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(c.status)
				_, _ = fmt.Fprintf(w, `{"type":"about:blank","status":%d,"detail":"too busy"}`, c.status)
			})
		})
		cl := newClient(t, srv)
		_, err := cl.Lookup(t.Context(), netip.MustParseAddr("192.0.2.1"))
		if (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
		left.Store(int64(c.refusals))
		n := 0
		for _, err = range cl.Bulk(t.Context(), slices.Values([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::1")})) {
			n++
		}
		if (err == nil) != c.good || c.good && n != 2 {
			t.Errorf("%+v: a stream of %d, %v", c, n, err)
		}
		var p *client.Problem
		if !c.good && (!errors.As(err, &p) || p.Status != c.status || p.Detail != "too busy") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	srv := newService(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "20")
			http.Error(w, "busy", http.StatusServiceUnavailable)
		})
	})
	if _, err := newClient(t, srv).Lookup(ctx, netip.MustParseAddr("192.0.2.1")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ended by %v", err)
	}
}

// cutter breaks an answer off behind some bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cutter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		_, _ = c.ResponseWriter.Write(p[:max(0, len(p)+c.left)])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// A listing that is cut goes on where it was, and gives every route once.
func TestRoutesGoOnAfterABreak(t *testing.T) {
	whole := []string{"192.0.2.0/24", "192.0.2.128/25", "203.0.113.0/24", "2001:db8::/32"}
	for _, cutAt := range []int{0, 1, 100, 300, 500, 600, 1 << 20} {
		var requests atomic.Int64
		srv := newService(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) <= 2 {
					w = &cutter{w, cutAt}
				}
				h.ServeHTTP(w, r)
			})
		})
		var got []string
		for r, err := range newClient(t, srv).Routes(t.Context(), nil) {
			if err != nil {
				t.Fatalf("cut at %d: %v", cutAt, err)
			}
			got = append(got, r.Prefix.String())
		}
		if !slices.Equal(got, whole) {
			t.Errorf("cut at %d: %v", cutAt, got)
		}
	}
	c := newClient(t, newService(t, nil))
	var got []string
	for r, err := range c.Routes(t.Context(), url.Values{"limit": {"2"}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Prefix.String())
	}
	if !slices.Equal(got, whole[:2]) {
		t.Errorf("limit 2: %v", got)
	}
	for _, err := range c.Routes(t.Context(), url.Values{"cursor": {"7,192.0.2.0/24"}}) {
		var p *client.Problem
		if !errors.As(err, &p) || p.Status != http.StatusGone {
			t.Errorf("%v", err)
		}
	}
	r, err := c.RouteTo(t.Context(), netip.MustParsePrefix("203.0.113.0/24"))
	if err != nil || r.Prefix.String() != "203.0.113.0/24" || r.NextHop.IsValid() {
		t.Errorf("%+v, %v", r, err)
	}
}

// Where the service was started anew between two pieces the rest is not of another table.
func TestRoutesOfARestartedServiceAreNotMixed(t *testing.T) {
	var requests atomic.Int64
	srv := newService(t, nil)
	again := newService(t, nil) // the same number, made at another time
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			srv.Config.Handler.ServeHTTP(&cutter{w, 300}, r)
			return
		}
		again.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	var err error
	n := 0
	for _, err = range newClient(t, front).Routes(t.Context(), nil) {
		n++
	}
	var p *client.Problem
	if !errors.As(err, &p) || p.Status != http.StatusPreconditionFailed || requests.Load() != 2 {
		t.Errorf("%d routes of %d answers, then %v", n, requests.Load(), err)
	}
}

// A stream of answers that is cut is never taken for a whole one.
func TestCutStreamsAreErrors(t *testing.T) {
	for _, cutAt := range []int{0, 50, 400, 1000} {
		srv := newService(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&cutter{w, cutAt}, r) })
		})
		c := newClient(t, srv)
		addrs := slices.Repeat([]netip.Addr{netip.MustParseAddr("192.0.2.1")}, 100)
		var err error
		for _, err = range c.Bulk(t.Context(), slices.Values(addrs)) {
		}
		if err == nil {
			t.Errorf("cut at %d: lines are whole", cutAt)
		}
		for _, err = range c.Batches(t.Context(), slices.Chunk(addrs, 100)) {
		}
		if err == nil {
			t.Errorf("cut at %d: batches are whole", cutAt)
		}
	}
}
