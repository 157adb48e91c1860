package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	gobgpapi "github.com/osrg/gobgp/v3/api"
	"github.com/osrg/gobgp/v3/pkg/apiutil"
	gobgplog "github.com/osrg/gobgp/v3/pkg/log"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	"github.com/osrg/gobgp/v3/pkg/server"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/rib"
)

// A speaker is a GoBGP router in this process that announces a generated table: the demo's
// neighbour.
type speaker struct{ server *server.BgpServer }

// startSpeaker starts a router with the AS of generated tables and gives it the table. It
// listens nowhere; connect makes it peer.
func startSpeaker(ctx context.Context, table *fixtures.Table, log *slog.Logger) (*speaker, error) {
	s := &speaker{server: server.NewBgpServer(server.LoggerOption(speakerLog{log}))}
	go s.server.Serve()
	if err := s.server.StartBgp(ctx, &gobgpapi.StartBgpRequest{Global: &gobgpapi.Global{
		Asn: fixtures.PeerAS, RouterId: "192.0.2.1", ListenPort: -1,
	}}); err != nil {
		return nil, fmt.Errorf("start the demo's router: %w", err)
	}
	now := time.Now()
	attrs := make([][]bgp.PathAttributeInterface, len(table.Attrs))
	for i, a := range table.Attrs {
		attrs[i] = speakerAttrs(a)
	}
	for _, r := range table.Routes {
		if err := ctx.Err(); err != nil {
			s.stop()
			return nil, err
		}
		nlri, path := speakerRoute(r.Prefix, table.Attrs[r.Attrs].NextHop, attrs[r.Attrs])
		p, err := apiutil.NewPath(nlri, false, path, now)
		if err == nil {
			_, err = s.server.AddPath(ctx, &gobgpapi.AddPathRequest{TableType: gobgpapi.TableType_GLOBAL, Path: p})
		}
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("give the demo's router %s: %w", r.Prefix, err)
		}
	}
	return s, nil
}

// connect makes the router connect to a neighbour and announce its table to it. It tries again
// every second.
func (s *speaker) connect(ctx context.Context, to netip.AddrPort, asn uint32) error {
	// GoBGP ends its first announcement with End-of-RIB only where graceful restart is on.
	family := func(f gobgpapi.Family_Afi) *gobgpapi.AfiSafi {
		return &gobgpapi.AfiSafi{Config: &gobgpapi.AfiSafiConfig{
			Family: &gobgpapi.Family{Afi: f, Safi: gobgpapi.Family_SAFI_UNICAST}, Enabled: true,
		}, MpGracefulRestart: &gobgpapi.MpGracefulRestart{Config: &gobgpapi.MpGracefulRestartConfig{Enabled: true}}}
	}
	err := s.server.AddPeer(ctx, &gobgpapi.AddPeerRequest{Peer: &gobgpapi.Peer{
		Conf:            &gobgpapi.PeerConf{NeighborAddress: to.Addr().String(), PeerAsn: asn},
		Transport:       &gobgpapi.Transport{LocalAddress: to.Addr().String(), RemotePort: uint32(to.Port())},
		Timers:          &gobgpapi.Timers{Config: &gobgpapi.TimersConfig{ConnectRetry: 1, HoldTime: 90, KeepaliveInterval: 30}},
		GracefulRestart: &gobgpapi.GracefulRestart{Enabled: true, RestartTime: 30},
		AfiSafis:        []*gobgpapi.AfiSafi{family(gobgpapi.Family_AFI_IP), family(gobgpapi.Family_AFI_IP6)},
	}})
	if err != nil {
		return fmt.Errorf("make the demo's router peer with %s: %w", to, err)
	}
	return nil
}

func (s *speaker) stop() { s.server.Stop() }

// speakerAttrs gives path attributes as GoBGP has them, without the next hop. The first AS is
// left out: the router puts its own there when it announces.
func speakerAttrs(a rib.Attrs) []bgp.PathAttributeInterface {
	var path []bgp.AsPathParamInterface
	first := true
	for s := range a.ASPath.Segments() {
		asns := s.ASNs
		if first {
			asns = asns[1:]
		}
		if first = false; len(asns) > 0 {
			path = append(path, bgp.NewAs4PathParam(s.Type, asns))
		}
	}
	attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(a.Origin), bgp.NewPathAttributeAsPath(path)}
	if a.HasMED {
		attrs = append(attrs, bgp.NewPathAttributeMultiExitDisc(a.MED))
	}
	if cs := a.Communities; cs != "" {
		values := make([]uint32, 0, len(cs)/4)
		for ; len(cs) >= 4; cs = cs[4:] {
			values = append(values, uint32(cs[0])<<24|uint32(cs[1])<<16|uint32(cs[2])<<8|uint32(cs[3]))
		}
		attrs = append(attrs, bgp.NewPathAttributeCommunities(values))
	}
	return attrs
}

// speakerRoute gives a prefix with its next hop, each family in its own attribute.
func speakerRoute(p netip.Prefix, nextHop netip.Addr, attrs []bgp.PathAttributeInterface) (bgp.AddrPrefixInterface, []bgp.PathAttributeInterface) {
	attrs = attrs[:len(attrs):len(attrs)]
	if p.Addr().Is4() {
		return bgp.NewIPAddrPrefix(uint8(p.Bits()), p.Addr().String()), append(attrs, bgp.NewPathAttributeNextHop(nextHop.String()))
	}
	nlri := bgp.NewIPv6AddrPrefix(uint8(p.Bits()), p.Addr().String())
	return nlri, append(attrs, bgp.NewPathAttributeMpReachNLRI(nextHop.String(), []bgp.AddrPrefixInterface{nlri}))
}

// speakerLog shows the router's log below the program's own: its news are debugging to us.
type speakerLog struct{ log *slog.Logger }

func (l speakerLog) write(msg string, f gobgplog.Fields) {
	args := []any{"component", "demo router"}
	for k, v := range f {
		args = append(args, k, v)
	}
	l.log.Debug(msg, args...)
}

func (l speakerLog) Panic(msg string, f gobgplog.Fields) { l.write(msg, f) }
func (l speakerLog) Fatal(msg string, f gobgplog.Fields) { l.write(msg, f) }
func (l speakerLog) Error(msg string, f gobgplog.Fields) { l.write(msg, f) }
func (l speakerLog) Warn(msg string, f gobgplog.Fields)  { l.write(msg, f) }
func (l speakerLog) Info(msg string, f gobgplog.Fields)  { l.write(msg, f) }
func (l speakerLog) Debug(msg string, f gobgplog.Fields) { l.write(msg, f) }
func (l speakerLog) SetLevel(gobgplog.LogLevel)          {}
func (l speakerLog) GetLevel() gobgplog.LogLevel         { return gobgplog.InfoLevel }
