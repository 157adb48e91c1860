package igp_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib/igp"
)

func mustNew(t testing.TB, nodes []igp.Node, links []igp.Link) *igp.Topology {
	t.Helper()
	top, err := igp.New(nodes, links)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func TestWhatATopologyCannotBe(t *testing.T) {
	addr := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	prefix := func(s string) []igp.Prefix { return []igp.Prefix{{Prefix: netip.MustParsePrefix(s)}} }
	two := []igp.Node{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		nodes []igp.Node
		links []igp.Link
		want  string
	}{
		{[]igp.Node{{Name: "a"}, {Name: "a"}}, nil, `node 1 ("a"): its name is another one's already`},
		{[]igp.Node{{}}, nil, "no name"},
		{[]igp.Node{{Name: "a\x1b[2J"}}, nil, "cannot be printed"},
		{[]igp.Node{{Name: "a\xff"}}, nil, "UTF-8"},
		{[]igp.Node{{Name: strings.Repeat("x", 2000)}}, nil, "2000 bytes"},
		{[]igp.Node{{Name: "a", Addresses: addr("fe80::1%eth0")}}, nil, "fe80::1%eth0"},
		{[]igp.Node{{Name: "a", Addresses: addr("::ffff:192.0.2.1")}}, nil, "no plain"},
		{[]igp.Node{{Name: "a", Addresses: make([]netip.Addr, 1)}}, nil, "invalid IP"},
		{[]igp.Node{{Name: "a", Prefixes: prefix("192.0.2.1/24")}}, nil, "host bits"},
		{[]igp.Node{{Name: "a", Prefixes: make([]igp.Prefix, 1)}}, nil, "invalid Prefix"},
		{two, []igp.Link{{From: "a", To: "c"}}, `its node "c" is not there`},
		{two, []igp.Link{{Name: "x", From: "a", To: "b"}, {Name: "x", From: "b", To: "a"}}, `link 1 ("x"): its name is another`},
		{two, []igp.Link{{Name: "x", From: "a", To: "b"}, {Name: "y", ReverseName: "x", From: "b", To: "a"}}, `link 1 ("x"): its name is another`},
		{two, []igp.Link{{Name: "\n", From: "a", To: "b"}}, "cannot be printed"},
	} {
		if _, err := igp.New(c.nodes, c.links); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestLinksGetNames(t *testing.T) {
	top := mustNew(t, []igp.Node{{Name: "a"}, {Name: "b"}}, []igp.Link{
		{From: "a", To: "b", Metric: 1, Reverse: 2},
		{From: "a", To: "b", Metric: 1, Reverse: igp.Unused},
		{Name: "a--b#3", From: "b", To: "a", Metric: 5, Reverse: 5},
		{From: "a", To: "b", Metric: igp.Unused, Reverse: igp.Unused},
		{From: "a", To: "a", Metric: 3, Reverse: 3},
	})
	var names []string
	for i, l := range top.Links {
		names = append(names, l.Name)
		if n, ok := top.Link(l.Name); !ok || int(n) != i {
			t.Errorf("link %q is %d, %t", l.Name, n, ok)
		}
		from, to := top.Ends(uint32(i))
		if top.Nodes[from].Name != l.From || top.Nodes[to].Name != l.To {
			t.Errorf("link %d: ends %d, %d", i, from, to)
		}
		there, back := top.Arcs(uint32(i))
		for _, a := range []uint32{there, back} {
			if a != igp.NoArc && top.ArcLink(a) != uint32(i) {
				t.Errorf("arc %d of link %d is of link %d", a, i, top.ArcLink(a))
			}
		}
	}
	if want := []string{"a--b", "a--b#2", "a--b#3", "a--b#4", "a--a"}; !slices.Equal(names, want) {
		t.Errorf("names %q", names)
	}
	if n := len(top.Graph.Arcs); n != 5 {
		t.Errorf("%d arcs: unused directions and links to oneself are none", n)
	}
}

func TestCostOfAnAddress(t *testing.T) {
	prefix := netip.MustParsePrefix
	addr := netip.MustParseAddr
	top := mustNew(t, []igp.Node{
		{Name: "a", Addresses: []netip.Addr{addr("192.0.2.1"), addr("2001:db8::1")}},
		{Name: "b", Addresses: []netip.Addr{addr("192.0.2.2"), addr("192.0.2.99")}, Prefixes: []igp.Prefix{{prefix("198.51.100.0/24"), 100}, {prefix("198.51.100.8/30"), 5}}},
		{Name: "c", Addresses: []netip.Addr{addr("192.0.2.3"), addr("192.0.2.99")}, Prefixes: []igp.Prefix{{prefix("198.51.100.0/24"), 10}, {prefix("203.0.113.0/24"), igp.Unused}}},
		{Name: "alone", Addresses: []netip.Addr{addr("192.0.2.4")}, Prefixes: []igp.Prefix{{prefix("198.51.100.128/25"), 0}}},
	}, []igp.Link{
		{From: "a", To: "b", Metric: 10, Reverse: 10},
		{From: "a", To: "c", Metric: 40, Reverse: 40},
	})
	dist := top.Tree(0).Dist
	for _, c := range []struct {
		addr string
		cost uint64
		ok   bool
	}{
		{"192.0.2.1", 0, true},
		{"2001:db8::1", 0, true},
		{"192.0.2.2", 10, true},
		{"::ffff:192.0.2.2", 10, true},
		{"192.0.2.99", 10, true},   // the nearer of two
		{"198.51.100.1", 50, true}, // 40 + 10 before 10 + 100
		{"198.51.100.9", 15, true}, // the longer match
		{"198.51.100.200", igp.Unreachable, true},
		{"203.0.113.1", igp.Unreachable, false},
		{"2001:db8::2", igp.Unreachable, false},
	} {
		if cost, ok := top.Cost(dist, addr(c.addr)); cost != c.cost || ok != c.ok {
			t.Errorf("%s: cost %d, %t, want %d, %t", c.addr, cost, ok, c.cost, c.ok)
		}
	}
}

func TestFindByName(t *testing.T) {
	shared := netip.MustParseAddr("192.0.2.99")
	top := mustNew(t, []igp.Node{
		{Name: "Paris1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), shared}},
		{Name: "Paris2", Addresses: []netip.Addr{shared}}, {Name: "Berlin"}, {Name: "x--y"},
	}, []igp.Link{
		{Name: "L1", ReverseName: "L2", From: "Paris1", To: "Berlin", Metric: 1, Reverse: 1},
		{Name: "p", From: "Paris1", To: "Paris2", Metric: 1, Reverse: 1},
		{Name: "q", From: "Paris2", To: "Paris1", Metric: 1, Reverse: 1},
		{Name: "r", From: "x--y", To: "Berlin", Metric: 1, Reverse: 1},
	})
	find := func(kind, name string) (uint32, error) {
		if kind == "link" {
			return top.FindLink(name)
		}
		return top.FindNode(name)
	}
	for _, c := range []struct {
		kind, name string
		want       uint32
		err        string
	}{
		{"node", "Paris2", 1, ""},
		{"node", "192.0.2.1", 0, ""},
		{"node", "192.0.2.99", 0, `2 nodes announce 192.0.2.99: name one, such as "Paris1"`},
		{"node", "192.0.2.5", 0, "no node announces 192.0.2.5"},
		{"node", "paris", 0, `there is no node "paris"; near names: "Paris1", "Paris2"`},
		{"node", "Berlim", 0, `near names: "Berlin"`},
		{"node", "BERLIN", 0, `near names: "Berlin"`},
		{"node", "Tokyo", 0, `there is no node "Tokyo"`},
		{"node", strings.Repeat("a", 1<<20), 0, "there is no node"},
		{"link", "L1", 0, ""},
		{"link", "L2", 0, ""},
		{"link", "Berlin--Paris1", 0, ""},
		{"link", "Berlin--x--y", 3, ""},
		{"link", "x--y--Berlin", 3, ""},
		{"link", "Paris1--Paris2", 0, `2 links join "Paris1" and "Paris2": name one of "p", "q"`},
		{"link", "Berlin--Paris2", 0, `no link joins "Berlin" and "Paris2"`},
		{"link", "l1", 0, `there is no link "l1"; near names: "L1"`},
	} {
		got, err := find(c.kind, c.name)
		if c.err == "" && (err != nil || got != c.want) {
			t.Errorf("%s %q: %d, %v, want %d", c.kind, c.name, got, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s %.80q: error %v, want one with %q", c.kind, c.name, err, c.err)
		}
	}
	var unknown *igp.UnknownError
	if _, err := top.FindNode("nothing"); !errors.As(err, &unknown) {
		t.Errorf("%v is no UnknownError", err)
	}
}

func TestStoreMakesGenerations(t *testing.T) {
	s := igp.NewStore()
	if n := s.Topology().Number; n != 1 {
		t.Errorf("an empty store has generation %d", n)
	}
	put := func(name, from, to string, metric uint32) igp.Change {
		return igp.PutLink{Link: igp.Link{Name: name, From: from, To: to, Metric: metric, Reverse: metric}}
	}
	node := func(name string) igp.Change { return igp.PutNode{Node: igp.Node{Name: name}} }
	// A link may come before its nodes.
	first, err := s.Apply(put("ab", "a", "b", 10), node("a"), node("b"), node("c"), put("bc", "b", "c", 1))
	if err != nil || first.Number != 2 || s.Topology() != first {
		t.Fatalf("generation %d, %v", first.Number, err)
	}
	distance := func(top *igp.Topology, from, to string) uint64 {
		a, okA := top.Node(from)
		b, okB := top.Node(to)
		if !okA || !okB {
			t.Fatalf("%q or %q is not there", from, to)
		}
		return top.Tree(a).Dist[b]
	}
	second, err := s.Apply(put("ab", "a", "b", 20), igp.PutNode{Node: igp.Node{Name: "b", Overload: true}})
	if err != nil {
		t.Fatal(err)
	}
	if d := distance(first, "a", "c"); d != 11 {
		t.Errorf("the first generation has changed: %d", d)
	}
	if d := distance(second, "a", "b"); d != 20 {
		t.Errorf("distance %d after the change", d)
	}
	if d := distance(second, "a", "c"); d != igp.Unreachable {
		t.Errorf("distance %d through an overloaded node", d)
	}
	for _, c := range []struct {
		change igp.Change
		want   string
	}{
		{igp.DropLink{Name: "x"}, `drop link "x": it is not there`},
		{igp.DropNode{Name: "x"}, `drop node "x": it is not there`},
		{put("", "a", "b", 1), "it needs a name"},
		{put("ax", "a", "x", 1), `its node "x" is not there`},
		{node(""), "it has no name"},
	} {
		// The change before it is not made either.
		if _, err := s.Apply(igp.DropLink{Name: "bc"}, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
		if s.Topology() != second {
			t.Fatal("a failed change is in force")
		}
	}
	third, err := s.Apply(igp.DropNode{Name: "b"}, node("d"), put("ad", "a", "d", 3))
	if err != nil {
		t.Fatal(err)
	}
	if len(third.Links) != 1 || distance(third, "a", "d") != 3 {
		t.Errorf("links %+v", third.Links)
	}
	if again, err := s.Apply(); err != nil || again != third {
		t.Errorf("no change: %v, %v", again, err)
	}
	s.Replace(mustNew(t, nil, nil))
	if n := s.Topology().Number; n != 5 {
		t.Errorf("generation %d after Replace", n)
	}
}

// TestStoreIsReadWhileItChanges is for the race detector.
func TestStoreIsReadWhileItChanges(t *testing.T) {
	s := igp.NewStore()
	s.Replace(fixtures.Topology(1, 50, 200))
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 50 {
				top := s.Topology()
				top.Tree(uint32(top.Number) % uint32(len(top.Nodes)))
				top.Cost(top.Tree(0).Dist, netip.MustParseAddr("10.0.0.7"))
			}
		})
	}
	l := s.Topology().Links[3]
	for range 50 {
		l.Metric++
		if _, err := s.Apply(igp.PutLink{Link: l}); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if n := s.Topology().Number; n != 52 {
		t.Errorf("generation %d", n)
	}
}
