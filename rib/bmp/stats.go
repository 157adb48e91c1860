package bmp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/rib/wire"
)

// Ignored is why a message about a peer changed no table.
type Ignored uint8

const (
	// IgnoredView is of a view that does not feed the table.
	IgnoredView Ignored = iota
	// IgnoredAdjRIBOut is Adj-RIB-Out, which never does.
	IgnoredAdjRIBOut
	// IgnoredVRF is of a VRF for which RouterConfig has no table.
	IgnoredVRF
	// IgnoredNoPeerUp came without a Peer Up before it.
	IgnoredNoPeerUp
	// IgnoredPeers is of a peer beyond RouterConfig.MaxPeers.
	IgnoredPeers
	// IgnoredTable is of a table that could not be had: too many, or a peer of that name is there.
	IgnoredTable
	// IgnoredPeerType is of a type of peer that is not known.
	IgnoredPeerType

	// NumIgnored is how many there are, for arrays of counters.
	NumIgnored
)

// String is a short stable word, fit for a metric label.
func (i Ignored) String() string {
	if i >= NumIgnored {
		return fmt.Sprintf("ignored-%d", uint8(i))
	}
	return [NumIgnored]string{"view", "adj-rib-out", "vrf", "no-peer-up", "peer-limit", "table", "peer-type"}[i]
}

// Stats are counters since the start.
type Stats struct {
	Routers  []RouterStats // sorted by name: those configured, and those of prefixes that are there
	Refused  uint64        // connections from addresses of no router, or one too many
	HalfOpen int           // connections without an Initiation message
}

// RouterStats are a router's counters.
type RouterStats struct {
	Name      string
	Addr      netip.Addr
	Connected bool
	Since     time.Time // connected, or not
	LastError string    // why it is not, empty before the first connection
	SysName   string    // what its Initiation message says
	SysDescr  string

	Ups, Downs uint64                   // connections
	Messages   [NumKinds]uint64         // by type
	Bytes      uint64                   // of all messages
	Damaged    uint64                   // messages that could not be read, but for UPDATEs
	Verdicts   [wire.NumVerdicts]uint64 // UPDATEs by what became of them (RFC 7606)
	Panics     uint64                   // recovered; each cost one message
	Ignored    [NumIgnored]uint64       // messages by why they changed nothing
	OtherParts uint64                   // parts of UPDATEs about families that are not kept
	Mirrored   uint64                   // BGP messages in Route Mirroring
	MirrorErrs uint64                   // of them, with an error that the router found
	MirrorLost uint64                   // how often the router said that it could not mirror all

	Peers []PeerStats // of this connection
}

// PeerStats are what a router says about one of its BGP peers.
type PeerStats struct {
	Name     string     // without the view
	Addr     netip.Addr // zero for the Loc-RIB
	AS       uint32
	RouterID netip.Addr
	VRF      string // route distinguisher, "global" without one
	Table    string // VRF or table name of RFC 9069, empty without one
	View     View   // what feeds a table, empty where nothing does yet
	Filtered bool   // the Loc-RIB is not all of it (RFC 9069, 4.2)
	Up       bool
	LastDown string // why it last went, empty before
	// Reported are the newest values of its Statistics Reports.
	Reported map[Statistic]uint64
}

// A Statistic is a counter or gauge of a Statistics Report (RFC 7854, 4.8; RFC 8671, 6.2). AFI and
// SAFI are 0 where it is not by family.
type Statistic struct {
	Type uint16
	AFI  uint16
	SAFI uint8
}

// String is a short stable word, fit for a metric label.
func (s Statistic) String() string {
	name := fmt.Sprintf("type-%d", s.Type)
	if known := statistics[s.Type]; known != "" {
		name = known
	}
	if s.AFI != 0 {
		name += fmt.Sprintf("-%d-%d", s.AFI, s.SAFI)
	}
	return name
}

// statistics are the names of IANA's registry, shortened.
var statistics = map[uint16]string{
	0: "rejected-prefixes", 1: "duplicate-prefixes", 2: "duplicate-withdraws", 3: "cluster-list-loops", 4: "as-path-loops",
	5: "originator-id-loops", 6: "confederation-loops", 7: "adj-rib-in-routes", 8: "loc-rib-routes", 9: "adj-rib-in-routes-family",
	10: "loc-rib-routes-family", 11: "updates-treated-as-withdraw", 12: "prefixes-treated-as-withdraw", 13: "duplicate-updates",
	14: "adj-rib-out-pre-routes", 15: "adj-rib-out-post-routes", 16: "adj-rib-out-pre-routes-family", 17: "adj-rib-out-post-routes-family",
}

// counters are those of a router over all its connections.
type counters struct {
	messages                                     [NumKinds]atomic.Uint64
	verdicts                                     [wire.NumVerdicts]atomic.Uint64
	ignored                                      [NumIgnored]atomic.Uint64
	bytes, damaged, panics, others               atomic.Uint64
	mirrored, mirrorErrs, mirrorLost, ups, downs atomic.Uint64
}

func load[A, B any](dst []A, src []B, get func(*B) A) {
	for i := range src {
		dst[i] = get(&src[i])
	}
}

// Stats gives the counters. They are read one by one, so they may be of slightly different times.
func (s *Station) Stats() Stats {
	s.mu.Lock()
	all := Stats{Refused: s.refused.Load(), HalfOpen: s.halfOpen}
	routers := slices.Collect(maps.Values(s.routers))
	s.mu.Unlock()
	for _, r := range routers {
		all.Routers = append(all.Routers, r.stats())
	}
	slices.SortFunc(all.Routers, func(a, b RouterStats) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (r *router) stats() RouterStats {
	c := &r.counters
	rs := RouterStats{
		Name: r.name, Addr: r.addr,
		Ups: c.ups.Load(), Downs: c.downs.Load(), Bytes: c.bytes.Load(), Damaged: c.damaged.Load(), Panics: c.panics.Load(),
		OtherParts: c.others.Load(), Mirrored: c.mirrored.Load(), MirrorErrs: c.mirrorErrs.Load(), MirrorLost: c.mirrorLost.Load(),
	}
	load(rs.Messages[:], c.messages[:], (*atomic.Uint64).Load)
	load(rs.Verdicts[:], c.verdicts[:], (*atomic.Uint64).Load)
	load(rs.Ignored[:], c.ignored[:], (*atomic.Uint64).Load)
	r.state.Lock()
	rs.Since, rs.LastError = r.since, r.lastError
	current := r.current
	r.state.Unlock()
	if current != nil {
		rs.Connected = true
		current.stats(&rs)
	}
	return rs
}

// stats adds what is known of the connection.
func (s *session) stats(rs *RouterStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs.SysName, rs.SysDescr = s.sysName, s.sysDescr
	for _, p := range s.peers {
		ps := PeerStats{
			Name: p.name, Addr: p.key.addr, AS: p.as, RouterID: p.routerID, VRF: p.key.rd.String(), Table: p.table,
			Filtered: p.filtered, Up: p.up, LastDown: p.lastDown, Reported: maps.Clone(p.reported),
		}
		if p.feed != nil {
			ps.View = p.feed.view
		}
		rs.Peers = append(rs.Peers, ps)
	}
	slices.SortFunc(rs.Peers, func(a, b PeerStats) int { return strings.Compare(a.Name, b.Name) })
}
