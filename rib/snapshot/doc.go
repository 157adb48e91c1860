// Package snapshot saves what the tables of a service answer, and gives it back after a restart:
// every best route with its attributes, as a stale route of the peer that it came from. Of prefixes
// without a best route it saves all paths: what keeps them from being chosen may be a cache of VRPs
// that is not back yet, and must not lose them (rib.Publisher.Withheld).
//
//	Publisher -> Generation -> Saver -> file -> Load -> Saved.Restore -> rib.Restoration
//
// A Saver does all that a service needs: Restore at the start, Run while it goes, SaveNow at the
// end. docs/adr/0016-saved-generation.md says why routes come back as stale ones of their peers.
//
// # The file
//
// Numbers of fixed size are little-endian. A uvarint has 7 bits a byte, the lowest first, and the
// top bit of all its bytes but the last set. A string is a uvarint, its length, and so many bytes. An
// address is a string of 0 (none), 4 or 16 bytes, or of 16 and a zone.
//
// The file is a header, blocks, and nothing behind the last block:
//
//	header             block
//	0  8 magic         0   4 length n of the content, 16 MiB at most
//	8  4 version       4   1 kind
//	12 8 created       5   n content
//	20 4 checksum      5+n 4 checksum
//
// A checksum is the CRC-32C of all that stands before it in the file, other checksums left out. So
// each block's is the total of the file up to there, and a block that is missing, from elsewhere or
// in another's place is found as surely as a damaged one. Times are nanoseconds since 1970, UTC.
//
// Blocks by kind:
//
//	1 table   string name; uvarint number of the generation; uvarint IPv4 routes; uvarint IPv6 routes.
//	          Several of one name are parts of one
//	2 peers   of the table before, numbered on from 0, each:
//	          string name; string kind; address; uvarint AS; address: the BGP identifier;
//	          8 bytes: since when its stale routes are stale, 0 where none is
//	3 routes  of the table before, in batches
//	4 end     uvarint tables; uvarint routes in all of them; always the last block
//
// A batch is at most 1024 routes of one family from one peer with the same attributes:
//
//	uvarint  number of the peer
//	1 byte   flags: 1 IPv6, 2 path identifiers, 4 stale, 8 has MED, 16 has LOCAL_PREF, 32 has OTC
//	1 byte   origin
//	1 byte   length of the cluster list
//	4 bytes  originator, as on the wire; 0 for none
//	uvarint  MED; uvarint LOCAL_PREF; uvarint OTC
//	address  next hop
//	string   AS path; string communities; string large and string extended ones: as rib packs them
//	uvarint  number of routes, then each: 4 bytes path identifier with flag 2; 1 byte length of the
//	         prefix in bits; as many bytes of the address as hold them
//
// Routes are grouped so because that is how rib.Restoration wants them. Attributes are written
// once for a batch, nothing refers to another block, and reading needs no memory but the file's.
//
// The file is not compressed: see docs/adr/0016-saved-generation.md for what was measured.
package snapshot
