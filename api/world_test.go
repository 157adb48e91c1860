package api

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
	"github.com/ribwarp/ribwarp/rib"
)

// world is a service over a table of the test's own.
type world struct {
	t    testing.TB
	gens *lpm.Published[rib.Route]
	api  *API
}

// testAttrs are path attributes with one of everything.
var testAttrs = rib.Attrs{
	NextHop: netip.MustParseAddr("192.0.2.254"),
	ASPath: rib.MakeASPath(
		rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, 4200000000}},
		rib.Segment{Type: rib.SegmentSet, ASNs: []uint32{64502, 64503}}),
	Communities:      rib.MakeCommunities(65000<<16|100, 0xffffff01),
	LargeCommunities: rib.MakeLargeCommunities([3]uint32{64500, 1, 2}),
	ExtCommunities:   rib.MakeExtCommunities([8]byte{0x00, 0x02, 0xfb, 0xf4, 0, 0, 0, 1}),
	MED:              7, HasMED: true,
}

// plainAttrs are the attributes of most routes of a test.
var plainAttrs = rib.Attrs{
	NextHop: netip.MustParseAddr("192.0.2.1"),
	ASPath:  rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, 64501}}),
}

func route(prefix string, at rib.Attrs) rib.Route {
	return rib.Route{Prefix: netip.MustParsePrefix(prefix), Path: unique.Make(at)}
}

// testRoutes are the first generation's routes.
func testRoutes() []rib.Route {
	return []rib.Route{
		route("10.0.0.0/8", plainAttrs),
		route("10.1.0.0/16", plainAttrs),
		route("10.1.2.0/24", testAttrs),
		route("198.51.100.7/32", plainAttrs),
		route("2001:db8::/32", plainAttrs),
		route("2001:db8:1::/48", testAttrs),
		{Prefix: netip.MustParsePrefix("203.0.113.0/24")}, // a bare prefix, as from a list
	}
}

// newWorld makes a service whose generation 1 holds testRoutes. change may alter what it
// depends on.
func newWorld(t testing.TB, change func(*Deps)) *world {
	w := emptyWorld(t, change)
	w.publish(1, testRoutes())
	return w
}

func emptyWorld(t testing.TB, change func(*Deps)) *world {
	w := &world{t: t, gens: new(lpm.Published[rib.Route])}
	d := Deps{
		Generations: w.gens,
		EngineName:  "cpu",
		Build:       Build{Version: "v0.0.0-test", Commit: "abc", Date: "2026-01-01"},
		Log:         slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if change != nil {
		change(&d)
	}
	w.api = New(d)
	t.Cleanup(w.gens.Withdraw)
	return w
}

// publish makes a generation of routes.
func (w *world) publish(number uint64, routes []rib.Route) {
	w.t.Helper()
	w.gens.Publish(makeGeneration(w.t, number, routes))
}

func makeGeneration(t testing.TB, number uint64, routes []rib.Route) *rib.Generation {
	t.Helper()
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &rib.Generation{Number: number, Created: time.Now(), Source: "test"}
	var in lpm.Routes
	byHandle := []rib.Route{{}}
	for _, r := range routes {
		in.Add(r.Prefix, lpm.Handle(len(byHandle)))
		byHandle = append(byHandle, r)
	}
	g.V4, g.V6 = len(in.V4), len(in.V6)
	if g.Table, err = engine.Build(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	g.Routes = cow.Of(byHandle)
	return g
}

// do asks the handler and gives the answer.
func (w *world) do(method, target, contentType, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	rec := httptest.NewRecorder()
	w.api.Handler().ServeHTTP(rec, r)
	return rec
}

func (w *world) get(target string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.do(http.MethodGet, target, "", "")
}

// wantProblem checks an error answer and gives its detail.
func wantProblem(t testing.TB, rec *httptest.ResponseRecorder, status int, detail string) {
	t.Helper()
	var p problem
	if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil {
		t.Fatalf("not a problem: %v: %s", err, rec.Body)
	}
	if rec.Code != status || p.Status != status {
		t.Errorf("status %d, in the body %d; want %d (%s)", rec.Code, p.Status, status, p.Detail)
	}
	if got := rec.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	if p.Type != "about:blank" || p.Title != http.StatusText(status) || p.Instance == "" {
		t.Errorf("type %q, title %q, instance %q", p.Type, p.Title, p.Instance)
	}
	if !strings.Contains(p.Detail, detail) {
		t.Errorf("detail %q, want %q in it", p.Detail, detail)
	}
}

// serve runs the service behind a real listener with the timeouts of NewServer.
func (w *world) serve() *httptest.Server {
	w.t.Helper()
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = NewServer("", w.api.Handler(), w.api.deps.Limits)
	srv.Listener = w.api.Listener(srv.Listener)
	srv.Start()
	w.t.Cleanup(srv.Close)
	return srv
}

// wantJSON checks a JSON answer, without its line end.
func wantJSON(t testing.TB, got, want string) {
	t.Helper()
	if strings.TrimSuffix(got, "\n") != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
