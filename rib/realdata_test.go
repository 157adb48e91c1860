package rib_test

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/rib"
)

// A real peer's table and its next 24 hours, against a set of prefixes.
func TestRealTableAndItsDayOfUpdates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, family := range []string{"v4", "v6"} {
		t.Run(family, func(t *testing.T) {
			r := rib.New(rib.Options{})
			publisher := rib.NewPublisher(r, nullEngine{}, rib.PublisherOptions{Log: slog.New(slog.DiscardHandler)})
			peer, err := r.AddPeer(rib.PeerConfig{Name: "as3333", Kind: rib.KindBGP})
			if err != nil {
				t.Fatal(err)
			}
			model := map[netip.Prefix]bool{}
			send := func(announce bool, p netip.Prefix, n int) {
				u := rib.Update{Attrs: rib.Attrs{HasMED: true, MED: uint32(n / 16)}}
				if nlri := []rib.NLRI{{Prefix: p}}; announce {
					u.Reach, model[p] = nlri, true
				} else {
					u.Unreach = nlri
					delete(model, p)
				}
				peer.Apply(u)
			}
			check := func() {
				t.Helper()
				if err := publisher.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
				g := publisher.Generations().Acquire()
				defer g.Release()
				found := 0
				for h := range g.Routes.Len() {
					if route := g.Route(lpm.Handle(h)); route.Prefix.IsValid() {
						found++
						if !model[route.Prefix] {
							t.Fatalf("generation %d holds %s", g.Number, route.Prefix)
						}
					}
				}
				if v4, v6 := r.Counts(); found != len(model) || g.V4+g.V6 != found || v4+v6 != found {
					t.Fatalf("generation %d holds %d routes and says %d, the RIB %d, want %d", g.Number, found, g.V4+g.V6, v4+v6, len(model))
				}
				if used := rib.HandlesInUse(r); used != found {
					t.Fatalf("%d handles in use for %d routes", used, found)
				}
			}
			for n, p := range fixtures.Prefixes(t, "ris-2026-05-11-as3333-"+family+".txt.gz") {
				send(true, p, n)
			}
			check()
			changes := fixtures.Changes(t, "ris-2026-05-11-as3333-updates-24h-"+family+".txt.gz")
			for n, c := range changes {
				send(!c.Withdraw, c.Prefix, n)
				if n%200_000 == 0 {
					check()
				}
			}
			check()
			t.Logf("%d updates, %d routes, %+v", len(changes), len(model), publisher.Stats())
		})
	}
}
