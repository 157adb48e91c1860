package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

type asnShown struct {
	asnAnswer
	Routes []routeShown
	More   *string
}

func (w *world) asn(target string) (a asnShown) {
	w.t.Helper()
	rec := w.get("/api/v1/asns/" + target)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%s: %d: %s", target, rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil {
		w.t.Fatalf("%v: %s", err, rec.Body)
	}
	return a
}

func TestRolesInAPath(t *testing.T) {
	seq := func(asns ...uint32) rib.ASPath {
		return rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: asns})
	}
	set := func(asns ...uint32) rib.ASPath {
		return rib.MakeASPath(rib.Segment{Type: rib.SegmentSet, ASNs: asns})
	}
	for _, c := range []struct {
		path rib.ASPath
		as   uint32
		want role
	}{
		{seq(1, 2, 3), 3, role{origin: true, before: 2}}, {seq(1, 2, 3), 2, role{transit: true, before: 1, behind: 3}}, {seq(1, 2, 3), 1, role{transit: true, behind: 2}},
		{seq(1, 2, 3), 4, role{}}, {"", 1, role{}}, {seq(1), 1, role{origin: true}},
		{seq(1, 2, 2, 2, 3, 3), 2, role{transit: true, before: 1, behind: 3}}, {seq(1, 2, 2, 2, 3, 3), 3, role{origin: true, before: 2}},
		{seq(1, 2) + set(3, 4), 3, role{origin: true}}, {seq(1, 2) + set(3, 4), 2, role{transit: true, before: 1}}, {seq(1) + set(2, 3) + seq(4, 5), 2, role{transit: true}},
		{seq(1) + set(2, 3) + seq(4, 5), 4, role{transit: true, behind: 5}}, {seq(1, 2) + seq(2, 3), 2, role{transit: true, before: 1, behind: 3}}, {seq(1, 2) + seq(3), 3, role{origin: true, before: 2}},
		{seq(2, 1, 2), 2, role{origin: true, before: 1, behind: 1}},
	} {
		if got := roleOf(c.path, c.as); got != c.want {
			t.Errorf("AS%d in %s: %+v, want %+v", c.as, c.path, got, c.want)
		}
	}
}

// What is said of an AS is what the listings of its routes have.
func TestASIsWhatItsRoutesSay(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 8))
	w := emptyWorld(t, nil)
	routes := questionRoutes(r)
	w.publishShuffled(r, 3, routes)
	for range 30 {
		at := routes[r.IntN(len(routes))]
		if at.Path == (rib.Path{}) {
			continue
		}
		var asns []uint32
		for s := range at.Path.Value().ASPath.Segments() {
			asns = append(asns, s.ASNs...)
		}
		as := asns[r.IntN(len(asns))]
		a := w.asn(fmt.Sprintf("AS%d?limit=5", as))
		originated, anywhere := w.list(fmt.Sprintf("origin=%d", as)), w.list(fmt.Sprintf("as=%d", as))
		count := func(l listed) (f families) {
			for _, p := range l.prefixes {
				if p.Addr().Is4() {
					f.IPv4++
				} else {
					f.IPv6++
				}
			}
			return f
		}
		o, all := count(originated), count(anywhere)
		if a.Generation != 3 || a.ASN != as || a.Originated != o || a.Transited != (families{all.IPv4 - o.IPv4, all.IPv6 - o.IPv6}) {
			t.Fatalf("AS%d: %+v, want %+v of %+v", as, a.asnAnswer, o, all)
		}
		var got []string
		for _, x := range a.Routes {
			got = append(got, x.Prefix)
		}
		if (a.More != nil) != (len(originated.prefixes) > 5) {
			t.Fatalf("AS%d: more %v of %d", as, a.More, len(originated.prefixes))
		}
		if a.More != nil {
			rest := w.list(strings.TrimPrefix(*a.More, listPath+"?"))
			for _, p := range rest.prefixes {
				got = append(got, p.String())
			}
		}
		var want []string
		for _, p := range originated.prefixes {
			want = append(want, p.String())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("AS%d: %v, want %v", as, got, want)
		}
		before := map[uint32]int{}
		for _, x := range routes {
			if x.Path != (rib.Path{}) {
				if is := roleOf(x.Path.Value().ASPath, as); is.before != 0 {
					before[is.before]++
				}
			}
		}
		if a.Upstreams.Count != len(before) || len(a.Upstreams.Most) != min(len(before), maxNeighbours) {
			t.Fatalf("AS%d: %+v, want %v", as, a.Upstreams, before)
		}
		for i, n := range a.Upstreams.Most {
			if before[n.ASN] != n.Prefixes || i > 0 && a.Upstreams.Most[i-1].Prefixes < n.Prefixes {
				t.Fatalf("AS%d: %+v, want %v", as, a.Upstreams, before)
			}
		}
	}
}

func TestASIsNamedInEveryNotation(t *testing.T) {
	w := newWorld(t, nil)
	for _, text := range []string{"64501", "AS64501", "as64501", "0.64501", "AS0.64501"} {
		if a := w.asn(text); a.ASN != 64501 || a.Originated != (families{3, 1}) || fmt.Sprint(a.Upstreams.Most) != "[{64500 4}]" {
			t.Errorf("%s: %+v", text, a)
		}
	}
	if a := w.asn("4200000000"); a.Transited != (families{1, 1}) || a.Routes == nil || len(a.Routes) != 0 || a.More != nil {
		t.Errorf("%+v", a)
	}
	wantProblem(t, w.get("/api/v1/asns/65000"), http.StatusNotFound, "AS65000 is in no AS path of generation 1")
	for _, target := range []string{"x", "0", "AS", "4294967296", "1.2.3", "%20", strings.Repeat("1", 200)} {
		wantProblem(t, w.get("/api/v1/asns/"+target), http.StatusBadRequest, "AS number")
	}
	for query, detail := range map[string]string{"limit=0": "from 1 to 1000", "limit=1001": "from 1 to 1000", "limit=1&limit=2": "2 times", "x=1": "unknown parameter", "x=%zz": "query"} {
		wantProblem(t, w.get("/api/v1/asns/64501?"+query), http.StatusBadRequest, detail)
	}
}

func TestPeersOfAnAS(t *testing.T) {
	w, _ := newTablesWorld(t, "blue")
	if got := w.get("/api/v1/asns/64501?table=blue&limit=1").Body.String(); !strings.Contains(got, `"peers":[{"name":"list","prefixes":2}]`) || !strings.Contains(got, `"more":"/api/v1/routes?cursor=1%2C10.0.0.0%2F8&origin=64501&table=blue"`) {
		t.Error(got)
	}
}
