package bmp

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

// A speaker is a GoBGP server.
type speaker struct {
	t *testing.T
	*gobgp.BgpServer
}

// speak runs a GoBGP server that listens at an address and port; with port 0 it does not listen.
func speak(t *testing.T, as uint32, addr netip.Addr, port uint16) speaker {
	t.Helper()
	g := speaker{t, gobgp.NewBgpServer(gobgp.LoggerOption(silent{}))}
	go g.Serve()
	listen := int32(port)
	if port == 0 {
		listen = -1
	}
	err := g.StartBgp(t.Context(), &api.StartBgpRequest{Global: &api.Global{
		Asn: as, RouterId: "192.0.2.2", ListenPort: listen, ListenAddresses: []string{addr.String()}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

// stop waits for GoBGP with a bound: its own loop may wait for a session that waits for the test.
func (g speaker) stop() {
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

// peer adds a BGP peer: one to connect to at a port, or with port 0 one that connects. It is sent
// so many paths to a prefix.
func (g speaker) peer(own, addr netip.Addr, as uint32, port uint16, paths uint32) {
	g.t.Helper()
	family := func(afi api.Family_Afi) *api.AfiSafi {
		return &api.AfiSafi{
			Config:   &api.AfiSafiConfig{Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
			AddPaths: &api.AddPaths{Config: &api.AddPathsConfig{SendMax: paths}},
		}
	}
	err := g.AddPeer(g.t.Context(), &api.AddPeerRequest{Peer: &api.Peer{
		Conf:         &api.PeerConf{NeighborAddress: addr.String(), PeerAsn: as},
		Timers:       &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, IdleHoldTimeAfterReset: 1}},
		Transport:    &api.Transport{LocalAddress: own.String(), RemotePort: uint32(port), PassiveMode: port == 0},
		EbgpMultihop: &api.EbgpMultihop{Enabled: true, MultihopTtl: 4},
		AfiSafis:     []*api.AfiSafi{family(api.Family_AFI_IP), family(api.Family_AFI_IP6)},
	}})
	if err != nil {
		g.t.Fatal(err)
	}
}

// path is a path to a prefix as GoBGP's API has it.
func (g speaker) path(prefix string, withdraw bool) *api.Path {
	p := netip.MustParsePrefix(prefix)
	message, err := anypb.New(&api.IPAddressPrefix{PrefixLen: uint32(p.Bits()), Prefix: p.Addr().String()})
	if err != nil {
		g.t.Fatal(err)
	}
	origin, _ := anypb.New(&api.OriginAttribute{Origin: 0})
	path := &api.Path{Nlri: message, IsWithdraw: withdraw, Pattrs: []*anypb.Any{origin}, Family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}}
	if p.Addr().Is4() {
		hop, _ := anypb.New(&api.NextHopAttribute{NextHop: "192.0.2.1"})
		path.Pattrs = append(path.Pattrs, hop)
		return path
	}
	path.Family.Afi = api.Family_AFI_IP6
	hop, _ := anypb.New(&api.MpReachNLRIAttribute{Family: path.Family, NextHops: []string{"2001:db8::1"}, Nlris: []*anypb.Any{message}})
	path.Pattrs = append(path.Pattrs, hop)
	return path
}

func (g speaker) announce(prefixes ...string) {
	g.t.Helper()
	for _, p := range prefixes {
		if _, err := g.AddPath(g.t.Context(), &api.AddPathRequest{Path: g.path(p, false)}); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g speaker) withdraw(prefix string) {
	g.t.Helper()
	if err := g.DeletePath(g.t.Context(), &api.DeletePathRequest{Path: g.path(prefix, true)}); err != nil {
		g.t.Fatal(err)
	}
}

// monitor has the server mirror a view to a station.
func (g speaker) monitor(s *service, policy api.AddBmpRequest_MonitoringPolicy) {
	g.t.Helper()
	at := s.Addrs()[0]
	err := g.AddBmp(g.t.Context(), &api.AddBmpRequest{Address: at.Addr().String(), Port: uint32(at.Port()), Policy: policy, StatisticsTimeout: 1})
	if err != nil {
		g.t.Fatal(err)
	}
}

// freePort gives a port of an address that nobody listens at.
func freePort(t *testing.T, addr netip.Addr) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
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
			port := freePort(t, routerAddr)
			router := speak(t, routerAS, routerAddr, port)
			router.peer(routerAddr, customer, peerAS, 0, 0)
			behind := speak(t, peerAS, customer, 0)
			behind.peer(customer, routerAddr, routerAS, port, 0)
			behind.announce("10.0.0.0/8", "10.1.0.0/16")
			router.monitor(s, policy)

			feed := name + "/" + customer.String() + "/" + string(view)
			if view == ViewLocRIB {
				feed = name + "/loc-rib"
			}
			s.has("default", feed, 2)
			behind.announce("2001:db8::/32", "10.2.0.0/16")
			s.has("default", feed, 4)
			behind.withdraw("10.1.0.0/16")
			s.has("default", feed, 3)
			r, ok := s.path("default", feed, "10.2.0.0/16")
			if !ok || r.Path.Value().ASPath.First() != peerAS {
				t.Errorf("route %+v", r)
			}
			await(t, "a Statistics Report", func() bool { return s.stats(name).Messages[StatisticsReport] > 0 })
			behind.stop()
			s.has("default", feed, 0)
			st := s.stats(name)
			mustBe(t, "damaged", st.Damaged, 0)
			mustBe(t, "damaged UPDATEs", st.Verdicts[1]+st.Verdicts[2]+st.Verdicts[3], 0)
		})
	}
}
