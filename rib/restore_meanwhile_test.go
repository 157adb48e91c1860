package rib_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

// A policy that came meanwhile holds for what is restored from its first moment on: nothing of it is shown to the publisher.
func TestRestorationGoesByThePolicyOfNow(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	var restoration rib.Restoration
	restoration.Add(b.peer, rib.Update{Reach: prefixes(1000)})
	b.peer.SetImport(rejectAll{})
	restoration.Done()
	if n := b.publisher.Stats().Pending; n != 0 {
		t.Fatalf("%d rejected routes were accepted for a while", n)
	}
	if n := b.peer.Status().Rejected[rib.RejectPrefix]; n != 1000 {
		t.Fatalf("%d routes are rejected", n)
	}
}

// A route that a session announced in the meantime, and that was kept, is newer than the saved one.
func TestRestorationKeepsWhatIsNewer(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	var restoration rib.Restoration
	restoration.Add(b.peer, rib.Update{Reach: prefixes(2), Attrs: rib.Attrs{MED: 1, HasMED: true}})
	b.peer.Up(keepAll)
	b.announce(2, prefixes(1)...)
	b.peer.Retain("lost")
	restoration.Done()
	for n, path := range b.peer.Routes() {
		if want := map[bool]uint32{true: 2, false: 1}[n == prefixes(1)[0]]; path.Value().MED != want {
			t.Errorf("%v has MED %d, want %d", n, path.Value().MED, want)
		}
	}
	if n := b.peer.Status().Stale4; n != 2 {
		t.Errorf("%d routes", n)
	}
}

// What is restored takes as much memory as what was announced, also where many peers have the same prefixes, and none
// where peers take nothing.
func TestRestorationMemory(t *testing.T) {
	const peers, routes = 30, 1 << 16
	measure := func(f func() *rib.RIB) int64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := f()
		if err := rib.NewPublisher(r, &mapEngine{}, rib.PublisherOptions{}).Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(r)
		return int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	of := func(use func(all []*rib.Peer)) func() *rib.RIB {
		return func() *rib.RIB {
			r := rib.New(rib.Options{MaxPending: -1})
			var all []*rib.Peer
			for i := range peers {
				p, err := r.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP})
				if err != nil {
					t.Fatal(err)
				}
				p.SetImport(rejectAll{})
				all = append(all, p)
			}
			use(all)
			return r
		}
	}
	u := rib.Update{Reach: prefixes(routes)}
	announced := measure(of(func(all []*rib.Peer) {
		for _, p := range all {
			p.Up(keepAll)
			p.Apply(u)
		}
	}))
	restored := measure(of(func(all []*rib.Peer) {
		var restoration rib.Restoration
		for _, p := range all {
			restoration.Add(p, u)
		}
		restoration.Done()
	}))
	up := measure(of(func(all []*rib.Peer) {
		var restoration rib.Restoration
		for _, p := range all {
			restoration.Add(p, u)
			p.Up(keepAll)
		}
		restoration.Done()
	}))
	t.Logf("announced %d, restored %d, up meanwhile %d", announced, restored, up)
	if restored > announced*3/2 {
		t.Errorf("restored routes take %d bytes, announced ones %d", restored, announced)
	}
	if up > 1<<20 {
		t.Errorf("nothing was restored and takes %d bytes", up)
	}
}
