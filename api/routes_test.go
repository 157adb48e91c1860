package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// routesAnswer is the answer of /api/v1/routes, as far as tests look at it.
type routesAnswer struct {
	Generation uint64       `json:"generation"`
	Prefix     string       `json:"prefix"`
	Route      *routeShown  `json:"route"`
	More       []routeShown `json:"more_specifics"`
	Less       []routeShown `json:"less_specifics"`
	Truncated  *bool        `json:"truncated"`
	Paths      []routeShown `json:"paths"`
}

type routeShown struct {
	Prefix string  `json:"prefix"`
	LostBy *string `json:"lost_by"`
}

func (w *world) routes(target string) (a routesAnswer) {
	w.t.Helper()
	rec := w.get("/api/v1/routes/" + target)
	if rec.Code != http.StatusOK {
		w.t.Fatalf("%s: status %d: %s", target, rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &a); err != nil {
		w.t.Fatalf("%s: %v: %s", target, err, rec.Body)
	}
	return a
}

func shown(rs []routeShown) string {
	var ps []string
	for _, r := range rs {
		ps = append(ps, r.Prefix)
	}
	return strings.Join(ps, " ")
}

func TestRoutesGivesTheExactPrefix(t *testing.T) {
	w := newWorld(t, nil)
	want := `{"generation":1,"prefix":"10.1.2.0/24","route":{"prefix":"10.1.2.0/24",` + strings.TrimSuffix(answerTest, `,"generation":1}`) + `,"origin":"igp","med":7,"local_pref":null,"peer":null,"path_id":0}}`
	for _, target := range []string{"10.1.2.0/24", "10.1.2.0%2F24", "10.1.2.0%2f24", "::ffff:10.1.2.0/120"} {
		rec := w.get("/api/v1/routes/" + target)
		wantJSON(t, rec.Body.String(), want)
		if rec.Header().Get("RIB-Generation") != "1" {
			t.Errorf("header %v", rec.Header())
		}
	}
	rec := w.get("/api/v1/routes/203.0.113.0/24")
	wantJSON(t, rec.Body.String(), `{"generation":1,"prefix":"203.0.113.0/24","route":{"prefix":"203.0.113.0/24","next_hop":null,"as_path":[],"origin_asns":[],"communities":[],"origin":null,"med":null,"local_pref":null,"peer":null,"path_id":0}}`)
	wantProblem(t, w.get("/api/v1/routes/10.1.2.0/25"), http.StatusNotFound, "10.1.2.0/25 is not in the table of generation 1")
}

func TestRoutesIncludesWhatIsAround(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ target, route, more, less string }{
		{"10.1.0.0/16?include=more-specifics,less-specifics", "10.1.0.0/16", "10.1.2.0/24", "10.0.0.0/8"},
		{"10.1.2.0/24?include=less-specifics&include=more-specifics", "10.1.2.0/24", "", "10.1.0.0/16 10.0.0.0/8"},
		{"0.0.0.0/0?include=more-specifics", "", "10.0.0.0/8 10.1.0.0/16 10.1.2.0/24 198.51.100.7/32 203.0.113.0/24", ""},
		{"10.1.2.128/25?include=less-specifics", "", "", "10.1.2.0/24 10.1.0.0/16 10.0.0.0/8"},
		{"2001:db8::/32?include=more-specifics", "2001:db8::/32", "2001:db8:1::/48", ""},
	} {
		a := w.routes(c.target)
		got := ""
		if a.Route != nil {
			got = a.Route.Prefix
		}
		if got != c.route || shown(a.More) != c.more || shown(a.Less) != c.less {
			t.Errorf("%s: %q, more %q, less %q", c.target, got, shown(a.More), shown(a.Less))
		}
	}
}

func TestRoutesStopsAtTheLimit(t *testing.T) {
	w := emptyWorld(t, nil)
	var routes []rib.Route
	for i := range 1500 {
		routes = append(routes, route(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256), testAttrs))
	}
	w.publish(1, append(slices.Clone(routes), route("10.0.0.0/8", plainAttrs)))
	for _, c := range []struct {
		target    string
		n         int
		truncated bool
	}{
		{"10.0.0.0/8?include=more-specifics", 1000, true},
		{"10.0.0.0/8?include=more-specifics&limit=1499", 1499, true},
		{"10.0.0.0/8?include=more-specifics&limit=1500", 1500, false}, // long enough for several pieces
		{"10.0.0.0/7?include=more-specifics&limit=1500", 1500, true},
		{"10.0.0.0/7?include=more-specifics&limit=1501", 1501, false},
		{"10.0.0.0/8?include=more-specifics&limit=1", 1, true},
		{"10.0.0.0/24?include=more-specifics&limit=1", 0, false},
	} {
		a := w.routes(c.target)
		if len(a.More) != c.n || a.Truncated == nil || *a.Truncated != c.truncated {
			t.Errorf("%s: %d routes, truncated %v", c.target, len(a.More), a.Truncated)
		}
	}
}

func TestRoutesShowsThePathsOfAllPeers(t *testing.T) {
	w := newWorld(t, func(d *Deps) {
		d.Paths = func(p netip.Prefix) []rib.Candidate {
			return []rib.Candidate{{Route: route(p.String(), plainAttrs)}, {Route: route(p.String(), testAttrs), LostBy: "AS path length"}}
		}
	})
	a := w.routes("10.1.2.0/24?include=paths")
	if len(a.Paths) != 2 || a.Paths[0].LostBy != nil || a.Paths[1].LostBy == nil || *a.Paths[1].LostBy != "AS path length" {
		t.Errorf("%+v", a.Paths)
	}
	if a := newWorld(t, nil).routes("10.1.2.0/24?include=paths"); a.Paths == nil || len(a.Paths) != 0 {
		t.Errorf("without a source of paths: %+v", a.Paths)
	}
}

func TestRoutesRefusesBadRequests(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ target, detail string }{
		{"/", "not a prefix"},
		{"10.0.0.1", "has no length"},
		{"10.0.0.0/", "not a prefix"},
		{"10.0.0.0/33", "prefix length out of range"},
		{"10.0.0.0/-1", "not a prefix"},
		{"10.0.0.0/08", "not a prefix"},
		{"10.0.0/8", "not a prefix: IPv4 address too short"},
		{"fe80::%25eth0/64", "zone"},
		{"10.0.0.1/8", "prefix 10.0.0.1/8 has host bits set: ask for 10.0.0.0/8"},
		{"2001:db8::1/32", "ask for 2001:db8::/32"},
		{"::ffff:0.0.0.0/95", "at least 96 bits"},
		{"10.0.0.0/8/8", "not a prefix: unexpected character"},
		{strings.Repeat("1", 70), "too long"},
		{"10.0.0.0/8?include=all", `include has "all"`},
		{"10.0.0.0/8?include=", `include has ""`},
		{"10.0.0.0/8?inlcude=more-specifics", `unknown parameter "inlcude"`},
		{"10.0.0.0/8?limit=1&limit=2", "limit is given 2 times"},
		{"10.0.0.0/8?limit=0", "from 1 to 100000"},
		{"10.0.0.0/8?limit=100001", "from 1 to 100000"},
		{"10.0.0.0/8?limit=many", "from 1 to 100000"},
		{"10.0.0.0/8?include=%zz", "query"},
	} {
		t.Run(c.target, func(t *testing.T) {
			wantProblem(t, w.get("/api/v1/routes/"+c.target), http.StatusBadRequest, c.detail)
		})
	}
}
