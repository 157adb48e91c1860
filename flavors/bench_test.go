package flavors_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gaissmai/bart"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// benchKeys is the number of different keys of a lookup benchmark: enough that neither caches
// nor branch predictors remember them from one round to the next.
const benchKeys = 1 << 22

// newEngine gives the engine with default options.
func newEngine(tb testing.TB) lpm.Engine {
	e, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// perKey reports the time of one lookup.
func perKey(b *testing.B, keys int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(keys), "ns/key")
}

// BenchmarkLookup is one thread, random in-prefix keys of the real tables, beside bart.Fast.
func BenchmarkLookup(b *testing.B) {
	rs := realRoutes(b)
	var p peer
	p.apply(rs)
	tab := lpmtest.Build(b, newEngine(b), rs)
	r := rand.New(rand.NewPCG(1, 2))
	dst := make([]lpm.Handle, benchKeys)
	addrs := make([]netip.Addr, benchKeys)
	ask := func(b *testing.B) {
		for b.Loop() {
			for i, a := range addrs {
				dst[i], _ = p.Lookup(a)
			}
		}
		perKey(b, benchKeys)
	}
	v4 := make([]uint32, benchKeys)
	for i := range v4 {
		v4[i] = lpmtest.InPrefix4(rs.V4[r.IntN(len(rs.V4))], r)
		addrs[i] = lpm.Netip4(v4[i])
	}
	b.Run("ipv4/bart", ask)
	b.Run("ipv4/ribwarp", func(b *testing.B) {
		for b.Loop() {
			if err := tab.Lookup4(dst, v4); err != nil {
				b.Fatal(err)
			}
		}
		perKey(b, benchKeys)
	})
	v6 := make([]lpm.Addr6, benchKeys)
	for i := range v6 {
		v6[i] = lpmtest.InPrefix6(rs.V6[r.IntN(len(rs.V6))], r)
		addrs[i] = v6[i].Netip()
	}
	b.Run("ipv6/bart", ask)
	b.Run("ipv6/ribwarp", func(b *testing.B) {
		for b.Loop() {
			if err := tab.Lookup6(dst, v6); err != nil {
				b.Fatal(err)
			}
		}
		perKey(b, benchKeys)
	})
}

// BenchmarkBuild is a table of the real prefixes in random order, beside inserting them into
// bart.Fast.
func BenchmarkBuild(b *testing.B) {
	rs := realRoutes(b)
	e := newEngine(b)
	for _, f := range []struct {
		name string
		rs   lpm.Routes
	}{{"ipv4", lpm.Routes{V4: rs.V4}}, {"ipv6", lpm.Routes{V6: rs.V6}}} {
		var ps []netip.Prefix
		for _, x := range f.rs.V4 {
			ps = append(ps, x.Prefix())
		}
		for _, x := range f.rs.V6 {
			ps = append(ps, x.Prefix())
		}
		b.Run(f.name+"/bart", func(b *testing.B) {
			for b.Loop() {
				var t bart.Fast[lpm.Handle]
				for i, p := range ps {
					t.Insert(p, lpm.Handle(i+1))
				}
			}
		})
		b.Run(f.name+"/ribwarp", func(b *testing.B) {
			for b.Loop() {
				lpmtest.Build(b, e, f.rs).Close()
			}
		})
	}
}

// BenchmarkUpdate is one update of the full table by a few routes: a new /24 comes and goes.
func BenchmarkUpdate(b *testing.B) {
	rs := realRoutes(b)
	e := newEngine(b)
	tab := lpmtest.Build(b, e, rs)
	p := netip.MustParsePrefix("240.1.2.0/24")
	h := lpm.Handle(rs.Len() + 1)
	for b.Loop() {
		for _, h := range []lpm.Handle{h, lpm.None} {
			var change lpm.Routes
			change.Add(p, h)
			next, err := e.Update(context.Background(), tab, change)
			if err != nil {
				b.Fatal(err)
			}
			tab.Close()
			tab = next
		}
	}
}

// BenchmarkShortMasks is one update of the full IPv4 table by a short prefix that comes or goes, by flavor: all that flavor
// list is faster at.
func BenchmarkShortMasks(b *testing.B) {
	rs := lpm.Routes{V4: realRoutes(b).V4}
	for _, list := range [][]int{flavors.DefaultStrides4, {24, 8}} {
		for _, f := range []flavors.Flavor{flavors.Pushed, flavors.List} {
			e, err := flavors.NewCPU(flavors.Options{Strides4: list, Flavor: f})
			if err != nil {
				b.Fatal(err)
			}
			tab := lpmtest.Build(b, e, rs)
			for i, p := range []string{"0.0.0.0/0", "241.0.0.0/8", "241.1.0.0/16"} {
				own := lpm.Handle(rs.Len() + 1 + i)
				b.Run(flavors.FormatStrides(list)+"/"+string(f)+"/"+p, func(b *testing.B) {
					h := own
					for b.Loop() {
						var change lpm.Routes
						change.Add(netip.MustParsePrefix(p), h)
						next, err := e.Update(context.Background(), tab, change)
						if err != nil {
							b.Fatal(err)
						}
						tab.Close()
						tab, h = next, own^h // it goes, and comes back
					}
				})
			}
			tab.Close()
		}
	}
}
