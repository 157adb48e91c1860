package bgp

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	gobgplog "github.com/osrg/gobgp/v3/pkg/log"
	gobgp "github.com/osrg/gobgp/v3/pkg/server"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/ribwarp/ribwarp/rib"
)

// silent is a logger that says nothing.
type silent struct{}

func (silent) Panic(string, gobgplog.Fields) {}
func (silent) Fatal(string, gobgplog.Fields) {}
func (silent) Error(string, gobgplog.Fields) {}
func (silent) Warn(string, gobgplog.Fields)  {}
func (silent) Info(string, gobgplog.Fields)  {}
func (silent) Debug(string, gobgplog.Fields) {}
func (silent) SetLevel(gobgplog.LogLevel)    {}
func (silent) GetLevel() gobgplog.LogLevel   { return gobgplog.PanicLevel }

// A gobgpPeer is a GoBGP server at peerAddr.
type gobgpPeer struct {
	t *testing.T
	*gobgp.BgpServer
}

// startGoBGP runs a GoBGP server. It connects to the server under test at port `remote`, or
// with 0 listens at port `listen` for it.
func startGoBGP(t *testing.T, listen int32, remote uint32) gobgpPeer {
	t.Helper()
	g := gobgpPeer{t, gobgp.NewBgpServer(gobgp.LoggerOption(silent{}))}
	go g.Serve()
	ctx := t.Context()
	err := g.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{
		Asn: peerAS, RouterId: "192.0.2.2", ListenPort: listen, ListenAddresses: []string{peerAddr.String()}}})
	if err != nil {
		t.Fatal(err)
	}
	family := func(afi api.Family_Afi) *api.AfiSafi {
		return &api.AfiSafi{
			Config:            &api.AfiSafiConfig{Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: true}},
			AddPaths:          &api.AddPaths{Config: &api.AddPathsConfig{SendMax: 4}},
		}
	}
	err = g.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:            &api.PeerConf{NeighborAddress: ownAddr.String(), PeerAsn: ownAS},
		Timers:          &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, IdleHoldTimeAfterReset: 1}},
		Transport:       &api.Transport{LocalAddress: peerAddr.String(), RemotePort: remote, PassiveMode: remote == 0},
		EbgpMultihop:    &api.EbgpMultihop{Enabled: true, MultihopTtl: 4},
		GracefulRestart: &api.GracefulRestart{Enabled: true, RestartTime: 10},
		AfiSafis:        []*api.AfiSafi{family(api.Family_AFI_IP), family(api.Family_AFI_IP6)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

// stop waits for GoBGP with a bound: its own loop may wait for a session that waits for the test.
func (g gobgpPeer) stop() {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = g.StopBgp(context.Background(), &api.StopBgpRequest{})
	}()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		g.t.Error("GoBGP did not stop within a minute")
	}
}

// path is a path to a prefix as GoBGP's API has it.
func (g gobgpPeer) path(prefix string, id uint32, withdraw bool) *api.Path {
	p := netip.MustParsePrefix(prefix)
	nlri, err := anypb.New(&api.IPAddressPrefix{PrefixLen: uint32(p.Bits()), Prefix: p.Addr().String()})
	if err != nil {
		g.t.Fatal(err)
	}
	origin, _ := anypb.New(&api.OriginAttribute{Origin: 0})
	med, _ := anypb.New(&api.MultiExitDiscAttribute{Med: id})
	path := &api.Path{Nlri: nlri, Identifier: id, IsWithdraw: withdraw, Pattrs: []*anypb.Any{origin, med}, Family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}}
	if p.Addr().Is4() {
		hop, _ := anypb.New(&api.NextHopAttribute{NextHop: "192.0.2.1"})
		path.Pattrs = append(path.Pattrs, hop)
		return path
	}
	path.Family.Afi = api.Family_AFI_IP6
	hop, _ := anypb.New(&api.MpReachNLRIAttribute{Family: path.Family, NextHops: []string{"2001:db8::1"}, Nlris: []*anypb.Any{nlri}})
	path.Pattrs = append(path.Pattrs, hop)
	return path
}

func (g gobgpPeer) announce(prefix string, id uint32) {
	g.t.Helper()
	if _, err := g.AddPath(g.t.Context(), &api.AddPathRequest{Path: g.path(prefix, id, false)}); err != nil {
		g.t.Fatal(err)
	}
}

func (g gobgpPeer) withdraw(prefix string, id uint32) {
	g.t.Helper()
	if err := g.DeletePath(g.t.Context(), &api.DeletePathRequest{Path: g.path(prefix, id, true)}); err != nil {
		g.t.Fatal(err)
	}
}

// freePort gives a port of peerAddr that nobody listens at.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", peerAddr.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
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
			var again func() gobgpPeer
			if active {
				port := freePort(t)
				s = start(t, func(c *Config) { c.Listen = nil }, PeerConfig{Addr: peerAddr, AS: peerAS, Port: port, LocalAddr: ownAddr})
				again = func() gobgpPeer { return startGoBGP(t, int32(port), 0) }
			} else {
				s = start(t, nil, passivePeer)
				again = func() gobgpPeer { return startGoBGP(t, -1, uint32(s.Addrs()[0].Port())) }
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
			g.announce("10.0.0.0/8", 1)
			g.announce("2001:db8::/32", 1)
			await(t, "routes of both families", has(map[string]int{"10.0.0.0/8": 1, "2001:db8::/32": 1}))
			await(t, "first load", func() bool { return s.status().Loaded })
			for n, a := range s.routes() {
				// GoBGP puts itself in as the next hop of an eBGP session.
				if !a.NextHop.IsValid() || a.NextHop.Is4() != n.Prefix.Addr().Is4() && a.NextHop.Unmap() != peerAddr || a.ASPath != rib.ASPath(path4) {
					t.Errorf("%s: %+v", n.Prefix, a)
				}
			}
			g.announce("10.0.0.0/8", 2)
			await(t, "second path", has(map[string]int{"10.0.0.0/8": 2, "2001:db8::/32": 1}))
			g.withdraw("10.0.0.0/8", 1)
			g.withdraw("2001:db8::/32", 1)
			await(t, "withdrawal", has(map[string]int{"10.0.0.0/8": 1}))
			g.stop()
			await(t, "withdrawal with the session", has(nil))
			await(t, "loss", func() bool { return s.status().State == "down" })

			g = again()
			g.announce("10.2.0.0/16", 1)
			await(t, "route of the next session", has(map[string]int{"10.2.0.0/16": 1}))
			mustBe(t, s.Stats().Peers[0].Ups, 2)
		})
	}
}
