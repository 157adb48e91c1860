package bgp

import (
	"net/netip"
	"time"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
	"github.com/ribwarp/ribwarp/rib/bgpls"
	"github.com/ribwarp/ribwarp/rib/wire"
)

// A State is where a session is (RFC 4271, 8.2.2), as a short stable word.
type State string

// The states of a session. A peer that is left alone is idle; one that we wait for, or wait to
// connect to again, is active.
const (
	Idle        State = "idle"
	Connect     State = "connect"
	Active      State = "active"
	OpenSent    State = "opensent"
	OpenConfirm State = "openconfirm"
	Established State = "established"
)

// Stats are counters since the start.
type Stats struct {
	Peers   []PeerStats // in the order of the configuration; a prefix's neighbours by address
	Refused uint64      // connections from addresses that are no peer's
	// RefusedHalfOpen are connections over the bounds of those that are not established, HalfOpen
	// how many there are now, and RefusedLimit OPENs over the limit of a prefix.
	RefusedHalfOpen, RefusedLimit uint64
	HalfOpen                      int
}

// PeerStats are a peer's counters and what its session is like.
type PeerStats struct {
	Name        string
	Addr        netip.Addr
	AS          uint32
	Table       string
	Dynamic     bool // it came from a prefix
	State       State
	Established bool
	Since       time.Time   // of the session, zero without
	Session     *Negotiated // nil without a session
	LastError   string      // why the last attempt or session ended
	HeldUntil   time.Time   // left alone after an error until then; zero: it is not

	Messages uint64                   // UPDATEs
	Bytes    uint64                   // of all messages, with headers
	Verdicts [wire.NumVerdicts]uint64 // UPDATEs by what became of them
	Panics   uint64                   // of the codec or of a session, recovered
	Ignored  uint64                   // parts of UPDATEs about families that are not kept
	// Rejected counts by reason the routes that are there and not chosen; Stale4 and Stale6 those
	// kept of a lost session, or of a saved generation.
	Rejected         [rib.NumRejects]int
	Routes4, Routes6 int
	Stale4, Stale6   int
	LinkState        bgpls.Stats // of its IGP's topology

	Ups, Downs       uint64 // sessions
	Collisions       uint64 // connections closed for a better one
	PrefixesExceeded uint64 // sessions ended for too many routes
	PrefixesWarnings uint64
	// AttributesExceeded are sessions ended for too much memory of path attributes, AttributeBytes
	// what they take now (rib.Peer.AttributeBytes).
	AttributesExceeded uint64
	AttributeBytes     int64
	Refreshes          uint64 // asked for
	// LastNotification is the newest NOTIFICATION of either side, nil before the first.
	LastNotification *fsm.Notification
}

// Negotiated is what both sides of a session have.
type Negotiated struct {
	RouterID netip.Addr // the peer's
	Inbound  bool       // the peer has connected
	Options  wire.Options
	// Peer is what the peer's OPEN says. It is not to be changed.
	Peer *fsm.Open
}

// Stats gives the counters. They are read one by one, so they may be of slightly different
// times.
func (s *Server) Stats() Stats {
	all := Stats{
		Refused: s.refused.Load(), RefusedHalfOpen: s.refusedHalfOpen.Load(), RefusedLimit: s.refusedLimit.Load(),
		HalfOpen: s.halfOpen.count(),
	}
	s.mu.RLock()
	neighbours := s.neighbours
	s.mu.RUnlock()
	for _, n := range neighbours {
		for _, p := range n.all() {
			all.Peers = append(all.Peers, p.stats())
		}
	}
	return all
}

func (p *peer) stats() PeerStats {
	cfg := p.config()
	s := PeerStats{
		Name: p.name, Addr: p.addr, AS: cfg.AS, Table: cfg.Table, Dynamic: p.neighbour.dynamic,
		Messages: p.messages.Load(), Bytes: p.bytes.Load(), Panics: p.panics.Load(), Ignored: p.ignored.Load(),
		Ups: p.ups.Load(), Downs: p.downs.Load(), Collisions: p.collisions.Load(), PrefixesExceeded: p.exceeded.Load(),
		PrefixesWarnings: p.warnings.Load(), AttributesExceeded: p.heavy.Load(), Refreshes: p.asked.Load(), LastNotification: p.lastNotification.Load(),
	}
	for v := range s.Verdicts {
		s.Verdicts[v] = p.verdicts[v].Load()
	}
	s.LinkState = p.linkState.stats()
	if r := p.routes.peer(); r != nil {
		status := r.Status()
		s.Rejected, s.Routes4, s.Routes6 = status.Rejected, status.V4, status.V6
		s.Stale4, s.Stale6, s.AttributeBytes = status.Stale4, status.Stale6, status.AttributeBytes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.State, s.LastError = p.state(), p.lastErr
	if time.Now().Before(p.held) {
		s.HeldUntil = p.held
	}
	if s.State == Established {
		c := p.up
		s.Established, s.Since = true, c.established
		s.Session = &Negotiated{RouterID: c.open.RouterID, Inbound: c.inbound, Options: c.session.Options(), Peer: c.open}
	}
	return s
}

// state is called under p.mu.
func (p *peer) state() State {
	if p.up != nil && p.up.session != nil {
		return Established
	}
	for _, c := range p.conns {
		if c.open != nil && c != p.up {
			return OpenConfirm
		}
	}
	switch {
	case len(p.conns) > 0 && p.up == nil:
		return OpenSent
	case p.stopDial != nil:
		return Connect
	case time.Now().Before(p.held):
		return Idle
	}
	return Active
}
