package igp

// A Run is the computation on one core, one problem after another.
type Run struct{ w *workspace }

// NewRun makes one with the queue that the graph has.
func NewRun(g *Graph) Run { return Run{newWorkspace(g)} }

// NewHeapRun makes one with the heap, whatever the metrics are.
func NewHeapRun(g *Graph) Run {
	r := NewRun(g)
	r.w.head = nil
	return r
}

// Distances computes those of a problem.
func (r Run) Distances(p Problem, dist []uint64) { r.w.run(p, dist) }

// Order is the nodes as the last problem's came out of the queue.
func (r Run) Order() []uint32 { return r.w.order }

// HasBuckets tells whether a graph's queue are buckets.
func HasBuckets(g *Graph) bool { return g.ring > 0 }
