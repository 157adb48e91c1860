package tune

import (
	"math"
	"math/rand/v2"
	"testing"
)

// allLists calls use with every list of strides that sum to width.
func allLists(width int, list []int, use func([]int)) {
	if width == 0 {
		use(list)
		return
	}
	for n := 1; n <= width; n++ {
		allLists(width-n, append(list, n), use)
	}
}

// objective is what a list costs, from its definition.
func (o Objective) of(sh *Shape, list []int) float64 {
	c, at := o.Byte*float64(sh.Count(list).Bytes-sh.entryBytes()), 0
	for _, n := range list {
		if at < max(sh.Longest, 1) {
			c += o.Gather*sh.Visits[at] + o.Level
		}
		at += n
	}
	return c
}

// The search finds what trying all lists finds.
func TestSearchIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	for range 600 {
		width := 1 + r.IntN(10)
		keys := InPrefix
		if r.IntN(2) == 0 {
			keys = Uniform
		}
		sh := ShapeOf(width, randomTable(r, width, r.IntN(1+r.IntN(200))).sorted(), keys)
		o := []Objective{{Byte: 1}, {Gather: 1}, {Level: 1}, {Byte: r.Float64() / 1000, Gather: r.Float64()}, {Gather: r.Float64(), Level: r.Float64() / 10}}[r.IntN(5)]
		fewest := uint64(math.MaxUint64)
		allLists(width, nil, func(list []int) { fewest = min(fewest, sh.Count(list).Bytes) })
		budget := uint64(0)
		if r.IntN(3) > 0 {
			levels := float64(fewest - sh.entryBytes())
			budget = sh.entryBytes() + uint64(levels*(0.9+3*r.Float64()))
		}
		least := math.Inf(1)
		allLists(width, nil, func(list []int) {
			if budget == 0 || sh.Count(list).Bytes <= budget {
				least = min(least, o.of(sh, list))
			}
		})
		got := sh.Search(o, budget)
		if got == nil {
			if budget == 0 || budget >= fewest {
				t.Fatalf("%d bits, %+v, budget %d: nothing found; the smallest tree takes %d", width, o, budget, fewest)
			}
			continue
		}
		if budget > 0 && sh.Count(got).Bytes > budget {
			t.Fatalf("%d bits, %+v: %v takes %d bytes, the budget is %d", width, o, got, sh.Count(got).Bytes, budget)
		}
		if c := o.of(sh, got); c > least*(1+1e-9)+1e-12 {
			t.Fatalf("%d bits, %+v, budget %d: found %v with %v, the least is %v", width, o, budget, got, c, least)
		}
	}
}

// It does so whatever the levels cost.
func TestSearchOfAnyCostIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 5))
	for range 300 {
		width := 2 + r.IntN(9)
		sh := ShapeOf(width, randomTable(r, width, r.IntN(200)).sorted(), InPrefix)
		costs := map[[2]int]float64{}
		g := sh.graph(func(d, n int) float64 {
			costs[[2]int{d, n}] = r.Float64() / float64(1+n)
			return costs[[2]int{d, n}]
		})
		cost := func(list []int) (c float64) {
			at := 0
			for _, n := range list {
				c, at = c+costs[[2]int{at, n}], at+n
			}
			return c
		}
		room := g.leastBytes[0] + uint64(float64(g.leastBytes[0])*r.Float64())
		least := math.Inf(1)
		allLists(width, nil, func(list []int) {
			if sh.Count(list).Bytes-sh.entryBytes() <= room {
				least = min(least, cost(list))
			}
		})
		if got := g.within(room); math.Abs(cost(got)-least) > 1e-9 || sh.Count(got).Bytes-sh.entryBytes() > room {
			t.Fatalf("%d bits, room for %d bytes: found %v with %v, the least is %v", width, room, got, cost(got), least)
		}
	}
}
