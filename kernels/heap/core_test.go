package heap

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
)

func compare(a, b pair) int {
	switch {
	case a.less(b):
		return -1
	case b.less(a):
		return +1
	}
	return 0
}

// log gives a generator whose seed it logs.
func random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestSortAndMerge(t *testing.T) {
	r := random(t)
	for range 2000 {
		a, b := empty, empty
		for _, x := range []*batch{&a, &b} {
			for range r.IntN(lanes + 1) {
				x[r.IntN(lanes)] = pair{r.Uint64N(1 << r.IntN(64)), r.Uint32N(4)}
			}
		}
		want := slices.Concat(a[:], b[:])
		a.sort()
		b.sort()
		if !slices.IsSortedFunc(a[:], compare) || !slices.IsSortedFunc(b[:], compare) {
			t.Fatalf("not ascending:\n%v\n%v", a, b)
		}
		merge(&a, &b)
		slices.SortFunc(want, compare)
		if got := slices.Concat(a[:], b[:]); !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	}
}

// script is a sequence of operations on a heap, as the kernels operate_* take it.
type script struct {
	form            form
	bits            int // of a node
	shared          int
	capacity        int
	row             []uint64
	kinds           []uint32
	dists           []uint64
	nodes           []uint32
	outDists        []uint64
	outNodes, sizes []uint32
	spill           []uint32
}

func (s *script) add(kind uint32, pairs ...pair) {
	s.kinds = append(s.kinds, kind)
	for lane := range lanes {
		p := none
		if lane < len(pairs) {
			p = pairs[lane]
		}
		s.dists, s.nodes = append(s.dists, p.dist), append(s.nodes, p.node)
	}
}

func (s *script) in(i int) (pairs []pair) {
	for lane := range lanes {
		if p := (pair{s.dists[lanes*i+lane], s.nodes[lanes*i+lane]}); p.dist != math.MaxUint64 {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func (s *script) out(i int) (x batch) {
	for lane := range x {
		x[lane] = pair{s.outDists[lanes*i+lane], s.outNodes[lanes*i+lane]}
	}
	return x
}

func (s *script) run(t *testing.T, d *device.Device) {
	t.Helper()
	n, spilled := len(s.kinds), s.capacity-s.shared
	s.outDists, s.outNodes, s.sizes = make([]uint64, lanes*n), make([]uint32, lanes*n), make([]uint32, n)
	spill := (arrayBytes(s.form, lanes*spilled) + arrayBytes(s.form, spilled)) / 4
	s.spill = make([]uint32, spill)
	err := d.Do(device.Build, func(q *device.Queue) error {
		kinds, sizes, nodes, outNodes := q.Temp(4*n), q.Temp(4*n), q.Temp(4*lanes*n), q.Temp(4*lanes*n)
		dists, outDists, row, rest := q.Temp(8*lanes*n), q.Temp(8*lanes*n), q.Temp(8*len(s.row)), q.Temp(4*spill)
		device.CopyIn(q, kinds, s.kinds)
		device.CopyIn(q, nodes, s.nodes)
		device.CopyIn(q, dists, s.dists)
		device.CopyIn(q, row, s.row)
		q.Fill(rest, 0xabababab, spill)
		q.Launch("heap.operate_"+s.form.name, device.Launch{GridX: 1, Block: lanes, Shared: arrayBytes(s.form, lanes*s.shared) + arrayBytes(s.form, s.shared)},
			uint64(kinds), uint64(dists), uint64(nodes), uint64(outDists), uint64(outNodes), uint64(sizes), uint64(n),
			uint64(row), uint64(s.bits), uint64(s.shared), uint64(s.capacity), uint64(rest))
		device.CopyOut(q, s.outDists, outDists)
		device.CopyOut(q, s.outNodes, outNodes)
		device.CopyOut(q, s.sizes, sizes)
		device.CopyOut(q, s.spill, rest)
		q.Wait()
		return q.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check runs the script's operations on a sorted slice beside what came out.
func (s *script) check(t *testing.T) {
	t.Helper()
	var model []pair
	for i, kind := range s.kinds {
		model = append(model, s.in(i)...)
		slices.SortFunc(model, compare)
		out := s.out(i)
		switch kind {
		case opInsert:
			if out.any() {
				t.Fatalf("operation %d: an insertion gives %v", i, out)
			}
		case opCompact:
			model = slices.DeleteFunc(model, func(p pair) bool { return s.row[p.node] != p.dist })
			if got, most := int(s.sizes[i]), (len(model)+lanes-1)/lanes; got != most {
				t.Fatalf("operation %d: %d pairs that are not stale have %d nodes, want %d", i, len(model), got, most)
			}
		default:
			if !slices.IsSortedFunc(out[:], compare) {
				t.Fatalf("operation %d gives a batch that is not ascending: %v", i, out)
			}
			if out.any() != (len(model) > 0) || len(model) > 0 && out[0] != model[0] {
				t.Fatalf("operation %d: the least of %d pairs is %v, want %v", i, len(model), out[0], model[:min(1, len(model))])
			}
			for _, p := range out {
				if p == none {
					break
				}
				at, ok := slices.BinarySearchFunc(model, p, compare)
				if !ok {
					t.Fatalf("operation %d gives %v, which was not in", i, p)
				}
				model = slices.Delete(model, at, at+1)
			}
		}
		if size := int(s.sizes[i]); size > s.capacity || lanes*size < len(model) {
			t.Fatalf("operation %d: %d pairs in %d of %d nodes", i, len(model), size, s.capacity)
		}
	}
	if len(model) > 0 {
		t.Fatalf("%d pairs are left", len(model))
	}
}

// ordered fails the test where a node of a heap is not as it must be.
func (h *warpHeap) ordered(t *testing.T) {
	t.Helper()
	for i := range h.size {
		x := h.load(i)
		if !slices.IsSortedFunc(x[:], compare) {
			t.Fatalf("node %d of %d: %v", i, h.size, x)
		}
		if x[0] != h.top(i) {
			t.Fatalf("node %d of %d: top %v, it has %v", i, h.size, h.top(i), x[0])
		}
		if i > 0 && x[0].less(h.top((i-1)/lanes)) {
			t.Fatalf("node %d of %d: %v is less than its parent's %v", i, h.size, x[0], h.top((i-1)/lanes))
		}
	}
}

// newScript makes random operations that a heap of this capacity can do, then pops until it is empty, and once more. steady
// keeps the heap about as full as it is.
func newScript(t *testing.T, r *rand.Rand, f form, shared, capacity, n int) *script {
	nodes := 1 + r.IntN(1000)
	s := &script{form: f, bits: nodeBits(nodes), shared: min(shared, capacity), capacity: capacity, row: make([]uint64, nodes)}
	limit := uint64(1) << (1 + r.IntN(32-max(s.bits, 1)-1)) // narrow pairs hold it
	scale := uint64(1)
	switch {
	case f == wide && r.IntN(2) == 0:
		scale = 1 << 31
	case f == far && r.IntN(2) == 0:
		scale = 1 << (63 - s.bits - 32)
	}
	for i := range s.row {
		s.row[i] = r.Uint64N(limit) * scale
	}
	next := uint64(0) // ascending or descending distances in some scripts
	order := r.IntN(4)
	some := func(most int) (pairs []pair) {
		for range 1 + r.IntN(most) {
			p := pair{r.Uint64N(limit) * scale, r.Uint32N(uint32(nodes))}
			switch {
			case order == 1:
				p.dist = next % limit * scale
				next++
			case order == 2:
				p.dist = (limit - 1 - next%limit) * scale
				next++
			case r.IntN(2) == 0:
				p.dist = s.row[p.node]
			}
			pairs = append(pairs, p)
		}
		return pairs
	}
	// What the operations do is followed to know when there is no room.
	h := warpHeap{shared: make([]batch, s.capacity)}
	do := func(kind uint32, pairs ...pair) {
		s.add(kind, pairs...)
		x := empty
		copy(x[:], pairs)
		x.sort()
		switch kind {
		case opInsert:
			h.insert(x)
		case opReplace:
			h.replaceSmallest(x)
		case opPop:
			h.pop()
		case opCompact:
			h.compact(func(node uint32) uint64 { return s.row[node] })
		}
		h.ordered(t)
	}
	do(opPop) // of nothing
	growing := true
	for range n {
		if h.size == s.capacity {
			growing = false
		} else if h.size < s.capacity/4 {
			growing = true
		}
		switch x := r.IntN(20); {
		case x == 0 && h.size == s.capacity, x == 0 && r.IntN(10) == 0:
			do(opCompact)
		case x < 4:
			do(opReplace, some([]int{1, lanes - 1, lanes}[r.IntN(3)])...)
		case h.size < s.capacity && (x < 14) == growing:
			do(opInsert, some([]int{1, lanes, lanes}[r.IntN(3)])...)
		default:
			do(opPop)
		}
	}
	for h.size > 0 {
		do(opPop)
	}
	do(opPop)
	return s
}

func each(t *testing.T, test func(*testing.T, *device.Device)) {
	t.Helper()
	devicetest.Each(t, []*device.Module{Module}, test)
}

// Random operations on a heap alone: against a model, and the device against the simulator, spilled nodes included.
func TestOperations(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device) {
		r := random(t)
		twin, err := device.Open(sim.New(0, nil), Module)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = twin.Close() })
		times, n := 12, 400
		if testing.Short() {
			times, n = 2, 150
		}
		for _, f := range []form{narrow, far, wide} {
			for _, c := range []struct{ shared, capacity int }{{1, 1}, {1, 2}, {1, 33}, {1, 40}, {33, 33}, {33, 34}, {33, 100}, {65, 70}} {
				for range times {
					s := newScript(t, r, f, c.shared, c.capacity, n)
					s.run(t, d)
					s.check(t)
					want := *s
					want.run(t, twin)
					if !slices.Equal(s.outDists, want.outDists) || !slices.Equal(s.outNodes, want.outNodes) || !slices.Equal(s.sizes, want.sizes) {
						t.Fatalf("%s, %d of %d nodes shared: not what the twin gives", f.name, c.shared, c.capacity)
					}
					if !slices.Equal(s.spill, want.spill) {
						t.Fatalf("%s, %d of %d nodes shared: spilled nodes are not the twin's", f.name, c.shared, c.capacity)
					}
				}
			}
		}
	})
}

// A heap of three levels.
func TestDeepHeap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long under a checker of races")
	}
	each(t, func(t *testing.T, d *device.Device) {
		r := random(t)
		for _, f := range []form{narrow, far, wide} {
			s := &script{form: f, bits: 4, shared: 33, capacity: 1200, row: make([]uint64, 16)}
			for range s.capacity {
				pairs := make([]pair, lanes)
				for i := range pairs {
					pairs[i] = pair{r.Uint64N(1 << 20), r.Uint32N(16)}
				}
				s.add(opInsert, pairs...)
			}
			for range s.capacity + 1 {
				s.add(opPop)
			}
			// Batches below 32 may come: pop until nothing is left.
			for range s.capacity {
				s.add(opPop)
			}
			s.run(t, d)
			s.check(t)
		}
	})
}
