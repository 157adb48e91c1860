package rib_test

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// pressed is a bench whose RIB takes limit changed prefixes.
func pressed(t *testing.T, limit int) *bench {
	t.Helper()
	return newBenchOf(t, rib.Options{MaxPending: limit}, rib.PublisherOptions{})
}

// Who waits for the publisher goes on when it took what waited, and when there is no more reason
// to wait: then the message is void.
func TestPeersWaitForThePublisher(t *testing.T) {
	update := rib.Update{Reach: prefixes(20)}
	for _, c := range []struct {
		name    string
		release func(b *bench)
		want    int // prefixes in the end
	}{
		{"publisher takes", func(b *bench) { b.flush() }, 20},
		{"peer removed", func(b *bench) { b.rib.RemovePeer(b.peer) }, 0},
		{"peer down", func(b *bench) { b.peer.Down("test") }, 0},
		{"peer retained", func(b *bench) { b.peer.Retain("test") }, 10},
		{"RIB closed", func(b *bench) { b.rib.Close() }, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := pressed(t, 10)
				b.peer.Apply(rib.Update{Reach: prefixes(10)}) // one that fits, or fills it up
				sent := false
				go func() {
					b.peer.Apply(update)
					sent = true
				}()
				synctest.Wait()
				if sent {
					t.Fatal("did not wait")
				}
				if v4, _ := b.rib.Counts(); v4 != 10 {
					t.Errorf("%d prefixes while it waits", v4)
				}
				c.release(b)
				synctest.Wait()
				if !sent {
					t.Fatal("waits for ever")
				}
				if v4, _ := b.rib.Counts(); v4 != c.want {
					t.Errorf("%d prefixes, want %d", v4, c.want)
				}
			})
		})
	}
}

func TestNoLimitOfPendingPrefixes(t *testing.T) {
	b := pressed(t, -1)
	b.announce(1, prefixes(5000)...)
	b.announce(2, prefixes(6000)...)
	if b.flush(); b.routes() != 6000 {
		t.Errorf("%d routes", b.routes())
	}
}

// What was saved is restored before there is a publisher to wait for.
func TestRestoreDoesNotWait(t *testing.T) {
	b := pressed(t, 10)
	p := b.add(rib.PeerConfig{Name: "saved", Kind: rib.KindBGP})
	for _, x := range prefixes(5000) {
		p.Restore(rib.Update{Reach: []rib.NLRI{x}})
	}
	if b.flush(); b.routes() != 5000 {
		t.Errorf("%d routes", b.routes())
	}
}

// A closed RIB takes nothing any more.
func TestNothingChangesInAClosedRIB(t *testing.T) {
	b := pressed(t, 0)
	b.announce(1, prefixes(2)...)
	b.rib.Close()
	b.rib.Close()
	b.announce(1, prefixes(3)...)
	b.withdraw(prefixes(1)...)
	if b.flush(); b.routes() != 2 {
		t.Errorf("%d routes", b.routes())
	}
}

// With a build that takes a second and peers that send as fast as they may, what waits is
// bounded, and all arrives.
func TestFloodWaitsForASlowEngine(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		const limit, message, peers = 100, 8, 3
		b := pressed(t, limit)
		b.engine.takes = time.Second
		stop := b.run()
		highest := 0
		var mu sync.Mutex
		var senders sync.WaitGroup
		want := map[netip.Prefix]bool{}
		for n := range peers {
			p := b.add(rib.PeerConfig{Name: string(rune('x' + n)), Kind: rib.KindBGP})
			senders.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(n)))
				for range 200 {
					u := rib.Update{Reach: make([]rib.NLRI, message)}
					mu.Lock()
					for i := range u.Reach {
						u.Reach[i].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n), byte(rng.IntN(8)), byte(rng.IntN(256))}), 32)
						want[u.Reach[i].Prefix] = true
					}
					mu.Unlock()
					p.Apply(u)
					// What is in flight was below the limit when it was taken.
					pending := b.publisher.Stats().Pending
					mu.Lock()
					highest = max(highest, pending)
					mu.Unlock()
				}
			})
		}
		senders.Wait()
		b.flush()
		stop()
		if b.routes() != len(want) {
			t.Errorf("%d routes, want %d", b.routes(), len(want))
		}
		if highest < limit || highest > 2*(limit+peers*message) {
			t.Errorf("%d prefixes waited at most, limit %d", highest, limit)
		}
	})
}

// While first loads are awaited the publisher rests for a second, but not while somebody waits.
func TestLoadingDoesNotRestWhilePeersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pressed(t, 100)
		b.engine.takes = 10 * time.Millisecond
		b.add(rib.PeerConfig{Name: "silent", Kind: rib.KindBGP, Awaited: true})
		stop := b.run()
		defer stop()
		started := time.Now()
		for i := range 100 {
			b.announce(uint32(i), prefixes(200)...)
			time.Sleep(20 * time.Millisecond) // the publisher rests
		}
		if took := time.Since(started); took > 10*time.Second { // of the bubble: no time is measured
			t.Errorf("100 full loads took %s", took)
		}
	})
}

// A peer has a bounded number of paths to a prefix; another one's are its own, and a path that goes makes room.
func TestPathsOfAPeerToAPrefixAreBounded(t *testing.T) {
	b := pressed(t, -1)
	other := b.add(rib.PeerConfig{Name: "other", Kind: rib.KindBGP})
	p := netip.MustParsePrefix("10.0.0.0/8")
	many := rib.Update{}
	for id := range uint32(rib.MaxPaths + 10) {
		many.Reach = append(many.Reach, rib.NLRI{Prefix: p, PathID: id})
	}
	b.peer.Apply(many)
	other.Apply(many)
	b.peer.Apply(many) // what is there is replaced
	for _, peer := range []*rib.Peer{b.peer, other} {
		if s := peer.Status(); s.V4 != rib.MaxPaths {
			t.Errorf("%s: %d paths", s.Name, s.V4)
		}
	}
	if got := b.peer.Status().Crowded; got != 20 {
		t.Errorf("%d left out, want 20", got)
	}
	b.peer.Apply(rib.Update{Unreach: many.Reach[:1]})
	b.peer.Apply(rib.Update{Reach: many.Reach[rib.MaxPaths : rib.MaxPaths+1]})
	if s := b.peer.Status(); s.V4 != rib.MaxPaths || s.Crowded != 20 {
		t.Errorf("%d paths, %d left out", s.V4, s.Crowded)
	}
}
