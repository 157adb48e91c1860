package bmp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// A distinguisher tells a router's VRFs apart (RFC 7854, 4.2): a route distinguisher, a number of
// the router's own, or 0 for the global instance.
type distinguisher uint64

// String is the distinguisher as routers write it (RFC 4364, 4.2), "global" for 0. A number in 4
// bytes that fits into 2 has a dot (RFC 5396), so that no two distinguishers look the same.
func (d distinguisher) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(d))
	four, last := binary.BigEndian.Uint32(b[2:]), binary.BigEndian.Uint16(b[6:])
	switch kind := binary.BigEndian.Uint16(b[:]); {
	case d == 0:
		return "global"
	case kind == 0:
		return fmt.Sprintf("%d:%d", binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint32(b[4:]))
	case kind == 1:
		return fmt.Sprintf("%s:%d", netip.AddrFrom4([4]byte(b[2:6])), last)
	case kind == 2 && four < 1<<16:
		return fmt.Sprintf("0.%d:%d", four, last)
	case kind == 2:
		return fmt.Sprintf("%d:%d", four, last)
	}
	return fmt.Sprintf("%#016x", uint64(d))
}
