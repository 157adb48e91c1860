package rib_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/rib"
)

func TestPeerStates(t *testing.T) {
	r := rib.New(rib.Options{})
	add := func(name string, kind rib.PeerKind) *rib.Peer {
		p, err := r.AddPeer(rib.PeerConfig{Name: name, Kind: kind, AS: 64500, RouterID: netip.MustParseAddr("10.0.0.1")})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	session, file, broken := add("session", rib.KindBGP), add("file", rib.KindMRT), add("broken", rib.KindList)
	type state struct {
		state, lastError string
		endOfRIB, loaded bool
	}
	for _, c := range []struct {
		name string
		do   func()
		peer *rib.Peer
		want state
	}{
		{"new", func() {}, session, state{"down", "", false, false}},
		{"nobody answers", func() { session.GaveUp("no answer") }, session, state{"down", "no answer", false, false}},
		{"up", func() { session.Up(rib.Session{IPv6: true}) }, session, state{"established", "", false, false}},
		{"gave up waiting", func() { session.GaveUp("slow") }, session, state{"established", "", false, false}},
		{"End-of-RIB of a family not negotiated", func() { session.EndOfRIB(false) }, session, state{"established", "", false, false}},
		{"End-of-RIB", func() { session.EndOfRIB(true) }, session, state{"established", "", true, true}},
		{"lost", func() { session.Down("hold timer expired") }, session, state{"down", "hold timer expired", false, true}},
		{"back", func() { session.Up(rib.Session{IPv6: true}) }, session, state{"established", "", false, true}},
		{"file opened", func() { file.Up(rib.Session{}) }, file, state{"loading", "", false, false}},
		{"file read", func() { file.Loaded() }, file, state{"loaded", "", false, true}},
		{"list opened", func() { broken.Up(rib.Session{}) }, broken, state{"loading", "", false, false}},
		{"list broken", func() { broken.GaveUp("line 3") }, broken, state{"down", "line 3", false, false}},
	} {
		c.do()
		s := c.peer.Status()
		if got := (state{s.State, s.LastError, s.EndOfRIB6, s.Loaded}); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if s.Since.IsZero() || s.AS != 64500 {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	var names []string
	for _, s := range r.Peers() {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"broken", "file", "session"}) {
		t.Errorf("peers %q", names)
	}
}

func TestSessionWithoutFamiliesIsLoadedAtOnce(t *testing.T) {
	r := rib.New(rib.Options{})
	p, _ := r.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP, Awaited: true})
	if p.Up(rib.Session{}); len(r.Pending()) != 0 {
		t.Errorf("waiting for %q", r.Pending())
	}
}

func TestPeerNamesAreUnique(t *testing.T) {
	r := rib.New(rib.Options{})
	p, err := r.AddPeer(rib.PeerConfig{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.AddPeer(rib.PeerConfig{Name: "a"}); !errors.Is(err, rib.ErrPeerExists) {
		t.Errorf("second peer of that name: %v", err)
	}
	r.RemovePeer(p)
	if _, err := r.AddPeer(rib.PeerConfig{Name: "a"}); err != nil {
		t.Errorf("name of a removed peer: %v", err)
	}
}

// A removed peer's place is taken by the next one; what is still called on the old one must
// not reach the new one's routes.
func TestRemovedPeerChangesNothing(t *testing.T) {
	r := rib.New(rib.Options{})
	old, _ := r.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP})
	old.Apply(rib.Update{Reach: prefixes(5)})
	r.RemovePeer(old)
	if v4, _ := r.Counts(); v4 != 0 {
		t.Errorf("%d prefixes of a removed peer", v4)
	}
	now, _ := r.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP, Awaited: true})
	now.Up(rib.Session{IPv4: true})
	now.Apply(rib.Update{Reach: prefixes(7)})
	before := now.Status()

	old.Apply(rib.Update{Reach: prefixes(9), Unreach: prefixes(3)})
	old.Up(rib.Session{})
	old.Loaded()
	old.EndOfRIB(false)
	old.GaveUp("no")
	old.Down("no")
	r.RemovePeer(old)
	for n := range old.Routes() {
		t.Errorf("removed peer has %s", n.Prefix)
	}
	if got := now.Status(); got != before {
		t.Errorf("%+v became %+v", before, got)
	}
	if v4, _ := r.Counts(); v4 != 7 {
		t.Errorf("%d prefixes, want 7", v4)
	}
	if got := r.Pending(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("pending %q", got)
	}
}

func TestUpWithdrawsWhatIsLeftOfTheLastSession(t *testing.T) {
	r := rib.New(rib.Options{})
	p, _ := r.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP})
	p.Up(rib.Session{IPv4: true})
	p.Apply(rib.Update{Reach: prefixes(5)})
	p.Up(rib.Session{IPv4: true})
	if s := p.Status(); s.V4 != 0 {
		t.Errorf("%d routes behind Up", s.V4)
	}
}

func TestPathsWithLoopAreKeptAndNotChosen(t *testing.T) {
	b := rib.New(rib.Options{LocalAS: localAS})
	p, _ := b.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP})
	loop := rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, localAS}})
	p.Apply(rib.Update{Reach: prefixes(1), Attrs: rib.Attrs{ASPath: loop}})
	if v4, _ := b.Counts(); v4 != 0 {
		t.Errorf("%d prefixes with a best path, want 0", v4)
	}
	if got := b.Paths(prefixes(1)[0].Prefix); len(got) != 1 || got[0].LostBy != "as-path-loop" {
		t.Errorf("%+v", got)
	}
	if s := p.Status(); s.V4 != 1 {
		t.Errorf("%d routes in the Adj-RIB-In, want 1", s.V4)
	}
}

// A dump, a list or another router with our own routes is asked for exactly them.
func TestPathsOfFilesHaveNoLoop(t *testing.T) {
	for _, kind := range []rib.PeerKind{rib.KindMRT, rib.KindList, rib.KindBMP} {
		b := rib.New(rib.Options{LocalAS: localAS})
		p, _ := b.AddPeer(rib.PeerConfig{Name: "a", Kind: kind})
		own := rib.MakeASPath(rib.Segment{Type: rib.SegmentSequence, ASNs: []uint32{64500, localAS}})
		p.Apply(rib.Update{Reach: prefixes(1), Attrs: rib.Attrs{ASPath: own}})
		if v4, _ := b.Counts(); v4 != 1 {
			t.Errorf("kind %s: %d prefixes with a best path, want 1", kind, v4)
		}
	}
}

func TestRoutesMayBeLeftEarlyAndChangedMeanwhile(t *testing.T) {
	r := rib.New(rib.Options{})
	p, _ := r.AddPeer(rib.PeerConfig{Name: "a", Kind: rib.KindBGP})
	p.Apply(rib.Update{Reach: prefixes(100)})
	seen := 0
	for n := range p.Routes() {
		p.Apply(rib.Update{Unreach: []rib.NLRI{n}}) // the lock is free in here
		if seen++; seen == 10 {
			break
		}
	}
	if s := p.Status(); s.V4 != 90 {
		t.Errorf("%d routes left, want 90", s.V4)
	}
	if got := r.Paths(netip.Prefix{}); got != nil {
		t.Errorf("the invalid prefix has %v", got)
	}
}
