package bgp

import (
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// dynamicPeer makes a neighbour of a prefix that is not run.
func dynamicPeer(t *testing.T) (*neighbour, *peer) {
	t.Helper()
	addr := netip.MustParseAddr("127.77.0.2")
	s, err := New(Config{ASN: ownAS, RouterID: ownID, Listen: []string{"127.77.0.1:0"}, Log: slog.New(slog.DiscardHandler),
		Peers: []PeerConfig{{Name: "lab", Prefix: netip.PrefixFrom(addr, 24).Masked(), Limit: 2, AS: peerAS}}}, tables(rib.New(rib.Options{})), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	n := s.neighbours[0]
	p := newPeer(n, peerAS, "lab/"+addr.String(), addr, nil)
	n.peers[addr] = p
	return n, p
}

// A reload may come between a session and the RIB's knowing of it.
func TestReloadWhileASessionComesUp(t *testing.T) {
	n, p := dynamicPeer(t)
	p.up = &conn{peer: p}
	n.change(n.cfg, nil)
	delete(n.peers, p.addr)
}

// A neighbour that was held for ever, and is reset, has its place back.
func TestResetNeighbourIsForgotten(t *testing.T) {
	n, p := dynamicPeer(t)
	defer delete(n.peers, p.addr)
	if !n.admit(p) {
		t.Fatal("not admitted")
	}
	b := backoff{peer: p, errorDelay: time.Second}
	b.after(&conn{peer: p, hold: forEver, established: time.Now(), end: fsm.End{Notification: cease(ceaseMaxPrefixes, "")}}, true)
	if p.leave() {
		t.Fatal("forgotten at once")
	}
	p.closing = false
	if p.reset(cease(ceaseReset, "")); !p.leave() {
		t.Error("still remembered")
	}
}

// Where routes are kept the peer is not left alone for longer than they are.
func TestHoldAfterAGracefulEnd(t *testing.T) {
	_, p := dynamicPeer(t)
	delete(p.neighbour.peers, p.addr)
	b := backoff{peer: p, errorDelay: time.Minute}
	end := fsm.End{Graceful: true, Notification: &fsm.Notification{Code: 4}}
	if wait := b.after(&conn{peer: p, established: time.Now(), end: end}, true); wait > p.srv.config().ErrorDelay {
		t.Errorf("left alone for %v", wait)
	}
}

// A peer that comes and goes before its End-of-RIB has the long-lived stale time once.
func TestLongLifeDoesNotBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rib.New(rib.Options{MaxPending: -1})
		p, err := r.AddPeer(rib.PeerConfig{Name: "x", Kind: rib.KindBGP})
		if err != nil {
			t.Fatal(err)
		}
		k := &keeper{log: slog.New(slog.DiscardHandler), gone: func() {}}
		o := &fsm.Open{IPv4: true, Restart: &fsm.Restart{Time: time.Minute, Listed4: true, Forwarding4: true},
			LongLived: &fsm.LongLived{Time4: time.Hour, Listed4: true, Forwarding4: true}}
		c := PeerConfig{StaleTime: time.Minute, LongLivedStaleTime: 2 * time.Hour}
		k.established(p, rib.Session{IPv4: true}, o, time.Minute)
		p.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}}})
		k.lost("gone", o, true, c)
		lost := time.Now()
		for time.Since(lost) < 50*time.Minute {
			time.Sleep(10 * time.Minute)
			k.established(p, rib.Session{IPv4: true}, o, time.Minute)
			k.lost("gone again", o, true, c)
		}
		if p.Status().V4 != 1 {
			t.Fatal("gone too early")
		}
		time.Sleep(time.Until(lost.Add(time.Hour + 2*time.Minute)))
		synctest.Wait()
		if n := p.Status().V4; n != 0 {
			t.Errorf("%d routes %v after the loss", n, time.Since(lost))
		}
	})
}

// What is of a family that the OPENs did not agree upon is left out, and counted.
func TestFamilyThatWasNotAgreedUpon(t *testing.T) {
	_, p := dynamicPeer(t)
	delete(p.neighbour.peers, p.addr)
	c := &conn{peer: p, carries: [2]bool{true, false}}
	u := c.agreed(rib.Update{
		Reach:   []rib.NLRI{{Prefix: netip.MustParsePrefix("2001:db8::/32")}, {Prefix: netip.MustParsePrefix("10.0.0.0/8")}},
		Unreach: []rib.NLRI{{Prefix: netip.MustParsePrefix("2001:db8:1::/48")}},
	})
	if len(u.Reach) != 1 || !u.Reach[0].Prefix.Addr().Is4() || len(u.Unreach) != 0 || p.ignored.Load() != 1 {
		t.Errorf("%v, %d ignored", u, p.ignored.Load())
	}
}
