package heap

import (
	"math"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// The kernels of heap.cu in plain Go, over the same buffers. Parameters are theirs, in their order.

var twins = map[string]device.Twin{
	"solve_narrow": solveTwin(narrow), "solve_near": solveTwin(near), "solve_far": solveTwin(far), "solve_wide": solveTwin(wide),
	"operate_narrow": operateTwin(narrow), "operate_far": operateTwin(far), "operate_wide": operateTwin(wide),
}

// ---- pairs in memory

// wordSpill has pairs in one word each, the node in its lowest bits.
type wordSpill[W uint32 | uint64] struct {
	nodes, tops []W
	bits        int
}

func (s *wordSpill[W]) pack(p pair) W {
	if p == none {
		return ^W(0)
	}
	return W(p.dist)<<s.bits | W(p.node)
}

func (s *wordSpill[W]) unpack(w W) pair {
	if w == ^W(0) {
		return none
	}
	return pair{uint64(w >> s.bits), uint32(w & (1<<s.bits - 1))}
}

func (s *wordSpill[W]) load(i int) (x batch) {
	for lane, w := range s.nodes[lanes*i : lanes*(i+1)] {
		x[lane] = s.unpack(w)
	}
	return x
}

func (s *wordSpill[W]) store(i int, x *batch) {
	for lane, p := range x {
		s.nodes[lanes*i+lane] = s.pack(p)
	}
	s.tops[i] = s.pack(x[0])
}

func (s *wordSpill[W]) top(i int) pair { return s.unpack(s.tops[i]) }

// twoSpill has a word for the distance and half a one for the node.
type twoSpill struct {
	dists, topDists []uint64
	nodes, topNodes []uint32
}

func (s *twoSpill) load(i int) (x batch) {
	for lane := range x {
		x[lane] = pair{s.dists[lanes*i+lane], s.nodes[lanes*i+lane]}
	}
	return x
}

func (s *twoSpill) store(i int, x *batch) {
	for lane, p := range x {
		s.dists[lanes*i+lane], s.nodes[lanes*i+lane] = p.dist, p.node
	}
	s.topDists[i], s.topNodes[i] = x[0].dist, x[0].node
}

func (s *twoSpill) top(i int) pair { return pair{s.topDists[i], s.topNodes[i]} }

// spillAt gives the spilled nodes at p.
func spillAt(m device.Memory, p uint64, f form, nodes, bits int) spilled {
	tops := p + uint64(f.pair*lanes*nodes)
	switch f.pair {
	case 4:
		return &wordSpill[uint32]{device.View[uint32](m, p, lanes*nodes), device.View[uint32](m, tops, nodes), bits}
	case 8:
		return &wordSpill[uint64]{device.View[uint64](m, p, lanes*nodes), device.View[uint64](m, tops, nodes), bits}
	}
	return &twoSpill{
		dists: device.View[uint64](m, p, lanes*nodes), nodes: device.View[uint32](m, p+uint64(8*lanes*nodes), lanes*nodes),
		topDists: device.View[uint64](m, tops, nodes), topNodes: device.View[uint32](m, tops+uint64(8*nodes), nodes),
	}
}

// make gives what is left of a pair when it was packed.
func (f form) make(dist uint64, node uint32, bits int) pair {
	if f.pair == 4 {
		s := wordSpill[uint32]{bits: bits}
		return s.unpack(s.pack(pair{dist, node}))
	}
	if f.pair == 8 {
		s := wordSpill[uint64]{bits: bits}
		return s.unpack(s.pack(pair{dist, node}))
	}
	return pair{dist, node}
}

// ---- kernels

// search is a warp's.
type search struct {
	form     form
	heap     warpHeap
	capacity int
	bits     int
	spans    [][2]uint32
	links    [][2]uint32
	row      []uint64
	waiting  []pair
	stats    *Stats
}

func solveTwin(f form) device.Twin {
	return func(m device.Memory, a []uint64) {
		count, n, bits, targetCount := int(a[2]), int(a[5]), int(a[6]), int(a[8])
		dst, problems := device.View[uint64](m, a[0], count*targetCount), device.View[Problem](m, a[1], count)
		var targets []uint32
		if a[7] != 0 {
			targets = device.View[uint32](m, a[7], targetCount)
		}
		shared, capacity := int(a[10]), int(a[11])
		s := search{
			form: f, heap: warpHeap{shared: make([]batch, shared)}, capacity: capacity, bits: bits,
			spans: device.View[[2]uint32](m, a[3], n), stats: &device.View[Stats](m, a[9], 1)[0],
		}
		arcs := uint32(0)
		for _, span := range s.spans {
			arcs += span[1]
		}
		s.links = device.View[[2]uint32](m, a[4], int(arcs))
		if capacity > shared {
			s.heap.spill = spillAt(m, a[12], f, capacity-shared, bits)
		}
		if f.near {
			s.row = make([]uint64, n)
		} else if targets != nil {
			s.row = device.View[uint64](m, a[14], n)
		}
		for i, p := range problems {
			out := dst[i*targetCount : (i+1)*targetCount]
			if !f.near && targets == nil {
				s.row = out
			}
			s.solve(p)
			for j := range out {
				t := j
				if targets != nil {
					t = int(targets[j])
				}
				out[j] = s.row[t]
			}
		}
		s.stats.Problems += uint64(count)
	}
}

func (s *search) solve(p Problem) {
	for i := range s.row {
		s.row[i] = Unreachable
	}
	s.row[p.Root] = 0
	s.heap.size = 0
	s.waiting = append(s.waiting[:0], s.form.make(0, p.Root, s.bits))
	for {
		x := empty
		copy(x[:], s.waiting)
		s.waiting = s.waiting[:0]
		x.sort()
		x = s.heap.replaceSmallest(x)
		if !x.any() {
			return
		}
		s.stats.Pops++
		s.expand(x, p)
	}
}

// arc is one that is followed.
type arc struct {
	to   uint32
	dist uint64 // of its head, on this way
	use  bool
}

// expand follows the arcs of a batch's nodes.
func (s *search) expand(x batch, p Problem) {
	var arcs []arc
	for _, e := range x {
		switch {
		case e == none:
			continue
		case s.row[e.node] != e.dist:
			s.stats.Stale++
			continue
		}
		s.stats.Expanded++
		span := s.spans[e.node]
		if span[0]&noTransit != 0 && e.node != p.Root {
			continue
		}
		begin := span[0] &^ noTransit
		for a := begin; a < begin+span[1]; a++ {
			link := s.links[a]
			arcs = append(arcs, arc{link[0], e.dist + uint64(link[1]), a != p.Skip && a != p.Skip2})
		}
	}
	for from := 0; from < len(arcs); from += lanes * rounds {
		for _, a := range arcs[from:min(from+lanes*rounds, len(arcs))] {
			if a.use && a.dist < s.row[a.to] {
				s.row[a.to] = a.dist
				s.waiting = append(s.waiting, s.form.make(a.dist, a.to, s.bits))
				s.stats.Pushed++
			}
		}
		for len(s.waiting) >= lanes {
			at := len(s.waiting) - lanes
			x := batch(s.waiting[at:])
			s.waiting = s.waiting[:at]
			x.sort()
			if s.heap.size == s.capacity {
				s.heap.compact(func(node uint32) uint64 { return s.row[node] })
				s.stats.Compacted++
			}
			s.heap.insert(x)
		}
		s.stats.Peak = max(s.stats.Peak, uint64(s.heap.size))
	}
}

// What operate can do.
const (
	opInsert = iota
	opReplace
	opPop
	opCompact
)

func operateTwin(f form) device.Twin {
	return func(m device.Memory, a []uint64) {
		n, bits, shared, capacity := int(a[6]), int(a[8]), int(a[9]), int(a[10])
		kinds, sizes := device.View[uint32](m, a[0], n), device.View[uint32](m, a[5], n)
		dists, nodes := device.View[uint64](m, a[1], lanes*n), device.View[uint32](m, a[2], lanes*n)
		outDists, outNodes := device.View[uint64](m, a[3], lanes*n), device.View[uint32](m, a[4], lanes*n)
		h := warpHeap{shared: make([]batch, shared)}
		if capacity > shared {
			h.spill = spillAt(m, a[11], f, capacity-shared, bits)
		}
		for i, kind := range kinds {
			x, out := empty, empty
			for lane := range x {
				if d := dists[lanes*i+lane]; d != math.MaxUint64 {
					x[lane] = f.make(d, nodes[lanes*i+lane], bits)
				}
			}
			x.sort()
			switch kind {
			case opInsert:
				if x.any() {
					h.insert(x)
				}
			case opReplace:
				out = h.replaceSmallest(x)
			case opPop:
				out = h.pop()
			case opCompact:
				h.compact(func(node uint32) uint64 { return device.View[uint64](m, a[7]+8*uint64(node), 1)[0] })
			}
			for lane, p := range out {
				outDists[lanes*i+lane], outNodes[lanes*i+lane] = p.dist, p.node
			}
			sizes[i] = uint32(h.size)
		}
	}
}
