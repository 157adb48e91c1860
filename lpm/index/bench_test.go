package index_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/index"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// BenchmarkIndex is the real tables with an index (slab hash) beside those without: exact finds of all prefixes in
// random order, one thread; a build; an update of 100 prefixes.
func BenchmarkIndex(b *testing.B) {
	ps := append(fixtures.Prefixes(b, "ris-2026-05-11-as3333-v4.txt.gz"), fixtures.Prefixes(b, "ris-2026-05-11-as3333-v6.txt.gz")...)
	var rs, few lpm.Routes
	for i, p := range ps {
		rs.Add(p, lpm.Handle(i+1))
	}
	r := rand.New(rand.NewPCG(1, 1))
	r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	for i, p := range ps[:100] {
		few.Add(p, lpm.Handle(len(ps)+i))
	}
	tree, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		b.Fatal(err)
	}
	engines := []struct {
		name string
		lpm.Engine
	}{{"tree", tree}, {"index", index.New(tree, func(n int) (index.Table, error) {
		return slab.NewLocal[uint64](slab.BucketsFor[uint64](n + n/4))
	})}}
	dst := make([]lpm.Handle, len(ps))
	for _, e := range engines {
		tab := lpmtest.Build(b, e, rs)
		b.Run("find one by one/"+e.name, func(b *testing.B) {
			for b.Loop() {
				for i, p := range ps {
					dst[i] = tab.Find(p)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ps)), "ns/prefix")
		})
		b.Run("find batches of 1000/"+e.name, func(b *testing.B) {
			for b.Loop() {
				for i := 0; i < len(ps); i += 1000 {
					to := min(i+1000, len(ps))
					if err := lpm.FindAll(tab, dst[i:to], ps[i:to]); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(ps)), "ns/prefix")
		})
		b.Logf("%s: %d bytes of trees, %d of the index", e.name, tab.Info().Bytes()-tab.Info().ExactBytes, tab.Info().ExactBytes)
		_ = tab.Close()
	}
	for _, e := range engines {
		b.Run("build/"+e.name, func(b *testing.B) {
			for b.Loop() {
				_ = lpmtest.Build(b, e, rs).Close()
			}
		})
	}
	for _, e := range engines {
		b.Run("update of 100/"+e.name, func(b *testing.B) {
			tab := lpmtest.Build(b, e, rs)
			if e.name == "index" {
				index.Settle(tab)
			}
			for b.Loop() {
				next, err := e.Update(context.Background(), tab, few)
				if err != nil {
					b.Fatal(err)
				}
				_ = tab.Close()
				tab = next
			}
			if e.name == "index" && !index.Indexed(tab) {
				b.Fatal("no index")
			}
			_ = tab.Close()
		})
	}
}
