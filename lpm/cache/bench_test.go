package cache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cache"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// BenchmarkDestinations is lookups of skewed traffic in the real IPv4 table, one thread, with and
// without a cache that is warm: 4 M addresses, drawn from 16 M destinations of which the i-th most frequent has a
// share of i^-s (Zipf). Uniform is without skew. Batches have 1,024 addresses.
func BenchmarkDestinations(b *testing.B) {
	var rs lpm.Routes
	for i, p := range fixtures.Prefixes(b, "ris-2026-05-11-as3333-v4.txt.gz") {
		rs.Add(p, lpm.Handle(i+1))
	}
	const keys, destinations, batch = 1 << 22, 1 << 24, 1024
	for _, flavor := range []flavors.Flavor{flavors.Pushed, flavors.List} {
		base, err := flavors.NewCPU(flavors.Options{Flavor: flavor})
		if err != nil {
			b.Fatal(err)
		}
		for _, skew := range []float64{0, 1.05, 1.2, 1.5} {
			r := rand.New(rand.NewPCG(1, 2))
			z := rand.NewZipf(r, max(skew, 1.01), 1, destinations-1)
			addrs, dst := make([]uint32, keys), make([]lpm.Handle, keys)
			address := func(rank uint64) uint32 {
				of := rand.New(rand.NewPCG(rank, 3))
				return lpmtest.InPrefix4(rs.V4[of.IntN(len(rs.V4))], of)
			}
			for i := range addrs {
				if skew == 0 {
					addrs[i] = address(r.Uint64N(destinations))
				} else {
					addrs[i] = address(z.Uint64())
				}
			}
			name := fmt.Sprintf("%s/zipf %.2f", flavor, skew)
			if skew == 0 {
				name = fmt.Sprintf("%s/uniform", flavor)
			}
			n := keys
			if flavor == flavors.List {
				n = keys / 16 // a hundredth of the speed
			}
			run := func(b *testing.B, e lpm.Engine, counting *askedEngine) {
				tab := lpmtest.Build(b, e, rs)
				defer tab.Close()
				all := func() {
					for i := 0; i < n; i += batch {
						if err := tab.Lookup4(dst[i:i+batch], addrs[i:i+batch]); err != nil {
							b.Fatal(err)
						}
					}
				}
				all()
				before := counting.last.addresses
				for b.Loop() {
					all()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
				b.ReportMetric(1-float64(counting.last.addresses-before)/float64(b.N)/float64(n), "hits")
			}
			counting := &askedEngine{Engine: base}
			b.Run(name+"/no cache", func(b *testing.B) { run(b, counting, counting) })
			for _, log2 := range []int{14, 17, 20, 23} {
				b.Run(fmt.Sprintf("%s/%d slots", name, 1<<log2), func(b *testing.B) { run(b, cache.New(counting, open(log2)), counting) })
			}
		}
	}
}
