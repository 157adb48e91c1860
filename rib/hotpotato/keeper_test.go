package hotpotato

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// taken is a Tables that keeps what it got last.
type taken struct {
	mu    sync.Mutex
	last  rib.IGPCost
	calls int
}

func (x *taken) SetIGP(c rib.IGPCost) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = c
	x.calls++
	return 7
}

func (x *taken) cost(t *testing.T, a string) (uint64, bool) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.last == nil {
		t.Fatal("no costs")
	}
	return x.last.Cost(netip.MustParseAddr(a))
}

// script is a Source that gives one topology after the other.
type script struct {
	mu   sync.Mutex
	next []*igp.Topology
	err  error
}

func (s *script) Topology() (*igp.Topology, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.next) == 0 {
		return nil, s.err
	}
	t := s.next[0]
	s.next = s.next[1:]
	return t, nil
}

func read(t *testing.T, json string) *igp.Topology {
	t.Helper()
	topology, err := igp.Read(strings.NewReader(json), igp.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// square is a -- b -- c, and d alone.
func square(t *testing.T) *igp.Topology {
	return read(t, `{"nodes": [{"name": "a", "addresses": ["192.0.2.1"]}, {"name": "b", "addresses": ["192.0.2.2"]},
		{"name": "c", "addresses": ["192.0.2.3"], "prefixes": [{"prefix": "198.51.100.0/24", "metric": 5}]}, {"name": "d", "addresses": ["192.0.2.4"]}],
		"links": [{"from": "a", "to": "b", "metric": 10}, {"from": "b", "to": "c", "metric": 20}]}`)
}

func newKeeper(t *testing.T) (*Keeper, *taken) {
	tables := &taken{}
	return New(Options{Tables: tables, Log: slog.New(slog.DiscardHandler)}), tables
}

func TestCostsOfTheRoot(t *testing.T) {
	for _, strict := range []bool{false, true} {
		k, tables := newKeeper(t)
		k.Set(Config{Root: "192.0.2.1", StrictNextHops: strict}, File(square(t)))
		for _, x := range []struct {
			to   string
			cost uint64
			ok   bool
		}{
			{"192.0.2.1", 0, true},
			{"192.0.2.2", 10, true},
			{"192.0.2.3", 30, true},
			{"198.51.100.9", 35, true}, // its prefix
			{"::ffff:198.51.100.9", 35, true},
			{"192.0.2.4", rib.UnreachableCost, true},
			{"203.0.113.1", 0, false}, // nobody's
		} {
			want, wantOK := x.cost, x.ok
			if strict && !x.ok {
				want, wantOK = rib.UnreachableCost, true
			}
			if got, ok := tables.cost(t, x.to); ok != wantOK || ok && got != want {
				t.Errorf("strict %v, to %s: %d, %v; want %d, %v", strict, x.to, got, ok, want, wantOK)
			}
		}
		s := k.Status()
		if s.RootNode != "a" || s.Nodes != 4 || s.Links != 2 || s.Generation != 2 || s.LastError != "" || s.DecidedAgain != 7 || s.Changes != 1 {
			t.Errorf("status %+v", s)
		}
	}
}

// Without a root, or with one that is not there, all next hops cost the same.
func TestRootThatIsNotThere(t *testing.T) {
	k, tables := newKeeper(t)
	k.Set(Config{}, File(square(t)))
	if tables.last != nil || k.Status().LastError != "" {
		t.Errorf("without a root: %v, %+v", tables.last, k.Status())
	}
	k.Set(Config{Root: "nobody"}, File(square(t)))
	if s := k.Status(); tables.last != nil || !strings.Contains(s.LastError, "nobody") || s.RootNode != "" {
		t.Errorf("with a wrong root: %v, %+v", tables.last, s)
	}
	k.Set(Config{Root: "d"}, File(square(t)))
	if cost, _ := tables.cost(t, "192.0.2.1"); cost != rib.UnreachableCost {
		t.Errorf("from d: %d", cost)
	}
	k.Set(Config{Root: "d"}, nil)
	if s := k.Status(); tables.last != nil || s.Nodes != 0 || len(k.Topology().Nodes) != 0 {
		t.Errorf("without a source: %v, %+v", tables.last, s)
	}
}

func TestRunFollowsTheSource(t *testing.T) {
	k, tables := newKeeper(t)
	s := &script{next: []*igp.Topology{square(t)}}
	k.Set(Config{Root: "a"}, s)
	go k.Run(t.Context())
	near := read(t, `{"nodes": [{"name": "a"}, {"name": "b", "addresses": ["192.0.2.2"]}], "links": [{"from": "a", "to": "b", "metric": 3}]}`)
	s.mu.Lock()
	s.next = append(s.next, near)
	s.mu.Unlock()
	k.Notify()
	await(t, func() bool { c, _ := tables.cost(t, "192.0.2.2"); return c == 3 })
	s.mu.Lock()
	s.err = errors.New("broken")
	s.mu.Unlock()
	k.Notify()
	await(t, func() bool { return k.Status().Failures == 1 })
	if c, _ := tables.cost(t, "192.0.2.2"); c != 3 || k.Status().LastError != "broken" {
		t.Errorf("after an error: %d, %+v", c, k.Status())
	}
}

func await(t *testing.T, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// Costs from many routers at once are those from each of them.
func TestFromEachIsFrom(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range 20 {
		n := 2 + rng.IntN(60)
		base := fixtures.Topology(rng.Uint64(), n, 4*n)
		nodes := slices.Clone(base.Nodes)
		for i := range nodes {
			nodes[i].Overload = rng.IntN(5) == 0
			if rng.IntN(3) == 0 {
				nodes[i].Prefixes = []igp.Prefix{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(rng.IntN(3)), 0, 0}), 16), Metric: uint32(rng.IntN(300))}}
			}
		}
		topology, err := igp.New(nodes, base.Links[:rng.IntN(len(base.Links))]) // parts are cut off
		if err != nil {
			t.Fatal(err)
		}
		k, _ := newKeeper(t)
		k.Set(Config{StrictNextHops: rng.IntN(2) == 0}, File(topology))
		hops := []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("20.1.2.3"), netip.MustParseAddr("20.0.2.3")}
		for range rng.IntN(10) {
			v4, v6 := fixtures.RouterAddrs(rng.IntN(n))
			hops = append(hops, v4, v6)
		}
		var roots []uint32
		for range 1 + rng.IntN(8) {
			roots = append(roots, uint32(rng.IntN(n)))
		}
		each, err := k.FromEach(t.Context(), topology, roots, hops)
		if err != nil {
			t.Fatal(err)
		}
		for i, root := range roots {
			one := k.From(topology, root)
			for _, h := range hops {
				got, gotOK := each[i].Cost(h)
				want, wantOK := one.Cost(h)
				if gotOK != wantOK || gotOK && got != want {
					t.Fatalf("seed %d: from %d to %s: %d, %v; want %d, %v", seed, root, h, got, gotOK, want, wantOK)
				}
			}
		}
	}
}
