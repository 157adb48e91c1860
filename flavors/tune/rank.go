package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/ribwarp/ribwarp/flavors"
)

// A Choice is a list of strides and what is expected of its tree.
type Choice struct {
	Strides []int
	Flavor  flavors.Flavor
	Size    Size
	Ns      float64 // predicted nanoseconds a lookup
}

// A Predictor predicts for trees of one table by one Model. It remembers what it worked out: use it for many lists.
// It is not for concurrent use.
type Predictor struct {
	model *Model
	sh    *Shape
	est   *estimator
}

// On makes a predictor for a table.
func (m *Model) On(sh *Shape) *Predictor {
	return &Predictor{model: m, sh: sh, est: newEstimator(sh, &m.Machine)}
}

// Ns predicts the nanoseconds of a lookup in a tree of the strides.
func (p *Predictor) Ns(strides []int) float64 {
	return p.model.weigh(p.est.features(strides, p.model))
}

// weigh gives the weighted sum of features.
func (m *Model) weigh(features map[string]float64) (ns float64) {
	for name, value := range features {
		ns += value * m.Weights[name]
	}
	return ns
}

// Choice gives a list with its size and prediction.
func (p *Predictor) Choice(strides []int) Choice {
	return Choice{Strides: strides, Flavor: p.model.Flavor, Size: p.sh.Count(strides), Ns: p.Ns(strides)}
}

// How far Rank looks.
const (
	waysKept   = 8  // of each exact search
	priceSteps = 24 // of bytes
	climbs     = 4  // lists that it goes on from
	// even is up to which part more than the least a prediction is as good as it: no model is that exact, and
	// the smaller tree is the safer one.
	even = 0.01
)

// Rank gives lists of strides whose trees take at most budget bytes (0: any number): first the choice, the smallest of those
// that are predicted to take up to one percent longer than the least; then the others by predicted time, those
// that come next and smaller ones, each the fastest for its size. n bounds them.
//
// For given turnovers of the caches a prediction is a sum over the levels, so the exact search finds its
// least. The turnovers depend on the list: they are taken from some lists by hand and then from what the search
// found, until it finds nothing better, and from smaller trees. From the best lists Rank goes on by moving, taking away
// and adding single cuts.
func (p *Predictor) Rank(budget uint64, n int) []Choice {
	r := &ranking{p: p, budget: budget, seen: map[string]bool{}}
	for _, list := range Fixed(p.sh.Width) {
		r.search(p.around(list), false)
	}
	var starts [][]int
	for range 8 {
		best := r.best(1)
		if len(best) == 0 || !r.search(p.around(best[0].Strides), true) {
			break
		}
	}
	r.best(0) // in order
	for _, i := range r.fastest() {
		starts = append(starts, r.all[i].Strides)
	}
	for _, list := range starts { // trees of other sizes leave other parts of the caches
		r.search(p.around(list), false)
	}
	for _, c := range r.best(climbs) {
		r.climb(c)
	}
	return r.pick(n)
}

func (p *Predictor) around(strides []int) around {
	in := p.est.around(strides, p.model.Shares)
	f := p.est.features(strides, p.model)
	in.memory = f[featureSlower] > f[missOf(0)]/p.model.Balance
	return in
}

// ranking is a search under way.
type ranking struct {
	p      *Predictor
	budget uint64
	seen   map[string]bool
	all    []Choice
	least  float64 // prediction; 0 before there is any
}

// add takes a list; ok tells that it is new and within the budget.
func (r *ranking) add(list []int) (c Choice, ok bool) {
	key := flavors.FormatStrides(list)
	if r.seen[key] {
		return c, false
	}
	r.seen[key] = true
	if size := r.p.sh.Count(list); r.budget > 0 && size.Bytes > r.budget {
		return c, false
	}
	c = r.p.Choice(list)
	r.all = append(r.all, c)
	if r.least == 0 || c.Ns < r.least {
		r.least = c.Ns
	}
	return c, true
}

func byNs(a, b Choice) int {
	return cmp.Or(cmp.Compare(a.Ns, b.Ns), cmp.Compare(a.Size.Bytes, b.Size.Bytes))
}

// best gives the k best so far.
func (r *ranking) best(k int) []Choice {
	slices.SortFunc(r.all, byNs)
	return slices.Clone(r.all[:min(k, len(r.all))])
}

// search adds the lists with the least predictions, given what is around their levels, and tells whether one is the best so
// far. sizes has it look for smaller ones too.
func (r *ranking) search(in around, sizes bool) (better bool) {
	sh, before := r.p.sh, r.least
	g := sh.graph(func(d, n int) float64 { return r.p.cost(d, n, in) })
	for _, w := range g.cheapest(0, waysKept) {
		r.add(w.list(sh.Width))
	}
	if list := g.within(g.room(r.budget)); list != nil {
		r.add(list)
	}
	if sizes { // from a byte worth nothing to one worth so much that only bytes count
		for i := range priceSteps {
			price := g.leastCost[0] / float64(g.leastBytes[0]+1) * math.Pow(10, float64(i)/4-4.5)
			for _, w := range g.cheapest(price, 2) {
				r.add(w.list(sh.Width))
			}
		}
	}
	return r.least < before || before == 0 && r.least > 0
}

// cost is what a level adds to a prediction, given what is around it.
func (p *Predictor) cost(d, n int, in around) (ns float64) {
	m := p.model
	for _, x := range p.est.step(d, n).named() {
		ns += x.value * m.Weights[x.name]
	}
	missed := p.est.misses(p.est.level(d, n), in, m.Shares)
	for i := range m.Machine.Caches {
		ns += missed[i] * m.Weights[missOf(i)]
		if m.Machine.Engine == EngineCPU {
			ns += stall(missed[i], m.Window) * m.Weights[stallOf(i)]
		}
	}
	switch {
	case m.Machine.Engine != EngineCUDA:
	case in.memory:
		ns += missed[1] * m.Weights[featureSlower]
	default:
		ns += missed[0] / m.Balance * m.Weights[featureSlower]
	}
	return ns
}

// climb goes from a list to ever better ones.
func (r *ranking) climb(c Choice) {
	for range 32 {
		best := c
		for _, list := range neighbours(c.Strides, r.p.sh) {
			if next, ok := r.add(list); ok && next.Ns < best.Ns {
				best = next
			}
		}
		if best.Ns == c.Ns {
			return
		}
		c = best
	}
}

// neighbours are the lists with one cut moved, taken away or added.
func neighbours(list []int, sh *Shape) (all [][]int) {
	var cuts []int // where levels with nodes begin and end
	at := 0
	for _, n := range list {
		if at >= max(sh.Longest, 1) {
			break
		}
		at += n
		cuts = append(cuts, at)
	}
	use := func(cuts []int) {
		at := 0
		var list []int
		for _, c := range cuts {
			if n := c - at; n < 1 || n > maxStride {
				return
			}
			list, at = append(list, c-at), c
		}
		if at >= sh.Longest && at <= sh.Width {
			all = append(all, Complete(sh.Width, list))
		}
	}
	for i, c := range cuts {
		for _, by := range []int{-2, -1, 1, 2} {
			moved := slices.Clone(cuts)
			moved[i] = c + by
			use(moved)
		}
		use(slices.Delete(slices.Clone(cuts), i, i+1))
	}
	for c := 1; c < at; c++ {
		if i, found := slices.BinarySearch(cuts, c); !found {
			use(slices.Insert(slices.Clone(cuts), i, c))
		}
	}
	return all
}

// fastest gives for each doubling of bytes the first of those that small, each once.
func (r *ranking) fastest() (at []int) {
	for bytes := uint64(1 << 8); bytes != 0; bytes *= 2 {
		if i := slices.IndexFunc(r.all, func(c Choice) bool { return c.Size.Bytes <= bytes }); i >= 0 && !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	return at
}

// pick gives n choices, the best first: for each doubling of bytes the best of those that small, then the best of
// all.
func (r *ranking) pick(n int) []Choice {
	slices.SortFunc(r.all, byNs)
	first := 0
	for i, c := range r.all {
		if c.Ns <= r.least*(1+even) && c.Size.Bytes < r.all[first].Size.Bytes {
			first = i
		}
	}
	for ; first > 0; first-- {
		r.all[first], r.all[first-1] = r.all[first-1], r.all[first]
	}
	taken := map[int]bool{}
	for _, i := range r.fastest() {
		if len(taken) < n/2 {
			taken[i] = true
		}
	}
	for i := range r.all {
		if len(taken) < n {
			taken[i] = true
		}
	}
	var some []Choice
	for i, c := range r.all {
		if taken[i] || i == 0 {
			some = append(some, c)
		}
	}
	return some[:min(max(n, 1), len(some))]
}
