package bgp

import (
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/jwhited/corebgp"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// A session is what corebgp calls over the life of one connection, from one goroutine.
type session struct {
	peer    *peer
	link    *link
	decoder *wire.Decoder
	damaged [wire.NumVerdicts]uint64 // messages with damage, to log fewer and fewer of them
}

var _ corebgp.Plugin = (*session)(nil)

// GetCapabilities is part of corebgp.Plugin.
func (s *session) GetCapabilities(corebgp.PeerConfig) []corebgp.Capability { return capabilities() }

// OnOpenMessage is part of corebgp.Plugin. corebgp has found the AS number right.
func (s *session) OnOpenMessage(_ corebgp.PeerConfig, routerID netip.Addr, _ []corebgp.Capability) *corebgp.Notification {
	if s.link.open == nil {
		return &corebgp.Notification{Code: bgp.BGP_ERROR_OPEN_MESSAGE_ERROR}
	}
	if routerID.IsUnspecified() {
		s.link.because("the peer's router ID is 0.0.0.0")
		return &corebgp.Notification{Code: bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, Subcode: bgp.BGP_ERROR_SUB_BAD_BGP_IDENTIFIER}
	}
	return nil
}

// OnEstablished is part of corebgp.Plugin.
func (s *session) OnEstablished(_ corebgp.PeerConfig, w corebgp.UpdateMessageWriter) corebgp.UpdateMessageHandler {
	p, o := s.peer, s.link.open
	opt := o.options(p.srv.cfg.ASN)
	s.decoder = wire.NewDecoder(opt)
	s.link.mu.Lock()
	s.link.established = time.Now()
	s.link.mu.Unlock()
	p.ups.Add(1)
	p.established.Store(true)
	p.log.Info("bgp session established", "router_id", o.routerID, "inbound", s.link.inbound,
		"ipv4", o.ipv4, "ipv6", o.ipv6, "add_path_ipv4", o.addPath4, "add_path_ipv6", o.addPath6, "four_octet_as", o.fourOctet)
	p.rib.Up(rib.Session{RouterID: o.routerID, Internal: !opt.External, IPv4: o.ipv4, IPv6: o.ipv6})
	for _, v6 := range []bool{false, true} {
		if v6 && !o.ipv6 || !v6 && !o.ipv4 {
			continue
		}
		if err := w.WriteUpdate(endOfRIB(v6)); err != nil {
			break // the connection is gone, as corebgp is about to notice
		}
	}
	return s.update
}

// update applies one UPDATE.
func (s *session) update(_ corebgp.PeerConfig, body []byte) *corebgp.Notification {
	p := s.peer
	m, err := s.decoder.Decode(body)
	verdict := m.Verdict()
	p.messages.Add(1)
	p.verdicts[verdict].Add(1)
	p.ignored.Add(uint64(m.Ignored))
	if m.Panic != nil {
		p.panics.Add(1)
		p.log.Error("bgp decoder panicked", "panic", m.Panic, "verdict", verdict.String(), "update", hex.EncodeToString(body))
	}
	if m.Damage != nil {
		s.logDamage(m.Damage, body)
	}
	if err != nil {
		s.link.because("damaged UPDATE: " + m.Damage.Reason)
		return &corebgp.Notification{Code: m.Damage.Code, Subcode: m.Damage.Subcode}
	}
	for _, u := range m.Updates {
		p.rib.Apply(u)
	}
	if m.EndOfRIB != wire.NoFamily {
		p.rib.EndOfRIB(m.EndOfRIB == wire.IPv6)
		p.log.Info("bgp end of rib", "ipv6", m.EndOfRIB == wire.IPv6)
	}
	return nil
}

// logDamage logs the 1st, 2nd, 4th, 8th, ... message with damage of a kind: a peer may have
// many, and all are counted.
func (s *session) logDamage(d *wire.Damage, body []byte) {
	s.damaged[d.Verdict]++
	n := s.damaged[d.Verdict]
	if n&(n-1) != 0 {
		return
	}
	s.peer.log.Warn("bgp update damaged", "reason", d.Reason, "verdict", d.Verdict.String(), "in_session", n, "update", hex.EncodeToString(body))
}

// OnClose is part of corebgp.Plugin: an established session is over.
func (s *session) OnClose(corebgp.PeerConfig) {
	p := s.peer
	if p.ctx.Err() != nil {
		s.link.because("stopped")
	}
	reason, _ := s.link.end()
	p.established.Store(false)
	p.downs.Add(1)
	p.log.Warn("bgp session lost", "reason", reason)
	p.rib.Down(reason)
}
