// Package bgp learns routes over BGP sessions. It only listens: nothing is ever advertised but
// the End-of-RIB marker of an empty table.
//
// Package fsm runs one connection; this one has everything around it:
//
//	Server      listens, finds whose a connection is, is configured anew (Reload)
//	neighbour   an entry of the configuration: one peer, or those that come from a prefix
//	peer        connects and waits, again and again; left alone after errors
//	conn        one connection: collisions, messages into the RIB, bounds
//	keeper      the routes as a whole: sessions come up and are lost, stale routes are given up
//	linkState   the same for the topology of an IGP, where the peer announces one (package bgpls)
//
//	listen, dial -> peer.run -> conn.serve -> fsm.Run -> conn.Update -> wire.Decoder -> rib.Peer.Apply
//
// Each peer has goroutines of its own: one that connects, and one that reads each connection. The
// messages of one session are applied in order, in the goroutine that reads them: while the RIB is
// busy nothing is read, so the peer's TCP window closes. A message that cannot be decoded, or at
// which anything panics, costs at most its own session (RFC 7606).
//
// A lost session's routes are withdrawn, or where the peer asked for it with graceful restart kept
// as stale until it is back (keeper). Routes of a saved generation, which the RIB has from before
// the first session, are kept the same way.
//
// A peer's first load is complete with the End-of-RIB of every family that was negotiated. For
// those that do not send it, readiness has its own timeout
// (rib.PublisherOptions.ReadyTimeout): silence on a session tells nothing.
//
// What of which RFC is there, and what is not, is in docs/rfcs.md.
package bgp
