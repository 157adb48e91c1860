package rib_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/igp"
)

// exits are a RIB whose peers announce prefixes with next hops of an IGP.
type exits struct {
	peers   []rib.PeerConfig
	updates [][]rib.Update // of each peer
}

func hop(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

func randomExits(rng *rand.Rand, peers, prefixes, hops int) exits {
	var e exits
	for i := range peers {
		e.peers = append(e.peers, rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP, Addr: hop(i)})
		var all []rib.Update
		for p := range prefixes {
			if rng.IntN(3) == 0 {
				continue
			}
			u := rib.Update{
				Reach: []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{20, byte(p >> 8), byte(p), 0}), 24)}},
				Attrs: rib.Attrs{NextHop: hop(rng.IntN(hops)), LocalPref: uint32(rng.IntN(8) / 7), HasLocalPref: true},
			}
			if rng.IntN(50) == 0 {
				u.Attrs.NextHop = netip.Addr{}
			}
			all = append(all, u)
		}
		e.updates = append(e.updates, all)
	}
	return e
}

func (e exits) load(t testing.TB, o rib.Options) (*rib.RIB, *rib.Publisher, []*rib.Peer) {
	t.Helper()
	r := rib.New(o)
	var all []*rib.Peer
	for i, c := range e.peers {
		p, err := r.AddPeer(c)
		if err != nil {
			t.Fatal(err)
		}
		p.Up(rib.Session{RouterID: c.Addr, Internal: true})
		for _, u := range e.updates[i] {
			p.Apply(u)
		}
		all = append(all, p)
	}
	return r, rib.NewPublisher(r, &mapEngine{}, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)}), all
}

// routesByName gives the newest generation's routes, with the peers' names: another RIB has others.
func routesByName(t testing.TB, p *rib.Publisher) map[netip.Prefix]string {
	t.Helper()
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := p.Generations().Acquire()
	defer g.Release()
	named := map[netip.Prefix]string{}
	for prefix, r := range contents(g) {
		named[prefix] = fmt.Sprint(r.Peer.Name(), " ", r.Path.Value().NextHop)
	}
	return named
}

func randomCosts(rng *rand.Rand, was costs, hops int) costs {
	if rng.IntN(10) == 0 {
		return costs{}
	}
	is := maps.Clone(was)
	if is == nil {
		is = costs{}
	}
	if rng.IntN(4) == 0 { // all farther by as much
		for h, c := range is {
			if c != rib.UnreachableCost {
				is[h] = c + 100
			}
		}
		return is
	}
	for range 1 + rng.IntN(3) {
		h := hop(rng.IntN(hops))
		switch rng.IntN(6) {
		case 0:
			delete(is, h)
		case 1:
			is[h] = rib.UnreachableCost
		case 2:
			is[h] = 1<<40 + uint64(rng.IntN(3))
		default:
			is[h] = uint64(rng.IntN(4))
		}
	}
	return is
}

// What is decided again after a change of the IGP is what a RIB has that never knew another one.
func TestSetIGPIsAsAFreshRIB(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range 12 {
		hops := 3 + rng.IntN(20)
		e := randomExits(rng, 1+rng.IntN(5), 300, hops)
		r, p, _ := e.load(t, rib.Options{})
		routesByName(t, p)
		var now costs
		for range 25 {
			is := randomCosts(rng, now, hops)
			changes := p.Stats().Changes
			affected := r.SetIGP(is)
			got := routesByName(t, p)
			_, fresh, _ := e.load(t, rib.Options{IGP: is})
			if want := routesByName(t, fresh); !maps.Equal(got, want) {
				t.Fatalf("seed %d: from %v to %v: %v\nwant %v", seed, now, is, got, want)
			}
			if changed := p.Stats().Changes - changes; changed > uint64(affected) {
				t.Fatalf("seed %d: %d routes changed, %d were decided again", seed, changed, affected)
			}
			now = is
		}
		if n := r.SetIGP(maps.Clone(now)); n != 0 {
			t.Fatalf("seed %d: %d destinations decided again though nothing changed", seed, n)
		}
		r.SetIGP(nil)
		_, fresh, _ := e.load(t, rib.Options{})
		if got, want := routesByName(t, p), routesByName(t, fresh); !maps.Equal(got, want) {
			t.Fatalf("seed %d: without an IGP %v\nwant %v", seed, got, want)
		}
	}
}

// joined has up to so many prefixes of neighbouring messages in one, with the first's attributes.
func (e exits) joined(rng *rand.Rand, most int) exits {
	j := exits{peers: e.peers}
	for _, updates := range e.updates {
		var all []rib.Update
		for len(updates) > 0 {
			n := min(1+rng.IntN(most), len(updates))
			u := rib.Update{Attrs: updates[0].Attrs}
			for _, x := range updates[:n] {
				u.Reach = append(u.Reach, x.Reach...)
			}
			all, updates = append(all, u), updates[n:]
		}
		j.updates = append(j.updates, all)
	}
	return j
}

// The same with as many destinations as all cores share, on many pages, together with what peers change in any order.
func TestSetIGPOnAllCoresIsAsAFreshRIB(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0))))
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range 2 {
		const hops = 12
		e := randomExits(rng, 3, 30_000, hops).joined(rng, 12)
		r, p, peers := e.load(t, rib.Options{})
		routesByName(t, p)
		most := 0
		for round := range 6 {
			is := costs{}
			for h := range hops {
				switch cost := rng.IntN(10); cost {
				case 0:
					is[hop(h)] = rib.UnreachableCost
				case 1: // unknown
				default:
					is[hop(h)] = uint64(cost)
				}
			}
			for i, updates := range e.updates {
				for range 200 * (round % 2) {
					u := &updates[rng.IntN(len(updates))]
					u.Attrs.NextHop = hop(rng.IntN(hops))
					peers[i].Apply(*u)
				}
			}
			changes := p.Stats().Changes
			affected := r.SetIGP(is)
			most = max(most, affected)
			got := routesByName(t, p)
			_, fresh, _ := e.load(t, rib.Options{IGP: is})
			if want := routesByName(t, fresh); !maps.Equal(got, want) {
				t.Fatalf("seed %d, round %d: %d routes, want %d, or other ones", seed, round, len(got), len(want))
			}
			g := p.Generations().Acquire()
			if n := len(contents(g)); g.V4 != n {
				t.Fatalf("seed %d, round %d: the generation counts %d routes of %d", seed, round, g.V4, n)
			}
			g.Release()
			if changed := p.Stats().Changes - changes; round%2 == 0 && changed > uint64(affected) {
				t.Fatalf("seed %d, round %d: %d routes changed, %d were decided again", seed, round, changed, affected)
			}
		}
		if most < 5000 {
			t.Fatalf("seed %d: %d destinations at most were decided again: too few for all cores", seed, most)
		}
	}
}

// Only what may come out otherwise is decided again.
func TestSetIGPLeavesWhatComparesAsBefore(t *testing.T) {
	a, b, c := hop(1), hop(2), hop(3)
	e := exits{peers: []rib.PeerConfig{{Name: "a", Kind: rib.KindBGP}, {Name: "b", Kind: rib.KindBGP}}}
	prefix := func(i int) []rib.NLRI {
		return []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{20, 0, byte(i), 0}), 24)}}
	}
	e.updates = [][]rib.Update{
		{{Reach: prefix(1), Attrs: rib.Attrs{NextHop: a}}, {Reach: prefix(2), Attrs: rib.Attrs{NextHop: a}}, {Reach: prefix(3), Attrs: rib.Attrs{NextHop: c}}},
		{{Reach: prefix(1), Attrs: rib.Attrs{NextHop: b}}},
	}
	r, p, _ := e.load(t, rib.Options{IGP: costs{a: 10, b: 20, c: 5}})
	routesByName(t, p)
	for _, x := range []struct {
		name string
		is   costs
		want int
	}{
		{"farther in the same order", costs{a: 15, b: 20, c: 5}, 0},
		{"another order", costs{a: 25, b: 20, c: 5}, 1},
		{"as far", costs{a: 20, b: 20, c: 5}, 1},
		{"a single path becomes unknown", costs{a: 20, b: 20}, 0},
		{"unreachable, also of single paths", costs{a: rib.UnreachableCost, b: 20}, 2},
		{"reachable again", costs{a: 20, b: 20}, 2},
	} {
		if got := r.SetIGP(x.is); got != x.want {
			t.Errorf("%s: %d destinations decided again, want %d", x.name, got, x.want)
		}
		routesByName(t, p)
	}
}

// The IGP changes while peers announce and the publisher runs: in the end all is as the last state
// has it.
func TestSetIGPWhilePeersAnnounce(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	const hops = 10
	other := randomExits(rng, 3, 20_000, hops)
	r, p, peers := other.load(t, rib.Options{})
	var last costs
	var wait sync.WaitGroup
	var done atomic.Bool
	for i, peer := range peers {
		wait.Go(func() {
			for !done.Load() { // while the IGP changes
				for j, u := range other.updates[i][:100] {
					peer.Apply(rib.Update{Unreach: u.Reach})
					peer.Apply(other.updates[i][(j+1)%100])
				}
			}
		})
	}
	wait.Go(func() {
		for !done.Load() {
			if err := p.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 60 {
		last = randomCosts(rng, last, hops)
		r.SetIGP(last)
	}
	done.Store(true)
	wait.Wait()
	got, want := routesByName(t, p), map[netip.Prefix]string{}
	for _, updates := range other.updates {
		for _, u := range updates {
			if all := r.Paths(u.Reach[0].Prefix); len(all) > 0 && all[0].LostBy == "" {
				want[u.Reach[0].Prefix] = fmt.Sprint(all[0].Route.Peer.Name(), " ", all[0].Route.Path.Value().NextHop)
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("seed %d: %d routes, want %d, or other ones", seed, len(got), len(want))
	}
}

// What a change of the IGP decides otherwise is published though no peer says anything.
func TestSetIGPIsPublished(t *testing.T) {
	e := randomExits(rand.New(rand.NewPCG(1, 1)), 1, 100, 1)
	r, p, _ := e.load(t, rib.Options{})
	before := len(routesByName(t, p))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = p.Run(ctx) }()
	time.Sleep(10 * time.Millisecond) // what the load has to say is over
	r.SetIGP(costs{hop(0): rib.UnreachableCost})
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		g := p.Generations().Acquire()
		n := g.V4
		g.Release()
		if n < before/2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d routes of %d, all with next hops out of reach", n, before)
		}
	}
}

// Tables that are made later have the IGP, too.
func TestTablesSetIGP(t *testing.T) {
	tables := rib.NewTables(rib.TablesOptions{Engine: &mapEngine{}})
	defer tables.Close()
	far := hop(1)
	tables.SetIGP(costs{far: rib.UnreachableCost})
	for _, name := range []string{rib.DefaultTable, "later"} {
		table, err := tables.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := table.RIB.AddPeer(rib.PeerConfig{Name: "p", Kind: rib.KindBGP})
		if err != nil {
			t.Fatal(err)
		}
		p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: aPrefix}}, Attrs: rib.Attrs{NextHop: far}})
		if got := table.RIB.Paths(aPrefix)[0].LostBy; got != "unreachable" {
			t.Errorf("table %s: lost by %q", name, got)
		}
	}
}

// rootCosts are the costs from a router of a topology.
type rootCosts struct {
	t    *igp.Topology
	dist []uint64
}

func (c rootCosts) Cost(a netip.Addr) (uint64, bool) { return c.t.Cost(c.dist, a) }

// BenchmarkTopologyChange is a link's metric in an IGP of 1,000 routers until the generation is published that
// goes by it: 1.29 M routes of two peers with 500 next hops. One link is a random one that the root uses;
// worst is the root's own one, of which much depends.
func BenchmarkTopologyChange(b *testing.B) {
	const routers, hops, root = 1000, 500, 999
	var updates []rib.Update
	routes := 0
	for u := range fixtures.Generate(1, 1_042_325, 246_175).Updates(500) {
		u.Reach = slices.Clone(u.Reach)
		updates = append(updates, u)
		routes += len(u.Reach)
	}
	r := rib.New(rib.Options{})
	publisher := rib.NewPublisher(r, nullEngine{}, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 2 {
		p, err := r.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP, Addr: hop(i)})
		if err != nil {
			b.Fatal(err)
		}
		p.Up(rib.Session{RouterID: hop(i), Internal: true})
		for _, u := range updates {
			u.Attrs.NextHop, _ = fixtures.RouterAddrs(rng.IntN(hops))
			p.Apply(u)
		}
	}
	was := fixtures.Topology(1, routers, 4*routers)
	store := igp.NewStore()
	store.Replace(was)
	costsNow := func() rib.IGPCost {
		t := store.Topology()
		return rootCosts{t, t.Tree(root).Dist}
	}
	r.SetIGP(costsNow())
	if err := publisher.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	dist := was.Tree(root).Dist
	for _, c := range []struct {
		name string
		uses func(from, to uint32) bool
	}{
		{"one link", func(from, to uint32) bool { return from != root && to != root }},
		{"worst", func(from, to uint32) bool { return from == root || to == root }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var links []igp.Link
			for i, l := range was.Links {
				from, to := was.Ends(uint32(i))
				if (dist[from]+uint64(l.Metric) == dist[to] || dist[to]+uint64(l.Reverse) == dist[from]) && c.uses(from, to) {
					links = append(links, l)
				}
			}
			var affected, scan, n int
			for b.Loop() {
				l := links[n/2%len(links)]
				if n%2 == 0 {
					l.Metric, l.Reverse = 5000, 5000
				}
				n++
				if _, err := store.Apply(igp.PutLink{Link: l}); err != nil {
					b.Fatal(err)
				}
				affected += r.SetIGP(costsNow())
				scan++
				if err := publisher.Flush(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(routes), "routes")
			b.ReportMetric(float64(affected)/float64(scan), "decided-again")
		})
	}
}
