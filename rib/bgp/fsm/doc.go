// Package fsm is the life of one BGP connection, from the OPEN to its end, as a speaker that only
// listens: the state machine of RFC 4271 without what dials, accepts and tries again, which is
// rib/bgp's. Nothing is ever advertised but End-of-RIB.
//
// Run has two goroutines. The caller's reads: it frames messages, and calls the Handler for each.
// While the Handler is busy nothing is read, so the peer's TCP window closes. The other one
// writes, so that KEEPALIVEs go out during a slow Handler and a peer that does not read holds up
// nobody. Whichever finds a reason for it ends the session; so does the caller's context. The
// first reason counts, and it alone is sent as a NOTIFICATION.
//
// Two timers watch the peer. The hold timer counts only while its messages are waited for, not
// while they are handled, and is restarted by whole KEEPALIVEs and UPDATEs (RFC 4271, 4.2), not
// by bytes. The send hold timer (RFC 9687) is a deadline on each write.
package fsm
