package rib_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
)

func routesByPrefix(g *rib.Generation) map[netip.Prefix]rib.Route {
	m := map[netip.Prefix]rib.Route{}
	for _, r := range allRoutes(g) {
		m[r.Prefix] = r
	}
	return m
}

func differences(from, to *rib.Generation, behind netip.Prefix) (all []rib.Difference) {
	for d := range rib.Diff(from, to, behind, rib.SameRoute) {
		all = append(all, d)
	}
	return all
}

// checkDiff compares all ways to make differences with what they are by definition.
func checkDiff(t *testing.T, r *rand.Rand, from, to *rib.Generation) {
	t.Helper()
	a, b := routesByPrefix(from), routesByPrefix(to)
	var want []rib.Difference
	for p, x := range a {
		if y := b[p]; x != y {
			want = append(want, rib.Difference{From: x, To: y})
		}
	}
	for p, y := range b {
		if _, there := a[p]; !there {
			want = append(want, rib.Difference{To: y})
		}
	}
	slices.SortFunc(want, func(x, y rib.Difference) int { return x.Prefix().Compare(y.Prefix()) })
	check := func(what string, got, want []rib.Difference) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %d differences, want %d", what, len(got), len(want))
		}
	}
	var behind netip.Prefix
	check("diff", differences(from, to, behind), want)
	collect := func(into *[]rib.Difference) func(rib.Difference) bool {
		return func(d rib.Difference) bool {
			*into = append(*into, d)
			return true
		}
	}
	var walked, few []rib.Difference
	rib.DiffWalks(from, to, behind, rib.SameRoute, collect(&walked))
	check("walks", walked, want)
	if rib.DiffFew(from, to, behind, rib.SameRoute, collect(&few)) {
		check("few", few, want)
	}
	if len(want) > 0 { // the rest behind any of them
		at := r.IntN(len(want))
		check("the rest", differences(from, to, want[at].Prefix()), want[at+1:])
		walked = nil
		rib.DiffWalks(from, to, want[at].Prefix(), rib.SameRoute, collect(&walked))
		check("the rest of walks", walked, want[at+1:])
	}
	// Back again: the same prefixes, the other way round.
	back := differences(to, from, behind)
	for i := range back {
		back[i].From, back[i].To = back[i].To, back[i].From
	}
	check("back", back, want)
	// Applied to the first it gives the second.
	for _, d := range want {
		if d.To.Prefix.IsValid() {
			a[d.Prefix()] = d.To
		} else {
			delete(a, d.Prefix())
		}
	}
	if !maps.Equal(a, b) {
		t.Fatal("the differences do not make the second of the first")
	}
}

// Generations of a RIB whose prefixes come, go and come again, so that handles name one and then another.
func TestDiffOfGenerations(t *testing.T) {
	r := random(t)
	h := newHistory(t)
	prefixes := append(crowdedPrefixes(r, 300), rib.AllIPv4, rib.AllIPv6)
	var past []*rib.Generation
	for range 25 {
		for range r.IntN(60) {
			p := prefixes[r.IntN(len(prefixes))]
			if r.IntN(3) == 0 {
				h.withdraw(p)
			} else {
				h.announce(rib.Attrs{HasMED: true, MED: uint32(r.IntN(3))}, p)
			}
		}
		past = append(past, h.publish())
	}
	for range 60 {
		checkDiff(t, r, past[r.IntN(len(past))], past[r.IntN(len(past))])
	}
	// Another RIB has nothing in common but prefixes and attributes.
	other := newHistory(t)
	other.announce(rib.Attrs{HasMED: true}, prefixes...)
	g := other.publish()
	for d := range rib.Diff(past[len(past)-1], g, netip.Prefix{}, rib.SamePath) {
		if d.From.Prefix == d.To.Prefix && d.From.Path == d.To.Path {
			t.Fatalf("%s is the same in both", d.Prefix())
		}
	}
	for d := range rib.Diff(g, g, netip.Prefix{}, rib.SameRoute) {
		t.Fatalf("%s differs from itself", d.Prefix())
	}
}

// More differences than are collected.
func TestDiffOfManyRoutes(t *testing.T) {
	r := random(t)
	h := newHistory(t)
	table := fixtures.Generate(r.Uint64(), 80_000, 10_000)
	h.load(table)
	a := h.publish()
	h.announce(rib.Attrs{HasMED: true, MED: 9}, table.Prefixes()...)
	h.withdraw(table.Routes[7].Prefix)
	b := h.publish()
	h.withdraw(table.Routes[8].Prefix)
	c := h.publish()
	checkDiff(t, r, a, b)
	checkDiff(t, r, b, c)
	checkDiff(t, r, a, c)
}

// A real table and what came in over 24 hours.
func TestDiffOverARealDay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	r := random(t)
	h := newHistory(t)
	for i, p := range fixtures.Prefixes(t, "ris-2026-05-11-as3333-v6.txt.gz") {
		h.announce(rib.Attrs{HasMED: true, MED: uint32(i / 8)}, p)
	}
	past := []*rib.Generation{h.publish()}
	for i, c := range fixtures.Changes(t, "ris-2026-05-11-as3333-updates-24h-v6.txt.gz") {
		if c.Withdraw {
			h.withdraw(c.Prefix)
		} else {
			h.announce(rib.Attrs{HasMED: true, MED: uint32(i / 8)}, c.Prefix)
		}
		if i == 1000 || i == 400_000 {
			past = append(past, h.publish())
		}
	}
	past = append(past, h.publish())
	for i := range past[1:] {
		checkDiff(t, r, past[i], past[i+1])
	}
	checkDiff(t, r, past[0], past[3])
}

// A peer that is configured anew announces what it did before.
func TestSameRouteGoesByTheNameOfThePeer(t *testing.T) {
	p := netip.MustParsePrefix("192.0.2.0/24")
	a, b, c := newHistory(t), newHistory(t), newHistory(t)
	for _, h := range []*history{a, b, c} {
		if h == c {
			h.rib.RemovePeer(h.peer)
			var err error
			if h.peer, err = h.rib.AddPeer(rib.PeerConfig{Name: "core", Kind: rib.KindBGP}); err != nil {
				t.Fatal(err)
			}
		}
		h.announce(rib.Attrs{MED: 1, HasMED: true}, p)
	}
	from := a.publish()
	if all := differences(from, b.publish(), netip.Prefix{}); len(all) != 0 {
		t.Errorf("the peer of the same name: %v", all)
	}
	if all := differences(from, c.publish(), netip.Prefix{}); len(all) != 1 {
		t.Errorf("another peer: %v", all)
	}
}

func BenchmarkDiffFullTable(b *testing.B) {
	h, from := fullGeneration(b)
	h.announce(rib.Attrs{HasMED: true, MED: 1}, netip.MustParsePrefix("192.0.2.0/24"))
	few := h.publish()
	all := allRoutes(from)
	for i := 0; i < len(all); i += 2 {
		h.announce(rib.Attrs{HasMED: true, MED: 2}, all[i].Prefix)
	}
	many := h.publish()
	for _, c := range []struct {
		name string
		to   *rib.Generation
	}{{"one", few}, {"half", many}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = 0
				for range rib.Diff(from, c.to, netip.Prefix{}, rib.SameRoute) {
					n++
				}
			}
			b.ReportMetric(float64(n), "changes")
		})
	}
}
