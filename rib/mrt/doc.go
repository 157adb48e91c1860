// Package mrt loads routes from MRT files (RFC 6396): table dumps (TABLE_DUMP, TABLE_DUMP_V2
// with the ADD-PATH records of RFC 8050) and recorded messages (BGP4MP, BGP4MP_ET). Every peer
// of the file becomes a peer of the RIB with its own Adj-RIB-In.
//
//	record.go       cuts the stream into records
//	load.go         sends each record to its decoder; where a file breaks, what was read stays
//	tabledump.go    TABLE_DUMP
//	tabledumpv2.go  TABLE_DUMP_V2
//	bgp4mp.go       BGP4MP: UPDATEs and state changes
//	route.go        dumped routes; equal attributes are decoded once
//	cursor.go       fields of a record
//	peers.go        the file's peers and what is about to be applied to them
//
// Path attributes and messages are decoded by package wire, the peer table by GoBGP's codec under
// recover: bytes that upset a decoder cost at most their own record.
package mrt
