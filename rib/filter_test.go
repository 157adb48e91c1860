package rib_test

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/input"
)

// A condition is one of a filter, beside what it is by definition.
type condition struct {
	name  string
	add   func(*rib.Filter)
	wants func(rib.Route) bool
}

func attrsOf(r rib.Route) (a rib.Attrs) {
	if r.Path != (rib.Path{}) {
		a = r.Path.Value()
	}
	return a
}

// conditions are some about routes of this table.
func conditions(t testing.TB, r *rand.Rand, all []rib.Route) []condition {
	some := attrsOf(all[r.IntN(len(all))])
	for len(some.ASPath.Origins()) == 0 {
		some = attrsOf(all[r.IntN(len(all))])
	}
	origin := some.ASPath.Origins()[0]
	first := some.ASPath.First()
	p := all[r.IntN(len(all))].Prefix
	p = netip.PrefixFrom(p.Addr(), p.Bits()/2).Masked()
	attrs := func(f func(*rib.Attrs) bool) func(*rib.Filter) {
		return func(x *rib.Filter) { x.Attrs = append(x.Attrs, f) }
	}
	pattern, err := rib.ParseCommunityPattern("*:100")
	if err != nil {
		t.Fatal(err)
	}
	return []condition{
		{"origin", attrs(func(a *rib.Attrs) bool { return a.ASPath.OriginatedBy(origin) }), func(x rib.Route) bool {
			return slices.Contains(attrsOf(x).ASPath.Origins(), origin)
		}},
		{"as", attrs(func(a *rib.Attrs) bool { return a.ASPath.Contains(first) }), func(x rib.Route) bool {
			for s := range attrsOf(x).ASPath.Segments() {
				if slices.Contains(s.ASNs, first) {
					return true
				}
			}
			return false
		}},
		{"community", attrs(pattern.In), func(x rib.Route) bool {
			return slices.ContainsFunc(attrsOf(x).Communities.Strings(), func(s string) bool { return strings.HasSuffix(s, ":100") })
		}},
		{"within", func(f *rib.Filter) {
			f.Spans = []rib.Span{{Of: p}}
			f.Prefixes = append(f.Prefixes, func(q netip.Prefix) bool { return rib.Inside(q, p) })
		}, func(x rib.Route) bool { return x.Prefix.Bits() >= p.Bits() && p.Contains(x.Prefix.Addr()) }},
		{"everything", func(f *rib.Filter) { f.Others = append(f.Others, func(rib.Route) bool { return true }) }, func(rib.Route) bool { return true }},
		{"no default", func(f *rib.Filter) {
			f.Others = append(f.Others, func(r rib.Route) bool { return r.Prefix.Bits() > 0 })
		}, func(x rib.Route) bool { return x.Prefix.Bits() > 0 }},
	}
}

// Any conditions together, from anywhere on, give what a look at every route gives; in whatever
// order they are.
func TestFilterGivesWhatIsWanted(t *testing.T) {
	r := random(t)
	small := newHistory(t)
	small.load(fixtures.Generate(r.Uint64(), 2000, 500))
	small.announce(rib.Attrs{}, rib.AllIPv4, rib.AllIPv6)
	large := newHistory(t) // more than are collected at once
	large.load(fixtures.Generate(r.Uint64(), 70_000, 5_000))
	for _, g := range []*rib.Generation{small.publish(), large.publish()} {
		all := allRoutes(g)
		for range 60 {
			conditions := conditions(t, r, all)
			r.Shuffle(len(conditions), func(i, j int) { conditions[i], conditions[j] = conditions[j], conditions[i] })
			conditions = conditions[:r.IntN(4)]
			var f rib.Filter
			var names []string
			for _, c := range conditions {
				c.add(&f)
				names = append(names, c.name)
			}
			var behind netip.Prefix
			if r.IntN(2) == 0 {
				behind = all[r.IntN(len(all))].Prefix
			}
			most := math.MaxInt
			if r.IntN(2) == 0 {
				most = 1 + r.IntN(50)
			}
			var want, got []rib.Route
			for _, x := range all {
				wanted := !slices.ContainsFunc(conditions, func(c condition) bool { return !c.wants(x) })
				if wanted != f.Matches(x) {
					t.Fatalf("%v: %s matches %v", names, x.Prefix, !wanted)
				}
				if wanted && len(want) < most && (!behind.IsValid() || x.Prefix.Compare(behind) > 0) {
					want = append(want, x)
				}
			}
			for x := range f.Routes(g, behind, most) {
				if len(got) == most {
					break
				}
				got = append(got, x)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%v behind %v, %d at most: %d routes, want %d", names, behind, most, len(got), len(want))
			}
		}
	}
}

// What is said of attributes is said of every route with them, however many sets there are.
func TestByAttrsSaysWhatIsSoOfEachRoute(t *testing.T) {
	r := random(t)
	h := newHistory(t)
	for i, p := range crowdedPrefixes(r, 400) {
		h.announce(rib.Attrs{HasMED: true, MED: uint32(i / 2), ASPath: sequence(uint32(i % 7))}, p)
	}
	h.announce(rib.Attrs{}, rib.AllIPv4)
	g := h.publish()
	seen := map[netip.Prefix]bool{}
	for x, med := range rib.ByAttrs(g, func(a *rib.Attrs) uint32 { return a.MED }) {
		if med != attrsOf(x).MED {
			t.Fatalf("%s: %d", x.Prefix, med)
		}
		seen[x.Prefix] = true
	}
	if len(seen) != g.V4+g.V6 {
		t.Errorf("%d routes of %d", len(seen), g.V4+g.V6)
	}
}

func TestOriginOfAPath(t *testing.T) {
	confed := rib.MakeASPath(rib.Segment{Type: rib.SegmentConfedSequence, ASNs: []uint32{7, 8}})
	for _, c := range []struct {
		path rib.ASPath
		as   uint32
		set  bool
	}{
		{"", 0, false}, {sequence(1, 2, 3), 3, false}, {set(sequence(1, 2), 3, 4), 0, true}, {confed, 0, false}, {confed + sequence(9), 9, false},
		{sequence(1) + "\x02\x00", 1, false}, {sequence(1) + "\x02\x01\x00", 1, false},
	} {
		if as, set := c.path.Origin(); as != c.as || set != c.set {
			t.Errorf("%s: %d, %v", c.path, as, set)
		}
		for as := range uint32(10) {
			if got := c.path.OriginatedBy(as); got != slices.Contains(c.path.Origins(), as) {
				t.Errorf("%s: originated by %d: %v", c.path, as, got)
			}
		}
	}
}

// Origins of a real table, against the lines of its file.
func TestFilterOnARealTable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	r := random(t)
	h := newHistory(t)
	if _, err := input.Load(t.Context(), h.rib, fixtures.DataFile(t, "asmap-2025-12-04-prefix-asn.txt.gz"), input.Options{}); err != nil {
		t.Fatal(err)
	}
	g := h.publish()
	all := allRoutes(g)
	byOrigin := map[uint32][]netip.Prefix{}
	var asns []uint32
	for _, x := range all {
		as := attrsOf(x).ASPath.Origins()[0]
		if byOrigin[as] == nil {
			asns = append(asns, as)
		}
		byOrigin[as] = append(byOrigin[as], x.Prefix)
	}
	t.Logf("%d routes of %d origins", len(all), len(asns))
	for range 20 {
		as := asns[r.IntN(len(asns))]
		f := rib.Filter{Attrs: []func(*rib.Attrs) bool{func(a *rib.Attrs) bool { return a.ASPath.OriginatedBy(as) }}}
		var got []netip.Prefix
		for x := range f.Routes(g, netip.Prefix{}, math.MaxInt) {
			got = append(got, x.Prefix)
		}
		if !slices.Equal(got, byOrigin[as]) {
			t.Fatalf("AS%d: %d routes, want %d", as, len(got), len(byOrigin[as]))
		}
	}
}
