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
// TUNE_LISTS is the number of lists of strides for a real table, of which others have a part, and TUNE_ROUNDS that of rounds.

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
			add(t, lists, rounds, flavors.Pushed, "in-prefix", "uniform")
			add(t, lists/5, 1, flavors.List, "in-prefix")
		case "generated":
			add(t, lists/2, (rounds+1)/2, flavors.Pushed, "in-prefix", "uniform")
		default:
			add(t, lists/5, 1, flavors.Pushed, "in-prefix")
		}
	}
	return cases
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

// benchMeter makes what measures; keys is how many there are.
type benchMeter func(t table, s *flavors.Sorted, f flavors.Flavor, kind string) Meter

func cpuBench(t table, s *flavors.Sorted, f flavors.Flavor, kind string) Meter {
	keys := 1 << 21
	if f == flavors.List {
		keys /= 16 // it is that much slower
	}
	return NewCPUMeter(t.width, s, f, benchKeys[kind].Draw(t.width, s, keys, 7))
}

// gpuBench opens the GPU.
func gpuBench(b *testing.B) (benchMeter, Machine) {
	i := slices.IndexFunc(devicetest.Makers(), func(m devicetest.Maker) bool { return m.Name == "cuda" })
	if i < 0 {
		b.Skip("needs a GPU: build with the tag cuda")
	}
	d := devicetest.Makers()[i].Open(b, flavors.GPUModules())
	b.Cleanup(func() { _ = d.Close() })
	return func(t table, s *flavors.Sorted, f flavors.Flavor, kind string) Meter {
		keys, least := 1<<23, GPUKeys
		if f == flavors.List {
			keys, least = keys/16, least/16
		}
		return NewGPUMeter(d, t.width, s, f, benchKeys[kind].Draw(t.width, s, keys, 7), least)
	}, GPU(d.Describe())
}

func benchStrides(b *testing.B, m Machine, cases []benchCase, meter benchMeter) {
	text, err := json.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("# machine\t%s\n# table\tbits\tflavor\tkeys\tround\tstrides\tns\n", text)
	for _, c := range cases {
		meter := meter(c.table, c.sorted, c.flavor, c.kind)
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

// The choice that a model makes, beside an exhaustive measurement of 50 candidates that it was not fitted to: lists by
// hand, those that it ranks best, and others of all kinds. Rounds alternate.

const candidates = 50

func benchChoice(b *testing.B, m Machine, budget uint64, rounds int, meter benchMeter) {
	models := Shipped()
	if path := os.Getenv("TUNE_MODEL"); path != "" {
		var err error
		if models, err = Load(path); err != nil {
			b.Fatal(err)
		}
	}
	for _, t := range realTables(b) {
		s := t.sorted()
		model, fitted := models.For(m, flavors.Pushed, t.width)
		if model == nil {
			b.Fatalf("no model of engine %s", m.Engine)
		}
		fmt.Printf("%s, %s; model of %s, fitted to it: %v\n", m.Engine, m.Processor, model.Machine.Processor, fitted)
		start := time.Now()
		sh := ShapeOf(t.width, t.sorted(), InPrefix)
		p := model.On(sh)
		ranked := p.Rank(budget, 20)
		took := time.Since(start)
		chosen := ranked[0].Strides
		lists := [][]int{chosen}
		for _, list := range Fixed(t.width) {
			if !contains(lists, list) {
				lists = append(lists, list)
			}
		}
		for _, c := range ranked {
			if !contains(lists, c.Strides) {
				lists = append(lists, c.Strides)
			}
		}
		for _, list := range sh.Various(candidates, budget, 99) {
			if len(lists) < candidates && !contains(lists, list) {
				lists = append(lists, list)
			}
		}
		measured := meter(t, s, flavors.Pushed, "in-prefix")
		times := make([]float64, len(lists))
		for i := range times {
			times[i] = math.Inf(1)
		}
		for round := range rounds {
			for _, i := range shuffled(len(lists), round) {
				ns, err := measured.Time(lists[i])
				if err != nil {
					b.Fatal(err)
				}
				times[i] = min(times[i], ns)
			}
		}
		var predicted []float64
		best := math.Inf(1)
		order := make([]int, len(lists))
		for i, list := range lists {
			order[i] = i
			predicted = append(predicted, p.Ns(list))
			if sh.Count(list).Bytes <= budget {
				best = min(best, times[i])
			}
		}
		fmt.Printf("%d bits, %d masks, from unsorted prefixes to the ranking %.2f s on one core: rank correlation %.3f over %d lists; chosen %s, %.3f of the rate of the best measured within %s\n",
			t.width, s.Len(), took.Seconds(), RankCorrelation(predicted, times), len(lists), flavors.FormatStrides(chosen), best/times[0], fmt.Sprint(budget>>20, " MiB"))
		for i, list := range lists {
			if i > 0 && contains(Fixed(t.width), list) {
				fmt.Printf("  chosen over %s: %.3f of its rate\n", flavors.FormatStrides(list), times[i]/times[0])
			}
		}
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(times[i], times[j]) })
		for _, i := range order {
			fmt.Printf("  %8.1f MB  predicted %8.1f M/s  measured %8.1f M/s  %s\n", float64(sh.Count(lists[i]).Bytes)/1e6, 1e3/predicted[i], 1e3/times[i], flavors.FormatStrides(lists[i]))
		}
	}
}

func BenchmarkCPUChoice(b *testing.B) { benchChoice(b, ThisCPU(), 128<<20, 5, cpuBench) }

func BenchmarkGPUChoice(b *testing.B) {
	meter, m := gpuBench(b)
	benchChoice(b, m, 1<<30, 3, meter)
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
