package igp

// A change is a node and its distance now.
type change struct {
	node uint32
	dist uint64
}

// A repair computes what the loss of arcs does to the distances from one root, from the distances
// before: first the nodes whose shortest paths are all gone, then their new distances, by Dijkstra's
// method among them alone (G. Ramalingam and T. Reps, An incremental algorithm for a generalization of the
// shortest-path problem, 1996). It costs what changes. Not safe for concurrent use; one after another.
type repair struct {
	g    *Graph
	down []bool   // by arc
	seen []bool   // by node: was in the queue
	lost []bool   // by node: no shortest path is left
	is   []uint64 // by node, of those lost: the distance now
	was  []uint64

	queue         heap
	visited, gone []uint32 // the nodes with seen, and with lost, set
	found         []change
}

func newRepair(g *Graph) *repair {
	return &repair{
		g: g, down: make([]bool, len(g.Arcs)),
		seen: make([]bool, g.Nodes()), lost: make([]bool, g.Nodes()), is: make([]uint64, g.Nodes()),
	}
}

// run takes arcs out. was is the distances from root before.
func (r *repair) run(was []uint64, root uint32, arcs []uint32) {
	for _, v := range r.visited {
		r.seen[v], r.lost[v] = false, false
	}
	r.was, r.visited, r.gone, r.queue = was, r.visited[:0], r.gone[:0], r.queue[:0]
	for _, a := range arcs {
		r.down[a] = true
	}
	for _, a := range arcs {
		if r.g.tight(was, root, a) {
			r.doubt(r.g.Arcs[a].To)
		}
	}
	r.lose(root)
	r.mend(root)
	for _, a := range arcs {
		r.down[a] = false
	}
}

// doubt puts a node into the queue, once.
func (r *repair) doubt(v uint32) {
	if !r.seen[v] {
		r.seen[v] = true
		r.visited = append(r.visited, v)
		r.queue.push(key{r.was[v], v})
	}
}

// lose finds the nodes without a shortest path, nearest first: when it comes to a node, all nearer ones
// are decided. An arc of metric 0 is not trusted, since two nodes could vouch for each other with it; a
// node too many costs time only.
func (r *repair) lose(root uint32) {
	for len(r.queue) > 0 {
		v := r.queue.pop().node
		if r.kept(v, root) {
			continue
		}
		r.lost[v] = true
		r.gone = append(r.gone, v)
		if !r.g.transit(v, root) {
			continue
		}
		for _, a := range r.g.out(v) {
			if a.To != root && r.was[v]+uint64(a.Metric) == r.was[a.To] {
				r.doubt(a.To)
			}
		}
	}
}

// kept tells whether a node has a last hop left.
func (r *repair) kept(v, root uint32) bool {
	for _, a := range r.g.into(v) {
		if !r.down[a] && r.g.Arcs[a].Metric > 0 && !r.lost[r.g.tails[a]] && r.g.tight(r.was, root, a) {
			return true
		}
	}
	return false
}

// mend computes the new distances of the lost nodes.
func (r *repair) mend(root uint32) {
	for _, v := range r.gone {
		best := uint64(Unreachable)
		for _, a := range r.g.into(v) {
			u := r.g.tails[a]
			if !r.down[a] && !r.lost[u] && r.was[u] != Unreachable && r.g.transit(u, root) {
				best = min(best, r.was[u]+uint64(r.g.Arcs[a].Metric))
			}
		}
		if r.is[v] = best; best != Unreachable {
			r.queue.push(key{best, v})
		}
	}
	for len(r.queue) > 0 {
		k := r.queue.pop()
		if r.is[k.node] != k.dist || !r.g.transit(k.node, root) {
			continue
		}
		for a := r.g.Start[k.node]; a < r.g.Start[k.node+1]; a++ {
			v, dist := r.g.Arcs[a].To, k.dist+uint64(r.g.Arcs[a].Metric)
			if !r.down[a] && r.lost[v] && dist < r.is[v] {
				r.is[v] = dist
				r.queue.push(key{dist, v})
			}
		}
	}
}

// changes gives the nodes that are farther than before, until the next run.
func (r *repair) changes() []change {
	r.found = r.found[:0]
	for _, v := range r.gone {
		if r.is[v] != r.was[v] {
			r.found = append(r.found, change{v, r.is[v]})
		}
	}
	return r.found
}
