// Package bgp learns routes over BGP sessions. It only listens: nothing is ever advertised but
// the End-of-RIB marker of an empty table.
//
// The state machine of a session is corebgp's, which is given connections one at a time and
// nothing else to do: this package accepts and dials them, decides when to try again, and reads
// along (link), because corebgp takes no speaker without 4-byte AS numbers, ends a session at a
// ROUTE-REFRESH, and would crash where a peer proposes no hold time.
//
//	listen, dial -> peer.run -> link (OPEN, NOTIFICATION seen) -> corebgp -> session.update
//	                                                     wire.Decoder -> rib.Peer.Apply
//
// The messages of one session are applied in order, in the goroutine of its state machine: while
// the RIB is busy nothing is read, so the peer's TCP window closes. A message that cannot be
// decoded costs at most its own session (RFC 7606), and a lost session withdraws its routes.
//
// A peer's first load is complete with the End-of-RIB of every family that was negotiated. To
// be sent them we announce graceful restart without any family (RFC 4724): speakers that know
// it then mark the end. For those that do not, readiness has its own timeout
// (rib.PublisherOptions.ReadyTimeout): silence on a session tells nothing.
package bgp
