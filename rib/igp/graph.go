package igp

import "math"

const (
	// Unreachable is the distance of a node that no path leads to.
	Unreachable = math.MaxUint64
	// Unused is the metric of a direction of a link that no path takes.
	Unused = math.MaxUint32
	// NoArc is the number of no arc.
	NoArc = math.MaxUint32
)

// An Arc is one direction of a link that paths may take.
type Arc struct{ To, Metric uint32 }

// A Graph is what shortest paths are computed on: nodes by number, and the arcs that leave each, in
// compressed rows. Arcs have no names and links no two ends here; both are the Topology's. It is
// never changed once made, so that a solver may keep a copy on its device for as long as it lives.
type Graph struct {
	// Start has an element more than there are nodes: Arcs[Start[v]:Start[v+1]] leave node v.
	Start []uint32
	Arcs  []Arc
	// NoTransit has bit v%32 of word v/32 set where paths may start and end at node v, but not go
	// through it.
	NoTransit []uint32

	// The arcs that enter each node, by number, and where each arc comes from.
	inStart, in, tails []uint32
	zero               bool // an arc has metric 0
	// The queue for its shortest paths: buckets, a power of two from 64 on, or 0 for the heap, and the
	// binary logarithm of a bucket's width.
	ring  int
	shift uint
}

// Nodes is the number of nodes.
func (g *Graph) Nodes() int { return len(g.Start) - 1 }

// out gives the arcs that leave u.
func (g *Graph) out(u uint32) []Arc { return g.Arcs[g.Start[u]:g.Start[u+1]] }

// into gives the numbers of the arcs that enter v.
func (g *Graph) into(v uint32) []uint32 { return g.in[g.inStart[v]:g.inStart[v+1]] }

// transit tells whether paths from root may leave u.
func (g *Graph) transit(u, root uint32) bool {
	return u == root || g.NoTransit[u/32]>>(u%32)&1 == 0
}

// tight tells whether some shortest path from root ends with arc a, given the distances from root.
// An arc into the root is on none.
func (g *Graph) tight(dist []uint64, root, a uint32) bool {
	u, v := g.tails[a], g.Arcs[a].To
	return dist[u] != Unreachable && v != root && dist[u]+uint64(g.Arcs[a].Metric) == dist[v] && g.transit(u, root)
}

// newGraph makes a graph of arcs given by their ends, and gives their numbers in it.
func newGraph(nodes int, tails []uint32, arcs []Arc, noTransit []uint32) (g *Graph, numbers []uint32) {
	g = &Graph{NoTransit: noTransit, Arcs: make([]Arc, len(arcs)), tails: make([]uint32, len(arcs))}
	g.Start, numbers = rows(nodes, len(arcs), func(i int) uint32 { return tails[i] })
	for i, n := range numbers {
		g.Arcs[n], g.tails[n] = arcs[i], tails[i]
	}
	var places []uint32
	g.inStart, places = rows(nodes, len(arcs), func(i int) uint32 { return g.Arcs[i].To })
	g.in = make([]uint32, len(arcs))
	for a, p := range places {
		g.in[p] = uint32(a)
	}
	least, most := uint32(math.MaxUint32), uint32(0)
	for _, a := range arcs {
		least, most = min(least, a.Metric), max(most, a.Metric)
	}
	g.zero = len(arcs) > 0 && least == 0
	g.ring, g.shift = buckets(least, most)
	return g, numbers
}

// rows sorts n items by row, a counting sort that keeps their order within one: where each row
// starts, and the place of each item.
func rows(count, n int, row func(int) uint32) (start, places []uint32) {
	start = make([]uint32, count+1)
	for i := range n {
		start[row(i)+1]++
	}
	for i := range count {
		start[i+1] += start[i]
	}
	next := make([]uint32, count)
	copy(next, start)
	places = make([]uint32, n)
	for i := range n {
		r := row(i)
		places[i] = next[r]
		next[r]++
	}
	return start, places
}
