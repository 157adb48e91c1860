package igp

import "math/bits"

// Shortest paths by Dijkstra's method, with one of two queues.
//
// Buckets, where no metric is 0 and the largest is at most some thousand times the least: a bucket is a
// range of distances no wider than the least metric, so no node in the lowest one can be reached by a
// shorter way through another of it, and all of them are final, in any order (E. V. Denardo and B. L. Fox,
// Shortest-route methods: 1. Reaching, pruning, and buckets, 1979). The buckets are a ring, since nothing
// in the queue is farther ahead than the largest metric. To put a node in and to take one out costs a few
// instructions, and the next full bucket is found in a map of bits.
//
// A heap of four children a node otherwise: 3 to 4 times slower.
//
// A node whose distance falls is put in once more, and what is stale is passed over when it comes.

// maxRing is the most buckets: their heads stay in the second-level cache.
const maxRing = 1 << 14

// buckets gives the size of the ring and the logarithm of a bucket's width for graphs whose metrics
// lie between least and most; 0 buckets where the heap is better.
func buckets(least, most uint32) (ring int, shift uint) {
	if least == 0 || least > most {
		return 0, 0
	}
	shift = uint(bits.Len32(least)) - 1
	// An arc leads at most this many buckets ahead. The ring holds them and the one it comes from.
	ahead := uint64(most>>shift) + 1
	if ahead >= maxRing {
		return 0, 0
	}
	return max(64, 1<<bits.Len64(ahead)), shift
}

// A workspace is the memory of computations on one graph, one after another. Not safe for concurrent
// use.
type workspace struct {
	g *Graph
	// order is the nodes that the last run reached, in an order in which every shortest path goes
	// forward, but for arcs of metric 0; with these it is by distance.
	order []uint32
	row   []Arc // scratch

	// Buckets are lists in the pool, by the place of their first entry; full has a bit for those
	// that are not empty.
	head []uint32
	full []uint64
	pool []entry

	heap heap
}

// An entry of a bucket's list. Place 0 of the pool ends all lists.
type entry struct{ node, next uint32 }

func newWorkspace(g *Graph) *workspace {
	w := &workspace{g: g, order: make([]uint32, 0, g.Nodes())}
	if g.ring > 0 {
		w.head = make([]uint32, g.ring)
		w.full = make([]uint64, g.ring/64)
		w.pool = make([]entry, len(g.Arcs)+2) // every arc puts in one entry at most, and the root is one
	}
	return w
}

// run computes the distances of a problem into dist, an element for each node.
func (w *workspace) run(p Problem, dist []uint64) {
	for i := range dist {
		dist[i] = Unreachable
	}
	dist[p.Root] = 0
	w.order = w.order[:0]
	c := w.cut(p)
	if w.head != nil {
		w.runBuckets(p.Root, c, dist)
	} else {
		w.runHeap(p.Root, c, dist)
	}
}

// A cut is arcs to leave out, and the nodes that they leave.
type cut struct{ arcs, tails [2]uint32 }

func (w *workspace) cut(p Problem) cut {
	c := cut{arcs: [2]uint32{p.Skip, p.Skip2}, tails: [2]uint32{NoArc, NoArc}}
	for i, a := range c.arcs {
		if a != NoArc {
			c.tails[i] = w.g.tails[a]
		}
	}
	return c
}

// arcs gives the arcs that leave u on paths from root.
func (w *workspace) arcs(u, root uint32, c *cut) []Arc {
	g := w.g
	if !g.transit(u, root) {
		return nil
	}
	first, end := g.Start[u], g.Start[u+1]
	if u != c.tails[0] && u != c.tails[1] { // as nearly always
		return g.Arcs[first:end]
	}
	w.row = w.row[:0]
	for a := first; a < end; a++ {
		if a != c.arcs[0] && a != c.arcs[1] {
			w.row = append(w.row, g.Arcs[a])
		}
	}
	return w.row
}

func (w *workspace) runBuckets(root uint32, c cut, dist []uint64) {
	head, full, pool := w.head, w.full, w.pool
	shift, mask := w.g.shift&63, uint64(len(head)-1)
	pool[1] = entry{node: root}
	head[0], full[0] = 1, 1
	free := uint32(2) // the next place in the pool
	for at, ok := w.next(0); ok; at, ok = w.next(at) {
		e := head[at]
		head[at] = 0
		full[at/64] &^= 1 << (at % 64)
		for ; e != 0; e = pool[e].next {
			u := pool[e].node
			d := dist[u]
			if d>>shift&mask != at {
				continue // it was in a nearer bucket, too
			}
			w.order = append(w.order, u)
			for _, a := range w.arcs(u, root, &c) {
				nd, was := d+uint64(a.Metric), dist[a.To]
				if nd >= was {
					continue
				}
				dist[a.To] = nd
				if was>>shift == nd>>shift {
					continue // it is in this bucket already
				}
				b := nd >> shift & mask
				pool[free] = entry{a.To, head[b]}
				head[b] = free
				full[b/64] |= 1 << (b % 64)
				free++
			}
		}
	}
}

// next gives the first bucket that is not empty, from one on and around the ring.
func (w *workspace) next(from uint64) (at uint64, ok bool) {
	i := from / 64
	if word := w.full[i] &^ (1<<(from%64) - 1); word != 0 {
		return i*64 + uint64(bits.TrailingZeros64(word)), true
	}
	for range w.full {
		i = (i + 1) & uint64(len(w.full)-1)
		if word := w.full[i]; word != 0 {
			return i*64 + uint64(bits.TrailingZeros64(word)), true
		}
	}
	return 0, false
}

func (w *workspace) runHeap(root uint32, c cut, dist []uint64) {
	w.heap = w.heap[:0]
	w.heap.push(key{0, root})
	for len(w.heap) > 0 {
		k := w.heap.pop()
		if dist[k.node] != k.dist {
			continue
		}
		w.order = append(w.order, k.node)
		for _, a := range w.arcs(k.node, root, &c) {
			if nd := k.dist + uint64(a.Metric); nd < dist[a.To] {
				dist[a.To] = nd
				w.heap.push(key{nd, a.To})
			}
		}
	}
}

// A heap of four children a node: less deep than with two, and the four are in two cache lines at most.
type heap []key

type key struct {
	dist uint64
	node uint32
}

func (h *heap) push(k key) {
	*h = append(*h, k)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if s[parent].dist <= k.dist {
			break
		}
		s[i] = s[parent]
		i = parent
	}
	s[i] = k
}

// pop takes the least out; the heap must not be empty.
func (h *heap) pop() key {
	s := *h
	top, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return top
	}
	i := 0
	for {
		child := 4*i + 1
		if child >= len(s) {
			break
		}
		least := child
		for j := child + 1; j < min(child+4, len(s)); j++ {
			if s[j].dist < s[least].dist {
				least = j
			}
		}
		if last.dist <= s[least].dist {
			break
		}
		s[i] = s[least]
		i = least
	}
	s[i] = last
	return top
}
