// Package hotpotato has the decision go by an IGP: among paths that are equal until then the one with the
// nearest next hop is the best (RFC 4271, 9.1.2.2 e), seen from the router that is the root, or from any
// other (RFC 9107).
//
//	file ────────────┐
//	bgpls.Database ──┴─ Source ──> Keeper ── costs from the root ──> rib.Tables.SetIGP
//	                                  └───── costs from others ────> who asks (the API)
//
// A next hop belongs to the nodes that announce its longest match (igp.Topology.Cost).
package hotpotato
