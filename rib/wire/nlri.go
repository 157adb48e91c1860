package wire

import (
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib"
)

// A Family is an address family whose routes are kept.
type Family uint8

const (
	NoFamily Family = iota // none, or one that is not kept
	IPv4                   // IPv4 unicast
	IPv6                   // IPv6 unicast
)

// familyOf names the family of an AFI and SAFI.
func familyOf(afi uint16, safi uint8) Family {
	switch {
	case safi != bgp.SAFI_UNICAST:
		return NoFamily
	case afi == bgp.AFI_IP:
		return IPv4
	case afi == bgp.AFI_IP6:
		return IPv6
	}
	return NoFamily
}

// prefixes4 appends the IPv4 prefixes of the Withdrawn Routes or NLRI field to dst.
func (d *Decoder) prefixes4(dst []rib.NLRI, field []byte) (nlri []rib.NLRI, err error) {
	defer d.recovered(&err)
	skip := 0
	if d.opt.AddPath4 {
		skip = 4
	}
	for len(field) > 0 {
		// One object serves all prefixes: a new one for each would be most of the cost.
		if err := d.prefix.DecodeFromBytes(field, d.codec...); err != nil {
			return dst, err
		}
		n, ok := d.nlri(&d.prefix, IPv4)
		if !ok {
			return dst, fmt.Errorf("prefix of %d bits", d.prefix.Length)
		}
		dst = append(dst, n)
		field = field[skip+d.prefix.Len():]
	}
	return dst, nil
}

// nlri converts a decoded prefix. The codec has cleared the host bits of the last byte it read,
// and the bytes behind it are zero.
func (d *Decoder) nlri(p *bgp.IPAddrPrefix, f Family) (n rib.NLRI, ok bool) {
	switch {
	case f == IPv4 && len(p.Prefix) == 4 && p.Length <= 32:
		n.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte(p.Prefix)), int(p.Length))
		if d.opt.AddPath4 {
			n.PathID = p.PathIdentifier()
		}
	case f == IPv6 && len(p.Prefix) == 16 && p.Length <= 128:
		n.Prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte(p.Prefix)), int(p.Length))
		if d.opt.AddPath6 {
			n.PathID = p.PathIdentifier()
		}
	default:
		return n, false
	}
	return n, true
}

// prefixesMP appends the prefixes of a decoded MP_REACH_NLRI or MP_UNREACH_NLRI to dst.
func (d *Decoder) prefixesMP(dst []rib.NLRI, list []bgp.AddrPrefixInterface, f Family) ([]rib.NLRI, error) {
	for _, p := range list {
		var prefix *bgp.IPAddrPrefix
		switch p := p.(type) {
		case *bgp.IPAddrPrefix:
			prefix = p
		case *bgp.IPv6AddrPrefix:
			prefix = &p.IPAddrPrefix
		default:
			return dst, fmt.Errorf("prefix of type %T", p)
		}
		n, ok := d.nlri(prefix, f)
		if !ok {
			return dst, fmt.Errorf("prefix of %d bits", prefix.Length)
		}
		dst = append(dst, n)
	}
	return dst, nil
}
