package heap

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
)

func upload(t testing.TB, d *device.Device, g Graph) *DeviceGraph {
	t.Helper()
	u, err := Upload(d, g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

func newKernel(t testing.TB, d *device.Device) *Kernel {
	k := New(d)
	t.Cleanup(k.Close)
	return k
}

// agrees checks the distances of problems, to all nodes and to some, against Dijkstra's algorithm.
func agrees(t *testing.T, k *Kernel, u *DeviceGraph, g Graph, problems []Problem, targets []uint32) {
	t.Helper()
	n := g.Nodes()
	all, some := make([]uint64, len(problems)*n), make([]uint64, len(problems)*len(targets))
	if err := k.Distances(t.Context(), u, problems, all); err != nil {
		t.Fatal(err)
	}
	s := k.stats
	if s.Expanded < uint64(len(problems)) || s.Expanded+s.Stale > s.Pushed+uint64(len(problems)) || s.Expanded+s.Stale != s.Pushed+uint64(len(problems)) && s.Compacted == 0 || s.Expanded > lanes*s.Pops || s.Pops > uint64(len(problems)*n) {
		t.Fatalf("%d problems of %d nodes: what was counted does not add up: %+v", len(problems), n, s)
	}
	if err := k.DistancesTo(t.Context(), u, problems, targets, some); err != nil {
		t.Fatal(err)
	}
	d := newDijkstra(g)
	for i, p := range problems {
		want := d.solve(p)
		if got := all[i*n : (i+1)*n]; !slices.Equal(got, want) {
			for v := range want {
				if got[v] != want[v] {
					t.Fatalf("%s, %d nodes, problem %d, %+v: node %d is at %d, want %d", u.form.name, n, i, p, v, got[v], want[v])
				}
			}
		}
		for j, v := range targets {
			if got := some[i*len(targets)+j]; got != want[v] {
				t.Fatalf("%s, %d nodes, problem %d, %+v: target %d is at %d, want %d", u.form.name, n, i, p, v, got, want[v])
			}
		}
	}
}

// forms gives all forms that a graph fits in.
func forms(g Graph) []form {
	all := []form{narrow, near, far, wide}
	return all[slices.Index(all, formFor(g.Nodes(), g.farthest())):]
}

func someNodes(r *rand.Rand, g Graph, most int) []uint32 {
	targets := make([]uint32, 1+r.IntN(most))
	for i := range targets {
		targets[i] = r.Uint32N(uint32(g.Nodes()))
	}
	return targets
}

// tiny heaps have one node in shared memory and room for no more than the pairs that are not stale.
var tiny = limits{shared: 1, capacity: 1, warps: 2, resident: 4}

// Graphs of all kinds, in all forms, with heaps that are in shared memory, spilled, and so small that they must be compacted.
func TestRandomGraphs(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device) {
		r := random(t)
		times := 60
		if testing.Short() {
			times = 8
		}
		for i := range times {
			g := oddGraph(r, []int{1, 2, 33, 100, 300, 700}[i%6]+r.IntN(30))
			u := upload(t, d, g)
			for _, f := range forms(g) {
				u.form = f
				for _, l := range []limits{standard, tiny, {shared: 33, capacity: 1, warps: 2, resident: 4}} {
					k := newKernel(t, d)
					k.limits = l
					problems := make([]Problem, 1+r.IntN(20))
					for j := range problems {
						problems[j] = oddProblem(r, g)
					}
					agrees(t, k, u, g, problems, someNodes(r, g, 50))
				}
			}
		}
	})
}

// All pairs of the real backbones, and on one of them what is left when each link fails.
func TestBackbones(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device) {
		r, k := random(t), newKernel(t, d)
		for _, name := range backbones {
			g := backbone(t, name)
			u := upload(t, d, g)
			if u.form != narrow {
				t.Errorf("%s: form %s", name, u.form.name)
			}
			problems := allRoots(g, g.Nodes())
			if name == "rf1221" {
				for a, b := range opposites(g) {
					for _, p := range allRoots(g, g.Nodes()) {
						problems = append(problems, Problem{p.Root, uint32(a), b})
					}
				}
			}
			if testing.Short() {
				problems = problems[:20]
			}
			agrees(t, k, u, g, problems, someNodes(r, g, 20))
		}
	})
}

// Graphs whose heaps and rows are in global memory.
func TestLargeGraphs(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device) {
		r, k := random(t), newKernel(t, d)
		n, roots := 10_000, 24
		if testing.Short() {
			n, roots = 5000, 2
		}
		for name, g := range map[string]Graph{
			"random": randomGraph(r, n, 2*n, 1000), "mesh": mesh(r, 100, n/100, 1000), "wide": randomGraph(r, n, 2*n, math.MaxUint32-1), "equal": randomGraph(r, n, 3*n, 1),
		} {
			u := upload(t, d, g)
			agrees(t, k, u, g, allRoots(g, roots), someNodes(r, g, 100))
			s := k.stats
			if name != "equal" && s.Expanded > uint64(roots*n)*12/10 {
				t.Errorf("%s: %d visits of %d nodes", name, s.Expanded/uint64(roots), n)
			}
			t.Logf("%s: %s, a root %d pops, %d nodes visited, %d stale, %d pushed; heaps of %d nodes", name, u.form.name, s.Pops/uint64(roots),
				s.Expanded/uint64(roots), s.Stale/uint64(roots), s.Pushed/uint64(roots), s.Peak)
		}
	})
}

// A pair has all the room that a graph's greatest distance needs: at each limit of a form.
func TestLimitsOfForms(t *testing.T) {
	chain := func(n int, weight uint32, last uint32) Graph {
		var all []link
		for v := range uint32(n - 1) {
			all = append(all, link{v, v + 1, weight})
		}
		all[n-2].weight = last
		return graphOf(n, all)
	}
	each(t, func(t *testing.T, d *device.Device) {
		k := newKernel(t, d)
		for _, c := range []struct {
			n            int
			weight, last uint32
			want         form
		}{
			{2, 0, 0, narrow},
			{2, 0, 1<<31 - 2, narrow}, // one bit for the node
			{2, 0, 1<<31 - 1, near},
			{3, 0, 1<<30 - 2, narrow},
			{3, 0, 1<<30 - 1, near},
			{3, 0, math.MaxUint32 - 1, near},
			{3, 0, math.MaxUint32, far},
			{3, 1, math.MaxUint32 - 2, near},
			{3, 1, math.MaxUint32 - 1, far},
			{4000, math.MaxUint32, math.MaxUint32, far},
			{4200, 1, 1, far},
			{5000, math.MaxUint32, math.MaxUint32, far},
		} {
			g := chain(c.n, c.weight, c.last)
			u := upload(t, d, g)
			if u.form != c.want {
				t.Errorf("%d nodes, %d: form %s, want %s", c.n, u.farthest, u.form.name, c.want.name)
			}
			agrees(t, k, u, g, []Problem{{0, NoArc, NoArc}, {uint32(c.n - 1), NoArc, NoArc}}, []uint32{0, uint32(c.n - 1)})
		}
	})
	for _, c := range []struct {
		n        int
		farthest uint64
		want     form
	}{
		{1 << 20, 1<<44 - 2, far}, {1 << 20, 1<<44 - 1, wide}, {1<<20 + 1, 1<<43 - 2, far}, {1<<20 + 1, 1<<43 - 1, wide}, {MaxNodes, MaxNodes * math.MaxUint32, wide},
		{1, 0, narrow}, {4096, 1<<20 - 2, narrow}, {4097, 1<<19 - 2, far},
	} {
		if got := formFor(c.n, c.farthest); got != c.want {
			t.Errorf("%d nodes, %d: form %s, want %s", c.n, c.farthest, got.name, c.want.name)
		}
	}
}

// Graphs on which most distances become less again and again are still solved, in at most a step a node. In all forms their tiny
// heaps spill, and must be compacted.
func TestLongDetours(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device) {
		r := random(t)
		const n, leaves = 200, 40
		var all []link
		for u := range uint32(n) {
			for v := u + 1; v < min(u+40, n); v++ {
				all = append(all, link{u, v, (v - u) * (v - u)}) // the shortest way takes every node
			}
			for v := range uint32(leaves) {
				all = append(all, link{u, n + v, 10_000}) // known from the start, in the heap till the end
			}
		}
		g := graphOf(n+leaves, all)
		u := upload(t, d, g)
		if len(forms(g)) != 4 {
			t.Errorf("%d forms", len(forms(g)))
		}
		for _, f := range forms(g) {
			u.form = f
			for _, l := range []limits{standard, tiny} {
				k := newKernel(t, d)
				k.limits = l
				agrees(t, k, u, g, allRoots(g, 12), someNodes(r, g, 20))
				if s := k.stats; l == tiny && (s.Compacted == 0 || s.Peak < 2) {
					t.Errorf("%s: %d compactions, heaps of up to %d nodes", f.name, s.Compacted, s.Peak)
				}
			}
		}
	})
}

// The distances come in chunks and pieces, to pinned memory and to other.
func TestChunks(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device) {
		set(t, &stagingPiece, 1000)
		set(t, &smallResult, 0)
		r, k := random(t), newKernel(t, d)
		k.limits.resident = 4
		g := randomGraph(r, 123, 300, 50)
		u := upload(t, d, g)
		for _, rows := range []int{1, 2, 3, 7, 50, 400} { // of a chunk at most
			set(t, &chunkShare, d.Describe().Memory/uint64(8*g.Nodes()*rows))
			agrees(t, k, u, g, allRoots(g, 101), someNodes(r, g, 10))
		}
		problems := allRoots(g, 101)
		want := make([]uint64, len(problems)*g.Nodes())
		if err := k.Distances(t.Context(), u, problems, want); err != nil {
			t.Fatal(err)
		}
		got, err := device.NewPinned[uint64](d, len(want))
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		if err := k.Distances(t.Context(), u, problems, got.Slice); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Slice, want) {
			t.Error("other distances in pinned memory")
		}
	})
}

func TestShapes(t *testing.T) {
	for _, about := range []device.Description{
		{Memory: 140 << 30, Multiprocessors: 132, SharedMemory: 227 << 10}, {Memory: 8 << 30, Multiprocessors: 40, SharedMemory: 64 << 10}, {Memory: 1 << 30, Multiprocessors: 4, SharedMemory: 48 << 10},
	} {
		for _, f := range []form{narrow, near, far, wide} {
			for _, nodes := range []int{1, 32, 33, 315, 4096, 10_000, 100_000, 10_000_000} {
				if f.near && nodes > 4096 {
					continue
				}
				for _, n := range []int{1, 100, 1 << 20} {
					s := shapeFor(about, standard, f, nodes, n)
					slots := s.blocks * s.warps
					switch {
					case s.blocks < 1 || s.warps < 1 || s.warps > maxBlock/lanes || s.warps*s.warpBytes > about.SharedMemory,
						s.blocks > n || slots > n+s.warps, s.shared > s.capacity || s.capacity*lanes < nodes+lanes,
						s.capacity > s.shared && s.shared%lanes != 1, uint64(slots*s.spill) > about.Memory/4 && slots > 1:
						t.Errorf("%+v, %s, %d nodes, %d problems: %+v", about, f.name, nodes, n, s)
					}
				}
			}
		}
	}
}

func TestBadInput(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device) {
		for what, g := range map[string]Graph{
			"no nodes":                      {},
			"3 arcs and 2 weights":          {Start: []uint32{0, 3}, To: []uint32{0, 0, 0}, Weight: []uint32{1, 2}},
			"number 0 to 1 of them":         {Start: []uint32{0, 1}, To: []uint32{0, 0}, Weight: []uint32{1, 2}},
			"number 1 to 2 of them":         {Start: []uint32{1, 2}, To: []uint32{0, 0}, Weight: []uint32{1, 2}},
			"begins at arc 2 and ends at 1": {Start: []uint32{0, 2, 1, 2}, To: []uint32{0, 0}, Weight: []uint32{1, 2}},
			"arc 1 leads to node 1 of 1":    {Start: []uint32{0, 2}, To: []uint32{0, 1}, Weight: []uint32{1, 2}},
			"0 words say which of 1":        {Start: []uint32{0, 0}, NoTransit: []uint32{}},
		} {
			if _, err := Upload(d, g); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want %q", err, what)
			}
		}
		g := randomGraph(random(t), 10, 20, 5)
		u, k := upload(t, d, g), newKernel(t, d)
		dst := make([]uint64, 10)
		for what, p := range map[string]Problem{
			"node 10 of 10": {10, NoArc, NoArc}, "arc 40 of 40": {0, 40, NoArc}, "arc 4294967294 of 40": {0, NoArc, NoArc - 1},
		} {
			if err := k.Distances(t.Context(), u, []Problem{p}, dst); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want %q", err, what)
			}
		}
		good := []Problem{{0, NoArc, NoArc}}
		if err := k.DistancesTo(t.Context(), u, good, []uint32{10}, dst[:1]); err == nil || !strings.Contains(err.Error(), "node 10 of 10") {
			t.Error(err)
		}
		if err := k.Distances(t.Context(), u, good, dst[:9]); err == nil || !strings.Contains(err.Error(), "do not fit 9") {
			t.Error(err)
		}
		if err := k.DistancesTo(t.Context(), u, good, nil, nil); err != nil {
			t.Error(err)
		}
		if err := k.Distances(t.Context(), u, nil, nil); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.Distances(ctx, u, good, dst); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := k.Distances(t.Context(), u, good, dst); err != nil {
			t.Error(err)
		}
		u.Close()
		u.Close()
		if err := k.Distances(t.Context(), u, good, dst); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// Whichever allocation fails, the call says so, nothing is leaked, and the next one works.
func TestOutOfMemory(t *testing.T) {
	set(t, &smallResult, 0)
	at := 0
	fail := func(int) int {
		if at--; at == 0 {
			return device.CodeOutOfMemory
		}
		return 0
	}
	driver := sim.New(0, &sim.Faults{Alloc: fail, Pinned: fail})
	d, err := device.Open(driver, Module)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	g := randomGraph(random(t), 2000, 4000, 1<<30) // spills, and rows of its own for targets
	for n := 1; ; n++ {
		at = n
		k := New(d)
		u, err := Upload(d, g)
		if err == nil {
			dst := make([]uint64, 3*g.Nodes())
			if err = k.Distances(t.Context(), u, allRoots(g, 3), dst); err == nil {
				err = k.DistancesTo(t.Context(), u, allRoots(g, 3), []uint32{5}, dst[:3])
			}
			u.Close()
		}
		k.Close()
		if driver.Allocations() != 0 {
			t.Fatalf("allocation %d: %d pieces are left", n, driver.Allocations())
		}
		if at > 0 {
			if err != nil {
				t.Fatal(err)
			}
			if n < 10 {
				t.Errorf("only %d allocations", n)
			}
			return
		}
		if !errors.Is(err, device.ErrMemory) {
			t.Fatalf("allocation %d: %v", n, err)
		}
	}
}

func ExampleKernel_Distances() {
	d, err := device.Open(sim.New(0, nil), Module)
	if err != nil {
		panic(err)
	}
	defer func() { _ = d.Close() }()
	// 0 -1-> 1 -1-> 2, and 0 -5-> 2
	g, err := Upload(d, Graph{Start: []uint32{0, 2, 3, 3}, To: []uint32{1, 2, 2}, Weight: []uint32{1, 5, 1}})
	if err != nil {
		panic(err)
	}
	defer g.Close()
	k := New(d)
	defer k.Close()
	dst := make([]uint64, 2*3)
	err = k.Distances(context.Background(), g, []Problem{{0, NoArc, NoArc}, {0, 2, NoArc}}, dst)
	fmt.Println(dst, err)
	// Output: [0 1 2 0 1 5] <nil>
}
