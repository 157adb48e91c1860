// Package igp knows the link-state graph of an IGP, shortest paths in it, and what changes in them when
// links fail: the cost of the way to a BGP next hop, from any router.
//
//	file ──Read──> Spec ──New──> Topology ──> Graph ──> Solver: distances from many roots
//	Changes ──> Store ─────────────┘ │
//	                                 ├──> Tree:   one root, all equal-cost first hops and paths
//	                                 ├──> WhatIf: what failures of links change
//	                                 └──> Cost:   from an address to its node
//
// A Topology never changes. A Store holds the one in force and gives each next one a number.
//
// Metrics are 32-bit integers, a direction of a link each, and distances their 64-bit sums, so they are
// exact. A metric may be 0. The largest one, Unused, says that no path takes this direction; what a
// protocol has for it (16,777,215 with the wide metrics of IS-IS, RFC 5305, 3) becomes Unused where a
// topology is read. OSPF has no such metric: 65,535 is a last resort there (RFC 6987). A link from a
// node to itself is on no shortest path and is left out of the graph. A node with the overload bit (IS-IS,
// ISO 10589, 7.2.8.1; OSPF's R-bit) is a destination, and a root, but no path goes through it.
//
// All results are determined by the topology: a distance is one number, sets of equal-cost first hops
// are whole, and lists are in the order of the topology's nodes and links.
package igp
