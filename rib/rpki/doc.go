// Package rpki knows which AS may announce which prefix: the validated ROA payloads (VRPs) of RTR
// caches and of files, and the origin validation of RFC 6811.
//
//	cache ──RTR──> client ─┐
//	cache ──RTR──> client ─┼─> Store ─> Table.Validate
//	JSON, CSV ───> file  ──┘      └───> OnChange
//
// A cache is asked in version 1 of the protocol (RFC 8210) and, where it does not know that, in
// version 0 (RFC 6810), over plain TCP. Router keys are passed over.
//
// PDUs are read by GoBGP's codec (pkg/packet/rtr). It knows version 0 only, indexes without
// looking at lengths, and makes room for as many bytes as an Error Report says that it holds. So
// the length of every PDU is checked before it is read, and again inside of an Error Report, what
// version 1 added to End of Data is read here, and the codec runs under recover. It costs an
// allocation a prefix: 30 ms for 600,000, of the 130 ms until their table is there.
//
// In one thing the client does not do as RFC 8210 says. A cache that was started anew has another
// session, and what it said before is to be flushed at once (5.1). Here it stays until the new
// data are complete, or until it expires: a table without VRPs would let in what they forbid, and
// reject with "require-valid" all that they allow, for as long as the load takes.
package rpki
