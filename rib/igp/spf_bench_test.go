package igp_test

import (
	"fmt"
	"iter"
	"testing"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/path"
	"gonum.org/v1/gonum/graph/simple"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// benchTopologies are what the benchmarks run on.
func benchTopologies(b *testing.B) iter.Seq2[string, *igp.Topology] {
	return func(yield func(string, *igp.Topology) bool) {
		_ = yield("rf1239", readReal(b, "rf1239")) &&
			yield("generated-600", fixtures.Topology(1, 600, 3_600)) &&
			yield("generated-10000", fixtures.Topology(1, 10_000, 40_000)) &&
			yield("generated-100000", fixtures.Topology(1, 100_000, 400_000))
	}
}

// BenchmarkSPF is distances from one root on one core, another root each time: here, by gonum on the
// graph that it brings, and by gonum on arrays.
func BenchmarkSPF(b *testing.B) {
	for name, top := range benchTopologies(b) {
		b.Run(name, func(b *testing.B) { benchmarkSPF(b, top) })
	}
}

func benchmarkSPF(b *testing.B, top *igp.Topology) {
	n := uint32(len(top.Nodes))
	each := func(name string, from func(root uint32)) {
		b.Run(name, func(b *testing.B) {
			root := uint32(0)
			for b.Loop() {
				from(root)
				root = (root + 1) % n
			}
		})
	}
	run, dist := igp.NewRun(top.Graph), make([]uint64, n)
	each("ribwarp", func(root uint32) {
		run.Distances(igp.Problem{Root: root, Skip: igp.NoArc, Skip2: igp.NoArc}, dist)
	})
	if n > 10_000 {
		return // gonum takes seconds
	}
	g := gonumGraph(top)
	each("gonum", func(root uint32) { path.DijkstraFrom(simple.Node(root), g) })
	each("gonum-arrays", func(root uint32) { path.DijkstraFrom(simple.Node(root), arrayGraph{top.Graph}) })
}

// BenchmarkAllRoots is distances from every root, or from 1,024, on all cores; the figure that counts is
// that for a root.
func BenchmarkAllRoots(b *testing.B) {
	for name, top := range benchTopologies(b) {
		b.Run(name, func(b *testing.B) {
			problems := make([]igp.Problem, min(len(top.Nodes), 1024))
			for i := range problems {
				problems[i] = igp.Problem{Root: uint32(i), Skip: igp.NoArc, Skip2: igp.NoArc}
			}
			dist := make([]uint64, len(problems)*len(top.Nodes))
			for b.Loop() {
				if err := (igp.CPU{}).Distances(b.Context(), top.Graph, problems, nil, dist); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(problems)), "ns/root")
		})
	}
}

// BenchmarkTree is one root with the sets of first hops.
func BenchmarkTree(b *testing.B) {
	for name, top := range benchTopologies(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				top.Tree(0)
			}
		})
	}
}

// BenchmarkApply is a new topology for one changed metric.
func BenchmarkApply(b *testing.B) {
	for _, size := range []struct{ nodes, arcs int }{{1_000, 8_000}, {10_000, 40_000}} {
		b.Run(fmt.Sprintf("nodes=%d", size.nodes), func(b *testing.B) {
			s := igp.NewStore()
			s.Replace(fixtures.Topology(1, size.nodes, size.arcs))
			l := s.Topology().Links[7]
			for b.Loop() {
				l.Metric++
				if _, err := s.Apply(igp.PutLink{Link: l}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// arrayGraph is a Graph as gonum takes one, without maps.
type arrayGraph struct{ g *igp.Graph }

func (a arrayGraph) From(id int64) graph.Nodes {
	return &arcNodes{arcs: a.g.Arcs[a.g.Start[id]:a.g.Start[id+1]], at: -1}
}

func (a arrayGraph) Edge(u, v int64) graph.Edge {
	for _, x := range a.g.Arcs[a.g.Start[u]:a.g.Start[u+1]] {
		if int64(x.To) == v {
			return simple.WeightedEdge{F: simple.Node(u), T: simple.Node(v), W: float64(x.Metric)}
		}
	}
	return nil
}

// Weight gives the least metric from x to y.
func (a arrayGraph) Weight(x, y int64) (w float64, ok bool) {
	for _, arc := range a.g.Arcs[a.g.Start[x]:a.g.Start[x+1]] {
		if int64(arc.To) == y && (!ok || float64(arc.Metric) < w) {
			w, ok = float64(arc.Metric), true
		}
	}
	return w, ok
}

// arcNodes gives the ends of arcs.
type arcNodes struct {
	arcs []igp.Arc
	at   int
}

func (n *arcNodes) Next() bool {
	n.at++
	return n.at < len(n.arcs)
}
func (n *arcNodes) Len() int         { return len(n.arcs) - n.at - 1 }
func (n *arcNodes) Reset()           { n.at = -1 }
func (n *arcNodes) Node() graph.Node { return simple.Node(n.arcs[n.at].To) }
