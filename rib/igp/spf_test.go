package igp_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/igp"
)

func allPairs(t testing.TB, top *igp.Topology) *igp.Matrix {
	t.Helper()
	m, err := top.Distances(t.Context(), nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRealTopologiesAsGonum(t *testing.T) {
	for _, name := range realTopologies {
		t.Run(name, func(t *testing.T) {
			top := readReal(t, name)
			m := allPairs(t, top)
			for u, want := range gonumDistances(top) {
				if !slices.Equal(m.Row(u), want) {
					t.Fatalf("distances from %s differ", top.Nodes[u].Name)
				}
			}
		})
	}
}

func TestGeneratedTopologyAsGonum(t *testing.T) {
	top := fixtures.Topology(3, 400, 1600)
	m := allPairs(t, top)
	for u, want := range gonumDistances(top) {
		if !slices.Equal(m.Row(u), want) {
			t.Fatalf("distances from node %d differ", u)
		}
	}
}

func TestRandomDistances(t *testing.T) {
	eachRandom(t, 60, 40, 120, func(t *testing.T, r *rand.Rand, top *igp.Topology) {
		arcs := arcsOf(top)
		m := allPairs(t, top)
		for u := range top.Nodes {
			if got, want := m.Row(u), bellmanFord(top, arcs, uint32(u)); !slices.Equal(got, want) {
				t.Errorf("from %d: %v, want %v", u, got, want)
			}
		}
	})
}

// TestSkippedArcs asks for paths without one link, for some targets.
func TestSkippedArcs(t *testing.T) {
	eachRandom(t, 30, 20, 60, func(t *testing.T, r *rand.Rand, top *igp.Topology) {
		var problems []igp.Problem
		var want []uint64
		targets := []uint32{uint32(r.IntN(len(top.Nodes))), uint32(r.IntN(len(top.Nodes)))}
		for l := range top.Links {
			root := uint32(r.IntN(len(top.Nodes)))
			there, back := top.Arcs(uint32(l))
			problems = append(problems, igp.Problem{Root: root, Skip: there, Skip2: back})
			arcs := slices.DeleteFunc(arcsOf(top), func(a arc) bool { return a.link == uint32(l) })
			dist := bellmanFord(top, arcs, root)
			want = append(want, dist[targets[0]], dist[targets[1]])
		}
		got := make([]uint64, len(want))
		if err := (igp.CPU{Workers: 1 + r.IntN(4)}).Distances(t.Context(), top.Graph, problems, targets, got); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestLongestSumIsExact(t *testing.T) {
	const hops, metric = 1000, igp.Unused - 1
	var nodes []igp.Node
	var links []igp.Link
	for i := range hops + 1 {
		_, v6 := fixtures.RouterAddrs(i)
		nodes = append(nodes, igp.Node{Name: v6.String()})
		if i > 0 {
			links = append(links, igp.Link{From: nodes[i-1].Name, To: nodes[i].Name, Metric: metric, Reverse: metric - 1})
		}
	}
	top, err := igp.New(nodes, links)
	if err != nil {
		t.Fatal(err)
	}
	m := allPairs(t, top)
	if got, want := m.Row(0)[hops], uint64(hops)*metric; got != want {
		t.Errorf("there %d, want %d", got, want)
	}
	if got, want := m.Row(hops)[0], uint64(hops)*(metric-1); got != want {
		t.Errorf("back %d, want %d", got, want)
	}
}

func TestDistancesEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fixtures.Topology(1, 100, 300).Distances(ctx, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestNoNodes(t *testing.T) {
	top, err := igp.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := allPairs(t, top); len(m.Dist) != 0 {
		t.Errorf("%v", m)
	}
}

// TestQueuesAgree computes everything with the heap, too, and sees to it that the kinds of metrics bring both
// queues, and that every node comes out of them once: behind all whose paths to it are shortest, from the heap
// by distance.
func TestQueuesAgree(t *testing.T) {
	heaps, rings := 0, 0
	compare := func(t *testing.T, top *igp.Topology) {
		if igp.HasBuckets(top.Graph) {
			rings++
		} else {
			heaps++
		}
		run, heapRun := igp.NewRun(top.Graph), igp.NewHeapRun(top.Graph)
		got, want := make([]uint64, len(top.Nodes)), make([]uint64, len(top.Nodes))
		for root := range uint32(len(top.Nodes)) {
			p := igp.Problem{Root: root, Skip: igp.NoArc, Skip2: igp.NoArc}
			run.Distances(p, got)
			heapRun.Distances(p, want)
			if !slices.Equal(got, want) {
				t.Fatalf("from %d: %v, by the heap %v", root, got, want)
			}
			checkOrder(t, top, root, got, run.Order())
			checkOrder(t, top, root, got, heapRun.Order())
			if !slices.IsSortedFunc(heapRun.Order(), func(a, b uint32) int { return cmp.Compare(got[a], got[b]) }) {
				t.Fatalf("from %d: the heap's order is %v", root, heapRun.Order())
			}
		}
	}
	eachRandom(t, 20, 60, 200, func(t *testing.T, _ *rand.Rand, top *igp.Topology) { compare(t, top) })
	for _, name := range realTopologies {
		t.Run(name, func(t *testing.T) {
			top := readReal(t, name)
			if !igp.HasBuckets(top.Graph) {
				t.Error("no buckets")
			}
			compare(t, top)
		})
	}
	compare(t, fixtures.Topology(1, 1000, 4000))
	if heaps == 0 || rings == 0 {
		t.Errorf("%d graphs with a heap, %d with buckets", heaps, rings)
	}
}

func checkOrder(t *testing.T, top *igp.Topology, root uint32, dist []uint64, order []uint32) {
	t.Helper()
	place := make(map[uint32]int, len(order))
	for i, v := range order {
		place[v] = i
	}
	reached := 0
	for _, d := range dist {
		if d != igp.Unreachable {
			reached++
		}
	}
	if len(order) != reached || len(place) != reached {
		t.Fatalf("from %d: %d steps for %d nodes of %d", root, len(order), len(place), reached)
	}
	tree := top.Tree(root)
	for _, v := range order {
		for _, h := range tree.LastHops(v) {
			if dist[h.Node] < dist[v] && place[h.Node] > place[v] {
				t.Fatalf("from %d: node %d comes before node %d, which is before it on a path", root, v, h.Node)
			}
		}
	}
}
