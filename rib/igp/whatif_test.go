package igp_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// wholeImpact computes an impact from distances before and after, of all pairs.
func wholeImpact(t *igp.Topology, f igp.Failure, roots, exits []uint32) igp.Impact {
	impact := igp.Impact{Failure: f}
	before := arcsOf(t)
	after := slices.DeleteFunc(arcsOf(t), func(a arc) bool { return slices.Contains(f.Links, a.link) })
	for _, root := range roots {
		was, is := bellmanFord(t, before, root), bellmanFord(t, after, root)
		if slices.ContainsFunc(before, func(a arc) bool {
			return slices.Contains(f.Links, a.link) && a.from != a.to && a.to != root && was[a.from] != igp.Unreachable &&
				(a.from == root || !t.Nodes[a.from].Overload) && was[a.from]+a.metric == was[a.to]
		}) {
			impact.Users++
		}
		r := igp.RootImpact{Root: root}
		for v := range was {
			switch {
			case is[v] == was[v]:
				continue
			case is[v] == igp.Unreachable:
				r.Lost++
			default:
				r.Most = max(r.Most, is[v]-was[v])
			}
			r.Farther++
		}
		if r.Farther > 0 {
			impact.Roots = append(impact.Roots, r)
		}
		old, now := slowNearest(exits, was), slowNearest(exits, is)
		if !slices.Equal(old.Exits, now.Exits) {
			impact.Exits = append(impact.Exits, igp.ExitChange{Root: root, Was: old, Is: now})
		}
	}
	return impact
}

// slowNearest is Nearest by node.
func slowNearest(exits []uint32, dist []uint64) igp.Choice {
	c := igp.Choice{Cost: igp.Unreachable}
	for _, e := range exits {
		c.Cost = min(c.Cost, dist[e])
	}
	for _, e := range exits {
		if dist[e] == c.Cost && c.Cost != igp.Unreachable {
			c.Exits = append(c.Exits, e)
		}
	}
	return c
}

// same compares impacts; an empty list is as good as none.
func same(a, b igp.Impact) bool {
	if len(a.Exits) != len(b.Exits) {
		return false
	}
	for i := range a.Exits {
		x, y := a.Exits[i], b.Exits[i]
		if x.Root != y.Root || x.Was.Cost != y.Was.Cost || x.Is.Cost != y.Is.Cost || !slices.Equal(x.Was.Exits, y.Was.Exits) || !slices.Equal(x.Is.Exits, y.Is.Exits) {
			return false
		}
	}
	return a.Users == b.Users && slices.Equal(a.Roots, b.Roots) && slices.Equal(a.Failure.Links, b.Failure.Links)
}

func TestFailuresAsComputedAnew(t *testing.T) {
	changed := 0
	eachRandom(t, 40, 14, 40, func(t *testing.T, r *rand.Rand, top *igp.Topology) {
		base := allPairs(t, top)
		var exits []uint32
		for range 3 {
			exits = append(exits, uint32(r.IntN(len(top.Nodes))))
		}
		var single, several []igp.Failure
		for l := range uint32(len(top.Links)) {
			single = append(single, igp.Failure{Links: []uint32{l}})
			several = append(several, igp.Failure{Links: []uint32{l, uint32(r.IntN(len(top.Links))), uint32(r.IntN(len(top.Links)))}})
		}
		for _, c := range []struct {
			name     string
			failures []igp.Failure
			solver   igp.Solver
		}{{"repaired", single, nil}, {"solved", single, igp.CPU{}}, {"several", several, nil}} {
			w := igp.WhatIf{Topology: top, Base: base, Exits: exits, Solver: c.solver}
			impacts, err := w.Run(t.Context(), c.failures)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range impacts {
				want := wholeImpact(top, c.failures[i], base.Roots, exits)
				if !same(got, want) {
					t.Errorf("%s: failure of links %v: %+v, want %+v", c.name, c.failures[i].Links, got, want)
				}
				changed += len(want.Exits)
			}
		}
	})
	if changed == 0 {
		t.Error("no exit has changed: the test sees nothing")
	}
}

// TestAllFailuresOfARealTopology holds the repaired distances to those computed anew, and some to gonum's.
func TestAllFailuresOfARealTopology(t *testing.T) {
	top := readReal(t, "rf1239")
	base := allPairs(t, top)
	exits := []uint32{3, 77, 200, 310}
	var all []igp.Failure
	for l := range uint32(len(top.Links)) {
		all = append(all, igp.Failure{Links: []uint32{l}})
	}
	w := igp.WhatIf{Topology: top, Base: base, Exits: exits}
	repaired, err := w.Run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	w.Solver = igp.CPU{}
	solved, err := w.Run(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(repaired, solved) {
		t.Error("repaired and computed anew differ")
	}
	for _, l := range []uint32{0, 500, 971} {
		less := gonumDistances(top.Without(l))
		pairs, lost := 0, 0
		for u := range less {
			for v := range less {
				if less[u][v] != base.Row(u)[v] {
					pairs++
				}
				if less[u][v] == igp.Unreachable {
					lost++
				}
			}
		}
		if p, n, _ := repaired[l].Farther(); p != pairs || n != lost {
			t.Errorf("link %d: %d pairs farther, %d lost; gonum: %d, %d", l, p, n, pairs, lost)
		}
	}
}

func TestWithoutLinks(t *testing.T) {
	eachRandom(t, 20, 12, 30, func(t *testing.T, r *rand.Rand, top *igp.Topology) {
		if len(top.Links) == 0 {
			return
		}
		l := uint32(r.IntN(len(top.Links)))
		less := top.Without(l)
		arcs := slices.DeleteFunc(arcsOf(top), func(a arc) bool { return a.link == l })
		for u := range uint32(len(top.Nodes)) {
			if got, want := less.Tree(u).Dist, bellmanFord(top, arcs, u); !slices.Equal(got, want) {
				t.Errorf("from %d without %d: %v, want %v", u, l, got, want)
			}
		}
		if a, b := top.Arcs(l); a == igp.NoArc && b == igp.NoArc && top.Links[l].Metric != igp.Unused && top.Links[l].From != top.Links[l].To {
			t.Error("the topology itself has changed")
		}
	})
}

// BenchmarkWhatIf is all 972 failures of rf1239 with all 315 roots, and 1,000 failures of the generated topology
// with 100.
func BenchmarkWhatIf(b *testing.B) {
	b.Run("rf1239", func(b *testing.B) { benchmarkWhatIf(b, readReal(b, "rf1239"), 315) })
	b.Run("generated-10000", func(b *testing.B) { benchmarkWhatIf(b, fixtures.Topology(1, 10_000, 40_000), 100) })
}

func benchmarkWhatIf(b *testing.B, top *igp.Topology, roots int) {
	var from []uint32
	for i := range roots {
		from = append(from, uint32(i*len(top.Nodes)/roots))
	}
	base, err := top.Distances(b.Context(), from, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	var all []igp.Failure
	for l := range min(1000, len(top.Links)) {
		all = append(all, igp.Failure{Links: []uint32{uint32(l)}})
	}
	for _, c := range []struct {
		name   string
		solver igp.Solver
	}{{"repaired", nil}, {"anew", igp.CPU{}}} {
		b.Run(c.name, func(b *testing.B) {
			w := igp.WhatIf{Topology: top, Base: base, Exits: []uint32{1, 100, 300}, Solver: c.solver}
			for b.Loop() {
				if _, err := w.Run(b.Context(), all); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
