package rib

import (
	"fmt"
	"net/netip"
)

// A Reject says why a path is kept in the Adj-RIB-In and never chosen.
type Reject uint8

const (
	// Accepted is no reason: the path takes part in the decision.
	Accepted Reject = iota
	// RejectLoop is the own AS in the AS path (RFC 4271, 9.1.2).
	RejectLoop
	// RejectMartian is a prefix that must not be routed.
	RejectMartian
	// RejectNoPolicy is an external peer without an import policy (RFC 8212).
	RejectNoPolicy
	// RejectPrefix is a prefix or a prefix length that the policy does not let in.
	RejectPrefix
	// RejectASPath is an AS path that it does not let in.
	RejectASPath
	// RejectCommunity is a community that it does not let in.
	RejectCommunity
	// RejectRPKI is an origin that the RPKI does not allow (RFC 6811).
	RejectRPKI
	// RejectRole is a route leak by the roles of both sides (RFC 9234).
	RejectRole
	// RejectFirstAS is an AS path that does not start with the peer's AS (RFC 4271, 6.3).
	RejectFirstAS

	// NumRejects is how many there are, for arrays of counters.
	NumRejects
)

// String is a short stable word, fit for a metric label.
func (r Reject) String() string {
	if r >= NumRejects {
		return fmt.Sprintf("reject-%d", uint8(r))
	}
	return [NumRejects]string{
		"accepted", "as-path-loop", "martian", "no-policy", "prefix", "as-path", "community", "rpki-invalid", "route-leak", "first-as",
	}[r]
}

// Import decides which routes of a peer may be chosen. Safe for concurrent use.
type Import interface {
	// Check judges one route; the prefix has no host bits. It is called under the RIB's lock, or a
	// Restoration's, for every prefix of every message: it takes some 100 ns, calls nothing of the RIB and does not
	// keep a. Where its answers change, Peer.Reconsider has them asked for anew.
	Check(prefix netip.Prefix, a *Attrs) Reject
}
