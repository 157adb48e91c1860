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
		if fmt.Sprint(s.Machine, s.Flavor, s.Width, s.Shares, s.Window, s.Balance, s.Trees) != fmt.Sprint(m.Machine, m.Flavor, m.Width, m.Shares, m.Window, m.Balance, m.Trees) {
			t.Errorf("model %d is of %v, the measurements give one of %v: run with UPDATE_MODELS=1", i, s.Machine, m.Machine)
		}
		for name, w := range m.Weights {
			if math.Abs(s.Weights[name]-w) > 1e-6*(1+w) {
				t.Errorf("model %d, weight %q is %v, the measurements give %v: run with UPDATE_MODELS=1", i, name, s.Weights[name], w)
			}
		}
	}
}

// A shipped model orders lists as they were measured on its machine another day, and its choice of them is nearly
// the best. Two rounds of the same list differ by some per cent.
func TestShippedModelAnotherDay(t *testing.T) {
	paths, err := filepath.Glob("../../docs/benchmarks/strides-again-*.tsv")
	if err != nil || len(paths) == 0 {
		if _, err := os.Stat("../../go.mod"); err != nil {
			t.Skip("raw measurements are in docs/benchmarks, which a bundle of tests is without")
		}
		t.Fatalf("no measurements: %v", err)
	}
	const budget = 128 << 20
	for _, path := range paths {
		m, all := readMeasurements(t, path)
		for _, width := range []int{32, 128} {
			model, fitted := Shipped().For(m, flavors.Pushed, width)
			if !fitted {
				t.Fatalf("%s: no model of %v is shipped", path, m)
			}
			var predicted, times []float64
			var bytes []uint64
			var lists [][]int
			for _, x := range all {
				if x.width != width {
					continue
				}
				lists = append(lists, x.strides)
				sh := measuredShape(t, x)
				predicted = append(predicted, model.On(sh).Ns(x.strides))
				times, bytes = append(times, slices.Min(x.ns)), append(bytes, sh.Count(x.strides).Bytes)
			}
			pick, best := -1, math.Inf(1)
			for i := range times {
				if bytes[i] > budget {
					continue
				}
				best = min(best, times[i])
				if pick < 0 || predicted[i] < predicted[pick] {
					pick = i
				}
			}
			least := predicted[pick]
			for i := range times { // of those about as good the smallest, as Rank has it
				if predicted[i] <= 1.01*least && bytes[i] < bytes[pick] {
					pick = i
				}
			}
			rank, rate := RankCorrelation(predicted, times), best/times[pick]
			worst := math.Inf(1)
			for i, strides := range lists {
				if contains(Fixed(width), strides) {
					worst = min(worst, times[i]/times[pick])
				}
			}
			t.Logf("%s, %d bits: %d lists, rank correlation %.3f; the choice %s has %.3f of the rate of the best within the budget, and %.3f of that of the best list by hand",
				filepath.Base(path), width, len(times), rank, flavors.FormatStrides(lists[pick]), rate, worst)
			if rank < 0.9 || rate < 0.95 || worst < 1 {
				t.Errorf("%s, %d bits: rank correlation %.3f, choice %.3f of the best, %.3f of the best by hand", filepath.Base(path), width, rank, rate, worst)
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

// Measurements that were disturbed, which only makes them longer, hardly change what a fit finds.
func TestFitStandsDisturbances(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 9))
	for range 100 {
		truth := []float64{1 + r.Float64(), r.Float64(), 3 * r.Float64(), 0}
		rows := make([][]float64, 120)
		for k := range rows {
			row, ns := make([]float64, len(truth)), 0.0
			for i, w := range truth {
				row[i] = r.Float64()
				ns += w * row[i]
			}
			ns += 0.2
			if k%8 == 0 {
				ns *= 1.3 + r.Float64()
			}
			row = append(row, 0.2)
			for i := range row {
				row[i] /= ns
			}
			rows[k] = row
		}
		weights, _ := leastErrors(rows)
		wrong := 0.0
		for k, row := range rows {
			if k%8 != 0 {
				rest := 1.0
				for i, w := range weights {
					rest -= w * row[i]
				}
				wrong += math.Abs(rest) / float64(len(rows)*7/8)
			}
		}
		if wrong > 0.03 {
			t.Fatalf("weights %v, made with %v and 1: the undisturbed are %.3f off on the mean", weights, truth, wrong)
		}
	}
}

// What an index of the root takes of a GPU's first cache, its cells have not. What misses that cache asks where its page
// is.
func TestIndexTakesRoomOfTheFirstCache(t *testing.T) {
	gpu := Machine{Engine: EngineCUDA, Group: 32, Block: 512, Caches: []Cache{{1 << 16, sectorGPU}, {1 << 20, lineGPU}, {1 << 22, pageGPU}}, SharedMemory: 1 << 16}
	tab := generated(1, 20_000, 10_000)[1]
	e := newEstimator(ShapeOf(tab.width, tab.sorted(), InPrefix), &gpu)
	shares := []float64{1, 1, 1}
	l := e.level(24, 8)
	in := e.around([]int{24, 8, 8, 8, 16, 64}, shares)
	before, pages := 0.0, 0.0
	for _, bytes := range []int{0, 1 << 14, 1 << 15, 3 << 14, 1 << 16} {
		in.index = bytes
		missed := e.misses(l, in, shares)
		if missed[0] <= before {
			t.Errorf("an index of %d bytes: %v of the reads miss, with a smaller one %v", bytes, missed[0], before)
		}
		if missed[2] <= pages || missed[2] > missed[0] {
			t.Errorf("an index of %d bytes: %v of the reads miss the first cache, %v do not know their page, with a smaller one %v", bytes, missed[0], missed[2], pages)
		}
		before, pages = missed[0], missed[2]
	}
	if reads := e.sh.Visits[24]; math.Abs(before-reads) > 0.01*reads {
		t.Errorf("no cache left: %v of %v reads miss", before, reads)
	}
	for n, want := range map[int]int{5: 0, 16: 8 << 11, 18: 8 << 13} {
		if _, bytes := e.index(n); bytes != want {
			t.Errorf("root of %d bits: an index of %d bytes, want %d", n, bytes, want)
		}
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
	gpu := Machine{Engine: EngineCUDA, Processor: "test", Wide: true, Group: 32, Block: 512, Caches: []Cache{{1 << 17, sectorGPU}, {1 << 21, lineGPU}, {1 << 23, pageGPU}}, SharedMemory: 1 << 16}
	for i, tab := range slices.Concat(generated(1, 20_000, 10_000), generated(1, 20_000, 10_000)) {
		model, _ := Shipped().For(ThisCPU(), flavors.Pushed, tab.width)
		if i >= 2 {
			model = &Model{Machine: gpu, Flavor: flavors.Pushed, Width: tab.width, Shares: []float64{1, 0.5, 0.25}, Balance: 4, Weights: map[string]float64{
				featureKey: 1, featureRead: 2, featureLevel: 3, featureDirect: 4, featurePaged: 5, missOf(0): 6, missOf(1): 7, missOf(2): 8, featureSlower: 9,
			}}
		}
		sh := ShapeOf(tab.width, tab.sorted(), InPrefix)
		p := model.On(sh)
		for _, list := range append(Fixed(tab.width), sh.Various(20, 1<<30, 3)...) {
			in := p.around(list)
			sum, at := model.Weights[featureKey], 0
			for _, n := range list {
				if at < sh.Longest {
					sum += p.cost(at, n, in)
				}
				at += n
			}
			if ns := p.Ns(list); math.Abs(sum-ns) > 1e-6*ns {
				t.Errorf("strides %v: the levels sum up to %v ns, predicted %v", list, sum, ns)
			}
		}
	}
}

// Of the lists about as good as the best the smallest comes first, then the others by time.
func TestTheSmallestOfTheBestIsFirst(t *testing.T) {
	choice := func(name int, ns float64, bytes uint64) Choice {
		return Choice{Strides: []int{name}, Ns: ns, Size: Size{Bytes: bytes}}
	}
	r := &ranking{least: 10, all: []Choice{choice(4, 12, 5000), choice(2, 10.09, 6000), choice(1, 10, 9000), choice(3, 10.11, 5500), choice(0, 10.08, 6000), choice(5, 30, 100)}}
	var got []int
	for _, c := range r.pick(6) {
		got = append(got, c.Strides[0])
	}
	if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Rank finds a list that is as good as the one with the least prediction of all.
func TestRankIsBestOfAll(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	cpu := Machine{Engine: EngineCPU, Processor: "test", Wide: true, Group: 8, Block: 256, Caches: []Cache{{1 << 9, lineCPU}, {1 << 12, lineCPU}}}
	gpu := Machine{Engine: EngineCUDA, Processor: "test", Wide: true, Group: 32, Block: 512, Caches: []Cache{{1 << 9, sectorGPU}, {1 << 11, lineGPU}, {1 << 13, 8}}, SharedMemory: 1 << 8}
	for i := range 60 {
		width := 4 + r.IntN(8)
		sh := ShapeOf(width, randomTable(r, width, 20+r.IntN(200)).sorted(), InPrefix)
		model := &Model{Machine: cpu, Flavor: flavors.Pushed, Width: width, Shares: []float64{1, 1}, Window: 16, Weights: map[string]float64{
			featureKey: r.Float64(), featureRead: r.Float64(), featureLevel: r.Float64(), missOf(0): 2 * r.Float64(), missOf(1): 8 * r.Float64(), stallOf(0): r.Float64(),
		}}
		if i%2 == 1 {
			model = &Model{Machine: gpu, Flavor: flavors.Pushed, Width: width, Shares: []float64{1, 1, 1}, Balance: 4, Weights: map[string]float64{
				featureKey: r.Float64(), featureRead: r.Float64(), featureLevel: r.Float64(), featureDirect: r.Float64(),
				missOf(0): 2 * r.Float64(), missOf(1): 4 * r.Float64(), missOf(2): 8 * r.Float64(), featureSlower: 8 * r.Float64(),
			}}
		}
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
			if budget > 0 && c.Size.Bytes > budget || i > 1 && c.Ns < ranked[i-1].Ns {
				t.Fatalf("place %d of the ranking: %+v, budget %d", i, c, budget)
			}
		}
		found := ranked[0]
		if len(ranked) > 1 && ranked[1].Ns < found.Ns {
			found = ranked[1]
		}
		if found.Ns > least*1.01 { // what is around the levels is not searched exactly
			t.Errorf("%s, %d bits, budget %d: found %v with %v ns, the least is %v", model.Machine.Engine, width, budget, found.Strides, found.Ns, least)
		}
		// The first is the smallest of those about as good.
		for _, c := range ranked {
			if ranked[0].Ns > found.Ns*1.01 || c.Ns < found.Ns*1.0099 && c.Size.Bytes < ranked[0].Size.Bytes {
				t.Errorf("%s, %d bits, budget %d: chose %+v before %+v", model.Machine.Engine, width, budget, ranked[0], c)
			}
		}
	}
}
