package annotate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unique"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
	"github.com/ribwarp/ribwarp/rib"
)

// BenchmarkLines is text in, CSV out: random addresses within the prefixes of the real IPv4
// table, on all cores. Its docs/benchmarks file is batch.txt.
func BenchmarkLines(b *testing.B) {
	prefixes := fixtures.Prefixes(b, "ris-2026-05-11-as3333-v4.txt.gz")
	routes := make([]rib.Route, 1, len(prefixes)+1)
	var set lpm.Routes
	for i, p := range prefixes {
		routes = append(routes, rib.Route{Prefix: p, Path: unique.Make(rib.Attrs{
			NextHop: lpm.Netip4(0xc0000200 | uint32(i%250)),
			ASPath:  rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{3333, uint32(i%60000) + 1}}),
		})})
		set.Add(p, lpm.Handle(i+1))
	}
	engine, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		b.Fatal(err)
	}
	table, err := engine.Build(context.Background(), set)
	if err != nil {
		b.Fatal(err)
	}
	gen := &rib.Generation{Number: 1, V4: len(set.V4), Table: table, Routes: cow.Of(routes)}
	const lines = 4 << 20
	rng := rand.New(rand.NewPCG(1, 2))
	var in []byte
	for range lines {
		p := prefixes[rng.IntN(len(prefixes))]
		in = lpm.Netip4(lpm.Addr4(p.Addr()) | uint32(uint64(rng.Uint32())>>p.Bits())).AppendTo(in)
		in = append(in, '\n')
	}
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			var matched uint64
			for b.Loop() {
				stats, err := Run(context.Background(), gen, bytes.NewReader(in), io.Discard, Options{Workers: workers})
				if err != nil {
					b.Fatal(err)
				}
				matched = stats.Matched
			}
			b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "addresses/s")
			b.ReportMetric(float64(matched)/lines, "hit-rate")
		})
	}
}

func BenchmarkParse4(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var texts [1024][]byte
	for i := range texts {
		texts[i] = []byte(netip.AddrFrom4([4]byte{byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}).String() + "\n")
	}
	for i := 0; b.Loop(); i++ {
		if _, n := parse4(texts[i%len(texts)]); n == 0 {
			b.Fatal("no address")
		}
	}
}
