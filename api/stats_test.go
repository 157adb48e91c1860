package api

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unique"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

type statsBody struct {
	Table      string
	Generation uint64
	Routes     families
	Lengths    struct{ IPv4, IPv6 []int } `json:"prefix_lengths"`
	Origins    families                   `json:"origin_count"`
	TopOrigins []originStat               `json:"top_origins"`
	Memory     struct {
		Total uint64 `json:"total_bytes"`
		Parts []struct {
			Name  string
			Bytes uint64
		}
		Accelerated *struct {
			Engine string
			Bytes  uint64 `json:"bytes_per_gpu"`
		}
	}
	Engine string
	GPUs   []GPU
}

func (w *world) stats(query string) (s statsBody) {
	w.t.Helper()
	rec := w.get("/api/v1/stats" + query)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &s); err != nil {
		w.t.Fatalf("%v: %s", err, rec.Body)
	}
	return s
}

// The overview of random tables is what counting their routes one by one, by the functions of
// package rib, gives.
func TestStatsCountEveryRoute(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	path := func() rib.Attrs {
		var segments []rib.Segment
		for range r.IntN(3) {
			s := rib.Segment{Type: uint8(1 + r.IntN(4))}
			for range 1 + r.IntN(3) {
				s.ASNs = append(s.ASNs, 64500+r.Uint32N(60))
			}
			segments = append(segments, s)
		}
		return rib.Attrs{ASPath: rib.MakeASPath(segments...)}
	}
	for range 20 {
		routes := crowdedRoutes(r, 300, plainAttrs)
		var want statsBody
		want.Lengths.IPv4, want.Lengths.IPv6 = make([]int, 33), make([]int, 129)
		origins := map[uint32]*originStat{}
		for i := range routes {
			if p := routes[i].Prefix; r.IntN(10) > 0 {
				routes[i] = route(p.String(), path())
			} else {
				routes[i] = rib.Route{Prefix: p}
			}
			p := routes[i].Prefix
			lengths := want.Lengths.IPv6
			if p.Addr().Is4() {
				lengths = want.Lengths.IPv4
			}
			lengths[p.Bits()]++
			if routes[i].Path == (rib.Path{}) {
				continue
			}
			of := routes[i].Path.Value().ASPath.Origins()
			slices.Sort(of)
			for _, as := range slices.Compact(of) {
				if origins[as] == nil {
					origins[as] = &originStat{AS: as}
				}
				if p.Addr().Is4() {
					origins[as].IPv4++
				} else {
					origins[as].IPv6++
				}
			}
		}
		w := emptyWorld(t, nil)
		w.publish(1, routes)
		got := w.stats("")
		if !slices.Equal(got.Lengths.IPv4, want.Lengths.IPv4) || !slices.Equal(got.Lengths.IPv6, want.Lengths.IPv6) {
			t.Fatalf("seed %d: lengths %v, want %v", seed, got.Lengths, want.Lengths)
		}
		for _, o := range origins {
			if o.IPv4 > 0 {
				want.Origins.IPv4++
			}
			if o.IPv6 > 0 {
				want.Origins.IPv6++
			}
		}
		if got.Origins != want.Origins {
			t.Fatalf("seed %d: %v origins, want %v", seed, got.Origins, want.Origins)
		}
		if len(got.TopOrigins) != min(len(origins), topOrigins) {
			t.Fatalf("seed %d: %d of %d origins", seed, len(got.TopOrigins), len(origins))
		}
		least := 1 << 30
		for _, o := range got.TopOrigins {
			if *origins[o.AS] != o || o.IPv4+o.IPv6 > least {
				t.Fatalf("seed %d: %+v, want %+v, behind %d", seed, o, *origins[o.AS], least)
			}
			least = o.IPv4 + o.IPv6
			delete(origins, o.AS)
		}
		for _, o := range origins {
			if o.IPv4+o.IPv6 > least {
				t.Fatalf("seed %d: %+v is left out, the last one has %d", seed, *o, least)
			}
		}
	}
}

func TestStatsNameEngineAndMemory(t *testing.T) {
	w := newWorld(t, func(d *Deps) { d.GPUs = []GPU{{"Some GPU", 1 << 37}} })
	s := w.stats("?table=default")
	if s.Table != "default" || s.Generation != 1 || s.Routes != (families{5, 2}) || s.Engine != "cpu" || len(s.GPUs) != 1 || s.GPUs[0].Memory != 1<<37 {
		t.Errorf("%+v", s)
	}
	var parts uint64
	for _, p := range s.Memory.Parts {
		parts += p.Bytes
	}
	if s.Memory.Total == 0 || parts != s.Memory.Total || s.Memory.Accelerated != nil {
		t.Errorf("%+v", s.Memory)
	}
	w.gens.Publish(accelerated(makeGeneration(t, 2, testRoutes())))
	w.api.main.overview.took = 0 // no rest
	if s = w.stats(""); s.Generation != 2 || s.Memory.Accelerated == nil || s.Memory.Accelerated.Engine != "cuda" || s.Memory.Accelerated.Bytes != 77 {
		t.Errorf("%+v", s)
	}
}

// acceleratedTable says that it has a form on a GPU.
type acceleratedTable struct{ lpm.Table }

func (a acceleratedTable) Info() lpm.Info {
	info := a.Table.Info()
	info.Accelerator = &lpm.Info{Engine: "cuda", Families: []lpm.FamilyInfo{{Family: "ipv4", Bytes: 77}}}
	return info
}

func accelerated(g *rib.Generation) *rib.Generation {
	g.Table = acceleratedTable{g.Table}
	return g
}

func TestStatsAreMadeOnceAGeneration(t *testing.T) {
	var made atomic.Int64
	o := new(overview)
	now := time.Unix(1e9, 0)
	get := func(g *rib.Generation, takes time.Duration) *statsAnswer {
		s, _ := o.get(g, false, func() time.Time { return now }, func() *statsAnswer {
			made.Add(1)
			now = now.Add(takes)
			return &statsAnswer{Generation: g.Number}
		})
		return s
	}
	want := func(s *statsAnswer, generation uint64, times int64) {
		t.Helper()
		if s.Generation != generation || made.Load() != times {
			t.Errorf("generation %d, made %d times; want %d, %d times", s.Generation, made.Load(), generation, times)
		}
	}
	generation := func(n uint64) *rib.Generation { return &rib.Generation{Number: n, Created: time.Unix(2e9+int64(n), 0)} }
	want(get(generation(1), time.Second), 1, 1)
	want(get(generation(1), time.Second), 1, 1)
	now = now.Add(time.Hour)
	want(get(generation(1), time.Second), 1, 1)
	want(get(generation(2), time.Second), 2, 2)
	now = now.Add(19 * time.Second)
	want(get(generation(3), time.Second), 2, 2) // it rests for 20 times what it took
	now = now.Add(time.Second)
	want(get(generation(3), time.Second), 3, 3)
	now = now.Add(time.Hour)
	pinned, _ := o.get(generation(2), true, func() time.Time { return now }, func() *statsAnswer { return &statsAnswer{Generation: 2} })
	want(pinned, 2, 3)
	want(get(generation(3), 0), 3, 3)                               // and what was there stays
	again := &rib.Generation{Number: 3, Created: time.Unix(3e9, 0)} // the same number, of another table
	want(get(again, 0), 3, 4)
}

// An overview can be asked for of a generation that is held, and answers that one alone.
func TestStatsOfAGeneration(t *testing.T) {
	w := emptyWorld(t, nil)
	w.publish(1, []rib.Route{route("10.0.0.0/8", announced(1))})
	w.generations() // holds it
	w.publish(2, []rib.Route{route("10.0.0.0/8", announced(1)), route("10.1.0.0/16", announced(2))})
	for query, want := range map[string]uint64{"?generation=1": 1, "?generation=2": 2, "": 2} {
		if s := w.stats(query); s.Generation != want || s.Routes.IPv4 != int(want) || s.Origins.IPv4 != int(want) {
			t.Errorf("%q: %+v, want generation %d", query, s, want)
		}
	}
	wantProblem(t, w.get("/api/v1/stats?generation=3"), http.StatusGone, "generation 3")
	for _, query := range []string{"generation=0", "generation=1&generation=1", "generations=1"} {
		wantProblem(t, w.get("/api/v1/stats?"+query), http.StatusBadRequest, "generation")
	}
}

func TestStatsAreNotSentTwice(t *testing.T) {
	w := newWorld(t, nil)
	rec := w.get("/api/v1/stats")
	tag := rec.Header().Get("ETag")
	if tag == "" || rec.Header().Get("RIB-Generation") != "1" || rec.Header().Get("Cache-Control") != "no-cache" {
		t.Fatalf("%v", rec.Header())
	}
	ask := func(match string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/stats", nil)
		r.Header.Set("If-None-Match", match)
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(rec, r)
		return rec
	}
	for _, match := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		if rec := ask(match); rec.Code != http.StatusNotModified || rec.Body.Len() != 0 || rec.Header().Get("ETag") != tag {
			t.Errorf("If-None-Match %s: %d, %v, %q", match, rec.Code, rec.Header(), rec.Body)
		}
	}
	if rec := ask(`"x"`); rec.Code != http.StatusOK {
		t.Errorf("status %d", rec.Code)
	}
	w.publish(2, testRoutes()[:2])
	w.api.main.overview.took = 0 // no rest
	if rec := ask(tag); rec.Code != http.StatusOK || rec.Header().Get("RIB-Generation") != "2" {
		t.Errorf("status %d, %v: routes changed", rec.Code, rec.Header())
	}
}

func TestStatsBeforeTheFirstGenerationAre503(t *testing.T) {
	wantProblem(t, emptyWorld(t, nil).get("/api/v1/stats"), http.StatusServiceUnavailable, "no generation")
	w := newWorld(t, nil)
	wantProblem(t, w.get("/api/v1/stats?table=green"), http.StatusNotFound, "no table")
	wantProblem(t, w.get("/api/v1/stats?color=red"), http.StatusBadRequest, `unknown parameter "color"`)
}

// BenchmarkStats makes the overview of a full table's size, of generated routes.
func BenchmarkStats(b *testing.B) {
	table := fixtures.Generate(1, 1_040_000, 246_000)
	routes := make([]rib.Route, 0, len(table.Routes))
	for _, r := range table.Routes {
		routes = append(routes, rib.Route{Prefix: r.Prefix, Path: unique.Make(table.Attrs[r.Attrs])})
	}
	w := emptyWorld(b, nil)
	g := makeGeneration(b, 1, routes)
	w.gens.Publish(g)
	for b.Loop() {
		w.api.makeStats(w.api.main, g)
	}
}
