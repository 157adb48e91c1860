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

// What a fit tries: parts of a cache, reads under way at a time, and the ratio of the rates of a GPU's caches.
var (
	shares   = []float64{0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 1, 1.25, 1.5}
	windows  = []float64{16, 32, 64, 128}
	balances = []float64{2, 3, 4, 6, 10}
)

// Fit makes a model of measurements on one machine: the weights, none of them negative, the shares of the caches and
// the window or balance that have the least sum of squares of relative errors, of which those beyond a tenth count less. All trees have keys of one
// length.
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
	best := &Model{Machine: m, Flavor: f, Width: width, Trees: len(measured), Error: math.Inf(1), Shares: make([]float64, len(m.Caches))}
	if m.Engine == EngineCUDA {
		best.Balance = balances[1]
	} else {
		best.Window = windows[1]
	}
	for i := range best.Shares {
		best.Shares[i] = 0.5
	}
	try := func(m Model) {
		rows := make([][]float64, len(measured))
		for i, x := range measured {
			values := estimators[x.Shape].features(x.Strides, &m)
			rows[i] = make([]float64, len(names))
			for j, name := range names {
				rows[i][j] = values[name] / x.Ns
			}
		}
		weights, rms := leastErrors(rows)
		if rms < best.Error {
			m.Error, m.Weights = rms, map[string]float64{}
			for j, name := range names {
				m.Weights[name] = weights[j]
			}
			best = &m
		}
	}
	for range 3 { // one after the other: they hardly depend on each other
		before := best.Error
		for c := range m.Caches {
			for _, share := range shares {
				tried := *best
				tried.Shares = slices.Clone(best.Shares)
				tried.Shares[c] = share
				try(tried)
			}
		}
		tried := *best
		if m.Engine == EngineCUDA {
			for _, tried.Balance = range balances {
				try(tried)
			}
		} else {
			for _, tried.Window = range windows {
				try(tried)
			}
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
		names = append(names, featureSlower)
		if f == flavors.Pushed {
			names = append(names, featureDirect, featurePaged)
		}
	case m.Wide && f == flavors.Pushed:
		names = append(names, featureGroup)
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

// disturbed is the relative error from which on a measurement may have been disturbed.
const disturbed = 0.1

// leastErrors gives the weights, none negative, with which rows come nearest to 1, and the root of the mean of
// the squared errors. Of errors beyond disturbed the square counts only in proportion (Huber, Robust estimation of a location
// parameter, 1964): least squares again and again, in which such rows weigh less.
func leastErrors(rows [][]float64) (weights []float64, rms float64) {
	trust := make([]float64, len(rows))
	for k := range trust {
		trust[k] = 1
	}
	for range 5 {
		weights = leastSquares(rows, trust)
		rms = 0
		for k, r := range rows {
			rest := 1.0
			for i := range r {
				rest -= r[i] * weights[i]
			}
			rest = math.Abs(rest)
			trust[k] = min(1, disturbed/rest)
			if rest > disturbed {
				rms += 2*disturbed*rest - disturbed*disturbed
			} else {
				rms += rest * rest
			}
		}
		if rms == 0 {
			break
		}
	}
	return weights, math.Sqrt(rms / float64(len(rows)))
}

// leastSquares gives the weights, none negative, with which rows, trusted more or less, come nearest to 1: by going down one weight at
// a time, which for these few always ends.
func leastSquares(rows [][]float64, trust []float64) []float64 {
	n := len(rows[0])
	weights := make([]float64, n)
	square, target := make([][]float64, n), make([]float64, n) // of the normal equations
	for i := range square {
		square[i] = make([]float64, n)
	}
	for k, r := range rows {
		for i := range r {
			target[i] += trust[k] * r[i]
			for j := range r {
				square[i][j] += trust[k] * r[i] * r[j]
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
	return weights
}
