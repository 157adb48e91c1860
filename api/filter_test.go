package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
)

// A shownRoute is a line of a listing, for filters as a client would write them.
type shownRoute struct {
	Prefix      netip.Prefix `json:"prefix"`
	NextHop     *netip.Addr  `json:"next_hop"`
	ASPath      []any        `json:"as_path"`
	Origins     []uint32     `json:"origin_asns"`
	Communities []string     `json:"communities"`
	Stale       bool         `json:"stale"`
}

// asns gives all numbers of the path, those of sets too.
func (r shownRoute) asns() (all []uint32) {
	var add func(any)
	add = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				add(x)
			}
		case float64:
			all = append(all, uint32(v))
		}
	}
	add(r.ASPath)
	return all
}

// text is the path as routers write it.
func (r shownRoute) text() string {
	var parts []string
	for _, v := range r.ASPath {
		if set, ok := v.([]any); ok {
			var in []string
			for _, x := range set {
				in = append(in, fmt.Sprint(uint32(x.(float64))))
			}
			parts = append(parts, "{"+strings.Join(in, ",")+"}")
			continue
		}
		parts = append(parts, fmt.Sprint(uint32(v.(float64))))
	}
	return strings.Join(parts, " ")
}

// questionRoutes are routes of many kinds: a generated table, and some that are easily got wrong.
func questionRoutes(r *rand.Rand) (routes []rib.Route) {
	table := fixtures.Generate(r.Uint64(), 1500, 400)
	for _, x := range table.Routes {
		routes = append(routes, route(x.Prefix.String(), table.Attrs[x.Attrs]))
	}
	seen := map[netip.Prefix]bool{}
	for _, x := range routes {
		seen[x.Prefix] = true
	}
	for i, x := range append(testRoutes(), routesTo(nil, testAttrs)...) {
		if !seen[x.Prefix] {
			seen[x.Prefix] = true
			x.Stale = i%2 == 0
			routes = append(routes, x)
		}
	}
	slices.SortFunc(routes, func(a, b rib.Route) int { return orderPrefixes(a.Prefix, b.Prefix) })
	return routes
}

// Every filter, and any of them together in any order, gives the lines of the whole listing for
// which it holds, page by page.
func TestFiltersGiveWhatHolds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	w := emptyWorld(t, nil)
	w.publishShuffled(r, 1, questionRoutes(r))
	whole := w.list("")
	var all []shownRoute
	for _, line := range whole.lines {
		var x shownRoute
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	type filter struct {
		query string
		wants func(shownRoute) bool
	}
	inside := func(q, p netip.Prefix) bool { return q.Bits() >= p.Bits() && p.Contains(q.Addr()) }
	filters := func() []filter {
		some := all[r.IntN(len(all))]
		for len(some.Origins) == 0 || len(some.asns()) < 2 || some.NextHop == nil {
			some = all[r.IntN(len(all))]
		}
		origin, anywhere := some.Origins[0], some.asns()[r.IntN(len(some.asns()))]
		p := some.Prefix
		if r.IntN(2) == 0 {
			p = netip.PrefixFrom(p.Addr(), p.Bits()/2).Masked()
		}
		if p.Addr().Is4In6() {
			p = rib.AllIPv4
		}
		return []filter{
			{fmt.Sprintf("origin=%d", origin), func(x shownRoute) bool { return slices.Contains(x.Origins, origin) }},
			{fmt.Sprintf("as=AS%d", anywhere), func(x shownRoute) bool { return slices.Contains(x.asns(), anywhere) }},
			{fmt.Sprintf("as=%d&as=%d", anywhere, origin), func(x shownRoute) bool {
				return slices.Contains(x.asns(), anywhere) && slices.Contains(x.asns(), origin)
			}},
			{"as_path=" + url.QueryEscape(fmt.Sprintf("_%d_.*%d$", anywhere, origin%100)), func(x shownRoute) bool {
				return regexp.MustCompile(fmt.Sprintf(`(^|[ {,])%d($|[ },]).*%d$`, anywhere, origin%100)).MatchString(x.text())
			}},
			{"as_path=" + url.QueryEscape("^$"), func(x shownRoute) bool { return len(x.ASPath) == 0 }},
			{"community=65000:*", func(x shownRoute) bool {
				return slices.ContainsFunc(x.Communities, func(c string) bool {
					return strings.HasPrefix(c, "65000:") && strings.Count(c, ":") == 1
				})
			}},
			{"community=64500:1:2&community=rt:*:1", func(x shownRoute) bool {
				return slices.Contains(x.Communities, "64500:1:2") && slices.Contains(x.Communities, "rt:64500:1")
			}},
			{"next_hop=" + some.NextHop.String(), func(x shownRoute) bool { return x.NextHop != nil && *x.NextHop == *some.NextHop }},
			{"within=" + p.String(), func(x shownRoute) bool { return inside(x.Prefix, p) }},
			{"covers=" + p.String(), func(x shownRoute) bool { return inside(p, x.Prefix) }},
			{"overlaps=" + p.String(), func(x shownRoute) bool { return inside(x.Prefix, p) || inside(p, x.Prefix) }},
			{"family=ipv6", func(x shownRoute) bool { return x.Prefix.Addr().Is6() }},
			{"stale=true", func(x shownRoute) bool { return x.Stale }},
			{"stale=false", func(x shownRoute) bool { return !x.Stale }},
			{"peer=nobody", func(shownRoute) bool { return false }},
		}
	}
	for range 150 {
		used := filters()
		r.Shuffle(len(used), func(i, j int) { used[i], used[j] = used[j], used[i] })
		used = used[:1+r.IntN(3)]
		names := map[string]bool{}
		query := ""
		for i := 0; i < len(used); i++ {
			name, _, _ := strings.Cut(used[i].query, "=")
			if names[name] { // once is all that most may be given
				used = slices.Delete(used, i, i+1)
				i--
				continue
			}
			names[name] = true
			query += "&" + used[i].query
		}
		var want []string
		for i, x := range all {
			if !slices.ContainsFunc(used, func(f filter) bool { return !f.wants(x) }) {
				want = append(want, whole.lines[i])
			}
		}
		l := w.list(query[1:])
		if !slices.Equal(l.lines, want) || !l.end || l.total != len(want) {
			t.Fatalf("%s: %d lines, %d told, want %d", query, len(l.lines), l.total, len(want))
		}
		// The same in pages.
		limit, got, next := 1+len(want)/3, []string(nil), ""
		for {
			l := w.list(fmt.Sprintf("limit=%d%s%s", limit, query, next))
			got = append(got, l.lines...)
			if l.end {
				if l.total != len(want) {
					t.Fatalf("%s: the last page tells of %d routes, want %d", query, l.total, len(want))
				}
				break
			}
			next = "&cursor=" + l.cursor
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s in pages of %d: %d lines, want %d", query, limit, len(got), len(want))
		}
	}
}

func TestFilterByPeerAndStale(t *testing.T) {
	w, tables := newTablesWorld(t)
	table := tables.All()[0]
	p := addPeer(t, table.RIB, "edge & co", 64999)
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}, Attrs: announced(64999)})
	flush(t, table)
	for query, want := range map[string]string{
		"peer=list": "10.0.0.0/8", "peer=edge+%26+co": "192.0.2.0/24", "peer=": "", "peer=edge": "", "stale=true": "", "stale=false": "10.0.0.0/8 192.0.2.0/24",
	} {
		var got []string
		for _, p := range w.list(query).prefixes {
			got = append(got, p.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}

func TestBadFiltersAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	for query, detail := range map[string]string{
		"origin=":                             `origin is "": not an AS number`,
		"origin=0":                            "0 is no AS number",
		"origin=AS0.0":                        "0 is no AS number",
		"origin=4294967296":                   "like 3333, AS3333 or 1.10",
		"origin=1.65536":                      "like 3333",
		"origin=65536.1":                      "like 3333",
		"origin=1.2.3":                        "like 3333",
		"origin=-1":                           "like 3333",
		"origin=ASAS1":                        "like 3333",
		"origin=1&origin=2":                   "origin is given 2 times",
		"as=x":                                `as is "x"`,
		strings.Repeat("&as=1", 17)[1:]:       "as is given 17 times: 16 is the most",
		"as_path=(":                           "missing closing",
		"as_path=":                            "an empty expression",
		"as_path=[_]":                         "cannot be in []",
		"as_path=" + strings.Repeat("1", 300): "256 is the most",
		"as_path=(1{30}){30}":                 "steps for a character",
		"as_path=(.{1000}){1000}":             "invalid repeat count",
		"community=1":                         "a community is like",
		"community=65536:1":                   "neither * nor a number up to 65535",
		"next_hop=10.0.0.0/8":                 "not an IP address",
		"within=10.0.0.1/8":                   "ask for 10.0.0.0/8",
		"covers=10.0.0.0":                     "has no length",
		"overlaps=x/1":                        "not a prefix",
		"rpki=good":                           "valid, invalid or not-found",
		"rpki=valid":                          "no source of VRPs is configured",
		"stale=yes":                           "true or false",
	} {
		wantProblem(t, w.get(listPath+"?"+strings.ReplaceAll(query, "+", "%2B")), http.StatusBadRequest, detail)
	}
}

func TestASNumbersAreReadInEveryNotation(t *testing.T) {
	for text, want := range map[string]uint32{"3333": 3333, "AS3333": 3333, "as3333": 3333, "1.10": 65546, "AS1.10": 65546, "0.1": 1, "4294967295": 4294967295, "65535.65535": 4294967295, "007": 7} {
		if got, err := parseASN(text); got != want || err != nil {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

// Whatever a query says, it is refused, or gives a filter whose answer is what it says of each route.
func FuzzRouteFilter(f *testing.F) {
	for _, query := range []string{
		"origin=64501", "as=64500&as=64501", "as_path=_64500_", "as_path=^$", "community=65000:*&community=rt:*:*", "next_hop=192.0.2.1", "peer=x", "within=10.0.0.0/8&covers=10.1.2.0/24",
		"overlaps=::/0&family=ipv6", "stale=true", "rpki=valid", "limit=3&cursor=1,10.0.0.0/8", "include=rpki", "generation=1", "as_path=%28%5B", "origin=1.1", "family=ipv4&within=0.0.0.0/0",
	} {
		f.Add(query)
	}
	g := makeGeneration(f, 1, testRoutes())
	routes := testRoutes()
	slices.SortFunc(routes, func(a, b rib.Route) int { return orderPrefixes(a.Prefix, b.Prefix) })
	f.Fuzz(func(t *testing.T, query string) {
		q, err := parseListQuery(query, func() VRPs { return fakeVRPs{} })
		if err != nil {
			if q.filter != nil {
				t.Error("a filter with an error")
			}
			return
		}
		var got, want []netip.Prefix
		for r := range q.filter.Routes(g, q.from.behind, q.limit) {
			got = append(got, r.Prefix)
		}
		for _, r := range routes {
			if q.filter.Matches(r) && (!q.from.behind.IsValid() || orderPrefixes(r.Prefix, q.from.behind) > 0) {
				want = append(want, r.Prefix)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	})
}
