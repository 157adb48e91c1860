package ribtest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	api "github.com/osrg/gobgp/v3/api"
	gobgplog "github.com/osrg/gobgp/v3/pkg/log"
	gobgp "github.com/osrg/gobgp/v3/pkg/server"
	"google.golang.org/protobuf/types/known/anypb"
)

// GoBGP is a server of GoBGP within the test.
type GoBGP struct {
	t *testing.T
	*gobgp.BgpServer
}

// StartGoBGP runs a server with an AS and the router ID 192.0.2.2 that listens at an address and
// port, or with port 0 not at all. It is stopped with the test.
func StartGoBGP(t *testing.T, as uint32, addr netip.Addr, port uint16) GoBGP {
	t.Helper()
	g := GoBGP{t, gobgp.NewBgpServer(gobgp.LoggerOption(silent{}))}
	go g.Serve()
	t.Cleanup(g.Stop)
	listen := int32(port)
	if port == 0 {
		listen = -1
	}
	if err := g.StartBgp(t.Context(), &api.StartBgpRequest{Global: &api.Global{
		Asn: as, RouterId: "192.0.2.2", ListenPort: listen, ListenAddresses: []string{addr.String()}}}); err != nil {
		t.Fatal(err)
	}
	return g
}

// Stop ends the server, once or more often. It waits with a bound: GoBGP's own loop may wait for a
// session that waits for the test.
func (g GoBGP) Stop() {
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

// Peer adds a peer with short timers, which may be some hops away: one at addr that is connected to
// at a port from own, or with port 0 one that connects to own. families are what the session is for.
func (g GoBGP) Peer(own, addr netip.Addr, as uint32, port uint16, restart *api.GracefulRestart, families ...*api.AfiSafi) {
	g.t.Helper()
	p := &api.Peer{
		Conf:            &api.PeerConf{NeighborAddress: addr.String(), PeerAsn: as},
		Timers:          &api.Timers{Config: &api.TimersConfig{ConnectRetry: 1, IdleHoldTimeAfterReset: 1}},
		Transport:       &api.Transport{LocalAddress: own.String(), RemotePort: uint32(port), PassiveMode: port == 0},
		EbgpMultihop:    &api.EbgpMultihop{Enabled: true, MultihopTtl: 4},
		GracefulRestart: restart,
		AfiSafis:        families,
	}
	if err := g.AddPeer(g.t.Context(), &api.AddPeerRequest{Peer: p}); err != nil {
		g.t.Fatal(err)
	}
}

// Unicast is a family of a session, IPv4 (api.Family_AFI_IP) or IPv6, with so many paths to a prefix.
func Unicast(afi api.Family_Afi, paths uint32) *api.AfiSafi {
	return &api.AfiSafi{
		Config:   &api.AfiSafiConfig{Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
		AddPaths: &api.AddPaths{Config: &api.AddPathsConfig{SendMax: paths}},
	}
}

// Path is a path to a prefix, with a next hop of documentation and a MED that is its path ID.
func (g GoBGP) Path(prefix string, id uint32) *api.Path {
	g.t.Helper()
	p := netip.MustParsePrefix(prefix)
	nlri := g.any(anypb.New(&api.IPAddressPrefix{PrefixLen: uint32(p.Bits()), Prefix: p.Addr().String()}))
	path := &api.Path{
		Nlri: nlri, Identifier: id, Family: &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST},
		Pattrs: []*anypb.Any{g.any(anypb.New(&api.OriginAttribute{})), g.any(anypb.New(&api.MultiExitDiscAttribute{Med: id}))},
	}
	if p.Addr().Is4() {
		path.Pattrs = append(path.Pattrs, g.any(anypb.New(&api.NextHopAttribute{NextHop: "192.0.2.1"})))
	} else {
		path.Family.Afi = api.Family_AFI_IP6
		path.Pattrs = append(path.Pattrs, g.any(anypb.New(&api.MpReachNLRIAttribute{Family: path.Family, NextHops: []string{"2001:db8::1"}, Nlris: []*anypb.Any{nlri}})))
	}
	return path
}

func (g GoBGP) any(a *anypb.Any, err error) *anypb.Any {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
	return a
}

// Announce adds paths with a path ID to prefixes.
func (g GoBGP) Announce(id uint32, prefixes ...string) {
	g.t.Helper()
	for _, p := range prefixes {
		g.Add(g.Path(p, id))
	}
}

// Withdraw takes the path with a path ID to a prefix back.
func (g GoBGP) Withdraw(id uint32, prefix string) {
	g.t.Helper()
	path := g.Path(prefix, id)
	path.IsWithdraw = true
	g.Drop(path)
}

// Add adds a path.
func (g GoBGP) Add(path *api.Path) {
	g.t.Helper()
	if _, err := g.AddPath(g.t.Context(), &api.AddPathRequest{Path: path}); err != nil {
		g.t.Fatal(err)
	}
}

// Drop takes a path back.
func (g GoBGP) Drop(path *api.Path) {
	g.t.Helper()
	if err := g.DeletePath(g.t.Context(), &api.DeletePathRequest{Path: path}); err != nil {
		g.t.Fatal(err)
	}
}

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
