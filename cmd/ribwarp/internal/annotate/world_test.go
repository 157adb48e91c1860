package annotate

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unique"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
	"github.com/ribwarp/ribwarp/rib"
)

// generation makes one of routes, without a RIB.
func generation(tb testing.TB, routes []rib.Route) *rib.Generation {
	tb.Helper()
	byHandle := append([]rib.Route{{}}, routes...)
	var set lpm.Routes
	for i, r := range byHandle {
		if i > 0 {
			set.Add(r.Prefix, lpm.Handle(i))
		}
	}
	engine, err := flavors.NewCPU(flavors.Options{Strides4: []int{16, 8, 8}, Strides6: slices.Repeat([]int{8}, 16)})
	if err != nil {
		tb.Fatal(err)
	}
	table, err := engine.Build(context.Background(), set)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = table.Close() })
	return &rib.Generation{Number: 1, Created: time.Now(), V4: len(set.V4), V6: len(set.V6), Table: table, Routes: cow.Of(byHandle)}
}

// route makes one with a path through ASNs; an empty next hop is none.
func route(prefix, nextHop string, asns ...uint32) rib.Route {
	a := rib.Attrs{ASPath: rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: asns})}
	if nextHop != "" {
		a.NextHop = netip.MustParseAddr(nextHop)
	}
	return rib.Route{Prefix: netip.MustParsePrefix(prefix), Path: unique.Make(a)}
}

// testRoutes has nested prefixes, both families, and routes without attributes.
func testRoutes() []rib.Route {
	long := make([]uint32, 30) // its tail does not fit a cell
	for i := range long {
		long[i] = 4200000000 + uint32(i)
	}
	return []rib.Route{
		route("10.0.0.0/8", "192.0.2.1", 64500, 64501),
		route("10.1.0.0/16", "192.0.2.2", 64500, 64502),
		route("10.1.2.3/32", "192.0.2.3", long...),
		{Prefix: netip.MustParsePrefix("172.16.0.0/12")},
		route("2001:db8::/32", "2001:db8::1", 64500),
		route("2001:db8::40/122", "2001:db8::3", 64504),
		route("2001:db8:1::/48", "2001:db8::2", 64503),
		{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Path: unique.Make(rib.Attrs{
			NextHop:          netip.MustParseAddr("192.0.2.9"),
			ASPath:           rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500}}, rib.Segment{Type: rib.SegmentSet, ASNs: []uint32{64510, 64511}}),
			Communities:      rib.MakeCommunities(64500<<16 | 100),
			LargeCommunities: rib.MakeLargeCommunities([3]uint32{64500, 1, 2}),
		})},
	}
}

// longest is the slow way to a route.
func longest(routes []rib.Route, text string) (best rib.Route, isAddr bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return best, false
	}
	addr = addr.Unmap()
	for _, r := range routes {
		if r.Prefix.Contains(addr) && (!best.Prefix.IsValid() || r.Prefix.Bits() > best.Prefix.Bits()) {
			best = r
		}
	}
	return best, true
}

// newRand gives a generator whose seed a failing test prints.
func newRand(tb testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}
