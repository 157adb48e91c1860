package tune

import (
	"cmp"
	"math"
	"slices"
)

// An Objective is what an exact search makes least: a weighted sum over the levels of a tree.
type Objective struct {
	Byte   float64 // of the tree, as Size counts them
	Gather float64 // a cell that a lookup reads
	Level  float64 // a level with nodes
}

// Search gives the list of strides with the least objective among all whose trees take at most the given
// bytes (0: any number), exactly: by dynamic programming over the bits at which levels begin. Where lists are
// equal the one with fewer bytes counts. nil where no list takes so few.
//
// Levels behind the longest mask have no nodes and cost nothing: see Complete.
func (sh *Shape) Search(o Objective, budget uint64) []int {
	cost := func(d, n int) float64 {
		return o.Byte*float64(levelBytes(sh.Nodes[d], n)) + o.Gather*sh.Visits[d] + o.Level
	}
	g := sh.graph(cost)
	return g.within(g.room(budget))
}

// graph is all lists of strides of a shape: from bit to bit, a stride each, up to the first bit behind the longest
// mask or one further on.
type graph struct {
	sh   *Shape
	end  int         // levels begin below this
	cost [][]float64 // by first bit and stride - 1
	size [][]uint64
	// The least cost and bytes from a bit on.
	leastCost  []float64
	leastBytes []uint64
}

func (sh *Shape) graph(cost func(d, n int) float64) *graph {
	g := &graph{sh: sh, end: max(sh.Longest, 1)}
	g.cost, g.size = make([][]float64, g.end), make([][]uint64, g.end)
	g.leastCost, g.leastBytes = make([]float64, sh.Width+1), make([]uint64, sh.Width+1)
	for d := g.end - 1; d >= 0; d-- {
		g.leastCost[d], g.leastBytes[d] = math.Inf(1), math.MaxUint64
		for n := 1; n <= min(maxStride, sh.Width-d); n++ {
			c, b := cost(d, n), levelBytes(sh.Nodes[d], n)
			if uint64(sh.Nodes[d])<<n > maxCells {
				break
			}
			g.cost[d], g.size[d] = append(g.cost[d], c), append(g.size[d], b)
			g.leastCost[d] = min(g.leastCost[d], c+g.leastCost[d+n])
			g.leastBytes[d] = min(g.leastBytes[d], b+g.leastBytes[d+n])
		}
	}
	return g
}

// room is what levels may take where a tree may take budget bytes.
func (g *graph) room(budget uint64) uint64 {
	if budget == 0 {
		return math.MaxUint64
	}
	return budget - min(budget, g.sh.entryBytes())
}

// A way leads from the root to the bit it is kept for.
type way struct {
	cost  float64
	bytes uint64
	from  *way
	n     int // the last stride
}

// list gives the strides of a way.
func (w *way) list(width int) []int {
	var list []int
	for ; w.from != nil; w = w.from {
		list = append(list, w.n)
	}
	slices.Reverse(list)
	return Complete(width, list)
}

func byCost(a, b *way) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.bytes, b.bytes))
}

// within gives the best way that takes no more bytes than there is room for. At each bit it keeps the ways that no
// other one beats in both cost and bytes, but those from which no way leads into the room, or to less
// than is known to be possible.
func (g *graph) within(room uint64) []int {
	if g.leastBytes[0] > room {
		return nil
	}
	known := g.affordable(room)
	ways := make([][]*way, g.sh.Width+1)
	ways[0] = []*way{{}}
	var best *way
	for d := 0; d <= g.sh.Width; d++ {
		all := ways[d]
		slices.SortFunc(all, byCost)
		fewest := uint64(math.MaxUint64)
		for _, w := range all {
			if w.bytes >= fewest {
				continue
			}
			fewest = w.bytes
			if d >= g.end {
				if best == nil || byCost(w, best) < 0 {
					best = w
				}
				continue
			}
			for i, c := range g.cost[d] {
				to := d + i + 1
				next := &way{cost: w.cost + c, bytes: w.bytes + g.size[d][i], from: w, n: i + 1}
				if next.bytes+g.leastBytes[to] <= room && next.cost+g.leastCost[to] <= known {
					ways[to] = append(ways[to], next)
				}
			}
		}
		ways[d] = nil
	}
	return best.list(g.sh.Width)
}

// affordable gives a cost that some way has for which there is room: bytes get a price, which rises until
// the best way fits.
func (g *graph) affordable(room uint64) float64 {
	known := math.Inf(1)
	for _, w := range g.cheapest(0, 1) {
		if w.bytes <= room {
			return w.cost * (1 + 1e-12)
		}
	}
	low, high := 0.0, 1e-12
	for range 200 {
		price := high
		if low > 0 {
			price = math.Sqrt(low * high)
		}
		w := g.cheapest(price, 1)[0]
		if w.bytes <= room {
			known = min(known, w.cost)
			high = price
			if low == 0 || high/low < 1.001 {
				break
			}
			continue
		}
		if low = price; high == price {
			high *= 4
		}
	}
	return known * (1 + 1e-12)
}

// cheapest gives up to k ways with the least cost where each byte has a price besides, the best first. Their
// cost is without it.
func (g *graph) cheapest(price float64, k int) []*way {
	ways := make([][]*way, g.sh.Width+1)
	ways[0] = []*way{{}}
	order := func(a, b *way) int {
		return cmp.Or(cmp.Compare(a.cost+price*float64(a.bytes), b.cost+price*float64(b.bytes)), cmp.Compare(a.bytes, b.bytes))
	}
	var ends []*way
	for d := 0; d <= g.sh.Width; d++ {
		all := ways[d]
		slices.SortFunc(all, order)
		all = all[:min(k, len(all))]
		if d >= g.end {
			ends = append(ends, all...)
			continue
		}
		for _, w := range all {
			for i, c := range g.cost[d] {
				to := d + i + 1
				ways[to] = append(ways[to], &way{cost: w.cost + c, bytes: w.bytes + g.size[d][i], from: w, n: i + 1})
			}
		}
	}
	slices.SortFunc(ends, order)
	return ends[:min(k, len(ends))]
}
