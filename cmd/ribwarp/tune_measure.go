package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/flavors/tune"
)

// mostMeasured is the largest tree that is measured where the budget is any number of bytes.
const mostMeasured = 2 << 30

// leastVarious is how many lists of all kinds are measured at least, for a model to be fitted to.
const leastVarious = 10

// measurable tells whether a tree is to be measured: also one by hand that is somewhat over the budget.
func (t *tuning) measurable(bytes uint64) bool {
	if t.budget == 0 {
		return bytes <= mostMeasured
	}
	return bytes <= 2*t.budget
}

// meter makes what measures a family's trees of a flavor.
func (t *tuning) meter(f *tuneFamily, flavor flavors.Flavor) tune.Meter {
	n := tuneKeysCPU
	if t.device != nil {
		n = tuneKeysGPU
	}
	if flavor == flavors.List {
		n /= 16 // it is about that much slower
	}
	keys := f.keys.Draw(f.width, f.sorted, n, t.o.seed)
	if t.device == nil {
		return tune.NewCPUMeter(f.width, f.sorted, flavor, keys)
	}
	least := tune.GPUKeys
	if flavor == flavors.List {
		least /= 16
	}
	return tune.NewGPUMeter(t.device, f.width, f.sorted, flavor, keys, least)
}

// measure looks addresses up in the trees of the rankings, and of lists of all kinds if various is set. Rounds go
// through all lists in turn, so that what disturbs a while disturbs no list alone.
func (t *tuning) measure(ctx context.Context, various bool) error {
	for _, f := range t.families {
		for _, flavor := range t.flavors() {
			lists := map[string][]int{}
			take := func(list []int) {
				key := measuredKey(string(flavor), list)
				if _, done := f.ns[key]; !done && t.measurable(f.shape.Count(list).Bytes) {
					lists[key] = list
				}
			}
			for _, l := range f.Lists {
				if l.Flavor == string(flavor) {
					take(l.Strides)
				}
			}
			if various {
				for _, list := range f.shape.Various(max(t.o.lists, leastVarious), min(t.budget-1, mostMeasured-1)+1, t.o.seed) {
					take(list)
				}
			}
			meter := t.meter(f, flavor)
			bar := t.app.newProgress(fmt.Sprintf("measuring %d lists for %s", len(lists), f.Family))
			done := 0
			order, rng := sortedKeys(lists), rand.New(rand.NewPCG(t.o.seed, 1))
			for range t.o.rounds {
				// Where in memory a tree comes to lie depends on those before it, and what a read costs on that.
				rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
				for _, key := range order {
					if err := ctx.Err(); err != nil {
						return fmt.Errorf("measure %s: %w", f.Family, err)
					}
					ns, err := meter.Time(lists[key])
					if err != nil {
						return fmt.Errorf("measure %s, strides %s: %w", f.Family, flavors.FormatStrides(lists[key]), err)
					}
					if before, ok := f.ns[key]; ok {
						ns = min(ns, before)
					}
					f.ns[key] = ns
					done++
					bar.set(int64(done), int64(len(lists)*t.o.rounds))
				}
			}
			bar.finish()
		}
	}
	return nil
}

// measuredKey is where a family keeps what was measured of a list.
func measuredKey(flavor string, strides []int) string {
	return flavor + " " + flavors.FormatStrides(strides)
}

// fit makes models of what was measured, which count from now on, and saves them.
func (t *tuning) fit() error {
	for _, f := range t.families {
		for _, flavor := range t.flavors() {
			var all []tune.Measured
			for _, list := range f.measuredLists(flavor) {
				all = append(all, tune.Measured{Shape: f.shape, Strides: list, Ns: f.ns[measuredKey(string(flavor), list)]})
			}
			model, err := tune.Fit(t.machine, flavor, all)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Family, err)
			}
			t.app.log.Info("model fitted", "processor", t.machine.Processor, "family", f.Family, "flavor", flavor, "trees", model.Trees, "error", math.Round(1000*model.Error)/1000)
			t.models = append(tune.Models{model}, t.models...)
			if t.o.model != "" {
				if err := tune.Save(t.o.model, model); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measuredLists are the lists that were measured in a flavor.
func (f *tuneFamily) measuredLists(flavor flavors.Flavor) (lists [][]int) {
	for _, key := range sortedKeys(f.ns) {
		var text string
		if n, _ := fmt.Sscanf(key, string(flavor)+" %s", &text); n == 1 {
			list, _ := flavors.ParseStrides(text) // it was written by FormatStrides
			lists = append(lists, list)
		}
	}
	return lists
}

// settle puts what was measured into the ranking.
func (t *tuning) settle(f *tuneFamily) {
	for _, flavor := range t.flavors() {
		model, _ := t.models.For(t.machine, flavor, f.width)
		p := model.On(f.shape)
		for _, list := range f.measuredLists(flavor) {
			f.list(p.Choice(list))
		}
	}
	var predicted, measured []float64
	for i := range f.Lists {
		l := &f.Lists[i]
		if ns, ok := f.ns[measuredKey(l.Flavor, l.Strides)]; ok {
			rate := 1e9 / ns
			l.Measured = &rate
			predicted, measured = append(predicted, l.Predicted), append(measured, rate)
		}
	}
	if len(measured) > 2 {
		c := tune.RankCorrelation(predicted, measured)
		f.Correlation = &c
	}
	t.choose(f)
}
