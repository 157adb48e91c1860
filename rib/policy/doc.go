// Package policy decides which routes of a peer may be chosen (rib.Import): by prefix lists,
// lengths, AS paths, communities and the RPKI. docs/policy.md is its reference.
//
// A Config is compiled once into a Set, which gives an Import for every peer. What the attributes
// of a route say is worked out once for all prefixes that come with them: some 100 ns, and about 1 µs
// for a regular expression. What is left for a prefix are a few lookups: 20 ns for martians, some
// more for prefix lists, 50 to 200 ns for the RPKI.
//
// Regular expressions are Go's, whose time is linear in the length of the path. Max-as-path, which
// is looked at first, bounds that.
//
// Whether a path starts with its peer's AS, and route leaks by roles (RFC 9234), are no matter of
// a policy: rib/bgp checks them as its peers are configured.
package policy
