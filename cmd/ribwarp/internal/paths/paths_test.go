package paths

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// TestGPUAsProcessor asks for distances, for some targets, and for failures, on one topology after another.
func TestGPUAsProcessor(t *testing.T) {
	devicetest.Each(t, Modules(), func(t *testing.T, dev *device.Device) {
		gpu := NewGPU(dev)
		defer gpu.Close()
		tops := []*igp.Topology{fixtures.Topology(1, 60, 200), fixtures.Topology(2, 33, 70)}
		tops = append(tops, tops[1].Without(3, 4, 5), overloaded(t, tops[0]), tops[0])
		for i, top := range tops {
			got, want := both(t, gpu, func(s igp.Solver) any {
				m, err := top.Distances(t.Context(), nil, nil, s)
				if err != nil {
					t.Fatal(err)
				}
				return m.Dist
			})
			if got != want {
				t.Errorf("topology %d: distances differ", i)
			}
			targets := []uint32{7, 7, 0, 31}
			got, want = both(t, gpu, func(s igp.Solver) any {
				m, err := top.Distances(t.Context(), []uint32{1, 9}, targets, s)
				if err != nil {
					t.Fatal(err)
				}
				return m.Dist
			})
			if got != want {
				t.Errorf("topology %d: distances to targets: %s, want %s", i, got, want)
			}
			base, err := top.Distances(t.Context(), nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			var failures []igp.Failure
			for l := range uint32(len(top.Links)) {
				failures = append(failures, igp.Failure{Links: []uint32{l}})
			}
			got, want = both(t, gpu, func(s igp.Solver) any {
				w := igp.WhatIf{Topology: top, Base: base, Exits: targets, Solver: s}
				impacts, err := w.Run(t.Context(), failures)
				if err != nil {
					t.Fatal(err)
				}
				return impacts
			})
			if got != want {
				t.Errorf("topology %d: failures differ", i)
			}
		}
		empty, err := igp.New(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := empty.Distances(t.Context(), nil, nil, gpu); err != nil {
			t.Errorf("no nodes: %v", err)
		}
	})
}

// both gives what is computed with a solver and without one, as texts.
func both(t *testing.T, s igp.Solver, compute func(igp.Solver) any) (got, want string) {
	t.Helper()
	return fmt.Sprint(compute(s)), fmt.Sprint(compute(nil))
}

// overloaded has the overload bit at every fifth node.
func overloaded(t *testing.T, top *igp.Topology) *igp.Topology {
	t.Helper()
	nodes := slices.Clone(top.Nodes)
	for i := 0; i < len(nodes); i += 5 {
		nodes[i].Overload = true
	}
	top, err := igp.New(nodes, top.Links)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func TestFailedGPUIsReplacedByTheProcessor(t *testing.T) {
	const code = 719 // a launch failure, which poisons a context
	dev, err := device.Open(sim.New(0, &sim.Faults{Launch: func(string) int { return code }}), Modules()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dev.Close() }()
	gpu := NewGPU(dev)
	defer gpu.Close()
	top := fixtures.Topology(1, 3000, 20_000)
	roots := make([]uint32, 3000)
	for i := range roots {
		roots[i] = uint32(i)
	}
	for !Pays(len(roots)) { // on very many cores
		roots = append(roots, roots...)
	}
	targets := []uint32{1, 2, 3}
	want, err := top.Distances(t.Context(), roots, targets, nil)
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	auto := &Auto{GPU: gpu, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	got, err := top.Distances(t.Context(), roots, targets, auto)
	if err != nil || !slices.Equal(got.Dist, want.Dist) {
		t.Errorf("error %v, or distances differ", err)
	}
	if !strings.Contains(logged.String(), "the GPU has failed") {
		t.Errorf("logged: %s", logged.String())
	}
	if _, err := top.Distances(t.Context(), roots, targets, gpu); err == nil {
		t.Error("no error of the GPU itself")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := top.Distances(ctx, roots, targets, auto); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// Too little to ask it for.
	logged.Reset()
	if _, err := top.Distances(t.Context(), roots[:1], targets, auto); err != nil || logged.Len() > 0 {
		t.Errorf("error %v, logged: %s", err, logged.String())
	}
}

// BenchmarkSolvers is distances from more and more roots, on all cores and, with the tag cuda, on a GPU, in
// one run: where the two meet is where a GPU pays (Pays). All distances are brought to the host.
func BenchmarkSolvers(b *testing.B) {
	solvers := []struct {
		name   string
		solver igp.Solver
	}{{"cpu", igp.CPU{}}}
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			dev := m.Open(b, Modules())
			defer func() { _ = dev.Close() }()
			gpu := NewGPU(dev)
			defer gpu.Close()
			solvers = append(solvers, struct {
				name   string
				solver igp.Solver
			}{"gpu", gpu})
		}
	}
	for _, size := range []struct{ nodes, arcs int }{{315, 1_944}, {600, 3_600}, {10_000, 40_000}, {100_000, 400_000}} {
		top := fixtures.Topology(1, size.nodes, size.arcs)
		for _, roots := range []int{1, 16, 64, 256, 1_024, 10_000} {
			if roots*size.nodes > 1<<27 {
				continue
			}
			problems := make([]igp.Problem, roots)
			for i := range problems {
				problems[i] = igp.Problem{Root: uint32(i % size.nodes), Skip: igp.NoArc, Skip2: igp.NoArc}
			}
			dist := make([]uint64, roots*size.nodes)
			for _, s := range solvers {
				b.Run(fmt.Sprintf("nodes=%d,roots=%d,%s", size.nodes, roots, s.name), func(b *testing.B) {
					for b.Loop() {
						if err := s.solver.Distances(b.Context(), top.Graph, problems, nil, dist); err != nil {
							b.Fatal(err)
						}
					}
					perRoot := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(roots)
					b.ReportMetric(perRoot, "ns/root")
					b.ReportMetric(float64(OnProcessor(top.Graph, roots).Microseconds()), "us-estimated")
				})
			}
		}
	}
}
