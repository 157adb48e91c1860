package bmp

import (
	"net/netip"
	"testing"

	api "github.com/osrg/gobgp/v3/api"

	"github.com/ribwarp/ribwarp/rib/internal/ribtest"
)

// peer has a GoBGP server send so many paths to a prefix to another speaker: one to connect to at a
// port, or with port 0 one that connects.
func peer(g ribtest.GoBGP, own, addr netip.Addr, as uint32, port uint16, paths uint32) {
	g.Peer(own, addr, as, port, nil, ribtest.Unicast(api.Family_AFI_IP, paths), ribtest.Unicast(api.Family_AFI_IP6, paths))
}

// mirror has a server mirror a view to a station.
func mirror(t *testing.T, g ribtest.GoBGP, s *service, policy api.AddBmpRequest_MonitoringPolicy) {
	t.Helper()
	at := s.Addrs()[0]
	err := g.AddBmp(t.Context(), &api.AddBmpRequest{Address: at.Addr().String(), Port: uint32(at.Port()), Policy: policy, StatisticsTimeout: 1})
	if err != nil {
		t.Fatal(err)
	}
}

func TestGoBGPMirrors(t *testing.T) {
	if raceEnabled {
		t.Skip("GoBGP's BMP client has a data race: it writes OPENs at the same time as its server")
	}
	for view, policy := range map[View]api.AddBmpRequest_MonitoringPolicy{
		ViewPre: api.AddBmpRequest_PRE, ViewPost: api.AddBmpRequest_POST, ViewLocRIB: api.AddBmpRequest_LOCAL,
	} {
		t.Run(string(view), func(t *testing.T) {
			const name = "gobgp"
			s := start(t, nil, RouterConfig{Name: name, Addr: loopback})
			port := ribtest.FreePort(t, routerAddr)
			router := ribtest.StartGoBGP(t, routerAS, routerAddr, port)
			peer(router, routerAddr, customer, peerAS, 0, 0)
			behind := ribtest.StartGoBGP(t, peerAS, customer, 0)
			peer(behind, customer, routerAddr, routerAS, port, 0)
			behind.Announce(0, "10.0.0.0/8", "10.1.0.0/16")
			mirror(t, router, s, policy)

			feed := name + "/" + customer.String() + "/" + string(view)
			if view == ViewLocRIB {
				feed = name + "/loc-rib"
			}
			s.has("default", feed, 2)
			behind.Announce(0, "2001:db8::/32", "10.2.0.0/16")
			s.has("default", feed, 4)
			behind.Withdraw(0, "10.1.0.0/16")
			s.has("default", feed, 3)
			r, ok := s.path("default", feed, "10.2.0.0/16")
			if !ok || r.Path.Value().ASPath.First() != peerAS {
				t.Errorf("route %+v", r)
			}
			await(t, "a Statistics Report", func() bool { return s.stats(name).Messages[StatisticsReport] > 0 })
			behind.Stop()
			s.has("default", feed, 0)
			st := s.stats(name)
			mustBe(t, "damaged", st.Damaged, 0)
			mustBe(t, "damaged UPDATEs", st.Verdicts[1]+st.Verdicts[2]+st.Verdicts[3], 0)
		})
	}
}
