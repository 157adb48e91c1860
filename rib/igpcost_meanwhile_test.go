package rib_test

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// slowCosts answer late, so that a walk over a table with many next hops takes long.
type slowCosts struct{ cost uint64 }

func (c slowCosts) Cost(netip.Addr) (uint64, bool) {
	time.Sleep(50 * time.Microsecond)
	return c.cost, true
}

// What was applied before a Flush is in its generation, also while the IGP changes.
func TestFlushDuringSetIGP(t *testing.T) {
	const routes = 1 << 15
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t, rib.PublisherOptions{})
	b.peer.Up(rib.Session{})
	all := prefixes(routes)
	for i := 0; i < routes; i += 64 {
		b.peer.Apply(rib.Update{Reach: all[i : i+64], Attrs: rib.Attrs{NextHop: hop(i / 64)}})
	}
	b.flush()
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; !stop.Load(); i++ {
			b.rib.SetIGP(slowCosts{[2]uint64{rib.UnreachableCost, 1}[i%2]})
		}
	}()
	defer func() { stop.Store(true); <-done }()
	for i := range 30 {
		want := rib.Attrs{HasMED: true, MED: uint32(i + 1)} // without a next hop it is usable whatever the IGP says
		some := make([]rib.NLRI, 200)
		for j := range some {
			some[j] = all[r.IntN(routes)]
			b.peer.Apply(rib.Update{Reach: some[j : j+1], Attrs: want})
		}
		b.flush()
		g := b.publisher.Generations().Acquire()
		got := contents(g)
		g.Release()
		for _, n := range some {
			if x := got[n.Prefix]; x.Path == (rib.Path{}) || x.Path.Value() != want {
				t.Fatalf("seed %d: round %d: %v is not visible behind Flush: %+v", seed, i, n.Prefix, x)
			}
		}
	}
}
