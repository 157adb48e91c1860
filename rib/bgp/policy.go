package bgp

import (
	"fmt"
	"net/netip"

	"github.com/ribwarp/ribwarp/rib"
	"github.com/ribwarp/ribwarp/rib/bgp/fsm"
)

// A TableFunc gives the RIB of a table, made where it is not there. The error says why it is not.
type TableFunc func(name string) (*rib.RIB, error)

// A PolicyFunc gives the import policy of that name for a peer, nil to take all routes.
type PolicyFunc func(name string, peer PeerConfig) (rib.Import, error)

// imports gives what decides about a peer's routes; nil takes all.
func (c *Config) imports(p PeerConfig, policies PolicyFunc) (rib.Import, error) {
	external := p.AS != c.ASN
	var policy rib.Import
	switch {
	case p.Import == "" && external:
		policy = noPolicy{}
	case p.Import == "", p.Import == importAccept && policies == nil:
	case policies == nil:
		return nil, fmt.Errorf("peer %q: there is no import policy %q: the only one is %q", p.Name, p.Import, importAccept)
	default:
		var err error
		if policy, err = policies(p.Import, p); err != nil {
			return nil, fmt.Errorf("peer %q: import policy %q: %w", p.Name, p.Import, err)
		}
	}
	if !external || !p.EnforceFirstAS && p.Role == fsm.NoRole {
		return policy, nil
	}
	return &checks{as: p.AS, firstAS: p.EnforceFirstAS, role: p.Role, policy: policy}, nil
}

// noPolicy is that of an external peer for which nobody has chosen one (RFC 8212).
type noPolicy struct{}

func (noPolicy) Check(netip.Prefix, *rib.Attrs) rib.Reject { return rib.RejectNoPolicy }

// checks are what is asked of an external peer's routes before its policy.
type checks struct {
	as      uint32
	firstAS bool
	role    fsm.Role
	policy  rib.Import // nil takes all
}

// Check is part of rib.Import.
func (c *checks) Check(prefix netip.Prefix, a *rib.Attrs) rib.Reject {
	switch {
	case c.firstAS && a.ASPath.First() != c.as:
		return rib.RejectFirstAS
	case leaked(c.role, c.as, a):
		return rib.RejectRole
	case c.policy == nil:
		return rib.Accepted
	}
	return c.policy.Check(prefix, a)
}

// leaked tells whether a route must not have come from the peer, by our role towards it
// (RFC 9234, 5): what once went to a customer, or to a peer, goes on to customers only.
func leaked(role fsm.Role, as uint32, a *rib.Attrs) bool {
	if !a.HasOTC {
		return false
	}
	switch role {
	case fsm.RoleProvider, fsm.RoleRS:
		return true
	case fsm.RolePeer:
		return a.OTC != as
	}
	return false
}
