package paths

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// backbones are the real topologies.
var backbones = []string{"rf1221", "rf1239", "rf1755", "rf3257", "rf3967", "rf6461"}

func backbone(tb testing.TB, name string) *igp.Topology {
	tb.Helper()
	top, err := igp.ReadFile(fixtures.DataFile(tb, "igp/rocketfuel/"+name+"_real_hard.graph"), igp.ReadOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return top
}

// allRoots are the problems of all nodes, with no arc left out.
func allRoots(g *igp.Graph) []igp.Problem {
	problems := make([]igp.Problem, g.Nodes())
	for i := range problems {
		problems[i] = igp.Problem{Root: uint32(i), Skip: igp.NoArc, Skip2: igp.NoArc}
	}
	return problems
}

// agree compares the distances that a GPU finds with the processor's.
func agree(t *testing.T, gpu *GPU, what string, g *igp.Graph, problems []igp.Problem, targets []uint32) {
	t.Helper()
	width := g.Nodes()
	if targets != nil {
		width = len(targets)
	}
	got, want := make([]uint64, width*len(problems)), make([]uint64, width*len(problems))
	if err := gpu.Distances(t.Context(), g, problems, targets, got); err != nil {
		t.Fatal(err)
	}
	if err := (igp.CPU{}).Distances(t.Context(), g, problems, targets, want); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: problem %+v, distance %d of %d: %d, want %d", what, problems[i/width], i%width, width, got[i], want[i])
		}
	}
}

// All pairs of the real backbones.
func TestBackbones(t *testing.T) {
	devicetest.Each(t, Modules(), func(t *testing.T, dev *device.Device) {
		gpu := NewGPU(dev)
		defer gpu.Close()
		for _, name := range backbones {
			g := backbone(t, name).Graph
			problems := allRoots(g)
			if testing.Short() {
				problems = problems[:20]
			}
			agree(t, gpu, name, g, problems, nil)
			agree(t, gpu, name, g, problems, []uint32{0, 5, uint32(g.Nodes() - 1), 5})
		}
	})
}

// All pairs of random topologies with all that an IGP may have: metrics that are zero, equal, huge or not the same both ways,
// directions that are not used, links beside each other and from a node to itself, islands, overloaded nodes; and any two arcs left out.
func TestRandomTopologies(t *testing.T) {
	metrics := []func(r *rand.Rand) uint32{
		func(*rand.Rand) uint32 { return 0 },
		func(*rand.Rand) uint32 { return 10 },
		func(r *rand.Rand) uint32 { return r.Uint32N(3) },
		func(r *rand.Rand) uint32 { return 1 + r.Uint32N(1<<16) },
		func(r *rand.Rand) uint32 { return igp.Unused - r.Uint32N(3) },
		func(r *rand.Rand) uint32 { return r.Uint32() >> r.IntN(32) },
	}
	devicetest.Each(t, Modules(), func(t *testing.T, dev *device.Device) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		gpu := NewGPU(dev)
		defer gpu.Close()
		times := 60
		if testing.Short() {
			times = 12
		}
		for i := range times {
			metric := metrics[i%len(metrics)]
			nodes := make([]igp.Node, 1+r.IntN([]int{3, 40, 150}[r.IntN(3)]))
			for n := range nodes {
				nodes[n] = igp.Node{Name: fmt.Sprint("n", n), Overload: r.IntN(12) == 0}
			}
			links := make([]igp.Link, r.IntN(4*len(nodes)))
			for l := range links {
				m := metric(r)
				links[l] = igp.Link{From: nodes[r.IntN(len(nodes))].Name, To: nodes[r.IntN(len(nodes))].Name, Metric: m, Reverse: m}
				switch r.IntN(8) {
				case 0:
					links[l].Reverse = metric(r)
				case 1:
					links[l].Reverse = igp.Unused
				case 2:
					links[l].From, links[l].To = links[r.IntN(l+1)].From, links[r.IntN(l+1)].To
				}
			}
			top, err := igp.New(nodes, links)
			if err != nil {
				t.Fatal(err)
			}
			problems := allRoots(top.Graph)
			if arcs := uint32(len(top.Graph.Arcs)); arcs > 0 {
				for range 20 {
					problems = append(problems, igp.Problem{Root: r.Uint32N(uint32(len(nodes))), Skip: r.Uint32N(arcs), Skip2: igp.NoArc},
						igp.Problem{Root: r.Uint32N(uint32(len(nodes))), Skip: r.Uint32N(arcs), Skip2: r.Uint32N(arcs)})
				}
			}
			agree(t, gpu, fmt.Sprintf("topology %d of %d nodes and %d links", i, len(nodes), len(links)), top.Graph, problems, nil)
		}
	})
}
