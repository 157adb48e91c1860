package igp_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/graph/path"
	"gonum.org/v1/gonum/graph/simple"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// realTopologies are the backbones of the real data.
var realTopologies = []string{"rf1221", "rf1239", "rf1755", "rf3257", "rf3967", "rf6461"}

func readReal(tb testing.TB, name string) *igp.Topology {
	tb.Helper()
	t, err := igp.ReadFile(fixtures.DataFile(tb, "igp/rocketfuel/"+name+"_real_hard.graph"), igp.ReadOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// An arc is a direction of a link as the oracles see it: from the links alone.
type arc struct {
	link, from, to uint32
	metric         uint64
}

// arcsOf reads the links of a topology anew.
func arcsOf(t *igp.Topology) []arc {
	number := map[string]uint32{}
	for i, n := range t.Nodes {
		number[n.Name] = uint32(i)
	}
	var arcs []arc
	for i, l := range t.Links {
		for _, a := range []arc{
			{uint32(i), number[l.From], number[l.To], uint64(l.Metric)},
			{uint32(i), number[l.To], number[l.From], uint64(l.Reverse)},
		} {
			if a.metric != math.MaxUint32 {
				arcs = append(arcs, a)
			}
		}
	}
	return arcs
}

// bellmanFord is the slow oracle: distances from root.
func bellmanFord(t *igp.Topology, arcs []arc, root uint32) []uint64 {
	dist := make([]uint64, len(t.Nodes))
	for i := range dist {
		dist[i] = igp.Unreachable
	}
	dist[root] = 0
	for changed := true; changed; {
		changed = false
		for _, a := range arcs {
			if dist[a.from] == igp.Unreachable || t.Nodes[a.from].Overload && a.from != root {
				continue
			}
			if d := dist[a.from] + a.metric; d < dist[a.to] {
				dist[a.to], changed = d, true
			}
		}
	}
	return dist
}

// gonumGraph is the topology for gonum: of links beside each other the cheapest, none from a node to
// itself. It has no overload.
func gonumGraph(t *igp.Topology) *simple.WeightedDirectedGraph {
	g := simple.NewWeightedDirectedGraph(0, math.Inf(1))
	for i := range t.Nodes {
		g.AddNode(simple.Node(i))
	}
	for _, a := range arcsOf(t) {
		if a.from == a.to {
			continue
		}
		if was, ok := g.Weight(int64(a.from), int64(a.to)); !ok || float64(a.metric) < was {
			g.SetWeightedEdge(g.NewWeightedEdge(simple.Node(a.from), simple.Node(a.to), float64(a.metric)))
		}
	}
	return g
}

// gonumDistances gives all pairs; its sums are exact below 2^53.
func gonumDistances(t *igp.Topology) [][]uint64 {
	g := gonumGraph(t)
	all := make([][]uint64, len(t.Nodes))
	for u := range t.Nodes {
		shortest := path.DijkstraFrom(simple.Node(u), g)
		all[u] = make([]uint64, len(t.Nodes))
		for v := range t.Nodes {
			all[u][v] = igp.Unreachable
			if w := shortest.WeightTo(int64(v)); !math.IsInf(w, 1) {
				all[u][v] = uint64(w)
			}
		}
	}
	return all
}

// A metricKind is how random metrics are drawn.
type metricKind struct {
	name string
	draw func(r *rand.Rand) uint32
}

var metricKinds = []metricKind{
	{"small", func(r *rand.Rand) uint32 { return 1 + r.Uint32N(4) }},
	{"equal", func(*rand.Rand) uint32 { return 7 }},
	{"zero", func(r *rand.Rand) uint32 { return r.Uint32N(3) }},
	{"all zero", func(*rand.Rand) uint32 { return 0 }},
	{"usual", func(r *rand.Rand) uint32 { return 10 * (1 + r.Uint32N(100)) }},
	{"16 bits", func(r *rand.Rand) uint32 { return 1 + r.Uint32N(1<<16-1) }},
	{"ring's edge", func(r *rand.Rand) uint32 { return 1 + r.Uint32N(1<<14) }},
	{"wide", func(r *rand.Rand) uint32 { return r.Uint32() >> r.Uint32N(32) }},
	{"huge", func(r *rand.Rand) uint32 { return math.MaxUint32 - r.Uint32N(3) }}, // some unused
}

// randomTopology has parallel links, links from nodes to themselves, links of one way, metrics that
// differ by direction, overloaded nodes and, mostly, several parts.
func randomTopology(r *rand.Rand, nodes, links int, kind metricKind) *igp.Topology {
	list := make([]igp.Node, nodes)
	for i := range list {
		list[i] = igp.Node{Name: fmt.Sprint("n", i), Overload: r.IntN(8) == 0}
	}
	symmetric := r.IntN(2) == 0
	all := make([]igp.Link, links)
	for i := range all {
		from, to := r.IntN(nodes), r.IntN(nodes)
		if i > 0 && r.IntN(5) == 0 {
			all[i] = all[i-1]
			all[i].Metric = kind.draw(r)
			continue
		}
		l := igp.Link{From: list[from].Name, To: list[to].Name, Metric: kind.draw(r), Reverse: kind.draw(r)}
		if symmetric {
			l.Reverse = l.Metric
		}
		if r.IntN(10) == 0 {
			l.Reverse = igp.Unused
		}
		all[i] = l
	}
	t, err := igp.New(list, all)
	if err != nil {
		panic(err)
	}
	return t
}

// eachRandom calls f with random topologies of all kinds of metrics; a failing one's seed is logged.
func eachRandom(t *testing.T, rounds, maxNodes, maxLinks int, f func(t *testing.T, r *rand.Rand, top *igp.Topology)) {
	first := rand.Uint64()
	if testing.Short() {
		rounds = (rounds + 4) / 5
	}
	for _, kind := range metricKinds {
		t.Run(kind.name, func(t *testing.T) {
			for i := range rounds {
				seed := first + uint64(i)
				r := rand.New(rand.NewPCG(seed, 7))
				f(t, r, randomTopology(r, 1+r.IntN(maxNodes), r.IntN(maxLinks), kind))
				if t.Failed() {
					t.Fatalf("seed %d, round %d of metrics %q", seed, i, kind.name)
				}
			}
		})
	}
}

// firstLinks gives the links of hops, sorted.
func firstLinks(hops []igp.Hop) []uint32 {
	var links []uint32
	for _, h := range hops {
		links = append(links, h.Link)
	}
	slices.Sort(links)
	return links
}
