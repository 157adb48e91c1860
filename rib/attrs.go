package rib

import (
	"net/netip"
	"unique"
	"unsafe"
)

// Origin codes of RFC 4271, section 5.1.1; lower is preferred.
const (
	OriginIGP        uint8 = 0
	OriginEGP        uint8 = 1
	OriginIncomplete uint8 = 2
)

// OriginName is the word for an origin code: "igp", "egp" or "incomplete"; "" for any other.
func OriginName(code uint8) string {
	if code > OriginIncomplete {
		return ""
	}
	return [...]string{OriginIGP: "igp", OriginEGP: "egp", OriginIncomplete: "incomplete"}[code]
}

// Attrs are the path attributes of a route that ribwarp keeps. The type is comparable: equal
// attributes are one interned object (see Path), so the variable-length ones are packed strings.
type Attrs struct {
	NextHop          netip.Addr // zero where the source names none
	ASPath           ASPath
	Communities      Communities      // RFC 1997
	LargeCommunities LargeCommunities // RFC 8092
	ExtCommunities   ExtCommunities   // RFC 4360
	MED              uint32           // meaningful where HasMED
	LocalPref        uint32           // meaningful where HasLocalPref
	OTC              uint32           // RFC 9234; meaningful where HasOTC
	OriginatorID     RouterID         // RFC 4456
	ClusterListLen   uint8            // RFC 4456
	Origin           uint8
	HasMED           bool
	HasLocalPref     bool
	HasOTC           bool
}

// size is the memory that a set of attributes takes, in bytes, but for what the allocator and
// the interning add.
func (a *Attrs) size() int {
	return int(unsafe.Sizeof(*a)) + len(a.ASPath) + len(a.Communities) + len(a.LargeCommunities) + len(a.ExtCommunities)
}

// A RouterID is a BGP identifier in the 4 bytes that it has on the wire: a netip.Addr would be a
// fifth of Attrs. The zero RouterID is none, as 0.0.0.0 is no valid one (RFC 6286, 2.1).
type RouterID [4]byte

// MakeRouterID is the inverse of Addr; what is no IPv4 address gives none.
func MakeRouterID(a netip.Addr) RouterID {
	if !a.Is4() {
		return RouterID{}
	}
	return a.As4()
}

// Addr gives the identifier as routers write it, the zero Addr for none.
func (id RouterID) Addr() netip.Addr {
	if id == (RouterID{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom4(id)
}

// Path is an interned Attrs: equal attributes give equal Paths, compared as pointers, and go
// with their last user. The zero Path holds no attributes: call Value only where it is not zero.
type Path = unique.Handle[Attrs]
