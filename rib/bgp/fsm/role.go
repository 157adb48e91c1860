package fsm

import "fmt"

// A Role is what a speaker is to its external peer (RFC 9234, 4.1). Local.Role is ours,
// Open.Role the peer's.
type Role uint8

const (
	// NoRole is not announced.
	NoRole Role = iota
	// RoleProvider has a customer as its peer.
	RoleProvider
	// RoleRS is a route server, its peer is RoleRSClient.
	RoleRS
	// RoleRSClient is the client of a route server.
	RoleRSClient
	// RoleCustomer has a provider as its peer.
	RoleCustomer
	// RolePeer has a RolePeer as its peer: no transit either way.
	RolePeer

	numRoles
)

var roles = [numRoles]string{"", "provider", "rs", "rs-client", "customer", "peer"}

// counterparts are the roles that a peer has to have.
var counterparts = [numRoles]Role{RoleProvider: RoleCustomer, RoleRS: RoleRSClient, RoleRSClient: RoleRS, RoleCustomer: RoleProvider, RolePeer: RolePeer}

// String is the word for a role, empty for NoRole.
func (r Role) String() string {
	if r < numRoles {
		return roles[r]
	}
	return fmt.Sprintf("role-%d", uint8(r))
}

// UnmarshalText reads the word for a role; an empty text is NoRole.
func (r *Role) UnmarshalText(text []byte) error {
	for i, name := range roles {
		if name == string(text) {
			*r = Role(i)
			return nil
		}
	}
	return fmt.Errorf("role %q is none: give provider, rs, rs-client, customer or peer", text)
}

// MarshalText writes the word for a role.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// value is the role in its capability. There is none for NoRole.
func (r Role) value() byte { return byte(r) - 1 }

// roleOf is the role of a capability's value, NoRole for one that is not known.
func roleOf(value byte) Role {
	if value >= byte(numRoles)-1 {
		return NoRole
	}
	return Role(value) + 1
}
