package bgp

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// graceful is an OPEN of a speaker that restarts gracefully, with the F bit of IPv4 or not.
func graceful(seconds uint16, flags byte, more ...[]byte) []byte {
	caps := append([][]byte{as4(peerAS), mp4, mp6, restart(seconds, restartFamily{1, flags})}, more...)
	return openBody(peerAS, 90, caps...)
}

// lose brings a session with a route of each family up and ends it without a word.
func lose(t *testing.T, cfg PeerConfig, open []byte) *service {
	t.Helper()
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	p.establish(open)
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, update4(path4, 8, 11)...)
	p.send(msgUpdate, update6(path4, 32, 0x20, 1, 0xd, 0xb8)...)
	await(t, "routes", func() bool { return len(s.routes()) == 3 })
	p.expect(msgUpdate)
	p.expect(msgUpdate)
	p.conn.Close()
	await(t, "loss", func() bool { return s.Stats().Peers[0].Downs == 1 && s.status().State != "established" })
	return s
}

func TestRoutesStayThroughARestart(t *testing.T) {
	s := lose(t, passivePeer, graceful(120, 0))
	// IPv6 was not listed.
	await(t, "withdrawal of the other family", func() bool { return len(s.routes()) == 2 })
	mustBe(t, []any{s.status().State, s.status().Stale4, s.status().Stale6}, []any{"stale", 2, 0})
	v4, v6 := s.rib.Counts()
	mustBe(t, []int{v4, v6}, []int{2, 0})

	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	await(t, "session", func() bool { return s.status().State == "established" })
	mustBe(t, s.status().Stale4, 2)
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "confirmation", func() bool { return s.status().Stale4 == 1 })
	p.send(msgUpdate, endOfRIB(false)...)
	await(t, "end of what was not announced again", func() bool { return len(s.routes()) == 1 })
	mustBe(t, []any{s.status().State, s.status().Stale4}, []any{"established", 0})
}

func TestPeerIsBackWithoutItsRoutes(t *testing.T) {
	s := lose(t, passivePeer, graceful(120, forwarded))
	mustBe(t, s.status().Stale4, 2)
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, 0)) // no F bit: it has not kept them
	await(t, "session", func() bool { return s.status().State == "established" })
	await(t, "withdrawal", func() bool { return len(s.routes()) == 0 })
}

func TestPeerThatDoesNotComeBack(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     PeerConfig
		seconds uint16
		reason  string
	}{
		"restart time":     {passivePeer, 1, "not back within 1s"},
		"our own limit":    {PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Passive: true, StaleTime: 50 * time.Millisecond}, 120, "not back within 50ms"},
		"none is to count": {PeerConfig{Name: "p", Addr: peerAddr, AS: peerAS, Passive: true, NoGracefulRestart: true}, 120, "the peer has closed the connection"},
		"no restart time":  {passivePeer, 0, "not back within 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			s := lose(t, c.cfg, graceful(c.seconds, forwarded))
			await(t, "withdrawal", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
			if !strings.Contains(s.status().LastError, c.reason) {
				t.Errorf("reason %q, want one with %q", s.status().LastError, c.reason)
			}
		})
	}
}

func TestNotificationEndsTheRoutes(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	p.send(msgNotification, 6, 2)
	await(t, "withdrawal", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
}

// TestLongLivedRoutes: after the restart time they are the last choice, and those that must not
// live on go (RFC 9494).
func TestLongLivedRoutes(t *testing.T) {
	cfg := passivePeer
	cfg.LongLivedStaleTime = time.Hour
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	p.send(msgOpen, graceful(0, forwarded, longLived(forwarded, 3600))...)
	if ours := p.expect(msgOpen); !bytes.Contains(ours, []byte{71, 14, 0, 1, 1}) {
		t.Errorf("our OPEN %v has no long-lived graceful restart", ours)
	}
	p.expect(msgKeepalive)
	p.send(msgKeepalive)
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, withCommunity(update4(path4, 8, 11), 0xffff0007)...) // NO_LLGR
	await(t, "routes", func() bool { return len(s.routes()) == 2 })
	p.expect(msgUpdate)
	p.expect(msgUpdate)
	p.conn.Close()
	await(t, "long life of one", func() bool { return len(s.routes()) == 1 && s.status().Stale4 == 1 })
	if !s.log.Contains("long-lived") {
		t.Error("the log does not tell")
	}
	p = dial(t, s, peerAddr)
	p.establish(graceful(120, 0, longLived(forwarded, 3600))) // it is this F bit that counts now
	await(t, "session", func() bool { return s.status().State == "established" })
	mustBe(t, s.status().Stale4, 1)
}

func TestLongLifeEnds(t *testing.T) {
	cfg := passivePeer
	cfg.LongLivedStaleTime = 50 * time.Millisecond
	s := lose(t, cfg, graceful(0, forwarded, longLived(forwarded, 3600)))
	await(t, "withdrawal", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
	if !strings.Contains(s.status().LastError, "long-lived stale time") {
		t.Errorf("reason %q", s.status().LastError)
	}
}

func TestEndOfRIBDoesNotCome(t *testing.T) {
	cfg := passivePeer
	cfg.StaleTime = 500 * time.Millisecond
	s := lose(t, cfg, graceful(120, forwarded))
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "end of the stale time", func() bool { return s.status().State == "established" && len(s.routes()) == 1 })
	await(t, "no stale routes", func() bool { return s.status().Stale4 == 0 })
}

// TestNewConnectionOfARestartedPeer: the peer is back before its session's end was seen.
func TestNewConnectionOfARestartedPeer(t *testing.T) {
	s := start(t, nil, passivePeer)
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "route", func() bool { return len(s.routes()) == 1 })
	q := dial(t, s, peerAddr)
	q.establish(graceful(120, forwarded))
	for {
		kind, _, err := p.receive()
		if err != nil {
			break
		}
		if kind == msgNotification {
			t.Fatal("the old connection got a NOTIFICATION")
		}
	}
	await(t, "next session", func() bool { return s.Stats().Peers[0].Ups == 2 && s.status().State == "established" })
	mustBe(t, []any{len(s.routes()), s.status().State, s.status().Stale4}, []any{1, "established", 1})
	q.send(msgUpdate, endOfRIB(false)...)
	await(t, "sweep", func() bool { return len(s.routes()) == 0 })
}

func TestStopEndsStaleRoutes(t *testing.T) {
	s := lose(t, passivePeer, graceful(120, forwarded))
	mustBe(t, s.status().State, "stale")
	s.Stop()
	v4, v6 := s.rib.Counts()
	mustBe(t, []any{len(s.rib.Peers()), v4, v6}, []any{0, 0, 0})
}

// slow is an import policy that takes its time.
type slow struct{}

func (slow) Check(netip.Prefix, *rib.Attrs) rib.Reject {
	time.Sleep(2 * time.Millisecond)
	return rib.Accepted
}

// TestNewSessionWaitsForTheEndOfTheLast, which is still busy with a message.
func TestNewSessionWaitsForTheEndOfTheLast(t *testing.T) {
	cfg := passivePeer
	cfg.Import = "slow"
	s := prepare(t, nil, func(string, PeerConfig) (rib.Import, error) { return slow{}, nil }, cfg)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	p := dial(t, s, peerAddr)
	p.establish(graceful(120, forwarded))
	await(t, "session", func() bool { return s.Stats().Peers[0].Established })
	p.send(msgUpdate, update4(path4, prefixes8(200)...)...)
	await(t, "its message", func() bool { return s.peer(0).messages.Load() == 1 })
	q := dial(t, s, peerAddr)
	q.establish(graceful(120, forwarded))
	await(t, "both sessions' changes", func() bool { return s.peer(0).downs.Load() == 1 && s.peer(0).ups.Load() == 2 })
	await(t, "new session with the routes of the last", func() bool { return s.status().State == "established" && s.status().Stale4 == 200 })
}

// TestNotificationKeepsTheRoutes of a peer that says so (RFC 8538), a hard reset does not.
func TestNotificationKeepsTheRoutes(t *testing.T) {
	for _, hard := range []bool{false, true} {
		s := start(t, nil, passivePeer)
		p := dial(t, s, peerAddr)
		p.establish(graceful(notification|120, forwarded))
		p.send(msgUpdate, update4(path4, net10...)...)
		await(t, "route", func() bool { return len(s.routes()) == 1 })
		if hard {
			p.send(msgNotification, 6, 9, 6, 2)
			await(t, "withdrawal", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
		} else {
			p.send(msgNotification, 6, 4)
			await(t, "loss", func() bool { return s.status().State == "stale" })
			mustBe(t, len(s.routes()), 1)
		}
		s.Stop()
	}
}

// restored gives a server with a route of a saved generation.
func restored(t *testing.T, cfg PeerConfig) *service {
	t.Helper()
	s := prepare(t, nil, nil, cfg)
	s.peer(0).routes.peer().Restore(rib.Update{Reach: []rib.NLRI{nlri("10.0.0.0/8", 0), nlri("11.0.0.0/8", 0)}, Attrs: rib.Attrs{ASPath: rib.ASPath(path4)}})
	mustBe(t, []any{s.status().State, len(s.routes())}, []any{"stale", 2})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSavedRoutesStayUntilEndOfRIB(t *testing.T) {
	s := restored(t, passivePeer)
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4)) // it knows nothing of graceful restart: it was us
	await(t, "session", func() bool { return s.status().State == "established" })
	mustBe(t, len(s.routes()), 2)
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, endOfRIB(false)...)
	await(t, "sweep", func() bool { return len(s.routes()) == 1 })
}

func TestSavedRoutesOfAPeerThatIsNotThere(t *testing.T) {
	cfg := passivePeer
	cfg.StaleTime = 200 * time.Millisecond
	s := restored(t, cfg)
	await(t, "end", func() bool { return s.status().State == "down" && len(s.routes()) == 0 })
	if !strings.Contains(s.status().LastError, "its saved routes are given up") {
		t.Errorf("reason %q", s.status().LastError)
	}
}

// TestSavedRoutesSurviveFailures: an attempt that fails costs none.
func TestSavedRoutesSurviveFailures(t *testing.T) {
	s := restored(t, PeerConfig{Addr: peerAddr, AS: peerAS, Port: 1})
	await(t, "failure", func() bool { return strings.Contains(s.Stats().Peers[0].LastError, "connection refused") })
	mustBe(t, []any{s.status().State, len(s.routes())}, []any{"stale", 2})
}

func TestRefresh(t *testing.T) {
	s, p := up(t, openBody(peerAS, 90, as4(peerAS), mp4, mp6, refresh, enhanced))
	if err := s.Refresh("p"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, p.expect(msgRefresh), []byte{0, 1, 0, 1})
	mustBe(t, p.expect(msgRefresh), []byte{0, 2, 0, 1})
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, update4(path4, 8, 11)...)
	await(t, "routes", func() bool { return len(s.routes()) == 2 })
	p.send(msgRefresh, 0, 1, 1, 1) // BoRR
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, update4(path4, 8, 12)...)
	await(t, "routes of the refresh", func() bool { return len(s.routes()) == 3 })
	p.send(msgRefresh, 0, 1, 2, 1) // EoRR
	await(t, "sweep", func() bool { return len(s.routes()) == 2 })
	if _, ok := s.routes()[nlri("11.0.0.0/8", 0)]; ok {
		t.Error("the one that was not announced again is there")
	}
	mustBe(t, s.Stats().Peers[0].Refreshes, 1)
}

func TestRefreshWithoutEnd(t *testing.T) {
	cfg := passivePeer
	cfg.StaleTime = 200 * time.Millisecond
	s := start(t, nil, cfg)
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4, refresh, enhanced))
	p.send(msgUpdate, update4(path4, net10...)...)
	p.send(msgUpdate, update4(path4, 8, 11)...)
	await(t, "routes", func() bool { return len(s.routes()) == 2 })
	p.send(msgRefresh, 0, 1, 1, 1)
	p.send(msgUpdate, update4(path4, net10...)...)
	await(t, "sweep", func() bool { return len(s.routes()) == 1 })
	mustBe(t, s.status().State, "established")
}

func TestRefreshThatCannotBe(t *testing.T) {
	s := start(t, nil, passivePeer)
	for name, want := range map[string]error{"q": ErrNoPeer, "p": ErrNoSession} {
		if err := s.Refresh(name); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
	p := dial(t, s, peerAddr)
	p.establish(openBody(peerAS, 90, as4(peerAS), mp4))
	await(t, "session", func() bool { return s.Stats().Peers[0].Established })
	if err := s.Refresh("p"); !errors.Is(err, ErrNoRefresh) {
		t.Errorf("error %v", err)
	}
}

// TestStaleRouteIsStillAnAnswer: lookups do not lose it.
func TestStaleRouteIsStillAnAnswer(t *testing.T) {
	s := lose(t, passivePeer, graceful(120, forwarded))
	c := s.rib.Paths(netip.MustParsePrefix("10.0.0.0/8"))
	if len(c) != 1 || c[0].LostBy != "" || !c[0].Route.Stale {
		t.Errorf("got %+v", c)
	}
}
