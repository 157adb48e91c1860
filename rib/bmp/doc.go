// Package bmp is a BMP station (RFC 7854, 8671, 9069): routers connect to it, or it connects to
// them, and mirror what their BGP peers say. Each BGP peer of a router becomes a rib.Peer.
//
//	listen, dial -> router.serve -> reader (framing) -> session (messages)
//	                                 wire.Decoder -> feed -> rib.Peer.Apply
//
// The protocol goes one way: a station never sends a byte. Messages of one router are applied in
// order, in the goroutine that reads its connection: while the RIB is busy nothing is read, so
// the router's TCP window closes. Damage in a message costs what RFC 7606 says its routes are
// worth, and never more than that message; only where the framing is lost the connection ends.
// A panic costs the message that brought it.
//
// # Views
//
// A router may mirror several views of the same routes: what its peers sent (pre), what its
// policy made of that (post), and what it chose (loc-rib). One view feeds a table; messages of
// the others are counted and ignored, as Adj-RIB-Out always is. RouterConfig.View says which;
// without it that of the first route of a VRF, while anything of the connection feeds its table. An
// End-of-RIB decides nothing: FRR sends one for views that it does not mirror.
//
// # VRFs
//
// The peer distinguisher of RFC 7854 selects the table: 0 is the global instance. Templates of
// RouterConfig make table names of router and route distinguisher. VRFs without a template are
// counted and ignored: their prefixes would mix with those of the global instance. A table without
// peers may be dropped by whoever gave it (rib.Tables.OpenPassing), and is asked for again then.
//
// # Routers that go
//
// A Peer Down withdraws the peer's routes. Where the connection to the router ends they are
// withdrawn, or with RouterConfig.StaleTime kept as stale: until End-of-RIB where the router and
// the peer are back, or else until that time has passed.
package bmp
