// Package paths computes the shortest paths of an IGP on a GPU where that is sooner: it is an igp.Solver over
// package heap. The IGP knows no kernels and the kernels no IGP, so the two meet here.
package paths

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/heap"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// Modules are what a device needs for a GPU (device.Open).
func Modules() []*device.Module { return []*device.Module{heap.Module} }

// A GPU is an igp.Solver on a device. It keeps the graph that it was asked about last there. Safe for
// concurrent use, one call after the other.
type GPU struct {
	dev    *device.Device
	kernel *heap.Kernel

	mu    sync.Mutex
	graph *igp.Graph // nil for none
	there *heap.DeviceGraph
}

// NewGPU makes one on a device that has Modules. The device stays its maker's.
func NewGPU(dev *device.Device) *GPU { return &GPU{dev: dev, kernel: heap.New(dev)} }

// Distances is igp.Solver's. A graph that is new is copied to the device first.
func (p *GPU) Distances(ctx context.Context, g *igp.Graph, problems []igp.Problem, targets []uint32, dst []uint64) error {
	if len(dst) == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.graph != g {
		there, err := heap.Upload(p.dev, graph(g))
		if err != nil {
			return err
		}
		p.drop()
		p.graph, p.there = g, there
	}
	list := make([]heap.Problem, len(problems))
	for i, x := range problems {
		list[i] = heap.Problem(x)
	}
	if targets == nil {
		return p.kernel.Distances(ctx, p.there, list, dst)
	}
	return p.kernel.DistancesTo(ctx, p.there, list, targets, dst)
}

// graph gives a graph as the kernels take it.
func graph(g *igp.Graph) heap.Graph {
	h := heap.Graph{Start: g.Start, To: make([]uint32, len(g.Arcs)), Weight: make([]uint32, len(g.Arcs)), NoTransit: g.NoTransit}
	for i, a := range g.Arcs {
		h.To[i], h.Weight[i] = a.To, a.Metric
	}
	return h
}

// drop frees the graph on the device. It is called under the lock.
func (p *GPU) drop() {
	if p.there != nil {
		p.there.Close()
		p.graph, p.there = nil, nil
	}
}

// Close frees what it has on the device.
func (p *GPU) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
	p.kernel.Close()
}

// OnProcessor estimates how long the processor takes for so many problems: 8 ns a node and an arc on each
// core.
func OnProcessor(g *igp.Graph, problems int) time.Duration {
	return time.Duration(problems) * time.Duration(8*(g.Nodes()+len(g.Arcs))) / time.Duration(runtime.GOMAXPROCS(0))
}

// gpuPays is from how many problems a core on Auto asks the GPU. A call takes it as long as a warp takes
// for one problem, some ten times a core's time for it, and hundreds take it no longer. With 16 cores and an H200 the two meet
// between 1 and 4 problems a core for graphs of 315 to 100,000 nodes (BenchmarkSolvers, docs/benchmarks/heap.txt).
const gpuPays = 4

// Pays tells whether the GPU is sooner done with so many problems than all cores.
func Pays(problems int) bool { return problems >= gpuPays*runtime.GOMAXPROCS(0) }

// Auto is an igp.Solver that asks the GPU where that is sooner, and the processor otherwise, and where the
// GPU fails: the log says so once, until it answers again. Safe for concurrent use.
type Auto struct {
	GPU igp.Solver
	Log *slog.Logger

	failed atomic.Bool // the last time that it was asked
}

// Distances is igp.Solver's.
func (s *Auto) Distances(ctx context.Context, g *igp.Graph, problems []igp.Problem, targets []uint32, dst []uint64) error {
	if Pays(len(problems)) {
		err := s.GPU.Distances(ctx, g, problems, targets, dst)
		switch {
		case err == nil:
			s.failed.Store(false)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if !s.failed.Swap(true) {
			s.Log.Warn("the GPU has failed: shortest paths are computed by the processor", "err", err)
		}
	}
	return igp.CPU{}.Distances(ctx, g, problems, targets, dst)
}
