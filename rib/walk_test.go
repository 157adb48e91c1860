package rib_test

import (
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
	"github.com/ribwarp/ribwarp/rib"
)

// A history is a RIB of one peer with the real engine.
type history struct {
	tb        testing.TB
	rib       *rib.RIB
	publisher *rib.Publisher
	peer      *rib.Peer
}

func newHistory(tb testing.TB) *history {
	tb.Helper()
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	h := &history{tb: tb, rib: rib.New(rib.Options{MaxPending: -1})}
	h.publisher = rib.NewPublisher(h.rib, engine, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
	if h.peer, err = h.rib.AddPeer(rib.PeerConfig{Name: "edge", Kind: rib.KindBGP}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(h.publisher.Generations().Withdraw)
	return h
}

// publish gives the newest generation, which is held until the test ends.
func (h *history) publish() *rib.Generation {
	h.tb.Helper()
	if err := h.publisher.Flush(h.tb.Context()); err != nil {
		h.tb.Fatal(err)
	}
	g := h.publisher.Generations().Acquire()
	h.tb.Cleanup(g.Release)
	return g
}

func (h *history) announce(at rib.Attrs, prefixes ...netip.Prefix) {
	u := rib.Update{Attrs: at}
	for _, p := range prefixes {
		u.Reach = append(u.Reach, rib.NLRI{Prefix: p})
	}
	h.peer.Apply(u)
}

func (h *history) withdraw(prefixes ...netip.Prefix) {
	var u rib.Update
	for _, p := range prefixes {
		u.Unreach = append(u.Unreach, rib.NLRI{Prefix: p})
	}
	h.peer.Apply(u)
}

// load announces a generated table.
func (h *history) load(t *fixtures.Table) {
	for u := range t.Updates(1 << 16) {
		h.peer.Apply(u)
	}
}

// allRoutes gives the routes of a generation in the order of walks.
func allRoutes(g *rib.Generation) (all []rib.Route) {
	for i := range g.Routes.Len() {
		if r := g.Routes.At(i); r.Prefix.IsValid() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b rib.Route) int { return a.Prefix.Compare(b.Prefix) })
	return all
}

func random(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// crowdedPrefixes are random prefixes, near to each other and nested.
func crowdedPrefixes(r *rand.Rand, n int) (ps []netip.Prefix) {
	rs := lpmtest.RandomRoutes(r, n, 1)
	for _, x := range rs.V4 {
		ps = append(ps, x.Prefix())
	}
	for _, x := range rs.V6 {
		ps = append(ps, x.Prefix())
	}
	return ps
}

// A walk over any spans, begun anywhere and cut into pieces of any size, gives what a look at every
// route gives.
func TestWalkGivesWhatIsInItsSpans(t *testing.T) {
	r := random(t)
	for range 6 {
		h := newHistory(t)
		h.announce(rib.Attrs{MED: 1, HasMED: true}, append(crowdedPrefixes(r, 80), rib.AllIPv4, rib.AllIPv6, netip.MustParsePrefix("::ffff:10.0.0.0/104"))...)
		g := h.publish()
		all := allRoutes(g)
		asked := append(crowdedPrefixes(r, 10), rib.AllIPv4, rib.AllIPv6)
		for range 20 {
			asked = append(asked, all[r.IntN(len(all))].Prefix)
		}
		for _, p := range asked {
			around := func(q netip.Prefix) bool { return rib.Inside(p, q) }
			inside := func(q netip.Prefix) bool { return rib.Inside(q, p) }
			for _, c := range []struct {
				what  string
				spans []rib.Span
				wants func(netip.Prefix) bool
			}{
				{"around", []rib.Span{{Of: p, Around: true}}, around},
				{"inside", []rib.Span{{Of: p}}, inside},
				{"both", []rib.Span{{Of: p, Around: true}, {Of: p}}, func(q netip.Prefix) bool { return around(q) || inside(q) }},
				{"all", []rib.Span{{Of: rib.AllIPv4}, {Of: rib.AllIPv6}}, func(netip.Prefix) bool { return true }},
			} {
				var behind netip.Prefix
				switch r.IntN(3) {
				case 0:
					behind = all[r.IntN(len(all))].Prefix
				case 1:
					behind = crowdedPrefixes(r, 10)[0]
				}
				var want, got []netip.Prefix
				for _, x := range all {
					if c.wants(x.Prefix) && (!behind.IsValid() || x.Prefix.Compare(behind) > 0) {
						want = append(want, x.Prefix)
					}
				}
				w := rib.NewWalk(g, c.spans...)
				w.Skip(behind)
				for {
					handles := w.Next(1 + r.IntN(7))
					if len(handles) == 0 {
						break
					}
					for _, x := range handles {
						got = append(got, g.Route(x).Prefix)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s %s behind %v:\ngot  %v\nwant %v", c.what, p, behind, got, want)
				}
			}
		}
	}
}

// fullGeneration is a table of the real one's size and shape, loaded in order as from a dump.
func fullGeneration(tb testing.TB) (*history, *rib.Generation) {
	h := newHistory(tb)
	t := fixtures.Generate(1, 1_042_325, 246_175)
	for _, x := range t.Routes {
		h.announce(t.Attrs[x.Attrs], x.Prefix)
	}
	return h, h.publish()
}

// What it takes to look through a full table: the walk alone, then one origin, one AS anywhere in the
// path, a community and an expression over the path.
func BenchmarkFilterFullTable(b *testing.B) {
	_, g := fullGeneration(b)
	someone := g.Routes.At(g.Routes.Len() / 2).Path.Value()
	origin := someone.ASPath.Origins()[0]
	community, err := rib.ParseCommunityPattern("64500:*")
	if err != nil {
		b.Fatal(err)
	}
	path, err := rib.ParseASPathPattern("_3356_.*_65000_")
	if err != nil {
		b.Fatal(err)
	}
	var text []byte
	attrs := func(f func(*rib.Attrs) bool) rib.Filter { return rib.Filter{Attrs: []func(*rib.Attrs) bool{f}} }
	for _, c := range []struct {
		name   string
		filter rib.Filter
	}{
		{"all", rib.Filter{}},
		{"origin", attrs(func(a *rib.Attrs) bool { return a.ASPath.OriginatedBy(origin) })},
		{"as", attrs(func(a *rib.Attrs) bool { return a.ASPath.Contains(origin) })},
		{"community", attrs(community.In)},
		{"as_path", attrs(func(a *rib.Attrs) bool {
			text = a.ASPath.AppendText(text[:0])
			return path.Match(text)
		})},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			found := 0
			for b.Loop() {
				found = 0
				for range c.filter.Routes(g, netip.Prefix{}, math.MaxInt) {
					found++
				}
			}
			b.ReportMetric(float64(found), "found")
			b.ReportMetric(float64(g.V4+g.V6), "routes")
		})
	}
}
