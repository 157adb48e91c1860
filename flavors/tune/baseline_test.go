package tune

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/ribwarp/ribwarp/flavors"
)

// The published way to choose strides, as a yardstick: a regression from statistics of the single bits to the
// strides, learned from tables whose best strides are known. Its features are, for every bit, how many masks have
// it and the mean and the variance of its value in them.

// bitMoments gives these features, and a 1 for the constant.
func bitMoments(width int, s *flavors.Sorted) []float64 {
	f := make([]float64, 0, 3*width+1)
	for b := range width {
		have, ones := 0.0, 0.0
		for i, hi := range s.Hi {
			if int(s.Bits[i]) <= b {
				continue
			}
			key := flavors.Key{Hi: hi}
			if s.Lo != nil {
				key.Lo = s.Lo[i]
			}
			have++
			ones += float64(bit(key, b))
		}
		mean := ones / max(have, 1)
		f = append(f, have/float64(max(s.Len(), 1)), mean, mean*(1-mean))
	}
	return append(f, 1)
}

// A bitRegressor says for every bit how much speaks for a level that begins there.
type bitRegressor struct {
	width   int
	weights *mat.Dense // bits by features
}

// moreThanThese are bits that no table here has masks of: they would be features that are all 0.
func bitsUsed(width int) int { return min(width, 64) }

// trainBits fits a regressor to tables and their best lists: least squares with a penalty on the weights (ridge).
func trainBits(width int, tables [][]float64, best [][]int, ridge float64) (*bitRegressor, error) {
	bits := bitsUsed(width)
	x := mat.NewDense(len(tables), len(tables[0]), nil)
	y := mat.NewDense(len(tables), bits, nil)
	for i, f := range tables {
		x.SetRow(i, f)
		at := 0
		for _, n := range best[i] {
			if at += n; at < bits {
				y.Set(i, at, 1)
			}
		}
	}
	// (XX' + ridge) A = Y, weights = X'A: there are fewer tables than features.
	gram := mat.NewDense(len(tables), len(tables), nil)
	gram.Mul(x, x.T())
	for i := range tables {
		gram.Set(i, i, gram.At(i, i)+ridge)
	}
	var a, w mat.Dense
	if err := a.Solve(gram, y); err != nil {
		return nil, err
	}
	w.Mul(x.T(), &a)
	return &bitRegressor{width: width, weights: mat.DenseCopyOf(w.T())}, nil
}

// strides gives the list with a level at every bit that more speaks for than against, and where the next is too far
// off at the likeliest one within reach.
func (r *bitRegressor) strides(features []float64, longest int) []int {
	score := make([]float64, bitsUsed(r.width))
	for b := range score {
		score[b] = mat.Dot(r.weights.RowView(b), mat.NewVecDense(len(features), features))
	}
	var list []int
	for at := 0; at < longest; {
		next, likeliest := 0, at+1
		for b := at + 1; b <= min(at+maxStride, len(score)-1); b++ {
			if score[b] > 0.5 {
				next = b
				break
			}
			if score[b] > score[min(likeliest, len(score)-1)] {
				likeliest = b
			}
		}
		switch {
		case next > 0:
		case longest-at <= maxStride:
			next = max(longest, at+1)
		default:
			next = likeliest
		}
		list, at = append(list, next-at), next
	}
	return Complete(r.width, list)
}

// trainingTable is a table of a random shape: some popular lengths, a share of masks inside others.
func trainingTable(r *rand.Rand, width int) table {
	n := 5000 << r.IntN(5)
	longest := min(width, 64)
	lengths, weights := make([]int, 1+r.IntN(6)), []float64(nil)
	sum := 0.0
	for i := range lengths {
		lengths[i] = 8 + r.IntN(longest-7)
		weights = append(weights, r.ExpFloat64())
		sum += weights[i]
	}
	blocks := make([]flavors.Key, 1<<r.IntN(9))
	for i := range blocks {
		blocks[i] = clip(flavors.Key{Hi: r.Uint64()}, 4+r.IntN(9))
	}
	nested := r.Float64()
	var before flavors.Key
	return of("training", width, n, func(i int) (flavors.Key, int) {
		at := r.Float64() * sum
		length := lengths[0]
		for k, w := range weights {
			if at -= w; at < 0 {
				length = lengths[k]
				break
			}
		}
		length = min(max(length+r.IntN(3)-1, 1), longest)
		key := flavors.Key{Hi: blocks[r.IntN(len(blocks))].Hi | r.Uint64()>>12}
		if r.Float64() < nested {
			key = flavors.Key{Hi: clip(before, max(length-1-r.IntN(12), 0)).Hi | r.Uint64()>>min(length, 63)}
		}
		before = clip(key, length)
		return key, length
	})
}

// trainingTables is the number of tables that the published work was trained with.
const trainingTables = 145

// baselineBudget is what trees may take in the comparison: 128 MiB, or twice the smallest where that takes more than half of it.
func baselineBudget(sh *Shape) uint64 {
	return max(128<<20, 2*sh.Count(sh.Search(Objective{Byte: 1}, 0)).Bytes)
}

// BenchmarkBaseline compares the regression with the exact search: on tables of the kind that it was trained with and
// has not seen, on the held-out shapes, and on the real tables. Times are predicted, and for the last two measured
// too, in rounds that alternate.
func BenchmarkBaseline(b *testing.B) {
	r := rand.New(rand.NewPCG(145, 1))
	for _, width := range []int{32, 128} {
		model, _ := Shipped().For(ThisCPU(), flavors.Pushed, width)
		var features [][]float64
		var best [][]int
		for range trainingTables {
			s := trainingTable(r, width).sorted()
			features = append(features, bitMoments(width, s))
			sh := ShapeOf(width, s, InPrefix)
			best = append(best, model.On(sh).Rank(baselineBudget(sh), 1)[0].Strides)
		}
		// The penalty that does best on the last fifth when the others are learned from.
		train := trainingTables * 4 / 5
		ratio := func(regressor *bitRegressor, s *flavors.Sorted, f []float64) (exact, guessed Choice, fits bool) {
			sh := ShapeOf(width, s, InPrefix)
			p, budget := model.On(sh), baselineBudget(sh)
			exact, guessed = p.Rank(budget, 1)[0], p.Choice(regressor.strides(f, sh.Longest))
			return exact, guessed, guessed.Size.Bytes <= budget
		}
		ridge, least := 0.0, math.Inf(1)
		for _, try := range []float64{0.01, 0.1, 1, 10, 100} {
			regressor, err := trainBits(width, features[:train], best[:train], try)
			if err != nil {
				b.Fatal(err)
			}
			miss := 0.0
			for i := train; i < trainingTables; i++ {
				for bit := range bitsUsed(width) {
					want, at := 0.0, 0
					for _, n := range best[i] {
						if at += n; at == bit {
							want = 1
						}
					}
					got := mat.Dot(regressor.weights.RowView(bit), mat.NewVecDense(len(features[i]), features[i]))
					miss += (got - want) * (got - want)
				}
			}
			if miss < least {
				ridge, least = try, miss
			}
		}
		regressor, err := trainBits(width, features, best, ridge)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Printf("IPv%d: ridge regression of %d features, %d tables, penalty %g\n", map[int]int{32: 4, 128: 6}[width], len(features[0]), trainingTables, ridge)
		var ratios []float64
		same, over := 0, 0
		const unseen = 50
		for range unseen {
			s := trainingTable(r, width).sorted()
			exact, guessed, fits := ratio(regressor, s, bitMoments(width, s))
			if !fits {
				over++
				continue
			}
			if flavors.FormatStrides(exact.Strides) == flavors.FormatStrides(guessed.Strides) {
				same++
			}
			ratios = append(ratios, guessed.Ns/exact.Ns)
		}
		stat.SortWeighted(ratios, nil)
		fmt.Printf("  %d unseen tables of the same kind: %d the same list, %d over the budget; predicted time over that of the exact search: median %.3f, worst %.3f\n",
			unseen, same, over, stat.Quantile(0.5, stat.Empirical, ratios, nil), ratios[len(ratios)-1])
		for _, tab := range append(append(realTables(b), generated(3, 400_000, 100_000)...), heldOut(300_000, 4)...) {
			if tab.width != width {
				continue
			}
			s := tab.sorted()
			exact, guessed, fits := ratio(regressor, s, bitMoments(width, s))
			line := fmt.Sprintf("  %-15s exact %s, %.0f MB, predicted %.2f ns; regression %s, %.0f MB, predicted %.2f ns", tab.name, short(exact), mb(exact), exact.Ns, short(guessed), mb(guessed), guessed.Ns)
			if !fits {
				fmt.Println(line + ": over the budget")
				continue
			}
			m := NewCPUMeter(width, s, flavors.Pushed, InPrefix.Draw(width, s, 1<<21, 9))
			times := [2]float64{math.Inf(1), math.Inf(1)}
			for range 5 {
				for i, c := range []Choice{exact, guessed} {
					ns, err := m.Time(c.Strides)
					if err != nil {
						b.Fatal(err)
					}
					times[i] = min(times[i], ns)
				}
			}
			fmt.Printf("%s; measured %.2f and %.2f ns: %.3f\n", line, times[0], times[1], times[1]/times[0])
		}
	}
}

func mb(c Choice) float64 { return float64(c.Size.Bytes) / 1e6 }

// short leaves out the levels without nodes.
func short(c Choice) string {
	list := c.Strides
	for l, n := range c.Size.Nodes {
		if n == 0 {
			list = list[:l]
			break
		}
	}
	return flavors.FormatStrides(list)
}

// The regression learns what is to be learned: where the best list is always the same, it gives that one.
func TestBaselineLearns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var features [][]float64
	var best [][]int
	for range 40 {
		features = append(features, bitMoments(32, trainingTable(r, 32).sorted()))
		best = append(best, []int{16, 8, 8})
	}
	regressor, err := trainBits(32, features, best, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	if got := regressor.strides(bitMoments(32, trainingTable(r, 32).sorted()), 32); flavors.FormatStrides(got) != "16,8,8" {
		t.Errorf("learned %v", got)
	}
}
