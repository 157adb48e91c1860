package tune

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
)

// measurement is a tree of docs/benchmarks/tune-*.tsv with its times.
type measurement struct {
	table, keys string
	width       int
	flavor      flavors.Flavor
	strides     []int
	ns          []float64 // by round
}

// readMeasurements reads what BenchmarkCPUStrides or BenchmarkGPUStrides printed.
func readMeasurements(tb testing.TB, path string) (m Machine, all []*measurement) {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	seen := map[string]*measurement{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "# machine\t"); ok {
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				tb.Fatalf("%s line %d: %v", path, n, err)
			}
		}
		field := strings.Split(line, "\t")
		if strings.HasPrefix(line, "#") || len(field) != 7 {
			continue // what the test binary says besides
		}
		key := strings.Join(append(field[:4:4], field[5]), "\t")
		x := seen[key]
		if x == nil {
			x = &measurement{table: field[0], keys: field[3], flavor: flavors.Flavor(field[2])}
			x.width, err = strconv.Atoi(field[1])
			if err != nil {
				tb.Fatalf("%s line %d: %v", path, n, err)
			}
			if x.strides, err = flavors.ParseStrides(field[5]); err != nil {
				tb.Fatalf("%s line %d: %v", path, n, err)
			}
			seen[key] = x
			all = append(all, x)
		}
		ns, err := strconv.ParseFloat(field[6], 64)
		if err != nil {
			tb.Fatalf("%s line %d: %v", path, n, err)
		}
		x.ns = append(x.ns, ns)
	}
	if err := lines.Err(); err != nil || m.Engine == "" || len(all) == 0 {
		tb.Fatalf("%s: error %v, machine %+v, %d trees", path, err, m, len(all))
	}
	return m, all
}

// fitted are the tables whose measurements models are fitted to; the others are held out.
var fitted = []string{"real", "generated"}

// Of the real tables' lists only every other one is fitted to: with the rest the model is tried.
func heldOutList(i int) bool { return i%2 == 1 }

// fitRaw fits models of both flavors to a file of measurements, and logs how they order what they were not fitted
// to.
func fitRaw(t *testing.T, path string) (models Models) {
	m, all := readMeasurements(t, path)
	for _, kind := range []struct {
		flavor flavors.Flavor
		width  int
	}{{flavors.Pushed, 32}, {flavors.Pushed, 128}, {flavors.List, 32}, {flavors.List, 128}} {
		flavor := kind.flavor
		var measured []Measured
		trial := map[string][]Measured{}
		place := map[string]int{}
		for _, x := range all {
			if x.flavor != flavor || x.width != kind.width {
				continue
			}
			key := fmt.Sprintf("%s, %d bits, %s keys", x.table, x.width, x.keys)
			one := Measured{measuredShape(t, x), x.strides, slices.Min(x.ns)}
			i := place[key]
			place[key]++
			switch {
			case !slices.Contains(fitted, x.table):
				trial[key] = append(trial[key], one)
			case x.width == 128 && x.keys == "uniform": // hardly one has a route: no traffic is like that
				trial[key] = append(trial[key], one)
			case x.table == "real" && flavor == flavors.Pushed && heldOutList(i):
				trial[key] = append(trial[key], one)
			default:
				measured = append(measured, one)
			}
		}
		model, err := Fit(m, flavor, measured)
		if err != nil {
			t.Fatalf("%s, flavor %s, %d bits: %v", path, flavor, kind.width, err)
		}
		models = append(models, model)
		t.Logf("%s %s, flavor %s, %d bits: fitted to %d trees with an error of %.3f", m.Engine, m.Processor, flavor, kind.width, model.Trees, model.Error)
		for key, xs := range trial {
			p := model.On(xs[0].Shape)
			var predicted, times []float64
			rms := 0.0
			for _, x := range xs {
				ns := p.Ns(x.Strides)
				predicted, times = append(predicted, ns), append(times, x.Ns)
				rms += math.Pow(ns/x.Ns-1, 2)
			}
			rank := RankCorrelation(predicted, times)
			t.Logf("  %s: %d trees it was not fitted to, rank correlation %.3f, error %.3f", key, len(xs), rank, math.Sqrt(rms/float64(len(xs))))
			if strings.HasPrefix(key, "real") && strings.HasSuffix(key, "in-prefix keys") && rank < 0.9 {
				t.Errorf("%s %s, %s: rank correlation %.3f with the held-out half of the real table's lists, want 0.9", m.Engine, m.Processor, key, rank)
			}
		}
	}
	return models
}

// measuredShape gives the shape of a measured table, which is made once.
func measuredShape(t *testing.T, x *measurement) *Shape {
	if measuredShapes == nil {
		measuredShapes = map[string]*Shape{}
		for _, tab := range measuredTables(t) {
			s := tab.sorted()
			for kind, keys := range benchKeys {
				measuredShapes[fmt.Sprint(tab.name, kind, tab.width)] = ShapeOf(tab.width, s, keys)
			}
		}
	}
	sh := measuredShapes[fmt.Sprint(x.table, x.keys, x.width)]
	if sh == nil {
		t.Fatalf("measurements of a table %q with %s keys of %d bits, which is not known", x.table, x.keys, x.width)
	}
	return sh
}

var measuredShapes map[string]*Shape

// The shipped models are those that the raw measurements give, and they order what they were not fitted to as the
// measurements do. UPDATE_MODELS=1 writes models.json anew; TUNE_RAW fits to that file alone, and with TUNE_MODEL
// saves the models there.
func TestShippedModels(t *testing.T) {
	if path := os.Getenv("TUNE_RAW"); path != "" {
		models := fitRaw(t, path)
		if to := os.Getenv("TUNE_MODEL"); to != "" {
			if err := Save(to, models...); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	if _, err := os.Stat("../../go.mod"); err != nil {
		t.Skip("raw measurements are in docs/benchmarks, which a bundle of tests is without")
	}
	paths, err := filepath.Glob("../../docs/benchmarks/tune-*.tsv")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no raw measurements: %v", err)
	}
	var models Models
	for _, path := range paths {
		models = append(models, fitRaw(t, path)...)
	}
	if os.Getenv("UPDATE_MODELS") != "" {
		_ = os.Remove("models.json")
		if err := Save("models.json", models...); err != nil {
			t.Fatal(err)
		}
		return
	}
	shipped := Shipped()
	if len(shipped) != len(models) {
		t.Fatalf("%d models are shipped, the measurements give %d: run with UPDATE_MODELS=1", len(shipped), len(models))
	}
	for i, m := range models {
		s := shipped[i]
		if fmt.Sprint(s.Machine, s.Flavor, s.Width, s.Shares, s.Window, s.Trees) != fmt.Sprint(m.Machine, m.Flavor, m.Width, m.Shares, m.Window, m.Trees) {
			t.Errorf("model %d is of %v, the measurements give one of %v: run with UPDATE_MODELS=1", i, s.Machine, m.Machine)
		}
		for name, w := range m.Weights {
			if math.Abs(s.Weights[name]-w) > 1e-6*(1+w) {
				t.Errorf("model %d, weight %q is %v, the measurements give %v: run with UPDATE_MODELS=1", i, name, s.Weights[name], w)
			}
		}
	}
}

// A fit finds the weights that measurements were made by, and predicts others.
func TestFitFindsTheWeights(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 6))
	m := Machine{Engine: EngineCPU, Processor: "test", Wide: true, Group: 8, Block: 256, Caches: []Cache{{48 << 10, lineCPU}, {1 << 20, lineCPU}}}
	var both []Measured
	for _, tab := range generated(seed, 30_000, 20_000) {
		truth := &Model{Machine: m, Flavor: flavors.Pushed, Width: tab.width, Shares: []float64{0.5, 0.25}, Window: 32, Weights: map[string]float64{
			featureKey: 2, featureRead: 1.5, featureLevel: 0.3, featureGroup: 0.1, missOf(0): 1, stallOf(1): 2, missOf(1): 4,
		}}
		sh := ShapeOf(tab.width, tab.sorted(), InPrefix)
		p := truth.On(sh)
		var measured, others []Measured
		for i, list := range sh.Various(80, 64<<20, seed) {
			x := Measured{sh, list, p.Ns(list) * (1 + 0.02*r.NormFloat64())}
			if i%2 == 0 {
				measured = append(measured, x)
			} else {
				others = append(others, x)
			}
		}
		model, err := Fit(m, flavors.Pushed, measured)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range others {
			if got := model.On(x.Shape).Ns(x.Strides); math.Abs(got/x.Ns-1) > 0.15 {
				t.Errorf("strides %v: predicted %v ns, measured %v; weights %v, shares %v", x.Strides, got, x.Ns, model.Weights, model.Shares)
			}
		}
		if model.Error > 0.04 || model.Trees != len(measured) || model.Width != tab.width {
			t.Errorf("error %v of %d trees of %d bits", model.Error, model.Trees, model.Width)
		}
		both = append(both, measured...)
	}
	if _, err := Fit(m, flavors.Pushed, both[:5]); err == nil {
		t.Error("fitted to five trees")
	}
	if _, err := Fit(m, flavors.Pushed, both); err == nil {
		t.Error("fitted to keys of two lengths")
	}
	both[3].Ns = 0
	if _, err := Fit(m, flavors.Pushed, both[:20]); err == nil {
		t.Error("fitted to a time of 0")
	}
}

func TestRankCorrelation(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{10, 20, 30, 400}, 1},
		{[]float64{1, 2, 3, 4}, []float64{4, 3, 2, 1}, -1},
		{[]float64{1, 2, 3, 4, 5}, []float64{2, 1, 4, 3, 5}, 0.8},
		{[]float64{1, 1, 2}, []float64{1, 1, 2}, 1},
	} {
		if got := RankCorrelation(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// For the turnovers of a list its prediction is the sum that the search makes least.
func TestPredictionIsASum(t *testing.T) {
	for _, tab := range generated(1, 20_000, 10_000) {
		model, _ := Shipped().For(ThisCPU(), flavors.Pushed, tab.width)
		sh := ShapeOf(tab.width, tab.sorted(), InPrefix)
		p := model.On(sh)
		for _, list := range append(Fixed(tab.width), sh.Various(20, 1<<30, 3)...) {
			turnovers := p.turnovers(list)
			sum, at := model.Weights[featureKey], 0
			for _, n := range list {
				if at < sh.Longest {
					sum += p.cost(at, n, turnovers)
				}
				at += n
			}
			if ns := p.Ns(list); math.Abs(sum-ns) > 1e-6*ns {
				t.Errorf("strides %v: the levels sum up to %v ns, predicted %v", list, sum, ns)
			}
		}
	}
}

// Rank finds the list with the least prediction of all.
func TestRankIsBestOfAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	m := Machine{Engine: EngineCPU, Processor: "test", Wide: true, Group: 8, Block: 256, Caches: []Cache{{1 << 9, lineCPU}, {1 << 12, lineCPU}}}
	for range 30 {
		width := 4 + r.IntN(8)
		sh := ShapeOf(width, randomTable(r, width, 20+r.IntN(200)).sorted(), InPrefix)
		model := &Model{Machine: m, Flavor: flavors.Pushed, Width: width, Shares: []float64{1, 1}, Window: 16, Weights: map[string]float64{
			featureKey: r.Float64(), featureRead: r.Float64(), featureLevel: r.Float64(), missOf(0): 2 * r.Float64(), missOf(1): 8 * r.Float64(), stallOf(0): r.Float64(),
		}}
		p := model.On(sh)
		fewest := sh.Count(sh.Search(Objective{Byte: 1}, 0)).Bytes
		budget := uint64(0)
		if r.IntN(2) == 0 {
			budget = fewest * uint64(1+r.IntN(3))
		}
		least := math.Inf(1)
		allLists(width, nil, func(list []int) {
			if budget == 0 || sh.Count(list).Bytes <= budget {
				least = min(least, p.Ns(list))
			}
		})
		ranked := p.Rank(budget, 10)
		if len(ranked) == 0 {
			t.Fatalf("nothing found within %d bytes, %d would do", budget, fewest)
		}
		for i, c := range ranked {
			if budget > 0 && c.Size.Bytes > budget || i > 0 && c.Ns < ranked[i-1].Ns {
				t.Fatalf("place %d of the ranking: %+v, budget %d", i, c, budget)
			}
		}
		if ranked[0].Ns > least*1.0001 {
			t.Errorf("%d bits, budget %d: found %v with %v ns, the least is %v", width, budget, ranked[0].Strides, ranked[0].Ns, least)
		}
	}
}
