package snapshot

import (
	"bytes"
	"maps"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// Whatever the tables are: what is saved comes back, route by route, as stale; the peers then
// announce all of it, or part of it, and what is left is as if nothing had been restored.
func TestSavedTablesComeBack(t *testing.T) {
	r := seeded(t)
	for round := range 60 {
		names := []string{"default", "vrf/65000:1", ""}[:1+r.IntN(3)]
		few, routes := 1+r.IntN(50), 1+r.IntN(3000)
		before := newService(t, names, somePeers...)
		sent := map[string][]rib.Update{}
		for _, name := range names {
			for _, p := range somePeers {
				if r.IntN(3) == 0 {
					continue
				}
				updates := someUpdates(r, few, routes)
				sent[name+p.Name] = updates
				for _, u := range updates {
					before.tables[name].peers[p.Name].Apply(u)
				}
			}
		}
		before.publish(t)
		want := before.routes(false)

		path := filepath.Join(t.TempDir(), "saved")
		saver, _ := before.restored(t, path)
		save(t, saver)
		if n := saver.Stats().LastRoutes; n != len(want) {
			t.Fatalf("round %d: %d routes saved, want %d", round, n, len(want))
		}

		after := newService(t, names, somePeers...)
		_, restored := after.restored(t, path)
		if n := restored.Routes; n != [NumFates]int{Given: len(want)} {
			t.Fatalf("round %d: %v restored, want %d", round, n, len(want))
		}
		for k, w := range want {
			w.stale = true
			want[k] = w
		}
		if got := after.routes(false); !maps.Equal(got, want) {
			t.Fatalf("round %d: %s", round, difference(got, want))
		}

		// The sources are back: what they do not have any more goes at the end of their tables.
		fresh := newService(t, names, somePeers...)
		for _, name := range names {
			for _, p := range somePeers {
				both := []*rib.Peer{after.tables[name].peers[p.Name], fresh.tables[name].peers[p.Name]}
				for _, peer := range both {
					peer.Up(rib.Session{IPv4: true, IPv6: true, KeepIPv4: true, KeepIPv6: true})
				}
				for _, u := range sent[name+p.Name] {
					if r.IntN(4) > 0 {
						both[0].Apply(u)
						both[1].Apply(u)
					}
				}
				for _, peer := range both {
					peer.EndOfRIB(false)
					peer.EndOfRIB(true)
					peer.Loaded()
				}
			}
		}
		after.publish(t)
		fresh.publish(t)
		if got, want := after.routes(false), fresh.routes(false); !maps.Equal(got, want) {
			t.Fatalf("round %d, converged: %s", round, difference(got, want))
		}
	}
}

func difference(got, want map[string]route) string {
	for k, w := range want {
		if g, ok := got[k]; !ok || g != w {
			return k + ": got " + sprint(g, ok) + ", want " + sprint(w, true)
		}
	}
	for k, g := range got {
		if _, ok := want[k]; !ok {
			return k + ": got " + sprint(g, true) + ", want none"
		}
	}
	return "the same"
}

// Peers are saved as they are, and a file says what it holds.
func TestLoadTells(t *testing.T) {
	created := time.Now().Round(0)
	s := newService(t, []string{"default", "empty"}, somePeers...)
	for i, p := range somePeers {
		peer := s.tables["default"].peers[p.Name]
		if p.Kind == rib.KindBGP {
			peer.Up(rib.Session{RouterID: netip.AddrFrom4([4]byte{10, 1, 1, byte(i)})})
		}
		peer.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i)}), 16)}}})
	}
	s.tables["default"].peers["a"].Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("::/0")}}})
	s.tables["default"].peers["a"].Retain("lost")
	since := s.tables["default"].peers["a"].Status().StaleSince
	s.publish(t)
	saved := must[*Saved](t)(decode(s.encode(t, created)))
	if !saved.Created.Equal(created) || len(saved.Tables) != 2 {
		t.Fatalf("got %+v", saved)
	}
	d, e := saved.Tables[0], saved.Tables[1]
	if d.Name != "default" || d.Generation != 1 || d.V4 != len(somePeers) || d.V6 != 1 || e.Name != "empty" || e.V4+e.V6+len(e.Peers) != 0 {
		t.Errorf("got %+v", saved.Tables)
	}
	if len(d.Peers) != len(somePeers) {
		t.Fatalf("%d peers", len(d.Peers))
	}
	for i, p := range d.Peers {
		c := somePeers[i]
		want := Peer{Name: c.Name, Kind: c.Kind, Addr: c.Addr, AS: c.AS, RouterID: c.RouterID}
		if c.Kind == rib.KindBGP {
			want.RouterID = netip.AddrFrom4([4]byte{10, 1, 1, byte(i)})
		}
		if i == 0 {
			if !p.StaleSince.Equal(since) {
				t.Errorf("stale since %v, want %v", p.StaleSince, since)
			}
			p.StaleSince = time.Time{}
		}
		if p != want {
			t.Errorf("got %+v, want %+v", p, want)
		}
	}
}

// Routes of large batches and of large blocks come back, too.
func TestManyBlocks(t *testing.T) {
	const n = 300_000
	s := newService(t, []string{"default"}, somePeers...)
	var u rib.Update
	for i := range n {
		u.Reach = append(u.Reach, rib.NLRI{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i)}), 24)})
	}
	s.tables["default"].peers["a"].Apply(u)
	s.publish(t)
	saved := must[*Saved](t)(decode(s.encode(t, time.Now())))
	if blocks := len(saved.Tables[0].routes); blocks < 3 {
		t.Fatalf("%d blocks", blocks)
	}
	for _, b := range saved.Tables[0].routes {
		if len(b) > 2*blockSize {
			t.Errorf("a block of %d bytes", len(b))
		}
	}
	after := newService(t, s.names, somePeers...)
	saved.Restore(after.find, 0)
	after.publish(t)
	if got := len(after.routes(true)); got != n {
		t.Errorf("%d routes, want %d", got, n)
	}
}

// Only the peer that the routes came from gets them.
func TestRoutesOfOthersAreDropped(t *testing.T) {
	a := somePeers[0]
	before := newService(t, []string{"default"}, a)
	before.tables["default"].peers["a"].Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, {Prefix: netip.MustParsePrefix("::/0")}}})
	before.publish(t)
	file := before.encode(t, time.Now())

	change := func(f func(*rib.PeerConfig)) rib.PeerConfig {
		c := a
		f(&c)
		return c
	}
	for _, c := range []struct {
		name string
		peer rib.PeerConfig
		want Fate
	}{
		{"the same", a, Given},
		{"awaited", change(func(c *rib.PeerConfig) { c.Awaited = true }), Given},
		{"router ID", change(func(c *rib.PeerConfig) { c.RouterID = netip.Addr{} }), Given},
		{"name", change(func(c *rib.PeerConfig) { c.Name = "other" }), DroppedUnknown},
		{"kind", change(func(c *rib.PeerConfig) { c.Kind = rib.KindBMP }), DroppedChanged},
		{"address", change(func(c *rib.PeerConfig) { c.Addr = netip.MustParseAddr("192.0.2.2") }), DroppedChanged},
		{"AS", change(func(c *rib.PeerConfig) { c.AS++ }), DroppedChanged},
	} {
		after := newService(t, []string{"default"}, c.peer)
		r := must[*Saved](t)(decode(file)).Restore(after.find, time.Hour)
		var want [NumFates]int
		want[c.want] = 2
		if r.Routes != want || len(r.Peers) != 1 || r.Peers[0].Routes != want {
			t.Errorf("%s: got %+v, want 2 routes %v", c.name, r, c.want)
		}
		after.publish(t)
		if got := len(after.routes(false)); (got == 2) != (c.want == Given) {
			t.Errorf("%s: %d routes in the table", c.name, got)
		}
	}
	after := newService(t, []string{"other"}, a)
	if r := must[*Saved](t)(decode(file)).Restore(after.find, time.Hour); r.Routes[DroppedUnknown] != 2 {
		t.Errorf("another table: got %+v", r)
	}

	// A session that is up already knows better.
	up := newService(t, []string{"default"}, a)
	up.tables["default"].peers["a"].Up(rib.Session{IPv4: true})
	must[*Saved](t)(decode(file)).Restore(up.find, time.Hour)
	up.publish(t)
	if got := up.routes(false); len(got) != 0 {
		t.Errorf("a peer that was up has %v", got)
	}
}

// What was known too long ago is dropped: all where the file is old, the stale part where that is.
func TestOldRoutesAreDropped(t *testing.T) {
	s := newService(t, []string{"default"}, somePeers[0])
	p := s.tables["default"].peers["a"]
	p.Up(rib.Session{IPv4: true, IPv6: true})
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}}})
	p.Retain("lost")
	p.Up(rib.Session{IPv4: true, IPv6: true, KeepIPv4: true, KeepIPv6: true})
	p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("::/0")}}})
	s.publish(t)

	encode := func(created, stale time.Time) []byte {
		g := s.sources()[0].Publisher.Generations().Acquire()
		defer g.Release()
		var b bytes.Buffer
		w := newWriter(&b, created)
		w.generation("default", g, s.sources()[0].Publisher.Withheld(g), func(*rib.Peer) time.Time { return stale })
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	for _, c := range []struct {
		name           string
		created, stale time.Time
		maxAge         time.Duration
		given, old     int
	}{
		{"both new", ago(0), ago(time.Minute), time.Hour, 2, 0},
		{"stale for too long", ago(0), ago(2 * time.Hour), time.Hour, 1, 1},
		{"an old file", ago(2 * time.Hour), ago(3 * time.Hour), time.Hour, 0, 2},
		{"any age", ago(2000 * time.Hour), ago(3000 * time.Hour), 0, 2, 0},
		{"from the future", ago(-2 * time.Hour), ago(-2 * time.Hour), time.Hour, 2, 0},
	} {
		after := newService(t, s.names, somePeers[0])
		r := must[*Saved](t)(decode(encode(c.created, c.stale))).Restore(after.find, c.maxAge)
		if want := [NumFates]int{Given: c.given, DroppedOld: c.old}; r.Routes != want {
			t.Errorf("%s: got %v, want %v", c.name, r.Routes, want)
		}
	}
}

// A validity rejects what is in it.
type validity map[netip.Prefix]bool

func (v validity) Check(p netip.Prefix, _ *rib.Attrs) rib.Reject {
	if v[p] {
		return rib.RejectRPKI
	}
	return rib.Accepted
}

// A save while a policy rejects what it took before, such as one that asks for valid origins while
// the cache is not back, loses no path: not of prefixes that are published, nor of all others.
func TestRejectedRoutesAreSaved(t *testing.T) {
	const n = maxWithheld + 5
	s := newService(t, []string{"default", "other"}, somePeers...)
	all, none := validity{}, validity{}
	var routes []rib.NLRI
	for i := range n {
		routes = append(routes, rib.NLRI{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), PathID: uint32(i % 2)})
		all[routes[i].Prefix] = true
	}
	v6 := netip.MustParsePrefix("2001:db8::/32")
	a, b := s.tables["default"].peers["a"], s.tables["default"].peers["b, of six"]
	for _, p := range []*rib.Peer{a, b} {
		p.Up(rib.Session{IPv4: true, IPv6: true})
		p.Apply(rib.Update{Reach: append(routes, rib.NLRI{Prefix: v6}), Attrs: rib.Attrs{MED: 7, HasMED: true}})
		p.Retain("lost")
	}
	b.SetImport(all)
	s.publish(t)
	want := s.routes(true)
	a.SetImport(all) // all but the IPv6 prefix
	saves := map[string][]byte{"before it is published": s.encode(t, time.Now())}
	s.publish(t)
	if got := s.routes(true); len(got) != 1 {
		t.Fatalf("%d routes are chosen, want 1", len(got))
	}
	saves["after it is published"] = s.encode(t, time.Now())
	a.SetImport(none) // they are back, and no generation has them
	saves["before they are published again"] = s.encode(t, time.Now())
	for when, file := range saves {
		after := newService(t, s.names, somePeers...)
		r := must[*Saved](t)(decode(file)).Restore(after.find, time.Hour)
		saved := n + 1
		if when != "before it is published" {
			saved = 2*n + 1 // both peers' paths, and one to what is chosen
		}
		if r.Routes != [NumFates]int{Given: saved} {
			t.Errorf("%s: restored %v, want %d", when, r.Routes, saved)
		}
		after.publish(t)
		if got := after.routes(true); !maps.Equal(got, want) {
			t.Errorf("%s: %s", when, difference(got, want))
		}
	}
}
