package rib_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// A prefix that the root reaches again is found by other routers' views until a generation has it, too.
func TestHiddenUntilPublished(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.rib.SetIGP(costs{hop(1): rib.UnreachableCost})
	b.peer.Up(rib.Session{})
	p := prefixes(1)[0].Prefix
	b.peer.Apply(rib.Update{Reach: prefixes(1), Attrs: rib.Attrs{NextHop: hop(1)}})
	b.peer.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}})
	b.flush()
	g := b.publisher.Generations().Acquire()
	defer g.Release()
	want := func(when string) {
		t.Helper()
		if r := b.rib.View(g, costs{hop(1): 1}).Lookup(p.Addr(), lpm.None); r.Prefix != p {
			t.Errorf("%s: %v, want %v", when, r.Prefix, p)
		}
	}
	want("hidden")
	b.rib.SetIGP(costs{hop(1): 1})
	b.engine.failing = errors.New("broken")
	if err := b.publisher.Flush(t.Context()); err == nil {
		t.Fatal("no error")
	}
	want("reached again, not published")
	b.engine.failing = nil
	b.flush()
	if n := rib.Hidden(b.rib); n != 0 {
		t.Errorf("%d prefixes are hidden", n)
	}
}
