package heap

import "math"

// The heap and the search in plain Go, step by step as a warp does them (heap.cu). A warp's register is a batch here, what its lanes
// do at the same time a loop over them.

// lanes is how wide a warp is, and a heap's node.
const lanes = 32

// rounds is how many times 32 arcs a warp follows before it looks at what became less, buffered how many pairs can wait
// then to be inserted: 31 that were left before, and what the rounds bring.
const (
	rounds   = 4
	buffered = lanes * (rounds + 1)
)

// pair is a distance and the node that it is of. Pairs are ordered by distance, then by node.
type pair struct {
	dist uint64
	node uint32
}

// none is what a lane without a pair has. It is greater than all pairs.
var none = pair{math.MaxUint64, math.MaxUint32}

func (a pair) less(b pair) bool { return a.dist < b.dist || a.dist == b.dist && a.node < b.node }

// batch is 32 pairs, one a lane: ascending, those that are none behind all others, where nothing else is said.
type batch [lanes]pair

func (x *batch) any() bool { return x[0] != none }

var empty = func() (x batch) {
	for i := range x {
		x[i] = none
	}
	return x
}()

// exchange gives every lane the lesser or the greater of its pair and that of the lane whose number differs in mask.
func (x *batch) exchange(mask int, lesser func(lane int) bool) {
	y := *x
	for lane := range x {
		if other := y[lane^mask]; other.less(x[lane]) == lesser(lane) {
			x[lane] = other
		}
	}
}

// sort makes a batch of pairs in any order, by K. E. Batcher's bitonic network (Sorting Networks and Their Applications, 1968).
func (x *batch) sort() {
	for size := 2; size <= lanes; size *= 2 {
		for mask := size / 2; mask > 0; mask /= 2 {
			x.exchange(mask, func(lane int) bool { return (lane&mask == 0) == (lane&size == 0) })
		}
	}
}

// merge splits the pairs of two batches: the 32 least to low, the others to high.
func merge(low, high *batch) {
	y := *high
	for lane := range low {
		other := y[lanes-1-lane]
		if other.less(low[lane]) {
			low[lane], high[lane] = other, low[lane]
		} else {
			high[lane] = other
		}
	}
	for mask := lanes / 2; mask > 0; mask /= 2 {
		lesser := func(lane int) bool { return lane&mask == 0 }
		low.exchange(mask, lesser)
		high.exchange(mask, lesser)
	}
}

// A warpHeap is one warp's heap. Node i has the children 32i+1 to 32i+32. The first nodes are in shared memory, the others in
// the warp's piece of global memory. Nodes with few pairs, or none, may be anywhere; where one has none, nor has what is below it.
type warpHeap struct {
	shared []batch
	spill  spilled
	size   int // nodes
}

// spilled are nodes, and their tops in an array of their own, in global memory.
type spilled interface {
	load(i int) batch
	store(i int, x *batch)
	top(i int) pair
}

func (h *warpHeap) load(i int) batch {
	if i < len(h.shared) {
		return h.shared[i]
	}
	return h.spill.load(i - len(h.shared))
}

func (h *warpHeap) top(i int) pair {
	if i < len(h.shared) {
		return h.shared[i][0]
	}
	return h.spill.top(i - len(h.shared))
}

func (h *warpHeap) store(i int, x *batch) {
	if i < len(h.shared) {
		h.shared[i] = *x
		return
	}
	h.spill.store(i-len(h.shared), x)
}

// minChild gives the child of node i with the least top; ok is false if it has none.
func (h *warpHeap) minChild(i int) (child int, least pair, ok bool) {
	first := lanes*i + 1
	if first >= h.size {
		return 0, none, false
	}
	child, least = first, h.top(first)
	for c := first + 1; c < min(first+lanes, h.size); c++ {
		if t := h.top(c); t.less(least) {
			child, least = c, t
		}
	}
	return child, least, true
}

// propagateDown puts a batch to node i, whose pairs are gone and whose parent's top is not greater than any of the batch and of the
// node's children: as long as a child's top is less than the batch's, the 32 least of both stay and the others go down.
func (h *warpHeap) propagateDown(i int, x batch) {
	for {
		child, least, ok := h.minChild(i)
		if !ok || !least.less(x[0]) {
			break
		}
		low := h.load(child)
		merge(&low, &x)
		h.store(i, &low)
		i = child
	}
	h.store(i, &x)
}

// propagateUp puts a batch to node i, which has no children. If its top is less than the parent's, the 32 least of both go up; from there
// on what is greater comes down as it is, for merged with a batch from above it could get greater than its other children.
func (h *warpHeap) propagateUp(i int, x batch) {
	first := true
	for i > 0 {
		parent := (i - 1) / lanes
		if !x[0].less(h.top(parent)) {
			break
		}
		high := h.load(parent)
		if first {
			merge(&x, &high)
		}
		first = false
		h.store(i, &high)
		i = parent
	}
	h.store(i, &x)
}

// insert takes a batch in. There must be room for one more node. What the last node has no room for becomes a node.
func (h *warpHeap) insert(x batch) {
	rest, at := empty, h.size
	if h.size > 0 {
		if last := h.load(h.size - 1); last[lanes-1] == none {
			x, rest = last, x
			merge(&x, &rest)
			at--
		}
	}
	for {
		h.propagateUp(at, x)
		h.size = at + 1
		if !rest.any() {
			return
		}
		x, rest, at = rest, empty, h.size
	}
}

// replaceSmallest takes a batch in, which may be empty, and a batch out: its first pair is the least of all, the others are the rest
// of the first node and of the batch.
func (h *warpHeap) replaceSmallest(x batch) batch {
	if h.size == 0 {
		return x
	}
	out := h.load(0)
	if x.any() {
		merge(&out, &x)
	}
	more := x.any()
	if h.size == 1 {
		if more {
			h.store(0, &x)
		} else {
			h.size = 0
		}
		return out
	}
	// The first node is filled up from the last one.
	last := h.load(h.size - 1)
	if more {
		merge(&x, &last)
		if last.any() {
			h.store(h.size-1, &last)
		} else {
			h.size--
		}
	} else {
		x = last
		h.size--
	}
	h.propagateDown(0, x)
	return out
}

func (h *warpHeap) pop() batch { return h.replaceSmallest(empty) }

// compact drops all pairs whose distance is no longer that of their node. What is inserted never gets ahead of what is read: of
// r nodes come r full batches at most.
func (h *warpHeap) compact(distance func(node uint32) uint64) {
	kept, all := empty, h.size
	h.size = 0
	for i := range all + 1 {
		x := empty
		if i < all {
			x = h.load(i)
			for lane, p := range x {
				if p != none && distance(p.node) != p.dist {
					x[lane] = none
				}
			}
			x.sort()
			merge(&kept, &x)
		}
		if i < all && x.any() || i == all && kept.any() {
			h.insert(kept)
			kept = x
		}
	}
}
