package rib

import (
	"net/netip"
	"unique"
)

// Origin codes of RFC 4271, section 5.1.1; lower is preferred.
const (
	OriginIGP        uint8 = 0
	OriginEGP        uint8 = 1
	OriginIncomplete uint8 = 2
)

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
	OriginatorID     netip.Addr       // RFC 4456; zero where absent
	ClusterListLen   uint8            // RFC 4456
	Origin           uint8
	HasMED           bool
	HasLocalPref     bool
}

// Path is an interned Attrs: equal attributes give equal Paths, compared as pointers, and go
// with their last user. The zero Path holds no attributes: call Value only where it is not zero.
type Path = unique.Handle[Attrs]
