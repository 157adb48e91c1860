package rib_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// randomTable gives updates of some peers with so many different routes of each, most of them near to others, so that
// parts of the index get many and others few or none.
func randomTable(r *rand.Rand, peers, routes int) [][]rib.Update {
	all := make([][]rib.Update, peers)
	for i := range all {
		seen := map[rib.NLRI]bool{}
		var n []rib.NLRI
		for len(n) < routes {
			p := rib.NLRI{PathID: uint32(max(0, r.IntN(12)-9))}
			if r.IntN(4) > 0 {
				a := [4]byte{10, byte(r.IntN(40)), byte(r.Uint32()), byte(r.Uint32())}
				if r.IntN(20) == 0 {
					a[0] = byte(r.Uint32())
				}
				p.Prefix = netip.PrefixFrom(netip.AddrFrom4(a), min(32, r.IntN(40)))
			} else {
				a := [16]byte{0x20, 1, 0xd, byte(r.IntN(4)), byte(r.Uint32()), byte(r.Uint32())}
				if r.IntN(20) == 0 {
					a[0], a[1], a[15] = byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())
				}
				p.Prefix = netip.PrefixFrom(netip.AddrFrom16(a), min(128, r.IntN(150)))
			}
			masked := rib.NLRI{Prefix: p.Prefix.Masked(), PathID: p.PathID}
			if !seen[masked] { // of a route that comes twice either may stay
				seen[masked] = true
				n = append(n, p) // its host bits are to be cleared
			}
		}
		for len(n) > 0 {
			some := min(len(n), 1+r.IntN(300))
			u := rib.Update{Reach: append([]rib.NLRI{{}}, n[:some]...), Attrs: randomAttrs(r)} // an invalid prefix before them
			u.Attrs.NextHop = netip.AddrFrom4([4]byte{10, 0, 1, byte(r.IntN(3))})
			all[i] = append(all[i], u)
			n = n[some:]
		}
	}
	return all
}

// What is restored at once, from many sides and in any order, is what its peers had announced before they were lost.
func TestRestorationIsAsRetained(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		table := randomTable(r, 4, 5000)
		restored, retained := newWorld(), newWorld()
		var to, was []*rib.Peer
		var restoration rib.Restoration
		var adding sync.WaitGroup
		for i, updates := range table {
			peer := func(w *world) *rib.Peer {
				p, err := w.rib.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP})
				if err != nil {
					t.Fatal(err)
				}
				if i%2 == 0 {
					p.SetImport(&policy{})
				}
				return p
			}
			p := peer(restored)
			to, was = append(to, p), append(was, peer(retained))
			was[i].Up(rib.Session{IPv4: true}) // that nothing has ended
			for _, u := range updates {
				was[i].Apply(u)
			}
			was[i].Retain("")
			r.Shuffle(len(updates), func(a, b int) { updates[a], updates[b] = updates[b], updates[a] })
			for half := range 2 {
				adding.Go(func() {
					for n := half; n < len(updates); n += 2 {
						restoration.Add(p, updates[n])
					}
				})
			}
		}
		adding.Wait()
		restoration.Done()
		want := (&bench{T: t, publisher: retained.publisher}).table()
		if got := (&bench{T: t, publisher: restored.publisher}).table(); !maps.Equal(got, want) {
			t.Fatalf("seed %d: %d routes, want %d, or others", seed, len(got), len(want))
		}
		for i, got := range restored.rib.Peers() {
			want := retained.rib.Peers()[i]
			want.Updates = 0
			for _, s := range []*rib.PeerStatus{&got, &want} {
				s.Since, s.StaleSince = time.Time{}, time.Time{}
			}
			if got != want || want.Stale4+want.Stale6 != 5000 {
				t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
			}
			if a, b := maps.Collect(to[i].Routes()), maps.Collect(was[i].Routes()); !maps.Equal(a, b) {
				t.Fatalf("seed %d: peer %s has %d paths, want %d, or others", seed, got.Name, len(a), len(b))
			}
		}
		// Everything is found by its prefix, and gone when it is withdrawn.
		for i, updates := range table {
			for _, u := range updates {
				for _, n := range u.Reach[1:] {
					found := false
					for _, c := range restored.rib.Paths(n.Prefix) {
						found = found || c.Route.Peer == to[i] && c.Route.PathID == n.PathID && c.Route.Path.Value() == u.Attrs
					}
					if !found {
						t.Fatalf("seed %d: peer %d: no path to %v", seed, i, n)
					}
				}
			}
		}
		for _, p := range to {
			p.Down("")
		}
		if n := len((&bench{T: t, publisher: restored.publisher}).table()); n != 0 || rib.HandlesInUse(restored.rib) != 0 {
			t.Fatalf("seed %d: %d routes and %d handles are left", seed, n, rib.HandlesInUse(restored.rib))
		}
	}
}

// What happens to a peer while its routes are restored is not undone.
func TestRestorationIsOvertaken(t *testing.T) {
	const routes = 1000
	for _, c := range []struct {
		name               string
		meanwhile          func(b *bench)
		state              string
		v4, rejected, also int // also: of the peer beside it
	}{
		{"nothing", func(*bench) {}, "stale", routes, 0, routes},
		{"another policy", func(b *bench) { b.peer.SetImport(rejectAll{}) }, "stale", routes, routes, routes},
		{"up", func(b *bench) { b.peer.Up(keepAll) }, "established", 0, 0, routes},
		{"up and lost", func(b *bench) { b.peer.Up(keepAll); b.peer.Down("") }, "stale", routes, 0, routes},
		{"removed", func(b *bench) { b.rib.RemovePeer(b.peer) }, "down", 0, 0, routes},
		{"closed", func(b *bench) { b.rib.Close() }, "down", 0, 0, 0},
		{"closed with something restored", func(b *bench) { b.peer.Restore(rib.Update{Reach: prefixes(1)}); b.rib.Close() }, "stale", 1, 0, 0},
	} {
		b := newBench(t, rib.PublisherOptions{})
		beside := b.add(rib.PeerConfig{Name: "b", Kind: rib.KindBGP})
		var restoration rib.Restoration
		restoration.Add(b.peer, rib.Update{Reach: prefixes(routes)})
		restoration.Add(beside, rib.Update{Reach: prefixes(routes)})
		c.meanwhile(b)
		restoration.Done()
		s := b.peer.Status()
		if s.State != c.state || s.V4 != c.v4 || s.Stale4 != c.v4 || s.Rejected[rib.RejectPrefix] != c.rejected {
			t.Errorf("%s: %+v", c.name, s)
		}
		if n := beside.Status().Stale4; n != c.also {
			t.Errorf("%s: the peer beside it has %d routes, want %d", c.name, n, c.also)
		}
	}
	var none rib.Restoration
	none.Done()
}

type rejectAll struct{}

func (rejectAll) Check(netip.Prefix, *rib.Attrs) rib.Reject { return rib.RejectPrefix }
