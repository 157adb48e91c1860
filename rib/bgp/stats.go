package bgp

import "github.com/ribwarp/ribwarp/rib/wire"

// Stats are counters since the start.
type Stats struct {
	Peers   []PeerStats // in the order of the configuration
	Refused uint64      // connections from addresses that are no peer's
}

// PeerStats are a peer's counters.
type PeerStats struct {
	Name        string
	Established bool
	Messages    uint64                   // UPDATEs
	Bytes       uint64                   // of all messages, with headers
	Verdicts    [wire.NumVerdicts]uint64 // UPDATEs by what became of them
	Panics      uint64                   // of the codec, recovered
	Ignored     uint64                   // parts of UPDATEs about families that are not kept
	Ups, Downs  uint64                   // sessions
	// LastNotification is the newest NOTIFICATION of either side, nil before the first.
	LastNotification *Notification
}

// Stats gives the counters. They are read one by one, so they may be of slightly different
// times.
func (s *Server) Stats() Stats {
	all := Stats{Refused: s.refused.Load()}
	for _, p := range s.peers {
		ps := PeerStats{
			Name: p.cfg.Name, Established: p.established.Load(),
			Messages: p.messages.Load(), Bytes: p.bytes.Load(), Panics: p.panics.Load(), Ignored: p.ignored.Load(),
			Ups: p.ups.Load(), Downs: p.downs.Load(), LastNotification: p.lastNotification.Load(),
		}
		for v := range ps.Verdicts {
			ps.Verdicts[v] = p.verdicts[v].Load()
		}
		all.Peers = append(all.Peers, ps)
	}
	return all
}
