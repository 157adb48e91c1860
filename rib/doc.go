// Package rib keeps the routes that peers announce, chooses the best path to every prefix and
// publishes the result as generations.
//
//	Peer.Apply -> destination (all peers' paths to one prefix) -> dirty list
//	           -> Publisher: snapshot, decision, lpm.Engine -> lpm.Generation
//
// A Peer is one source: a BGP session, a dump, a list. The RIB keeps one destination a prefix,
// with the paths of all peers, those that its Import rejects and those of a lost session that are
// kept as stale among them, and remembers which destinations changed. The Publisher takes
// those from time to time, decides which path is best (decision.go) and has the engine make a
// table of them.
package rib
