package rib

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Communities are the RFC 1997 communities of a route, 4 bytes each, in received order.
type Communities string

// LargeCommunities are the RFC 8092 communities of a route, 12 bytes each, in received order.
type LargeCommunities string

// ExtCommunities are the RFC 4360 communities of a route, 8 bytes each, in received order.
type ExtCommunities string

// Sizes of one community, in bytes.
const (
	communitySize      = 4
	largeCommunitySize = 12
	extCommunitySize   = 8
)

// MakeCommunities packs values as they are on the wire: AS in the upper half.
func MakeCommunities(v ...uint32) Communities {
	b := make([]byte, 0, len(v)*communitySize)
	for _, c := range v {
		b = binary.BigEndian.AppendUint32(b, c)
	}
	return Communities(b)
}

// Contains tells whether v is one of them.
func (c Communities) Contains(v uint32) bool {
	for ; len(c) >= communitySize; c = c[communitySize:] {
		if uint32At(string(c), 0) == v {
			return true
		}
	}
	return false
}

// Strings gives each as "65000:100". Bytes behind the last whole one are ignored.
func (c Communities) Strings() []string {
	out := make([]string, 0, len(c)/communitySize)
	for ; len(c) >= communitySize; c = c[communitySize:] {
		v := uint32At(string(c), 0)
		out = append(out, fmt.Sprintf("%d:%d", v>>16, v&0xffff))
	}
	return out
}

// MakeLargeCommunities packs values of global administrator, local data 1 and local data 2.
func MakeLargeCommunities(v ...[3]uint32) LargeCommunities {
	b := make([]byte, 0, len(v)*largeCommunitySize)
	for _, c := range v {
		for _, part := range c {
			b = binary.BigEndian.AppendUint32(b, part)
		}
	}
	return LargeCommunities(b)
}

// Strings gives each as "64500:1:2". Bytes behind the last whole one are ignored.
func (c LargeCommunities) Strings() []string {
	out := make([]string, 0, len(c)/largeCommunitySize)
	for ; len(c) >= largeCommunitySize; c = c[largeCommunitySize:] {
		s := string(c)
		out = append(out, fmt.Sprintf("%d:%d:%d", uint32At(s, 0), uint32At(s, 4), uint32At(s, 8)))
	}
	return out
}

// MakeExtCommunities packs values as they are on the wire: type, subtype, six bytes of value.
func MakeExtCommunities(v ...[8]byte) ExtCommunities {
	b := make([]byte, 0, len(v)*extCommunitySize)
	for _, c := range v {
		b = append(b, c[:]...)
	}
	return ExtCommunities(b)
}

// Strings gives route targets as "rt:64500:1" and routes' sites of origin as "soo:64500:1",
// with an address in the AS's place where the community holds one; every other community is
// "0x" and its 16 hexadecimal digits. Bytes behind the last whole one are ignored.
func (c ExtCommunities) Strings() []string {
	out := make([]string, 0, len(c)/extCommunitySize)
	for ; len(c) >= extCommunitySize; c = c[extCommunitySize:] {
		out = append(out, extCommunityString(string(c[:extCommunitySize])))
	}
	return out
}

// extCommunityString formats one community. The transitive types 0 to 2 (RFC 4360, 3.1 and
// 3.2; RFC 5668) differ in how they split the value into administrator and number.
func extCommunityString(c string) string {
	kind, subtype := c[0], c[1]
	var name string
	switch subtype {
	case 2:
		name = "rt"
	case 3:
		name = "soo"
	}
	if name == "" || kind > 2 {
		return fmt.Sprintf("0x%x", c)
	}
	switch kind {
	case 0: // 2-byte AS, 4-byte number
		return fmt.Sprintf("%s:%d:%d", name, uint32At(c, 0)&0xffff, uint32At(c, 4))
	case 1: // IPv4 address, 2-byte number
		return fmt.Sprintf("%s:%s:%d", name, netip.AddrFrom4([4]byte{c[2], c[3], c[4], c[5]}), uint32At(c, 4)&0xffff)
	default: // 4-byte AS, 2-byte number
		return fmt.Sprintf("%s:%d:%d", name, uint32At(c, 2), uint32At(c, 4)&0xffff)
	}
}
