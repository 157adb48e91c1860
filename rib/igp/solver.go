package igp

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// A Problem is a root, and up to two arcs, the directions of a link, that its paths do without.
type Problem struct{ Root, Skip, Skip2 uint32 }

// A Solver is what computes distances for many problems on one graph: the CPU, or a GPU that cmd brings.
// Safe for concurrent use.
type Solver interface {
	// Distances writes a row for each problem into dst: the distances to the targets, in their order,
	// or to all nodes where targets is nil. len(dst) is the product. It ends early, with dst in any
	// state, where ctx ends or the solver fails.
	Distances(ctx context.Context, g *Graph, problems []Problem, targets []uint32, dst []uint64) error
}

// CPU is the Solver on this machine's processor. The zero value takes all cores.
type CPU struct{ Workers int }

// Distances computes one problem after another on every core. It makes a workspace a core: 8 bytes an
// arc, 4 a node.
func (c CPU) Distances(ctx context.Context, g *Graph, problems []Problem, targets []uint32, dst []uint64) error {
	width := g.Nodes()
	if targets != nil {
		width = len(targets)
	}
	if len(dst) != width*len(problems) {
		panic(fmt.Sprintf("igp: %d distances for %d problems with %d targets", len(dst), len(problems), width))
	}
	return each(ctx, c.Workers, len(problems), func() func(int) {
		w := newWorkspace(g)
		if targets == nil {
			return func(i int) { w.run(problems[i], dst[i*width:][:width]) }
		}
		dist := make([]uint64, g.Nodes())
		return func(i int) {
			w.run(problems[i], dist)
			row := dst[i*width:][:width]
			for j, v := range targets {
				row[j] = dist[v]
			}
		}
	})
}

// each calls a function for the numbers below n, on so many goroutines, or as many as there are cores
// for 0. Every goroutine makes a function of its own.
func each(ctx context.Context, workers, n int, work func() func(i int)) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	loop := func() {
		do := work()
		for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
			do(i)
		}
	}
	var wg sync.WaitGroup
	for range min(workers, n) - 1 {
		wg.Go(loop)
	}
	if n > 0 {
		loop()
	}
	wg.Wait()
	return ctx.Err()
}

// A Matrix is distances from some nodes to some.
type Matrix struct {
	Roots   []uint32
	Targets []uint32 // nil: all nodes
	Dist    []uint64 // a row for each root
}

// Row gives the distances from Roots[i].
func (m *Matrix) Row(i int) []uint64 {
	width := len(m.Dist) / len(m.Roots)
	return m.Dist[i*width:][:width]
}

// Distances computes a matrix; nil roots are all nodes, and nil targets. Without a solver, s == nil, it
// is the CPU. The matrix takes 8 bytes a pair: all pairs of 10,000 nodes are 800 MB.
func (t *Topology) Distances(ctx context.Context, roots, targets []uint32, s Solver) (*Matrix, error) {
	if s == nil {
		s = CPU{}
	}
	if roots == nil {
		roots = t.AllNodes()
	}
	width := len(targets)
	if targets == nil {
		width = len(t.Nodes)
	}
	problems := make([]Problem, len(roots))
	for i, r := range roots {
		problems[i] = Problem{r, NoArc, NoArc}
	}
	m := &Matrix{Roots: roots, Targets: targets, Dist: make([]uint64, width*len(roots))}
	if err := s.Distances(ctx, t.Graph, problems, targets, m.Dist); err != nil {
		return nil, fmt.Errorf("distances from %d nodes: %w", len(roots), err)
	}
	return m, nil
}

// AllNodes gives the numbers of all nodes.
func (t *Topology) AllNodes() []uint32 {
	all := make([]uint32, len(t.Nodes))
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}
