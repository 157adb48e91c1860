package paths

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// The part of docs/benchmarks/heap.txt that compares a GPU with the IGP's own solver on all processors, by turns, as a
// program calls either. Both find the same distances. They need a GPU and the tag cuda; without, they skip.

const benchRounds = 5

func benchGPU(b *testing.B) (*GPU, *device.Device) {
	b.Helper()
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			dev := m.Open(b, Modules())
			gpu := NewGPU(dev)
			b.Cleanup(func() {
				gpu.Close()
				_ = dev.Close()
			})
			return gpu, dev
		}
	}
	b.Skip("needs a GPU: build with the tag cuda")
	return nil, nil
}

func row(b *testing.B, format string, args ...any) {
	b.Helper()
	fmt.Printf("%-16s %s\n", strings.TrimPrefix(b.Name(), "Benchmark"), fmt.Sprintf(format, args...))
}

// turns measures some functions by turns and gives the median of each. The first round is not counted: it touches memory.
func turns(all ...func()) []time.Duration {
	times := make([][]time.Duration, len(all))
	for round := range benchRounds + 1 {
		for i, f := range all {
			start := time.Now()
			f()
			if round > 0 {
				times[i] = append(times[i], time.Since(start))
			}
		}
	}
	medians := make([]time.Duration, len(all))
	for i := range times {
		slices.Sort(times[i])
		medians[i] = times[i][benchRounds/2]
	}
	return medians
}

// compareSolvers measures problems on both, to memory of each kind, and checks that the distances are the same.
func compareSolvers(b *testing.B, gpu *GPU, dev *device.Device, what string, g *igp.Graph, problems []igp.Problem, targets []uint32) {
	b.Helper()
	width, where := g.Nodes(), "all nodes"
	if targets != nil {
		width, where = len(targets), fmt.Sprintf("%d exits", len(targets))
	}
	want, ordinary := make([]uint64, width*len(problems)), make([]uint64, width*len(problems))
	pinned, err := device.NewPinned[uint64](dev, len(want))
	if err != nil {
		b.Fatal(err)
	}
	defer pinned.Close()
	solve := func(s igp.Solver, dst []uint64) func() {
		return func() {
			if err := s.Distances(b.Context(), g, problems, targets, dst); err != nil {
				b.Fatal(err)
			}
		}
	}
	t := turns(solve(igp.CPU{}, want), solve(gpu, ordinary), solve(gpu, pinned.Slice))
	if !slices.Equal(ordinary, want) || !slices.Equal(pinned.Slice, want) {
		b.Fatalf("%s: the GPU finds other distances", what)
	}
	us := func(i int) float64 { return t[i].Seconds() * 1e6 / float64(len(problems)) }
	row(b, "%s to %s: %d nodes, %d arcs, %d problems: %d processors %.1f ms; GPU %.1f ms, to pinned memory %.1f ms",
		what, where, g.Nodes(), len(g.Arcs), len(problems), runtime.GOMAXPROCS(0), t[0].Seconds()*1e3, t[1].Seconds()*1e3, t[2].Seconds()*1e3)
	row(b, "  us a problem: %d processors %.3f; GPU %.3f, ratio %.1f; to pinned memory %.3f, ratio %.1f",
		runtime.GOMAXPROCS(0), us(0), us(1), us(0)/us(1), us(2), us(0)/us(2))
}

// exitsOf are some nodes spread over a graph.
func exitsOf(g *igp.Graph, n int) []uint32 {
	exits := make([]uint32, n)
	for i := range exits {
		exits[i] = uint32(i * g.Nodes() / n)
	}
	return exits
}

func BenchmarkIGPAllRoots(b *testing.B) {
	gpu, dev := benchGPU(b)
	g := backbone(b, "rf1239").Graph
	compareSolvers(b, gpu, dev, "AS1239", g, allRoots(g), nil)
	g = fixtures.Topology(1, 600, 2_400).Graph
	compareSolvers(b, gpu, dev, "generated", g, allRoots(g), nil)
	g = fixtures.Topology(1, 10_000, 40_000).Graph
	compareSolvers(b, gpu, dev, "generated", g, allRoots(g), nil)
	compareSolvers(b, gpu, dev, "generated", g, allRoots(g), exitsOf(g, 100))
}

// Each link of AS1239 fails: the distances from all roots, and what igp.WhatIf makes of it, where a processor need not compute anew.
func BenchmarkIGPWhatIf(b *testing.B) {
	gpu, dev := benchGPU(b)
	top := backbone(b, "rf1239")
	g := top.Graph
	var problems []igp.Problem
	links := linksOf(g)
	for _, arcs := range links {
		for root := range g.Nodes() {
			problems = append(problems, igp.Problem{Root: uint32(root), Skip: arcs[0], Skip2: arcs[1]})
		}
	}
	if len(links) != len(top.Links) {
		b.Fatalf("%d links, want %d", len(links), len(top.Links))
	}
	what := fmt.Sprintf("AS1239, %d links fail,", len(links))
	compareSolvers(b, gpu, dev, what, g, problems, nil)
	compareSolvers(b, gpu, dev, what, g, problems, exitsOf(g, 20))

	base, err := top.Distances(b.Context(), nil, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	var failures []igp.Failure
	for l := range uint32(len(top.Links)) {
		failures = append(failures, igp.Failure{Links: []uint32{l}})
	}
	solvers := []igp.Solver{nil, igp.CPU{}, gpu}
	impacts := make([]string, len(solvers))
	var ask []func()
	for i, s := range solvers {
		ask = append(ask, func() {
			all, err := (&igp.WhatIf{Topology: top, Base: base, Exits: exitsOf(g, 20), Solver: s}).Run(b.Context(), failures)
			if err != nil {
				b.Fatal(err)
			}
			if impacts[i] == "" { // in the round that is not counted
				impacts[i] = fmt.Sprint(all)
			}
		})
	}
	t := turns(ask...)
	if impacts[1] != impacts[0] || impacts[2] != impacts[0] {
		b.Fatal("solvers find other impacts")
	}
	row(b, "%s all impacts with 20 exits: %d processors %.1f ms repairing, %.1f ms anew; GPU %.1f ms anew",
		what, runtime.GOMAXPROCS(0), t[0].Seconds()*1e3, t[1].Seconds()*1e3, t[2].Seconds()*1e3)
}

// linksOf gives the two arcs of each link of a graph whose links have both directions: of links beside each other the first that leads
// to with the first that leads fro, and so on.
func linksOf(g *igp.Graph) (links [][2]uint32) {
	arcs := map[[2]uint32][]uint32{}
	for u := range uint32(g.Nodes()) {
		for a := g.Start[u]; a < g.Start[u+1]; a++ {
			ends := [2]uint32{u, g.Arcs[a].To}
			arcs[ends] = append(arcs[ends], a)
		}
	}
	for ends, to := range arcs {
		if ends[0] < ends[1] {
			for i, back := range arcs[[2]uint32{ends[1], ends[0]}] {
				links = append(links, [2]uint32{to[i], back})
			}
		}
	}
	slices.SortFunc(links, func(a, b [2]uint32) int { return int(a[0]) - int(b[0]) })
	return links
}
