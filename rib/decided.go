package rib

import (
	"iter"
	"runtime"
	"slices"
	"sync"
)

const (
	// manyChanges is from how many destinations on it pays to decide on all cores.
	manyChanges = 4096
	// decideWindow is how many are decided before the results are used: 256 KiB of them.
	decideWindow = 1 << 14
)

// decided gives the best path of every destination of the snapshot, the zero path where there is none, in
// order. Where they are many, as after a change of the IGP, all cores decide.
func (s *snapshot) decided() iter.Seq2[*destinationPaths, path] {
	if len(s.changed) < manyChanges {
		return func(yield func(*destinationPaths, path) bool) {
			d := newDecision(s.speakers, s.igp)
			for i := range s.changed {
				if !yield(&s.changed[i], d.bestOf(&s.changed[i])) {
					return
				}
			}
		}
	}
	return func(yield func(*destinationPaths, path) bool) {
		workers := make([]*decision, runtime.GOMAXPROCS(0))
		for i := range workers {
			workers[i] = newDecision(s.speakers, s.igp)
		}
		best := make([]path, min(len(s.changed), decideWindow))
		for some := range slices.Chunk(s.changed, decideWindow) {
			var wait sync.WaitGroup
			for i, d := range workers {
				wait.Go(func() {
					for j := i * len(some) / len(workers); j < (i+1)*len(some)/len(workers); j++ {
						best[j] = d.bestOf(&some[j])
					}
				})
			}
			wait.Wait()
			for i := range some {
				if !yield(&some[i], best[i]) {
					return
				}
			}
		}
	}
}

// bestOf gives the best path to a destination, the zero path for none.
func (d *decision) bestOf(c *destinationPaths) path {
	if p, ok := d.best(c.first, c.others()); ok {
		return p
	}
	return path{}
}
