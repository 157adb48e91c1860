package rpki

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
)

// A route is what a test validates.
type route struct {
	prefix netip.Prefix
	origin uint32
}

// generated makes a table of routes and VRPs for somewhat more than half of them, in the shape
// that the RPKI has: most have one, with the prefix's own length, some have more, some allow
// longer prefixes, and some name another AS.
func generated(seed uint64, v4, v6 int) (routes []route, vrps []VRP) {
	r := rand.New(rand.NewPCG(seed, 1))
	table := fixtures.Generate(seed, v4, v6)
	for _, x := range table.Routes {
		to := route{prefix: x.Prefix}
		if origins := table.Attrs[x.Attrs].ASPath.Origins(); len(origins) == 1 {
			to.origin = origins[0]
		}
		routes = append(routes, to)
		if r.IntN(100) >= 43 {
			continue
		}
		for v := (VRP{Prefix: x.Prefix, ASN: to.origin}); ; v.ASN = 1 + r.Uint32N(400_000) {
			v.MaxLen = uint8(x.Prefix.Bits())
			longest := uint8(24)
			if x.Prefix.Addr().Is6() {
				longest = 48
			}
			if r.IntN(6) == 0 && v.MaxLen < longest {
				v.MaxLen += uint8(1 + r.IntN(int(longest-v.MaxLen)))
			}
			if r.IntN(100) > 0 {
				vrps = append(vrps, v)
			}
			if r.IntN(12) > 0 {
				break
			}
		}
	}
	return routes, vrps
}

// full is the table of May 2026 and as many VRPs as there were then, about.
func full() ([]route, []VRP) { return generated(1, 1_042_325, 246_175) }

func BenchmarkValidate(b *testing.B) {
	routes, vrps := full()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	t, err := NewTable(vrps)
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for _, order := range []string{"sorted", "shuffled"} {
		if order == "shuffled" {
			r := rand.New(rand.NewPCG(1, 2))
			r.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
		}
		b.Run(order, func(b *testing.B) {
			var states [3]int
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				states[t.Validate(routes[i].prefix, routes[i].origin)]++
				if i++; i == len(routes) {
					i = 0
				}
			}
			b.ReportMetric(float64(states[Valid])/float64(b.N)*100, "%valid")
			b.ReportMetric(float64(states[Invalid])/float64(b.N)*100, "%invalid")
			b.ReportMetric(float64(t.Len()), "VRPs")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(t.Len()), "B/VRP")
		})
	}
	runtime.KeepAlive(vrps)
}

func BenchmarkNewTable(b *testing.B) {
	_, vrps := full()
	for b.Loop() {
		if _, err := NewTable(vrps); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is a cache's answer with the whole table, from its bytes to the table; decode is
// the codec's part of it.
func BenchmarkLoad(b *testing.B) {
	_, vrps := full()
	said := answer(1, 1, 1, announce(1, unique(vrps)...)...)
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s := NewStore()
			x := s.setSources([]SourceStatus{{Name: "cache", Kind: KindCache}})[0]
			c := newClient("cache", Intervals{time.Hour, time.Hour, time.Hour}, s, x, slog.New(slog.DiscardHandler))
			c.dial = dialTo(&bytesConn{Reader: bytes.NewReader(said)})
			if answered, err := c.connect(b.Context()); !answered {
				b.Fatal(err)
			}
			x.stopTimer()
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := reader{r: bytes.NewReader(said)}
			for {
				p, err := r.next()
				if err != nil {
					break
				}
				if _, err := decode(p); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
