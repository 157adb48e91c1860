package rib_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// keepAll is a session of a peer that forwarded on through its restart.
var keepAll = rib.Session{IPv4: true, IPv6: true, KeepIPv4: true, KeepIPv6: true}

// table gives what a flush publishes: prefixes with their peer's name, MED and staleness.
func (b *bench) table() map[netip.Prefix]string {
	b.Helper()
	b.flush()
	g := b.publisher.Generations().Acquire()
	defer g.Release()
	routes := map[netip.Prefix]string{}
	for p, r := range contents(g) {
		routes[p] = fmt.Sprintf("%s %d", r.Peer.Name(), r.Path.Value().MED)
		if r.Stale {
			routes[p] += " stale"
		}
	}
	return routes
}

func TestStaleRoutesKeepTheirTable(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.peer.Up(keepAll)
	few := prefixes(3)
	p := func(i int) netip.Prefix { return few[i].Prefix }
	b.announce(7, few...)
	b.table()
	b.peer.Retain("hold timer expired")
	if got, want := b.table(), (map[netip.Prefix]string{p(0): "a 7 stale", p(1): "a 7 stale", p(2): "a 7 stale"}); !maps.Equal(got, want) {
		t.Errorf("retained: %v", got)
	}
	b.peer.Up(keepAll)
	b.announce(7, few[0])
	b.announce(8, few[1])
	if got, want := b.table(), (map[netip.Prefix]string{p(0): "a 7", p(1): "a 8", p(2): "a 7 stale"}); !maps.Equal(got, want) {
		t.Errorf("back: %v", got)
	}
	b.peer.EndOfRIB(true)
	if s := b.peer.Status(); s.Stale4 != 1 || s.Loaded || s.V4 != 3 {
		t.Errorf("behind the other family's End-of-RIB: %+v", s)
	}
	b.peer.EndOfRIB(false)
	if got, want := b.table(), (map[netip.Prefix]string{p(0): "a 7", p(1): "a 8"}); !maps.Equal(got, want) {
		t.Errorf("End-of-RIB: %v", got)
	}
	// Only what came or went is the engine's business.
	b.wantBuilds(build{changes: 3}, build{update: true}, build{update: true}, build{update: true, changes: 1})
}

func TestUpWithdrawsFamiliesThatAreNotKept(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	six := rib.NLRI{Prefix: netip.MustParsePrefix("2001:db8::/32")}
	both := append(prefixes(2), six)
	for _, kind := range []rib.PeerKind{rib.KindBGP, rib.KindBMP} {
		p := b.add(rib.PeerConfig{Name: string(kind), Kind: kind})
		p.Up(rib.Session{IPv4: true, IPv6: true})
		p.Apply(rib.Update{Reach: both})
		p.Retain("lost")
		p.Up(rib.Session{IPv4: true, IPv6: true, KeepIPv6: true})
		if s := p.Status(); s.V4 != 0 || s.V6 != 1 || s.Stale6 != 1 || s.State != "established" {
			t.Errorf("%s: %+v", kind, s)
		}
		p.EndOfRIB(true)
		if s := p.Status(); s.V6 != 0 || s.Loaded {
			t.Errorf("%s: %+v", kind, s)
		}
	}
}

func TestRetainedPeerStates(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	file := b.add(rib.PeerConfig{Name: "file", Kind: rib.KindMRT})
	one := rib.Update{Reach: prefixes(1)}
	type state struct {
		state, lastError  string
		v4, stale4, fresh int
	}
	for _, c := range []struct {
		name string
		peer *rib.Peer
		do   func()
		want state
	}{
		{"nothing to restore yet", b.peer, func() {}, state{"down", "", 0, 0, 0}},
		{"restored", b.peer, func() { b.peer.Restore(one) }, state{"stale", "", 1, 1, 0}},
		{"nobody answers", b.peer, func() { b.peer.GaveUp("no answer") }, state{"stale", "no answer", 1, 1, 0}},
		{"up", b.peer, func() { b.peer.Up(keepAll) }, state{"established", "", 1, 1, 0}},
		{"too late to restore", b.peer, func() { b.peer.Restore(rib.Update{Reach: prefixes(5)}) }, state{"established", "", 1, 1, 0}},
		{"announced", b.peer, func() { b.peer.Apply(one) }, state{"established", "", 1, 0, 1}},
		{"lost", b.peer, func() { b.peer.Retain("cable") }, state{"stale", "cable", 1, 1, 0}},
		{"lost, told twice", b.peer, func() { b.peer.Retain("cable") }, state{"stale", "cable", 1, 1, 0}},
		{"given up", b.peer, func() { b.peer.Down("too long") }, state{"down", "too long", 0, 0, 0}},
		{"back without a trace", b.peer, func() { b.peer.Up(keepAll) }, state{"established", "", 0, 0, 0}},
		{"file restored", file, func() { file.Restore(rib.Update{Reach: prefixes(3)}) }, state{"stale", "", 3, 3, 0}},
		{"file opened", file, func() { file.Up(rib.Session{}) }, state{"loading", "", 3, 3, 0}},
		{"file half read", file, func() { file.Apply(one) }, state{"loading", "", 3, 2, 1}},
		{"file read", file, func() { file.Loaded() }, state{"loaded", "", 1, 0, 1}},
		{"file opened again", file, func() { file.Up(rib.Session{}) }, state{"loading", "", 1, 1, 0}},
		{"file broken", file, func() { file.GaveUp("line 7") }, state{"down", "line 7", 1, 1, 0}},
	} {
		c.do()
		s := c.peer.Status()
		fresh, _ := c.peer.Received()
		if got := (state{s.State, s.LastError, s.V4, s.Stale4, fresh}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestStaleSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rib.PublisherOptions{})
		b.peer.Up(keepAll)
		b.announce(1, prefixes(1)...)
		time.Sleep(time.Minute)
		b.peer.Retain("lost")
		lost := time.Now()
		for _, step := range []func(){func() {}, func() { b.peer.LongLived(false) }, func() { b.peer.Up(keepAll) }} {
			time.Sleep(time.Minute)
			step()
			if got := b.peer.Status().StaleSince; !got.Equal(lost) {
				t.Errorf("stale since %v, want %v", got, lost)
			}
		}
		b.announce(1, prefixes(1)...)
		if got := b.peer.Status().StaleSince; !got.IsZero() {
			t.Errorf("nothing is stale, since %v", got)
		}
		time.Sleep(time.Minute)
		b.peer.Retain("lost again")
		if got := b.peer.Status().StaleSince; !got.Equal(time.Now()) {
			t.Errorf("stale since %v, want now", got)
		}
	})
}

// A route may survive one restart without a word from its peer, not two.
func TestConsecutiveRestarts(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.peer.Up(keepAll)
	few := prefixes(3)
	b.announce(1, few...)
	b.peer.Retain("lost")
	b.peer.Up(keepAll)
	b.announce(1, few[0])
	b.peer.Retain("lost again")
	if got := b.table(); len(got) != 1 || got[few[0].Prefix] != "a 1 stale" {
		t.Errorf("%v, want the one that was announced in between", got)
	}
	b.peer.LongLived(false)
	b.peer.LongLived(true)
	b.peer.Up(keepAll)
	b.announce(1, few[1])
	b.peer.Retain("and again")
	if got := b.table(); len(got) != 2 {
		t.Errorf("%v, want the long-lived stale one and the one that was announced since", got)
	}
}

func TestLongLivedStaleIsTheLastResort(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	worse := b.add(rib.PeerConfig{Name: "worse", Kind: rib.KindBGP})
	few := prefixes(3)
	p := func(i int) netip.Prefix { return few[i].Prefix }
	b.announce(1, few[:2]...)
	b.peer.Apply(rib.Update{Reach: few[2:], Attrs: rib.Attrs{Communities: rib.MakeCommunities(1, noLLGR)}})
	worse.Apply(rib.Update{Reach: few[:1], Attrs: rib.Attrs{HasLocalPref: true, LocalPref: 1}})
	b.peer.LongLived(false)
	b.peer.LongLived(true)
	b.peer.Retain("lost")
	if got, want := b.table(), (map[netip.Prefix]string{p(0): "a 1 stale", p(1): "a 1 stale", p(2): "a 0 stale"}); !maps.Equal(got, want) {
		t.Errorf("stale: %v", got)
	}
	b.peer.LongLived(false)
	b.peer.LongLived(true)
	if got, want := b.table(), (map[netip.Prefix]string{p(0): "worse 0", p(1): "a 1 stale"}); !maps.Equal(got, want) {
		t.Errorf("long-lived stale: %v", got)
	}
	if c := b.rib.Paths(p(0)); c[1].LostBy != "long-lived-stale" || !c[1].Route.Stale {
		t.Errorf("%+v", c)
	}
	b.announce(1, few[0])
	if got := b.table()[p(0)]; got != "a 1" {
		t.Errorf("announced again: %s", got)
	}
}

// An enhanced refresh says nothing about the routes until it ends.
func TestRefreshSweepsWhatWasNotAnnouncedAgain(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.peer.Up(rib.Session{IPv4: true, IPv6: true})
	few := prefixes(3)
	six := rib.NLRI{Prefix: netip.MustParsePrefix("2001:db8::/32")}
	b.announce(1, append(few, six)...)
	b.flush()
	b.peer.MarkStale(false)
	if s := b.publisher.Stats(); s.Pending != 0 {
		t.Errorf("%d changes by the beginning of a refresh", s.Pending)
	}
	b.announce(1, few[0])
	b.announce(2, few[1])
	b.peer.EndOfRIB(false) // not the refresh's end
	if v4, v6 := b.peer.Received(); v4 != 3 || v6 != 1 {
		t.Errorf("received %d + %d", v4, v6)
	}
	b.peer.Sweep(true)
	b.peer.Sweep(false)
	want := map[netip.Prefix]string{few[0].Prefix: "a 1", few[1].Prefix: "a 2", six.Prefix: "a 1"}
	if got := b.table(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// However a peer restarts and announces again, no generation in between lacks a route that was
// there before and comes again, and in the end nothing tells that there was a restart.
func TestRestartLosesNoRoute(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		b := newBench(t, rib.PublisherOptions{})
		other := b.add(rib.PeerConfig{Name: "b", Kind: rib.KindBGP, Addr: netip.MustParseAddr("10.0.0.9")})
		b.peer.Up(keepAll)
		before, after := map[rib.NLRI]uint32{}, map[rib.NLRI]uint32{}
		for range 50 {
			n := randomNLRI(rng)
			before[n] = rng.Uint32N(3)
			b.announce(before[n], n)
			if m := randomNLRI(rng); rng.IntN(2) == 0 {
				other.Apply(rib.Update{Reach: []rib.NLRI{m}, Attrs: rib.Attrs{HasMED: true, MED: rng.Uint32N(3)}})
			}
			if n := randomNLRI(rng); rng.IntN(2) == 0 {
				after[n] = rng.Uint32N(3)
			} else if med, ok := before[n]; ok {
				after[n] = med
			}
		}
		check := func(step string) {
			t.Helper()
			got := b.table()
			for n := range after {
				if _, had := before[n]; had && got[n.Prefix] == "" {
					t.Fatalf("seed %d: %s: %v is lost", seed, step, n)
				}
			}
		}
		b.peer.Retain("killed")
		check("retained")
		if rng.IntN(2) == 0 {
			b.peer.LongLived(false)
			b.peer.LongLived(true)
			check("long-lived")
		}
		b.peer.Up(keepAll)
		check("up")
		for n, med := range after { // in random order
			b.announce(med, n)
			if rng.IntN(4) == 0 {
				check("announcing")
			}
		}
		b.peer.EndOfRIB(false)
		b.peer.EndOfRIB(true)
		check("End-of-RIB")

		fresh := newBench(t, rib.PublisherOptions{})
		again := fresh.add(rib.PeerConfig{Name: "b", Kind: rib.KindBGP, Addr: netip.MustParseAddr("10.0.0.9")})
		for n, p := range other.Routes() {
			again.Apply(rib.Update{Reach: []rib.NLRI{n}, Attrs: p.Value()})
		}
		for n, med := range after {
			fresh.announce(med, n)
		}
		if got, want := b.table(), fresh.table(); !maps.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

// What was saved of a peer, whatever it is, leaves no trace once the peer has announced its own.
func TestRestoredRoutesLeaveNoTrace(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		plain, restored := newWorld(), newWorld()
		kinds := []rib.PeerKind{rib.KindBGP, rib.KindBMP, rib.KindMRT, rib.KindList}
		var saved, own [][]rib.Update
		for range kinds {
			some := func() (all []rib.Update) {
				for range rng.IntN(20) {
					all = append(all, randomUpdate(rng))
				}
				return all
			}
			saved, own = append(saved, some()), append(own, some())
		}
		for _, w := range []*world{plain, restored} {
			for i, kind := range kinds {
				p, err := w.rib.AddPeer(rib.PeerConfig{Name: fmt.Sprint(i), Kind: kind})
				if err != nil {
					t.Fatal(err)
				}
				if w == restored {
					for _, u := range saved[i] {
						p.Restore(u)
					}
				}
				p.Up(keepAll)
				for _, u := range own[i] {
					p.Apply(u)
				}
				p.EndOfRIB(false)
				p.EndOfRIB(true)
				p.Loaded()
			}
		}
		want, got := (&bench{T: t, publisher: plain.publisher}).table(), (&bench{T: t, publisher: restored.publisher}).table()
		if !maps.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
		for i, s := range restored.rib.Peers() {
			other := plain.rib.Peers()[i]
			s.Since, other.Since = time.Time{}, time.Time{}
			if s != other {
				t.Fatalf("seed %d: %+v, want %+v", seed, s, other)
			}
		}
	}
}

// Whatever happens to one peer at once, its counters and its routes agree in the end.
func TestOnePeersMethodsAtOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := newBench(t, rib.PublisherOptions{})
	filter := &policy{}
	b.peer.SetImport(filter)
	stop := b.run()
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 300 {
				switch rng.IntN(16) {
				case 0:
					b.peer.Retain("test")
				case 1:
					b.peer.Up(keepAll)
				case 2:
					b.peer.EndOfRIB(rng.IntN(2) == 0)
				case 3:
					b.peer.MarkStale(rng.IntN(2) == 0)
				case 4:
					b.peer.Sweep(rng.IntN(2) == 0)
				case 5:
					b.peer.LongLived(false)
					b.peer.LongLived(true)
				case 6:
					filter.salt.Store(rng.Uint32N(30))
					b.peer.Reconsider()
				case 7:
					b.peer.Restore(randomUpdate(rng))
				default:
					b.peer.Apply(randomUpdate(rng))
				}
			}
		})
	}
	all.Wait()
	stop()
	b.flush()
	want := rib.PeerStatus{}
	for n, p := range b.peer.Routes() {
		if isV6(n) {
			want.V6++
		} else {
			want.V4++
		}
		attrs := p.Value()
		if r := filter.Check(n.Prefix, &attrs); r != rib.Accepted {
			want.Rejected[r]++
		}
		for _, c := range b.rib.Paths(n.Prefix) {
			if c.Route.PathID == n.PathID && c.Route.Stale {
				if isV6(n) {
					want.Stale6++
				} else {
					want.Stale4++
				}
			}
		}
	}
	s := b.peer.Status()
	got := rib.PeerStatus{V4: s.V4, V6: s.V6, Stale4: s.Stale4, Stale6: s.Stale6, Rejected: s.Rejected}
	if got != want {
		t.Errorf("status %+v, want %+v", got, want)
	}
	b.peer.Down("end")
	if b.flush(); rib.HandlesInUse(b.rib) != 0 {
		t.Errorf("%d handles in use", rib.HandlesInUse(b.rib))
	}
}

// meanwhile is an IGPCost that has something happen during the first decision that asks it.
type meanwhile struct{ do func() }

func (m *meanwhile) Cost(netip.Addr) (uint64, bool) {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return 0, true
}

// What happens during a decision is the next generation's, whatever it does to the paths.
func TestDecisionSeesTheMomentItBegan(t *testing.T) {
	hop := netip.MustParseAddr("192.0.2.1")
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		igp := &meanwhile{}
		b := newBenchOf(t, rib.Options{IGP: igp}, rib.PublisherOptions{})
		peers := []*rib.Peer{b.peer}
		for i := range 1 + rng.IntN(4) {
			peers = append(peers, b.add(rib.PeerConfig{Name: fmt.Sprint(i), Kind: rib.KindBGP}))
		}
		few := prefixes(20)
		load := func() {
			for _, p := range peers {
				for _, n := range few {
					p.Apply(rib.Update{Reach: []rib.NLRI{n}, Attrs: rib.Attrs{HasMED: true, MED: rng.Uint32N(3), NextHop: hop}})
				}
			}
		}
		for _, p := range []int{rng.IntN(len(peers)), rng.IntN(len(peers))} {
			load()
			want := b.table()
			b.rib.Reevaluate()
			igp.do = func() {
				for _, do := range []func(){
					func() { peers[p].Retain("test") }, func() { peers[p].LongLived(false); peers[p].LongLived(true) }, load, func() { peers[p].Down("test") },
				}[rng.IntN(3):] {
					do()
				}
			}
			if got := b.table(); !maps.Equal(got, want) || igp.do != nil {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
		}
	}
}

func TestRejectWords(t *testing.T) {
	var words []string
	for r := range rib.NumRejects {
		words = append(words, r.String())
	}
	want := []string{"accepted", "as-path-loop", "martian", "no-policy", "prefix", "as-path", "community", "rpki-invalid", "route-leak", "first-as"}
	if !slices.Equal(words, want) || rib.NumRejects.String() != "reject-10" {
		t.Errorf("%q and %s, want %q", words, rib.NumRejects, want)
	}
}

// The Import sees prefixes as the RIB keeps them, and its word is the loser's in Paths.
func TestImportSeesMaskedPrefixes(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	var seen []netip.Prefix
	b.peer.SetImport(checkFunc(func(p netip.Prefix, a *rib.Attrs) rib.Reject {
		seen = append(seen, p)
		if a.MED != 7 {
			t.Errorf("MED %d", a.MED)
		}
		return rib.RejectRPKI
	}))
	b.announce(7, rib.NLRI{Prefix: netip.MustParsePrefix("10.1.2.3/8")}, rib.NLRI{Prefix: netip.MustParsePrefix("2001:db8::1/32")})
	b.peer.Reconsider()
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	if !slices.Equal(seen, append(want, want...)) {
		t.Errorf("saw %v", seen)
	}
	if c := b.rib.Paths(want[0]); len(c) != 1 || c[0].LostBy != "rpki-invalid" {
		t.Errorf("%+v", c)
	}
	if got := b.table(); len(got) != 0 {
		t.Errorf("%v is chosen", got)
	}
	b.peer.SetImport(nil)
	if got := b.table(); len(got) != 2 {
		t.Errorf("%v without an import", got)
	}
}

// checkFunc is an Import.
type checkFunc func(netip.Prefix, *rib.Attrs) rib.Reject

func (f checkFunc) Check(p netip.Prefix, a *rib.Attrs) rib.Reject { return f(p, a) }

func TestAwaitedMayChange(t *testing.T) {
	b := newBench(t, rib.PublisherOptions{})
	b.peer.SetAwaited(true)
	if got := b.rib.Pending(); !slices.Equal(got, []string{"a"}) || !b.peer.Config().Awaited || !b.peer.Status().Awaited {
		t.Errorf("pending %q, %+v", got, b.peer.Config())
	}
	b.peer.SetAwaited(false)
	if got := b.rib.Pending(); len(got) != 0 || b.peer.Config().Awaited {
		t.Errorf("pending %q", got)
	}
}
