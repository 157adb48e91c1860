package igp_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/rib/igp"
)

// simplePaths gives, by node, all shortest paths from root that visit no node twice, as texts of their
// links and nodes, and the first links and last links of these, by trying all paths.
func simplePaths(t *igp.Topology, root uint32) (paths []map[string]bool, first, last []map[uint32]bool) {
	arcs := arcsOf(t)
	n := len(t.Nodes)
	best := make([]uint64, n)
	paths, first, last = make([]map[string]bool, n), make([]map[uint32]bool, n), make([]map[uint32]bool, n)
	for i := range n {
		best[i] = igp.Unreachable
	}
	visited := make([]bool, n)
	var walked []arc
	var walk func(u uint32, cost uint64)
	walk = func(u uint32, cost uint64) {
		if cost < best[u] {
			best[u] = cost
			paths[u], first[u], last[u] = map[string]bool{}, map[uint32]bool{}, map[uint32]bool{}
		}
		if cost == best[u] {
			text := ""
			for _, a := range walked {
				text += fmt.Sprintf(" %d-%d", a.link, a.to)
			}
			paths[u][text] = true
			if len(walked) > 0 {
				first[u][walked[0].link] = true
				last[u][walked[len(walked)-1].link] = true
			}
		}
		if t.Nodes[u].Overload && u != root {
			return
		}
		visited[u] = true
		for _, a := range arcs {
			if a.from == u && !visited[a.to] {
				walked = append(walked, a)
				walk(a.to, cost+a.metric)
				walked = walked[:len(walked)-1]
			}
		}
		visited[u] = false
	}
	walk(root, 0)
	return paths, first, last
}

func sortedKeys(m map[uint32]bool) []uint32 {
	var keys []uint32
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestEqualCostSetsAsAllPathsTried(t *testing.T) {
	several := 0
	eachRandom(t, 150, 7, 14, func(t *testing.T, r *rand.Rand, top *igp.Topology) {
		root := uint32(r.IntN(len(top.Nodes)))
		paths, first, last := simplePaths(top, root)
		tree := top.Tree(root)
		zero := slices.ContainsFunc(arcsOf(top), func(a arc) bool { return a.metric == 0 })
		for v := range uint32(len(top.Nodes)) {
			if got, want := firstLinks(tree.FirstHops(v)), sortedKeys(first[v]); !slices.Equal(got, want) {
				t.Errorf("first hops from %d to %d: links %v, want %v", root, v, got, want)
			}
			if len(first[v]) > 1 {
				several++
			}
			// With metrics of 0 a link can be the last of a shortest walk that came by its end before.
			got, want := firstLinks(tree.LastHops(v)), sortedKeys(last[v])
			if zero {
				got = slices.DeleteFunc(got, func(l uint32) bool { return !slices.Contains(want, l) })
			}
			if !slices.Equal(got, want) {
				t.Errorf("last hops from %d to %d: links %v, want %v", root, v, got, want)
			}
			found, more := tree.Paths(v, 1000)
			texts := map[string]bool{}
			for _, p := range found {
				text := ""
				for _, h := range p {
					text += fmt.Sprintf(" %d-%d", h.Link, h.Node)
				}
				texts[text] = true
			}
			if more || len(found) != len(paths[v]) || fmt.Sprint(texts) != fmt.Sprint(paths[v]) && len(texts)+len(paths[v]) > 0 {
				t.Errorf("paths from %d to %d: %v, more %t, want %v", root, v, texts, more, paths[v])
			}
		}
	})
	if several == 0 {
		t.Error("no node had more than one first hop: the test sees nothing")
	}
}

// TestEqualCostSetsOfRealTopologies holds first hops to gonum's distances: a neighbour is one where the
// link to it and its own distance are the whole.
func TestEqualCostSetsOfRealTopologies(t *testing.T) {
	for _, name := range realTopologies {
		t.Run(name, func(t *testing.T) {
			top := readReal(t, name)
			dist := gonumDistances(top)
			arcs := arcsOf(top)
			several := 0
			for root := range uint32(len(top.Nodes)) {
				tree := top.Tree(root)
				if !slices.Equal(tree.Dist, dist[root]) {
					t.Fatalf("distances from %d", root)
				}
				for v := range uint32(len(top.Nodes)) {
					var first, last []uint32
					for _, a := range arcs {
						if v == root {
							break
						}
						if a.from == root && a.metric+dist[a.to][v] == dist[root][v] {
							first = append(first, a.link)
						}
						if a.to == v && dist[root][a.from]+a.metric == dist[root][v] {
							last = append(last, a.link)
						}
					}
					slices.Sort(first)
					slices.Sort(last)
					if got := firstLinks(tree.FirstHops(v)); !slices.Equal(got, first) {
						t.Fatalf("first hops from %d to %d: links %v, want %v", root, v, got, first)
					}
					if got := firstLinks(tree.LastHops(v)); !slices.Equal(got, last) {
						t.Fatalf("last hops from %d to %d: links %v, want %v", root, v, got, last)
					}
					if len(first) > 1 {
						several++
					}
				}
			}
			if several == 0 {
				t.Error("no equal-cost paths: the test sees nothing")
			}
		})
	}
}

// TestManyFirstHops has more first hops than a word has bits.
func TestManyFirstHops(t *testing.T) {
	nodes := []igp.Node{{Name: "root"}, {Name: "end"}}
	var links []igp.Link
	for i := range 150 {
		nodes = append(nodes, igp.Node{Name: fmt.Sprint("n", i)})
		links = append(links, igp.Link{From: "root", To: nodes[2+i].Name, Metric: 5, Reverse: 5}, igp.Link{From: nodes[2+i].Name, To: "end", Metric: 1, Reverse: 1})
	}
	top, err := igp.New(nodes, links)
	if err != nil {
		t.Fatal(err)
	}
	tree := top.Tree(0)
	if n := len(tree.FirstHops(1)); n != 150 {
		t.Errorf("%d first hops", n)
	}
	if paths, more := tree.Paths(1, 150); len(paths) != 150 || more {
		t.Errorf("%d paths, more %t", len(paths), more)
	}
	if paths, more := tree.Paths(1, 149); len(paths) != 149 || !more {
		t.Errorf("%d paths, more %t", len(paths), more)
	}
}

// TestPathsAreBounded has 2^40 equal-cost paths.
func TestPathsAreBounded(t *testing.T) {
	nodes := []igp.Node{{Name: "0"}}
	var links []igp.Link
	for i := range 40 {
		nodes = append(nodes, igp.Node{Name: fmt.Sprint(i + 1)})
		for range 2 {
			links = append(links, igp.Link{From: fmt.Sprint(i), To: fmt.Sprint(i + 1)})
		}
	}
	for _, metric := range []uint32{0, 1} {
		for i := range links {
			links[i].Metric, links[i].Reverse = metric, metric
		}
		top, err := igp.New(nodes, slices.Clone(links))
		if err != nil {
			t.Fatal(err)
		}
		if paths, more := top.Tree(0).Paths(40, 10); len(paths) != 10 || !more {
			t.Errorf("metric %d: %d paths, more %t", metric, len(paths), more)
		}
	}
}
