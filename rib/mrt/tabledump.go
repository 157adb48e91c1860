package mrt

import (
	"fmt"
	"net/netip"

	"github.com/ribwarp/ribwarp/rib"
)

// tableDump reads a TABLE_DUMP record (RFC 6396, section 4.2): one route of one peer. Subtypes
// 1 and 2 are IPv4 and IPv6 with 2-byte AS numbers; 3 and 4, which some collectors wrote before
// TABLE_DUMP_V2, the same with 4-byte ones.
func (l *loader) tableDump(rec record) error {
	if rec.subtype < 1 || rec.subtype > 4 {
		return fmt.Errorf("subtype %d is none of IPv4 and IPv6", rec.subtype)
	}
	v6, width := rec.subtype%2 == 0, 2
	if rec.subtype > 2 {
		width = 4
	}
	c := cursor{b: rec.body}
	c.take(4) // view and sequence number
	addr, bits := c.addr(v6), int(c.u8())
	c.take(5) // status and time
	from, as := c.addr(v6), c.as(width)
	attrs := c.take(int(c.u16()))
	if c.short {
		return errShort
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return fmt.Errorf("prefix %s/%d: length out of range", addr, bits)
	}
	p, err := l.peer(peerKey{addr: from, as: as}, netip.Addr{})
	if err != nil {
		return &fatalError{err}
	}
	l.route(rec, p, rib.NLRI{Prefix: prefix}, attrs, width == 2)
	return nil
}
