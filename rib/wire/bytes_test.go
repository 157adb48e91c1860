package wire

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/ribwarp/ribwarp/rib"
)

// Flags of path attributes.
const (
	wellKnown  = 0x40
	optional   = 0x80
	transitive = 0xc0
)

// attr writes a path attribute.
func attr(flags, kind byte, value ...byte) []byte {
	if len(value) > 255 {
		return append(binary.BigEndian.AppendUint16([]byte{flags | 0x10, kind}, uint16(len(value))), value...)
	}
	return append([]byte{flags, kind, byte(len(value))}, value...)
}

// update writes the body of an UPDATE.
func update(withdrawn []byte, attrs [][]byte, nlri []byte) []byte {
	list := slices.Concat(attrs...)
	b := binary.BigEndian.AppendUint16(nil, uint16(len(withdrawn)))
	b = append(b, withdrawn...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(list)))
	return slices.Concat(b, list, nlri)
}

// sequence is an AS_PATH of one sequence of 4-byte AS numbers.
func sequence(asns ...uint32) []byte {
	b := []byte{rib.SegmentSequence, byte(len(asns))}
	for _, as := range asns {
		b = binary.BigEndian.AppendUint32(b, as)
	}
	return b
}

// sequence2 is an AS_PATH of one sequence of 2-byte AS numbers.
func sequence2(asns ...uint16) []byte {
	b := []byte{rib.SegmentSequence, byte(len(asns))}
	for _, as := range asns {
		b = binary.BigEndian.AppendUint16(b, as)
	}
	return b
}

var (
	origin  = attr(wellKnown, 1, 0)
	asPath  = attr(wellKnown, 2, sequence(64500, 64501)...)
	nextHop = attr(wellKnown, 3, 192, 0, 2, 1)

	global    = netip.MustParseAddr("2001:db8::1").AsSlice()
	linkLocal = netip.MustParseAddr("fe80::1").AsSlice()

	net10    = []byte{8, 10}        // 10.0.0.0/8
	net24    = []byte{24, 10, 1, 2} // 10.1.2.0/24
	netDoc   = []byte{32, 0x20, 0x01, 0x0d, 0xb8}
	netDoc48 = []byte{48, 0x20, 0x01, 0x0d, 0xb8, 0, 1}
)

// reach6 is an MP_REACH_NLRI of IPv6 unicast.
func reach6(hop []byte, nlri ...byte) []byte {
	return attr(optional, 14, slices.Concat([]byte{0, 2, 1, byte(len(hop))}, hop, []byte{0}, nlri)...)
}

// unreach6 is an MP_UNREACH_NLRI of IPv6 unicast.
func unreach6(nlri ...byte) []byte {
	return attr(optional, 15, slices.Concat([]byte{0, 2, 1}, nlri)...)
}

// encode writes an NLRI as the protocol does.
func encode(n rib.NLRI, addPath bool) []byte {
	var b []byte
	if addPath {
		b = binary.BigEndian.AppendUint32(b, n.PathID)
	}
	b = append(b, byte(n.Prefix.Bits()))
	return append(b, n.Prefix.Addr().AsSlice()[:(n.Prefix.Bits()+7)/8]...)
}

func nlris(texts ...string) []rib.NLRI {
	var ns []rib.NLRI
	for _, s := range texts {
		ns = append(ns, rib.NLRI{Prefix: netip.MustParsePrefix(s)})
	}
	return ns
}
