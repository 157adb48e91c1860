package bgp

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// kept is a keeper with a peer that comes and goes, in a bubble of its own.
type kept struct {
	*testing.T
	*keeper
	table *rib.RIB
	peer  *rib.Peer
	open  *fsm.Open
	cfg   PeerConfig
}

// inBubble runs a test of one.
func inBubble(t *testing.T, f func(k *kept)) {
	synctest.Test(t, func(t *testing.T) {
		table := rib.New(rib.Options{MaxPending: -1})
		p, err := table.AddPeer(rib.PeerConfig{Name: "x", Kind: rib.KindBGP})
		if err != nil {
			t.Fatal(err)
		}
		k := &kept{t, &keeper{log: slog.New(slog.DiscardHandler), gone: func() {}}, table, p,
			&fsm.Open{IPv4: true, Restart: &fsm.Restart{Time: time.Minute, Listed4: true, Forwarding4: true}},
			PeerConfig{StaleTime: 10 * time.Minute, MaxPrefixes4: 100}}
		f(k)
		k.end("test")
	})
}

// upWith brings a session up that announces 10.N.0.0/16 of the given N.
func (k *kept) upWith(n ...byte) {
	k.established(k.peer, rib.Session{IPv4: true}, k.open, k.cfg.StaleTime)
	for _, n := range n {
		k.peer.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, n}), 16)}}})
	}
}

func (k *kept) down() { k.lost("gone", k.open, true, k.cfg) }

// wait lets time pass.
func wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (k *kept) has(routes, stale int) {
	k.Helper()
	if s := k.peer.Status(); s.V4 != routes || s.Stale4 != stale {
		k.Fatalf("%d routes, %d stale, want %d, %d", s.V4, s.Stale4, routes, stale)
	}
}

// What was stale before the session that is lost goes (RFC 4724, 4.2), unless both sides have the
// N bit (RFC 8538, 4.1): then its time is bounded in all, and so is its number.
func TestConsecutiveRestarts(t *testing.T) {
	for _, n := range []bool{false, true} {
		inBubble(t, func(k *kept) {
			k.open.Restart.Notification = n
			k.upWith(1, 2)
			k.down()
			wait(30 * time.Second)
			k.upWith(1)
			k.has(2, 1)
			k.down()
			if n {
				k.has(2, 2)
			} else {
				k.has(1, 1)
			}
		})
	}
	t.Run("for how long", func(t *testing.T) {
		inBubble(t, func(k *kept) {
			k.open.Restart.Notification = true
			k.upWith(1, 2)
			k.down()
			for range 11 {
				k.has(2, 2)
				wait(50 * time.Second)
				k.upWith(1)
				k.down()
			}
			wait(55 * time.Second) // more than 10 min in all
			k.upWith(1)
			k.down()
			k.has(1, 1)
		})
	})
	t.Run("how many", func(t *testing.T) {
		inBubble(t, func(k *kept) {
			k.open.Restart.Notification = true
			k.cfg.MaxPrefixes4 = 3
			k.upWith(1, 2)
			k.down()
			k.upWith(3, 4)
			k.has(4, 2)
			k.down()
			k.has(2, 2)
		})
	})
}

// longLife is an OPEN with a long-lived stale time of an hour.
func (k *kept) longLife() {
	k.open.LongLived = &fsm.LongLived{Time4: time.Hour, Listed4: true, Forwarding4: true}
	k.cfg.LongLivedStaleTime = 2 * time.Hour
	k.cfg.StaleTime = 3 * time.Hour
}

// The long-lived stale time runs on while the peer is back and has not announced all: at its end
// what is stale goes, and if the session is lost then, the rest at once (RFC 9494, 4.2).
func TestLongLifeEndsWithASession(t *testing.T) {
	inBubble(t, func(k *kept) {
		k.longLife()
		k.upWith(1, 2)
		k.down()
		wait(30 * time.Minute)
		k.upWith(1)
		k.has(2, 1)
		wait(30 * time.Minute)
		k.has(2, 1) // a minute is left
		wait(2 * time.Minute)
		k.has(1, 0)
		k.down()
		k.has(0, 0)
	})
}

// With an End-of-RIB before its end there is nothing left to end, and the next one begins anew.
func TestLongLifeAfterEndOfRIB(t *testing.T) {
	inBubble(t, func(k *kept) {
		k.longLife()
		k.upWith(1, 2)
		k.down()
		wait(30 * time.Minute)
		k.upWith(1)
		k.endOfRIB(false)
		wait(40 * time.Minute)
		k.has(1, 0)
		k.down()
		wait(59 * time.Minute)
		k.has(1, 1)
		wait(3 * time.Minute)
		k.has(0, 0)
	})
}

// It is over in the middle of the restart time of a later session, too.
func TestLongLifeEndsInARestart(t *testing.T) {
	inBubble(t, func(k *kept) {
		k.longLife()
		k.upWith(1, 2)
		k.down()
		wait(60*time.Minute + 30*time.Second)
		k.upWith(1)
		k.down()
		k.has(2, 2)
		wait(31 * time.Second)
		k.has(0, 0)
		if s := k.peer.Status(); s.State != "down" || !strings.Contains(s.LastError, "long-lived") {
			t.Errorf("%s: %s", s.State, s.LastError)
		}
	})
}

// Once that time has begun the F bit of its own capability counts, and no other (RFC 9494, 4.2).
func TestLongLivedForwarding(t *testing.T) {
	for _, c := range []struct {
		name           string
		away           time.Duration
		graceful, long bool // F bits
		stays          int
	}{
		{"both", time.Hour / 2, true, true, 1},
		{"long-lived", time.Hour / 2, false, true, 1},
		{"graceful alone", time.Hour / 2, true, false, 0},
		{"graceful alone, back in time", time.Minute / 2, true, false, 1},
		{"long-lived alone, back in time", time.Minute / 2, false, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(k *kept) {
				k.longLife()
				k.upWith(1)
				k.down()
				wait(c.away)
				k.has(1, 1)
				k.open.Restart.Forwarding4, k.open.LongLived.Forwarding4 = c.graceful, c.long
				k.upWith()
				k.has(c.stays, c.stays)
			})
		})
	}
}

// A family of the long-lived capability alone has no restart time: its routes are the last resort
// at once, while those of another family are as good as before (RFC 9494, 4.1 and 4.2).
func TestLongLivedWithoutGracefulRestart(t *testing.T) {
	inBubble(t, func(k *kept) {
		k.longLife()
		k.open.IPv6 = true
		k.open.Restart.Listed4, k.open.Restart.Listed6 = false, true
		k.established(k.peer, rib.Session{IPv4: true, IPv6: true}, k.open, k.cfg.StaleTime)
		p4, p6 := netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("2001:db8::/32")
		k.peer.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: p4}, {Prefix: p6}}})
		worse, err := k.table.AddPeer(rib.PeerConfig{Name: "worse", Kind: rib.KindBGP})
		if err != nil {
			t.Fatal(err)
		}
		worse.Apply(rib.Update{Reach: []rib.NLRI{{Prefix: p4}, {Prefix: p6}}, Attrs: rib.Attrs{HasLocalPref: true, LocalPref: 1}})
		best := func(p netip.Prefix) string { return k.table.Paths(p)[0].Route.Peer.Name() }
		k.down()
		mustBe(t, []string{best(p4), best(p6)}, []string{"worse", "x"})
		wait(2 * time.Minute)
		mustBe(t, []any{best(p4), len(k.table.Paths(p6))}, []any{"worse", 1})
		k.has(1, 1)
		wait(time.Hour)
		k.has(0, 0)
	})
}

// A peer with graceful restart may begin a refresh behind its End-of-RIB alone (RFC 7313, 4).
func TestRefreshBeforeEndOfRIB(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, 0, refresh, enhanced))
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, update4(path4, 8, 11)...)
	p.send(msgRefresh, 0, 1, 1, 1) // BoRR, too early
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgRefresh, 0, 1, 2, 1) // EoRR
	p.send(msgUpdate, endOfRIB(false)...)
	await(t, "end of rib", func() bool { return s.status().EndOfRIB4 })
	mustBe(t, len(s.routes()), 2)
	if !s.log.Contains("before the end of rib") {
		t.Error("the log does not tell")
	}
	p.send(msgRefresh, 0, 1, 1, 1)
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgRefresh, 0, 1, 2, 1)
	await(t, "sweep", func() bool { return len(s.routes()) == 1 })
}

// A refresh that begins as soon as the last one is over, or before, counts as any other.
func TestRefreshesInARow(t *testing.T) {
	s, p := up(t, openBody(peerAS, 90, as4(peerAS), mp4, refresh, enhanced))
	for n := byte(11); n < 15; n++ {
		p.send(msgUpdate, update4(path4, 8, n)...)
	}
	await(t, "routes", func() bool { return len(s.routes()) == 4 })
	borr, eorr := []byte{0, 1, 1, 1}, []byte{0, 1, 2, 1}
	p.send(msgRefresh, borr...)
	p.send(msgUpdate, update4(path4, 8, 11, 8, 12, 8, 13)...)
	p.send(msgRefresh, borr...) // over again
	p.send(msgUpdate, update4(path4, 8, 11, 8, 12)...)
	p.send(msgRefresh, eorr...)
	await(t, "sweep", func() bool { return len(s.routes()) == 2 })
	p.send(msgRefresh, borr...)
	p.send(msgUpdate, update4(path4, 8, 11)...)
	p.send(msgRefresh, eorr...)
	await(t, "second sweep", func() bool { return len(s.routes()) == 1 })
}
