package heap

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
)

// Graphs for tests and benchmarks, and Dijkstra's algorithm to compare with.

type link struct {
	from, to, weight uint32
}

// graphOf makes a graph of links, one arc each.
func graphOf(n int, links []link) Graph {
	slices.SortStableFunc(links, func(a, b link) int { return int(a.from) - int(b.from) })
	g := Graph{Start: make([]uint32, n+1)}
	for _, l := range links {
		g.Start[l.from+1]++
		g.To, g.Weight = append(g.To, l.to), append(g.Weight, l.weight)
	}
	for i := range n {
		g.Start[i+1] += g.Start[i]
	}
	return g
}

// randomGraph is connected, by links that have both directions and one weight.
func randomGraph(r *rand.Rand, n, links int, most uint32) Graph {
	all := make([]link, 0, 2*links)
	add := func(a, b int) {
		w := 1 + r.Uint32N(most)
		all = append(all, link{uint32(a), uint32(b), w}, link{uint32(b), uint32(a), w})
	}
	for i := 1; i < n; i++ {
		add(i, r.IntN(i))
	}
	for len(all) < 2*links {
		add(r.IntN(n), r.IntN(n))
	}
	return graphOf(n, all)
}

// mesh is a grid: nodes have few neighbours and are far from each other.
func mesh(r *rand.Rand, width, height int, most uint32) Graph {
	var all []link
	add := func(a, b int) {
		w := 1 + r.Uint32N(most)
		all = append(all, link{uint32(a), uint32(b), w}, link{uint32(b), uint32(a), w})
	}
	for y := range height {
		for x := range width {
			if x+1 < width {
				add(y*width+x, y*width+x+1)
			}
			if y+1 < height {
				add(y*width+x, (y+1)*width+x)
			}
		}
	}
	return graphOf(width*height, all)
}

// backbones are the files of real topologies.
var backbones = []string{"rf1221", "rf1239", "rf1755", "rf3257", "rf3967", "rf6461"}

// backbone reads a real topology. It skips where there is none.
func backbone(tb testing.TB, name string) Graph {
	tb.Helper()
	f, err := os.Open(fixtures.DataFile(tb, "igp/rocketfuel/"+name+"_real_hard.graph"))
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var links []link
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var label string
		var l link
		if _, err := fmt.Sscanf(lines.Text(), "NODES %d", &n); err == nil {
			continue
		}
		var width float64
		if k, _ := fmt.Sscan(lines.Text(), &label, &l.from, &l.to, &l.weight, &width); k == 5 {
			links = append(links, l)
		}
	}
	if n == 0 || len(links) == 0 {
		tb.Fatalf("%s: %d nodes, %d links", name, n, len(links))
	}
	return graphOf(n, links)
}

// dijkstra is Dijkstra's algorithm with a heap of 4 children a node, on one processor. Where distances and nodes fit in one word it
// compares words. It keeps its memory.
type dijkstra struct {
	g     Graph
	bits  int
	words []uint64
	pairs []pair
	dist  []uint64
}

func newDijkstra(g Graph) *dijkstra {
	d := &dijkstra{g: g, bits: nodeBits(g.Nodes()), dist: make([]uint64, g.Nodes())}
	if formFor(g.Nodes(), g.farthest()) == wide {
		d.bits = -1
	}
	return d
}

func (d *dijkstra) solve(p Problem) []uint64 {
	for i := range d.dist {
		d.dist[i] = Unreachable
	}
	d.dist[p.Root] = 0
	if d.bits < 0 {
		d.solvePairs(p)
	} else {
		d.solveWords(p)
	}
	return d.dist
}

func (d *dijkstra) closed(u uint32, p Problem) bool {
	return d.g.NoTransit != nil && u != p.Root && d.g.NoTransit[u/32]>>(u%32)&1 != 0
}

func (d *dijkstra) solveWords(p Problem) {
	h, bits, mask := append(d.words[:0], uint64(p.Root)), d.bits, uint64(1)<<d.bits-1
	start, to, weight, dist := d.g.Start, d.g.To, d.g.Weight, d.dist
	for len(h) > 0 {
		least := h[0]
		last := len(h) - 1
		x := h[last]
		h = h[:last]
		for i := 0; last > 0; {
			c := 4*i + 1
			if c >= last {
				h[i] = x
				break
			}
			best := c
			for k := c + 1; k < min(c+4, last); k++ {
				if h[k] < h[best] {
					best = k
				}
			}
			if h[best] >= x {
				h[i] = x
				break
			}
			h[i] = h[best]
			i = best
		}
		u, du := uint32(least&mask), least>>bits
		if dist[u] != du || d.closed(u, p) {
			continue
		}
		for a := start[u]; a < start[u+1]; a++ {
			if a == p.Skip || a == p.Skip2 {
				continue
			}
			v := to[a]
			if dv := du + uint64(weight[a]); dv < dist[v] {
				dist[v] = dv
				x := dv<<bits | uint64(v)
				i := len(h)
				h = append(h, x)
				for i > 0 {
					q := (i - 1) / 4
					if h[q] <= x {
						break
					}
					h[i] = h[q]
					i = q
				}
				h[i] = x
			}
		}
	}
	d.words = h
}

// solvePairs looks for the least of all each time: for small graphs only.
func (d *dijkstra) solvePairs(p Problem) {
	h := append(d.pairs[:0], pair{0, p.Root})
	for len(h) > 0 {
		at := 0
		for i := range h {
			if h[i].less(h[at]) {
				at = i
			}
		}
		e := h[at]
		h[at] = h[len(h)-1]
		h = h[:len(h)-1]
		if d.dist[e.node] != e.dist || d.closed(e.node, p) {
			continue
		}
		for a := d.g.Start[e.node]; a < d.g.Start[e.node+1]; a++ {
			if a == p.Skip || a == p.Skip2 {
				continue
			}
			if to := (pair{e.dist + uint64(d.g.Weight[a]), d.g.To[a]}); to.dist < d.dist[to.node] {
				d.dist[to.node] = to.dist
				h = append(h, to)
			}
		}
	}
	d.pairs = h
}

// allRoots are the problems of all nodes of a graph, or of so many spread over it.
func allRoots(g Graph, n int) []Problem {
	problems := make([]Problem, n)
	for i := range problems {
		problems[i] = Problem{Root: uint32(i * g.Nodes() / n), Skip: NoArc, Skip2: NoArc}
	}
	return problems
}

// opposites gives the number of an arc of the other direction for each arc, NoArc where there is none.
func opposites(g Graph) []uint32 {
	of := make([]uint32, len(g.To))
	for u := range g.Nodes() {
		for a := g.Start[u]; a < g.Start[u+1]; a++ {
			of[a] = NoArc
			for b := g.Start[g.To[a]]; b < g.Start[g.To[a]+1]; b++ {
				if g.To[b] == uint32(u) && g.Weight[b] == g.Weight[a] {
					of[a] = b
				}
			}
		}
	}
	return of
}

// Both forms of the oracle against sweeps over all arcs until nothing changes.
func TestOracle(t *testing.T) {
	r := random(t)
	for range 200 {
		g := oddGraph(r, 2+r.IntN(40))
		p := oddProblem(r, g)
		want := make([]uint64, g.Nodes())
		for i := range want {
			want[i] = Unreachable
		}
		want[p.Root] = 0
		d := newDijkstra(g)
		for changed := true; changed; {
			changed = false
			for u := range uint32(g.Nodes()) {
				for a := g.Start[u]; a < g.Start[u+1] && want[u] != Unreachable && !d.closed(u, p); a++ {
					if dv := want[u] + uint64(g.Weight[a]); a != p.Skip && a != p.Skip2 && dv < want[g.To[a]] {
						want[g.To[a]], changed = dv, true
					}
				}
			}
		}
		for _, bits := range []int{-1, nodeBits(g.Nodes())} {
			d.bits = bits
			if got := d.solve(p); !slices.Equal(got, want) {
				t.Fatalf("%d bits: got %v\nwant %v", bits, got, want)
			}
		}
	}
}

// oddGraph is a graph with some of all that graphs may have: weights that are equal, zero or huge, parallel arcs, loops, parts that
// are not connected, nodes with no arcs or with arcs to all others, no transit.
func oddGraph(r *rand.Rand, n int) Graph {
	weights := []func() uint32{
		func() uint32 { return 0 },
		func() uint32 { return 7 },
		func() uint32 { return r.Uint32N(3) },
		func() uint32 { return r.Uint32N(1 << 16) },
		r.Uint32,
		func() uint32 { return math.MaxUint32 - r.Uint32N(2) },
	}
	weight := weights[r.IntN(len(weights))]
	parts := 1 + r.IntN(3)
	if parts == 3 {
		parts = 1 + n/50 // lonely ones
	}
	var all []link
	for range r.IntN(6 * n) {
		a := r.Uint32N(uint32(n))
		b := r.Uint32N(uint32(n))
		if b = b/uint32(parts)*uint32(parts) + a%uint32(parts); int(b) < n { // of the same part
			all = append(all, link{a, b, weight()})
			if r.IntN(2) == 0 {
				all = append(all, link{b, a, weight()})
			}
			if r.IntN(20) == 0 {
				all = append(all, link{a, b, weight()})
			}
		}
	}
	switch r.IntN(4) {
	case 0: // a hub
		hub := r.Uint32N(uint32(n))
		for v := range uint32(n) {
			all = append(all, link{hub, v, weight()}, link{v, hub, weight()})
		}
	case 1: // a chain
		for v := range uint32(n - 1) {
			all = append(all, link{v, v + 1, weight()})
		}
	}
	g := graphOf(n, all)
	if r.IntN(2) == 0 {
		g.NoTransit = make([]uint32, (n+31)/32)
		for range r.IntN(1 + n/4) {
			v := r.IntN(n)
			g.NoTransit[v/32] |= 1 << (v % 32)
		}
	}
	return g
}

// oddProblem leaves none, one or two arcs out.
func oddProblem(r *rand.Rand, g Graph) Problem {
	p := Problem{Root: r.Uint32N(uint32(g.Nodes())), Skip: NoArc, Skip2: NoArc}
	if m := len(g.To); m > 0 && r.IntN(2) == 0 {
		p.Skip = r.Uint32N(uint32(m))
		if r.IntN(2) == 0 {
			p.Skip2 = r.Uint32N(uint32(m))
		}
	}
	return p
}
