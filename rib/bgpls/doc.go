// Package bgpls learns the topology of an IGP from BGP-LS (RFC 9552).
//
//	UPDATE ──Decode──> Update ──> Peer.Apply ──> Database ──Topology──> igp.Topology
//
// A Database holds what every peer has announced, an object for each NLRI: a node, a link in one direction, or a
// prefix of a node. Topology makes one graph of all. What several peers announce counts once; what is
// stale counts where there is nothing else.
//
//   - Levels of IS-IS and areas of OSPF are one graph, in which the same router is one node: its identifier is that of
//     the instance, AS, BGP-LS identifier and IGP router. So paths may go through areas that a router would not
//     choose.
//   - Two directions are one link where their addresses or identifiers agree. A direction counts only where the other
//     router announces a link back (ISO 10589, 7.2.7; RFC 2328, 16.1).
//   - The maximum metric of IS-IS, 16,777,215, takes a direction out (RFC 5305, 3). A direction without a metric is not used.
//   - Only the default topology counts (MT-ID 0), and prefixes of IS-IS's IPv6 one (MT-ID 2).
//   - A node answers to its router addresses and to those of its interfaces, but to no link-local ones.
package bgpls
