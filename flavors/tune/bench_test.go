package tune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
)

// The measurements that models are fitted to: a line for every tree and round, in the columns of readMeasurements.
// TUNE_LISTS is the number of lists of strides for a real table, of which others have a part, TUNE_ROUNDS that of rounds, and
// TUNE_FINAL that of rounds of a final.

func benchNumber(b *testing.B, name string, otherwise int) int {
	n := otherwise
	if text := os.Getenv(name); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			b.Fatalf("%s=%s is no positive number", name, text)
		}
	}
	return n
}

type benchCase struct {
	table
	sorted *flavors.Sorted
	lists  [][]int
	flavor flavors.Flavor
	kind   string
	rounds int
}

// benchKeys are the kinds of keys by the name that measurements have.
var benchKeys = map[string]Keys{"in-prefix": InPrefix, "uniform": Uniform}

// measuredTables are the tables that models are fitted to and tried on, the real ones first.
func measuredTables(tb testing.TB) []table {
	return append(append(realTables(tb), generated(3, 400_000, 100_000)...), heldOut(300_000, 4)...)
}

// benchCases are tables, lists and keys to measure: rounds of the real tables, half as many of generated ones, one of
// the others.
func benchCases(b *testing.B, lists int, bytes uint64, rounds int) (cases []benchCase) {
	add := func(t table, n, rounds int, f flavors.Flavor, kinds ...string) {
		s := t.sorted()
		all := benchCandidates(ShapeOf(t.width, s, InPrefix), n, bytes)
		for _, kind := range kinds {
			cases = append(cases, benchCase{t, s, all, f, kind, rounds})
		}
	}
	for _, t := range measuredTables(b) {
		switch t.name {
		case "real":
			add(t, lists, rounds, flavors.Pushed, benchKinds(t)...)
			add(t, lists/5, 1, flavors.List, "in-prefix")
		case "generated":
			add(t, lists/2, (rounds+1)/2, flavors.Pushed, benchKinds(t)...)
		default:
			add(t, lists/5, 1, flavors.Pushed, "in-prefix")
		}
	}
	return cases
}

// benchKinds are the kinds of keys that models of a table's family are fitted to.
func benchKinds(t table) []string {
	if t.width == 128 {
		return []string{"in-prefix"}
	}
	return []string{"in-prefix", "uniform"}
}

// benchCandidates are those by hand and others of all kinds.
func benchCandidates(sh *Shape, n int, bytes uint64) (all [][]int) {
	for _, list := range append(Fixed(sh.Width), sh.Various(n, bytes, 1)...) {
		if sh.Count(list).Bytes <= bytes && !contains(all, list) {
			all = append(all, list)
		}
	}
	return all
}

func contains(lists [][]int, list []int) bool {
	return slices.ContainsFunc(lists, func(o []int) bool { return slices.Equal(o, list) })
}

// benchMeter draws keys and gives what makes meters of them, which know nothing of each other.
type benchMeter func(t table, s *flavors.Sorted, f flavors.Flavor, kind string) func() Meter

func cpuBench(t table, s *flavors.Sorted, f flavors.Flavor, kind string) func() Meter {
	n := 1 << 21
	if f == flavors.List {
		n /= 16 // it is that much slower
	}
	keys := benchKeys[kind].Draw(t.width, s, n, 7)
	return func() Meter { return NewCPUMeter(t.width, s, f, keys) }
}

// gpuBench opens the GPU.
func gpuBench(b *testing.B) (benchMeter, Machine) {
	i := slices.IndexFunc(devicetest.Makers(), func(m devicetest.Maker) bool { return m.Name == "cuda" })
	if i < 0 {
		b.Skip("needs a GPU: build with the tag cuda")
	}
	d := devicetest.Makers()[i].Open(b, flavors.GPUModules())
	b.Cleanup(func() { _ = d.Close() })
	return func(t table, s *flavors.Sorted, f flavors.Flavor, kind string) func() Meter {
		n, least := 1<<23, GPUKeys
		if f == flavors.List {
			n, least = n/16, least/16
		}
		keys := benchKeys[kind].Draw(t.width, s, n, 7)
		return func() Meter { return NewGPUMeter(d, t.width, s, f, keys, least) }
	}, GPU(d.Describe())
}

func benchStrides(b *testing.B, m Machine, cases []benchCase, meter benchMeter) {
	text, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("# machine\t%s\n# table\tbits\tflavor\tkeys\tround\tstrides\tns\n", text)
	for _, c := range cases {
		meter := meter(c.table, c.sorted, c.flavor, c.kind)()
		for round := range c.rounds {
			for _, i := range shuffled(len(c.lists), round) {
				list := c.lists[i]
				ns, err := meter.Time(list)
				if err != nil {
					fmt.Printf("# %s, strides %s: %v\n", c.name, flavors.FormatStrides(list), err)
					continue
				}
				fmt.Printf("%s\t%d\t%s\t%s\t%d\t%s\t%.4g\n", c.name, c.width, c.flavor, c.kind, round, flavors.FormatStrides(list), ns)
			}
		}
	}
}

// shuffled is an order for a round: where in memory a tree comes to lie depends on those before it, and what a read costs
// on that.
func shuffled(n, round int) []int { return rand.New(rand.NewPCG(uint64(round), 50)).Perm(n) }

func BenchmarkCPUStrides(b *testing.B) {
	benchStrides(b, ThisCPU(), benchCases(b, benchNumber(b, "TUNE_LISTS", 60), 256<<20, benchNumber(b, "TUNE_ROUNDS", 5)), cpuBench)
}

func BenchmarkGPUStrides(b *testing.B) {
	meter, m := gpuBench(b)
	benchStrides(b, m, benchCases(b, benchNumber(b, "TUNE_LISTS", 120), 2<<30, benchNumber(b, "TUNE_ROUNDS", 2)), meter)
}

// The choice that a model makes, beside an exhaustive measurement of 50 candidates: lists by hand, those that it ranks
// best, and others of all kinds, which it was not fitted to. Each is measured in a few rounds. The fastest of so many is one that
// was lucky, so a final follows: the choice, the lists by hand and the six fastest, in rounds of their own, of which
// the medians are compared. What was measured goes to TUNE_ROWS too, as benchStrides prints it.

const (
	candidates = 50
	finalists  = 6
)

func benchChoice(b *testing.B, m Machine, budget uint64, rounds int, meter benchMeter) {
	models := Shipped()
	if path := os.Getenv("TUNE_MODEL"); path != "" {
		var err error
		if models, err = Load(path); err != nil {
			b.Fatal(err)
		}
	}
	for _, t := range realTables(b) {
		model, fitted := models.For(m, flavors.Pushed, t.width)
		if model == nil {
			b.Fatalf("no model of engine %s", m.Engine)
		}
		fmt.Printf("%s, %s; model of %s, fitted to it: %v\n", m.Engine, m.Processor, model.Machine.Processor, fitted)
		start := time.Now()
		s := t.sorted()
		sh := ShapeOf(t.width, s, InPrefix)
		p := model.On(sh)
		ranked := p.Rank(budget, 100)
		took := time.Since(start)
		var lists [][]int
		add := func(list []int) {
			if len(lists) < candidates && !contains(lists, list) {
				lists = append(lists, list)
			}
		}
		add(ranked[0].Strides) // the choice
		for _, list := range Fixed(t.width) {
			add(list)
		}
		for i, c := range ranked {
			if i < 14 || i%8 == 0 {
				add(c.Strides)
			}
		}
		for _, list := range sh.Various(candidates, budget, 99) {
			add(list)
		}
		fresh := meter(t, s, flavors.Pushed, "in-prefix")
		times := measure(b, fresh(), lists, rounds)
		writeRows(b, t, lists, times)
		var predicted []float64
		for _, list := range lists {
			predicted = append(predicted, p.Ns(list))
		}
		fmt.Printf("%d bits, %d masks, from unsorted prefixes to the ranking %.2f s on one core: rank correlation %.3f over %d lists\n",
			t.width, s.Len(), took.Seconds(), RankCorrelation(predicted, times), len(lists))
		order := byTime(times)
		finalChoice(b, p, budget, fresh, lists, order)
		for _, i := range order {
			fmt.Printf("  %8.1f MB  predicted %8.1f M/s  measured %8.1f M/s  %s\n", float64(sh.Count(lists[i]).Bytes)/1e6, 1e3/predicted[i], 1e3/times[i], flavors.FormatStrides(lists[i]))
		}
	}
}

// measure gives the shortest time of each list in rounds that go through all of them in changing order.
func measure(b *testing.B, m Meter, lists [][]int, rounds int) []float64 {
	times := make([]float64, len(lists))
	for round := range rounds {
		for _, i := range shuffled(len(lists), round) {
			var err error
			if times[i], err = m.Time(lists[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	return times
}

// finalChoice compares the first list with those by hand and with the first ones of the order that are within the budget.
func finalChoice(b *testing.B, p *Predictor, budget uint64, fresh func() Meter, lists [][]int, order []int) {
	in := [][]int{lists[0]}
	fastest := 0
	for _, i := range order {
		best := p.sh.Count(lists[i]).Bytes <= budget && fastest < finalists
		if best {
			fastest++
		}
		if (best || contains(Fixed(p.sh.Width), lists[i])) && !contains(in, lists[i]) {
			in = append(in, lists[i])
		}
	}
	rounds := make([][]float64, len(in)) // by list
	finalRounds := benchNumber(b, "TUNE_FINAL", 9)
	for round := range finalRounds {
		meter := fresh()
		for _, i := range shuffled(len(in), round) {
			ns, err := meter.Time(in[i])
			if err != nil {
				b.Fatal(err)
			}
			rounds[i] = append(rounds[i], ns)
		}
	}
	median := make([]float64, len(in))
	best, shortest := math.Inf(1), math.Inf(1)
	for i, ns := range rounds {
		slices.Sort(ns)
		median[i] = ns[len(ns)/2]
		if p.sh.Count(in[i]).Bytes <= budget {
			best, shortest = min(best, median[i]), min(shortest, ns[0])
		}
	}
	fmt.Printf("chosen %s: %.3f of the rate of the best within %d MiB, by the medians of %d rounds with the %d fastest and those by hand; %.3f by the shortest times\n",
		flavors.FormatStrides(in[0]), best/median[0], budget>>20, finalRounds, finalists, shortest/rounds[0][0])
	for _, i := range byTime(median) {
		kind := ""
		if contains(Fixed(p.sh.Width), in[i]) {
			kind = " by hand"
		}
		fmt.Printf("  chosen over %s%s: %.3f of its rate; %.1f M/s (%.1f to %.1f)\n", flavors.FormatStrides(in[i]), kind, median[i]/median[0], 1e3/median[i], 1e3/rounds[i][finalRounds-1], 1e3/rounds[i][0])
	}
}

// byTime gives the numbers of times in order.
func byTime(times []float64) []int {
	order := make([]int, len(times))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(times[i], times[j]) })
	return order
}

// writeRows appends what was measured to the file that TUNE_ROWS names.
func writeRows(b *testing.B, t table, lists [][]int, times []float64) {
	path := os.Getenv("TUNE_ROWS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		b.Fatal(err)
	}
	for i, list := range lists {
		fmt.Fprintf(f, "%s\t%d\t%s\tin-prefix\tchoice\t%s\t%.4g\n", t.name, t.width, flavors.Pushed, flavors.FormatStrides(list), times[i])
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkCPUChoice(b *testing.B) {
	benchChoice(b, ThisCPU(), 128<<20, benchNumber(b, "TUNE_ROUNDS", 5), cpuBench)
}

func BenchmarkGPUChoice(b *testing.B) {
	meter, m := gpuBench(b)
	benchChoice(b, m, 1<<30, benchNumber(b, "TUNE_ROUNDS", 3), meter)
}

// A meter on a device looks all keys up in the tree that it is asked for.
func TestGPUMeter(t *testing.T) {
	devicetest.Each(t, flavors.GPUModules(), func(t *testing.T, d *device.Device) {
		for _, tab := range append(generated(5, 3000, 2000), heldOut(2000, 6)[4]) {
			s := tab.sorted()
			keys := InPrefix.Draw(tab.width, s, 1000, 1)
			for _, f := range []flavors.Flavor{flavors.Pushed, flavors.List} {
				m := NewGPUMeter(d, tab.width, s, f, keys, 3000)
				for _, list := range Fixed(tab.width) {
					if ns, err := m.Time(list); err != nil || ns <= 0 {
						t.Errorf("%s, %d bits, %s, strides %v: %v ns, error %v", tab.name, tab.width, f, list, ns, err)
					}
				}
			}
		}
		if _, err := NewGPUMeter(d, 32, generated(5, 10, 0)[0].sorted(), flavors.Pushed, nil, 1).Time([]int{32}); err == nil {
			t.Error("a stride of 32 and no keys: no error")
		}
	})
}
