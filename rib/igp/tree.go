package igp

import (
	"math/bits"
	"slices"
)

// A Tree is all shortest paths from one root: distances, and of every node the first hops of all its
// equal-cost paths. Safe for concurrent use.
//
// With arcs of metric 0 two nodes may each be on a shortest path of the other. Their first hops are those
// of all shortest paths that visit no node twice.
type Tree struct {
	Root uint32
	Dist []uint64 // by node

	t     *Topology
	words int      // of a set of first hops
	hops  []uint64 // of every node a set: bit i is the root's arc i
}

// A Hop is a step of a path: over a link to a node.
type Hop struct{ Link, Node uint32 }

// Tree computes the shortest paths from a root.
func (t *Topology) Tree(root uint32) *Tree {
	tr := &Tree{Root: root, t: t, Dist: make([]uint64, len(t.Nodes))}
	w := newWorkspace(t.Graph)
	w.run(Problem{root, NoArc, NoArc}, tr.Dist)
	tr.words = (len(t.Graph.out(root)) + 63) / 64
	tr.hops = make([]uint64, tr.words*len(t.Nodes))
	tr.spread(w.order)
	return tr
}

// spread hands the sets of first hops on, from each node to those behind it.
func (tr *Tree) spread(order []uint32) {
	g := tr.t.Graph
	first := g.Start[tr.Root]
	for i := range g.out(tr.Root) {
		if a := first + uint32(i); g.tight(tr.Dist, tr.Root, a) {
			tr.set(g.Arcs[a].To)[i/64] |= 1 << (i % 64)
		}
	}
	for i := 0; i < len(order); {
		end := i + 1
		if g.zero {
			// Nodes at the same distance may stand behind each other: until nothing changes.
			for end < len(order) && tr.Dist[order[end]] == tr.Dist[order[i]] {
				end++
			}
			for same := order[i:end]; tr.handOn(same, true); {
			}
		}
		tr.handOn(order[i:end], false)
		i = end
	}
}

// handOn adds the sets of these nodes to those right behind them, over arcs of metric 0 or over the
// others. It tells whether that has changed anything.
func (tr *Tree) handOn(nodes []uint32, zero bool) (changed bool) {
	g := tr.t.Graph
	for _, u := range nodes {
		if u == tr.Root || !g.transit(u, tr.Root) {
			continue
		}
		from := tr.set(u)
		for _, a := range g.out(u) {
			if (a.Metric == 0) != zero || a.To == tr.Root || tr.Dist[u]+uint64(a.Metric) != tr.Dist[a.To] {
				continue
			}
			for i, to := 0, tr.set(a.To); i < len(from); i++ {
				changed = changed || from[i]&^to[i] != 0
				to[i] |= from[i]
			}
		}
	}
	return changed
}

func (tr *Tree) set(v uint32) []uint64 { return tr.hops[int(v)*tr.words:][:tr.words] }

// FirstHops gives the first steps of the shortest paths to v, in the order of the links; none for the root
// and for what is unreachable. Links beside each other are different hops.
func (tr *Tree) FirstHops(v uint32) []Hop {
	var hops []Hop
	for i, word := range tr.set(v) {
		for ; word != 0; word &= word - 1 {
			hops = append(hops, tr.hop(tr.t.Graph.Start[tr.Root]+uint32(i*64+bits.TrailingZeros64(word))))
		}
	}
	return hops
}

// SameFirstHops tells whether the shortest paths to v start with the same links in two trees of one root, in
// topologies that differ in their links' metrics only.
func (tr *Tree) SameFirstHops(other *Tree, v uint32) bool {
	return slices.Equal(tr.FirstHops(v), other.FirstHops(v))
}

func (tr *Tree) hop(arc uint32) Hop {
	return Hop{tr.t.links[arc], tr.t.Graph.Arcs[arc].To}
}

// LastHops gives the last steps of the shortest paths to v: links, and the nodes that they come from, in
// the order of these.
func (tr *Tree) LastHops(v uint32) []Hop {
	var hops []Hop
	for _, a := range tr.t.Graph.into(v) {
		if tr.t.Graph.tight(tr.Dist, tr.Root, a) {
			hops = append(hops, Hop{tr.t.links[a], tr.t.Graph.tails[a]})
		}
	}
	return hops
}

// Paths gives shortest paths to v, at most so many, and whether there may be more. None visits a node
// twice. Their order is that of LastHops, from v on back. The path to the root is the empty one.
func (tr *Tree) Paths(v uint32, most int) (paths [][]Hop, more bool) {
	if tr.Dist[v] == Unreachable {
		return nil, false
	}
	g := tr.t.Graph
	// From v back to the root. Arcs of metric 0 can lead into dead ends, so steps are counted.
	steps := (most + 1) * (len(tr.t.Nodes) + 1) * 4
	visited := make([]bool, len(tr.t.Nodes))
	var back []uint32 // arcs
	var walk func(v uint32)
	walk = func(v uint32) {
		if steps--; more || steps < 0 {
			more = true
			return
		}
		if v == tr.Root {
			if len(paths) == most {
				more = true
				return
			}
			path := make([]Hop, 0, len(back))
			for _, a := range slices.Backward(back) {
				path = append(path, tr.hop(a))
			}
			paths = append(paths, path)
			return
		}
		visited[v] = true
		for _, a := range g.into(v) {
			if u := g.tails[a]; !visited[u] && g.tight(tr.Dist, tr.Root, a) {
				back = append(back, a)
				walk(u)
				back = back[:len(back)-1]
			}
		}
		visited[v] = false
	}
	walk(v)
	return paths, more
}
