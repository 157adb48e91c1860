package rib_test

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// nestedExits announce prefixes inside each other.
func nestedExits(rng *rand.Rand, peers, hops int) exits {
	var e exits
	for i := range peers {
		e.peers = append(e.peers, rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP, Addr: hop(i)})
		var all []rib.Update
		for range 60 {
			p, _ := netip.AddrFrom4([4]byte{20, byte(rng.IntN(2)), byte(rng.IntN(4)), byte(rng.IntN(256))}).Prefix(rng.IntN(33))
			all = append(all, rib.Update{Reach: []rib.NLRI{{Prefix: p}}, Attrs: rib.Attrs{NextHop: hop(rng.IntN(hops)), LocalPref: uint32(rng.IntN(8) / 7), HasLocalPref: true}})
		}
		e.updates = append(e.updates, all)
	}
	return e
}

func flush(t *testing.T, r *rib.RIB) *rib.Generation {
	t.Helper()
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := rib.NewPublisher(r, engine, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := p.Generations().Acquire()
	t.Cleanup(g.Release)
	return g
}

func find(t *testing.T, g *rib.Generation, ip netip.Addr) lpm.Handle {
	t.Helper()
	var h [1]lpm.Handle
	if err := g.Table.Lookup4(h[:], []uint32{lpm.Addr4(ip)}); err != nil {
		t.Fatal(err)
	}
	return h[0]
}

func said(r rib.Route) string {
	if r == (rib.Route{}) {
		return "none"
	}
	return fmt.Sprint(r.Prefix, " by ", r.Peer.Name(), " to ", r.Path.Value().NextHop)
}

// A view is the table that a RIB of the router's own would have.
func TestViewIsAsARIBOfTheRouter(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range 25 {
		hops := 3 + rng.IntN(8)
		e := nestedExits(rng, 1+rng.IntN(4), hops)
		some := func() costs {
			c := costs{}
			for i := range hops {
				switch rng.IntN(5) {
				case 0:
					c[hop(i)] = rib.UnreachableCost
				case 1:
				default:
					c[hop(i)] = uint64(rng.IntN(5))
				}
			}
			return c
		}
		r, _, _ := e.load(t, rib.Options{IGP: some()})
		g := flush(t, r)
		viewer := r.Viewer(g)
		for range 4 {
			from := some()
			view := viewer.From(from)
			own, _, _ := e.load(t, rib.Options{IGP: from})
			want := flush(t, own)
			for range 300 {
				ip := netip.AddrFrom4([4]byte{20, byte(rng.IntN(2)), byte(rng.IntN(4)), byte(rng.IntN(256))})
				if got, want := said(view.Lookup(ip, find(t, g, ip))), said(want.Route(find(t, want, ip))); got != want {
					t.Fatalf("seed %d: %s: %s, want %s", seed, ip, got, want)
				}
			}
			var behind netip.Prefix
			half := netip.MustParsePrefix("20.1.0.0/16")
			for _, f := range []*rib.Filter{
				{},
				{Prefixes: []func(netip.Prefix) bool{func(p netip.Prefix) bool { return p.Bits() > 16 && rib.Inside(p, half) }}, Spans: []rib.Span{{Of: half}}},
				{Others: []func(rib.Route) bool{func(r rib.Route) bool { return r.Peer.Name() == "0" }}},
				{Attrs: []func(*rib.Attrs) bool{func(a *rib.Attrs) bool { return a.NextHop == hop(1) }}},
			} {
				var got, all []string
				for r := range view.Routes(f, behind, math.MaxInt) {
					got = append(got, said(r))
				}
				for r := range f.Routes(want, behind, math.MaxInt) {
					all = append(all, said(r))
				}
				if !slices.Equal(got, all) {
					t.Fatalf("seed %d: routes behind %s:\n%s\nwant\n%s", seed, behind, strings.Join(got, "\n"), strings.Join(all, "\n"))
				}
				u := e.updates[rng.IntN(len(e.updates))]
				behind = u[rng.IntN(len(u))].Reach[0].Prefix.Masked()
			}
			for range view.Routes(&rib.Filter{}, netip.Prefix{}, 1) {
				break
			}
			for _, updates := range e.updates {
				for _, u := range updates {
					p := u.Reach[0].Prefix
					best := want.Route(want.Table.Find(p))
					if got := view.Exact(p); said(got) != said(best) {
						t.Fatalf("seed %d: exactly %s: %s, want %s", seed, p, said(got), said(best))
					}
					paths, all := view.Paths(p), own.Paths(p)
					if len(paths) != len(all) {
						t.Fatalf("seed %d: %s: %d paths, want %d", seed, p, len(paths), len(all))
					}
					for i := range paths {
						if paths[i].LostBy != all[i].LostBy || said(paths[i].Route) != said(all[i].Route) {
							t.Fatalf("seed %d: %s: path %d %+v, want %+v", seed, p, i, paths[i], all[i])
						}
					}
					if cost, ok := view.Cost(best); best != (rib.Route{}) {
						if want, known := from[best.Path.Value().NextHop]; ok != known || ok && cost != want {
							t.Fatalf("seed %d: cost %d, %v; want %d, %v", seed, cost, ok, want, known)
						}
					}
				}
			}
		}
	}
}

// A handle that is another prefix's by now answers nothing of that one, and peers that came later are known.
func TestViewOfAnOldGeneration(t *testing.T) {
	e := exits{peers: []rib.PeerConfig{{Name: "a", Kind: rib.KindBGP}}}
	one, two := netip.MustParsePrefix("20.0.0.0/24"), netip.MustParsePrefix("30.0.0.0/24")
	e.updates = [][]rib.Update{{{Reach: []rib.NLRI{{Prefix: one}}, Attrs: rib.Attrs{NextHop: hop(1)}}}}
	r, p, peers := e.load(t, rib.Options{})
	routesByName(t, p)
	g := p.Generations().Acquire()
	defer g.Release()
	h := g.Table.(*mapTable).handles[one]
	view := func() *rib.View { return r.Viewer(g).From(costs{hop(1): 1}) }
	if got := said(view().Route(h)); got != "20.0.0.0/24 by a to 10.0.0.1" {
		t.Errorf("before: %s", got)
	}
	early := view()
	early.Route(h)
	peers[0].Apply(rib.Update{Unreach: []rib.NLRI{{Prefix: one}}})
	routesByName(t, p)
	b, err := r.AddPeer(rib.PeerConfig{Name: "b", Kind: rib.KindBGP})
	if err != nil {
		t.Fatal(err)
	}
	b.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: two}}, Attrs: rib.Attrs{NextHop: hop(1)}})
	routesByName(t, p)
	if got := said(view().Route(h)); got != "none" {
		t.Errorf("its handle is another's: %s", got)
	}
	if got := said(early.Exact(two)); got != "30.0.0.0/24 by b to 10.0.0.1" {
		t.Errorf("a peer that came later: %s", got)
	}
}

// What the root has lost since the generation is listed once.
func TestListingOfAnOldGeneration(t *testing.T) {
	e := exits{peers: []rib.PeerConfig{{Name: "a", Kind: rib.KindBGP}}}
	var updates []rib.Update
	for i := range 3 {
		updates = append(updates, rib.Update{Reach: []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{20, 0, byte(i), 0}), 24)}}, Attrs: rib.Attrs{NextHop: hop(i)}})
	}
	e.updates = [][]rib.Update{updates}
	r, _, _ := e.load(t, rib.Options{})
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := rib.NewPublisher(r, engine, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
	var generations []*rib.Generation
	for _, c := range []rib.IGPCost{nil, costs{hop(0): rib.UnreachableCost, hop(1): rib.UnreachableCost}} {
		r.SetIGP(c)
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		g := p.Generations().Acquire()
		defer g.Release()
		generations = append(generations, g)
	}
	for i, g := range generations {
		var got []string
		for x := range r.View(g, costs{}).Routes(&rib.Filter{}, netip.Prefix{}, math.MaxInt) {
			got = append(got, x.Prefix.String())
		}
		if want := []string{"20.0.0.0/24", "20.0.1.0/24", "20.0.2.0/24"}; !slices.Equal(got, want) {
			t.Errorf("generation %d: %v, want %v", i, got, want)
		}
	}
}

// Views of one Viewer go by the same paths, whatever peers say meanwhile.
func TestViewsOfAViewerAgree(t *testing.T) {
	p := netip.MustParsePrefix("20.0.0.0/24")
	var e exits
	for i := range 3 {
		e.peers = append(e.peers, rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP, Addr: hop(i)})
		e.updates = append(e.updates, []rib.Update{{Reach: []rib.NLRI{{Prefix: p}}, Attrs: rib.Attrs{NextHop: hop(i)}}})
	}
	r, publisher, peers := e.load(t, rib.Options{})
	routesByName(t, publisher)
	g := publisher.Generations().Acquire()
	defer g.Release()
	h := g.Table.(*mapTable).handles[p]
	for i, peer := range peers { // the publisher has not seen this yet
		peer.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: p}}, Attrs: rib.Attrs{NextHop: hop(i), HasMED: true}})
	}
	viewer := r.Viewer(g)
	before := said(viewer.From(costs{hop(1): 1}).Route(h))
	for _, peer := range peers {
		peer.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: p}}, Attrs: rib.Attrs{NextHop: hop(9)}})
	}
	if after := said(viewer.From(costs{hop(1): 1}).Route(h)); after != before {
		t.Errorf("%s, then %s", before, after)
	}
}

// BenchmarkView answers a million addresses from another router: 4 exits a prefix, 200,000 prefixes.
func BenchmarkView(b *testing.B) {
	updates, _ := fullTable(b, 500)
	updates = updates[:len(updates)/5]
	r := rib.New(rib.Options{})
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 4 {
		p, err := r.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP, Addr: hop(i)})
		if err != nil {
			b.Fatal(err)
		}
		for _, u := range updates {
			u.Attrs.NextHop = hop(rng.IntN(500))
			p.Apply(u)
		}
	}
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		b.Fatal(err)
	}
	publisher := rib.NewPublisher(r, engine, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
	if err := publisher.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	g := publisher.Generations().Acquire()
	defer g.Release()
	from := costs{}
	for i := range 500 {
		from[hop(i)] = uint64(rng.IntN(1000))
	}
	const addresses = 1_000_000
	ips, handles := make([]netip.Addr, addresses), make([]lpm.Handle, addresses)
	for i := range ips {
		handles[i] = lpm.Handle(1 + rng.IntN(g.Routes.Len()-1))
		ips[i] = g.Route(handles[i]).Prefix.Addr()
	}
	for b.Loop() {
		view := r.View(g, from)
		for i, ip := range ips {
			view.Lookup(ip, handles[i])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*addresses), "ns/address")
	const listings = 5
	started := time.Now()
	routes := 0
	for range listings {
		for range r.View(g, from).Routes(&rib.Filter{}, netip.Prefix{}, math.MaxInt) {
			routes++
		}
	}
	b.ReportMetric(float64(time.Since(started).Nanoseconds())/float64(routes), "ns/listed")
}
