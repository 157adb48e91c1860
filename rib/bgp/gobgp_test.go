package bgp

import (
	"testing"

	api "github.com/osrg/gobgp/v3/api"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// startGoBGP runs a GoBGP server at peerAddr. It connects to the server under test at port `remote`,
// or with 0 listens at port `listen` for it.
func startGoBGP(t *testing.T, listen, remote uint16) ribtest.GoBGP {
	t.Helper()
	g := ribtest.StartGoBGP(t, peerAS, peerAddr, listen)
	families := []*api.AfiSafi{ribtest.Unicast(api.Family_AFI_IP, 4), ribtest.Unicast(api.Family_AFI_IP6, 4)}
	for _, f := range families {
		f.MpGracefulRestart = &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: true}}
	}
	g.Peer(peerAddr, ownAddr, ownAS, remote, &api.GracefulRestart{Enabled: true, RestartTime: 10}, families...)
	return g
}

// prefixes are those in the Adj-RIB-In of the first peer, and how many paths each has.
func (s *service) prefixes() map[string]int {
	n := make(map[string]int)
	for r := range s.routes() {
		n[r.Prefix.String()]++
	}
	return n
}

func TestSessionWithGoBGP(t *testing.T) {
	for _, active := range []bool{true, false} {
		name := "GoBGP connects"
		if active {
			name = "GoBGP waits"
		}
		t.Run(name, func(t *testing.T) {
			var s *service
			var again func() ribtest.GoBGP
			if active {
				port := ribtest.FreePort(t, peerAddr)
				s = start(t, func(c *Config) { c.Listen = nil }, PeerConfig{Addr: peerAddr, AS: peerAS, Port: port, LocalAddr: ownAddr})
				again = func() ribtest.GoBGP { return startGoBGP(t, port, 0) }
			} else {
				s = start(t, nil, passivePeer)
				again = func() ribtest.GoBGP { return startGoBGP(t, 0, s.Addrs()[0].Port()) }
			}
			has := func(want map[string]int) func() bool {
				return func() bool {
					got := s.prefixes()
					if len(got) != len(want) {
						return false
					}
					for p, n := range want {
						if got[p] != n {
							return false
						}
					}
					return true
				}
			}
			g := again()
			g.Announce(1, "10.0.0.0/8")
			g.Announce(1, "2001:db8::/32")
			await(t, "routes of both families", has(map[string]int{"10.0.0.0/8": 1, "2001:db8::/32": 1}))
			await(t, "first load", func() bool { return s.status().Loaded })
			for n, a := range s.routes() {
				// GoBGP puts itself in as the next hop of an eBGP session.
				if !a.NextHop.IsValid() || a.NextHop.Is4() != n.Prefix.Addr().Is4() && a.NextHop.Unmap() != peerAddr || a.ASPath != rib.ASPath(path4) {
					t.Errorf("%s: %+v", n.Prefix, a)
				}
			}
			g.Announce(2, "10.0.0.0/8")
			await(t, "second path", has(map[string]int{"10.0.0.0/8": 2, "2001:db8::/32": 1}))
			g.Withdraw(1, "10.0.0.0/8")
			g.Withdraw(1, "2001:db8::/32")
			await(t, "withdrawal", has(map[string]int{"10.0.0.0/8": 1}))
			g.Stop()
			await(t, "withdrawal with the session", has(nil))
			await(t, "loss", func() bool { return s.status().State == "down" })

			g = again()
			g.Announce(1, "10.2.0.0/16")
			await(t, "route of the next session", has(map[string]int{"10.2.0.0/16": 1}))
			mustBe(t, s.Stats().Peers[0].Ups, 2)
		})
	}
}
