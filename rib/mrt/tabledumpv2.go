package mrt

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	codec "github.com/osrg/gobgp/v3/pkg/packet/mrt"

	"github.com/ribwarp/ribwarp/rib"
)

// tableDumpV2 reads a TABLE_DUMP_V2 record (RFC 6396, section 4.3; RFC 8050, section 4).
func (l *loader) tableDumpV2(rec record) error {
	c := cursor{b: rec.body}
	switch codec.MRTSubTypeTableDumpv2(rec.subtype) {
	case codec.PEER_INDEX_TABLE:
		return l.peerIndexTable(rec)
	case codec.RIB_IPV4_UNICAST:
		c.take(4) // sequence number
		return l.ribEntries(rec, c, false, false)
	case codec.RIB_IPV6_UNICAST:
		c.take(4)
		return l.ribEntries(rec, c, true, false)
	case codec.RIB_IPV4_UNICAST_ADDPATH:
		c.take(4)
		return l.ribEntries(rec, c, false, true)
	case codec.RIB_IPV6_UNICAST_ADDPATH:
		c.take(4)
		return l.ribEntries(rec, c, true, true)
	case codec.RIB_GENERIC, codec.RIB_GENERIC_ADDPATH:
		c.take(4)
		afi, safi := c.u16(), c.u8()
		if c.short {
			return errShort
		}
		if afi != bgp.AFI_IP && afi != bgp.AFI_IP6 || safi != bgp.SAFI_UNICAST {
			return errIgnore
		}
		return l.ribEntries(rec, c, afi == bgp.AFI_IP6, codec.MRTSubTypeTableDumpv2(rec.subtype) == codec.RIB_GENERIC_ADDPATH)
	case codec.RIB_IPV4_MULTICAST, codec.RIB_IPV6_MULTICAST, codec.GEO_PEER_TABLE,
		codec.RIB_IPV4_MULTICAST_ADDPATH, codec.RIB_IPV6_MULTICAST_ADDPATH:
		return errIgnore
	}
	return errors.New("unknown subtype")
}

// peerIndexTable reads the peers that the following records name by their index. A file may be
// several dumps one behind the other: a later table replaces the one before, and peers that are
// in both stay the same.
func (l *loader) peerIndexTable(rec record) error {
	l.flush()
	l.index = nil // what follows belongs to this table even where it is damaged
	var table codec.PeerIndexTable
	err := guard(func() error { return table.DecodeFromBytes(rec.body) })
	seen := make(map[peerKey]int)
	for _, entry := range table.Peers { // those before the damage, if there is any
		addr, _ := netip.AddrFromSlice(entry.IpAddress)
		id, _ := netip.AddrFromSlice(entry.BgpId)
		key := peerKey{addr: addr, as: entry.AS}
		nth := seen[key]
		seen[key]++
		key.nth = nth
		p, err := l.peer(key, id)
		if err != nil {
			return &fatalError{err}
		}
		l.index = append(l.index, p)
	}
	if err != nil {
		return fmt.Errorf("peer table: %w", err)
	}
	return nil
}

// ribEntries reads one prefix and the routes that the peers have to it. c stands at the prefix.
func (l *loader) ribEntries(rec record, c cursor, v6, addPath bool) error {
	prefix, ok := c.prefix(v6)
	if !ok {
		return errors.New("no prefix, or its length is out of range")
	}
	n := int(c.u16())
	for i := range n {
		index := int(c.u16())
		c.take(4) // time of origination
		nlri := rib.NLRI{Prefix: prefix}
		if addPath {
			nlri.PathID = c.u32()
		}
		attrs := c.take(int(c.u16()))
		if c.short {
			return fmt.Errorf("%s: entry %d of %d: %w", prefix, i+1, n, errShort)
		}
		if index >= len(l.index) {
			l.problem(rec, KindPeer, fmt.Sprintf("%s: peer %d of the %d in the peer table", prefix, index, len(l.index)), "route left out")
			continue
		}
		l.route(rec, l.index[index], nlri, attrs, false)
	}
	if c.short {
		return errShort
	}
	return nil
}
