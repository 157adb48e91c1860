package tune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/ribwarp/ribwarp/flavors"
)

// A Measured is how long lookups took in a tree.
type Measured struct {
	Shape   *Shape
	Strides []int
	Ns      float64
}

// What a fit tries: parts of a cache, and reads under way at a time.
var (
	shares  = []float64{0.125, 0.25, 0.5, 0.75, 1, 1.5}
	windows = []float64{16, 32, 64, 128}
)

// Fit makes a model of measurements on one machine: the weights, none of them negative, the shares of the caches and
// the window that have the least sum of squares of relative errors. All trees have keys of one length.
func Fit(m Machine, f flavors.Flavor, measured []Measured) (*Model, error) {
	if len(measured) < 10 {
		return nil, fmt.Errorf("fit a model to %d measurements: give it 10 at least", len(measured))
	}
	estimators := map[*Shape]*estimator{}
	width := measured[0].Shape.Width
	for _, x := range measured {
		switch {
		case !(x.Ns > 0):
			return nil, errors.New("fit a model: a measurement is not positive")
		case x.Shape.Width != width:
			return nil, fmt.Errorf("fit a model: there are trees of %d bits and of %d", width, x.Shape.Width)
		}
		if estimators[x.Shape] == nil {
			estimators[x.Shape] = newEstimator(x.Shape, &m)
		}
	}
	names := featureNames(m, f)
	best := &Model{Machine: m, Flavor: f, Width: width, Trees: len(measured), Error: math.Inf(1), Window: windows[1], Shares: make([]float64, len(m.Caches))}
	for i := range best.Shares {
		best.Shares[i] = 0.5
	}
	try := func(shares []float64, window float64) {
		rows := make([][]float64, len(measured))
		for i, x := range measured {
			values := estimators[x.Shape].features(x.Strides, shares, window)
			rows[i] = make([]float64, len(names))
			for j, name := range names {
				rows[i][j] = values[name] / x.Ns
			}
		}
		weights, rms := leastSquares(rows)
		if rms < best.Error {
			best.Shares, best.Window, best.Error, best.Weights = slices.Clone(shares), window, rms, map[string]float64{}
			for j, name := range names {
				best.Weights[name] = weights[j]
			}
		}
	}
	for range 3 { // one after the other: they hardly depend on each other
		before := best.Error
		for c := range m.Caches {
			tried := slices.Clone(best.Shares)
			for _, tried[c] = range shares {
				try(tried, best.Window)
			}
		}
		for _, window := range windows {
			try(best.Shares, window)
		}
		if best.Error == before {
			break
		}
	}
	return best, nil
}

// RankCorrelation gives Spearman's coefficient of two equally long series: how alike they order their places, from
// -1 to 1.
func RankCorrelation(a, b []float64) float64 { return stat.Correlation(ranks(a), ranks(b), nil) }

// ranks gives every element its place in order; equal ones share the mean of theirs.
func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(v[a], v[b]) })
	r := make([]float64, len(v))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && v[order[j]] == v[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			r[k] = float64(i+j-1) / 2
		}
		i = j
	}
	return r
}

// featureNames are the features that lookups have on a machine.
func featureNames(m Machine, f flavors.Flavor) []string {
	names := []string{featureKey, featureRead, featureLevel}
	if f == flavors.List {
		names = append(names, featureList, featureEntry, featureProbe)
	}
	switch {
	case m.Engine == EngineCUDA:
		if f == flavors.Pushed {
			names = append(names, featureDirect, featurePaged)
		}
	case m.Wide:
		names = append(names, featureGroup, featureBranch)
	default:
		names = append(names, featureBranch)
	}
	for i := range m.Caches {
		names = append(names, missOf(i))
		if m.Engine == EngineCPU && f == flavors.Pushed {
			names = append(names, stallOf(i))
		}
	}
	return names
}

// leastSeen is the mean square of a feature, as a part of the time, below which measurements say nothing of it.
const leastSeen = 1e-12

// leastSquares gives the weights, none negative, with which rows come nearest to 1, and the root of the mean
// square of what is left: by going down one weight at a time, which for these few always ends.
func leastSquares(rows [][]float64) (weights []float64, rms float64) {
	n := len(rows[0])
	weights = make([]float64, n)
	square, target := make([][]float64, n), make([]float64, n) // of the normal equations
	for i := range square {
		square[i] = make([]float64, n)
	}
	for _, r := range rows {
		for i := range r {
			target[i] += r[i]
			for j := range r {
				square[i][j] += r[i] * r[j]
			}
		}
	}
	for range 5000 {
		change := 0.0
		for i := range weights {
			if square[i][i] < leastSeen*float64(len(rows)) {
				continue
			}
			w := target[i]
			for j := range weights {
				if j != i {
					w -= square[i][j] * weights[j]
				}
			}
			w = max(w/square[i][i], 0)
			change = max(change, math.Abs(w-weights[i])*math.Sqrt(square[i][i]/float64(len(rows))))
			weights[i] = w
		}
		if change < 1e-9 {
			break
		}
	}
	for _, r := range rows {
		rest := 1.0
		for i := range r {
			rest -= r[i] * weights[i]
		}
		rms += rest * rest
	}
	return weights, math.Sqrt(rms / float64(len(rows)))
}
