package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib"
)

// Attributes are the path attributes of a message or of a dumped route.
type Attributes struct {
	rib.Attrs       // NextHop is that of NEXT_HOP
	Reach     Reach // MP_REACH_NLRI
	Unreach   Reach // MP_UNREACH_NLRI; it has no next hop

	HasOrigin, HasASPath, HasNextHop bool

	// Ignored counts MP_REACH_NLRI and MP_UNREACH_NLRI of families that are not kept.
	Ignored int
	// Count is the number of attributes, those that are not kept among them.
	Count int
}

// Reach is the content of an MP_REACH_NLRI or MP_UNREACH_NLRI; Family is NoFamily without one.
type Reach struct {
	Family  Family
	NextHop netip.Addr // the global one where an attribute holds two
	NLRI    []rib.NLRI
}

// has is a set of attribute types.
type has [4]uint64

func (h *has) add(t byte) (first bool) {
	bit := uint64(1) << (t & 63)
	first = h[t>>6]&bit == 0
	h[t>>6] |= bit
	return first
}

// A rule says how an attribute is treated.
type rule struct {
	kept     bool
	damage   Verdict // what it costs where it cannot be decoded (RFC 7606, section 7)
	internal bool    // of no meaning from another AS (RFC 7606, sections 7.5, 7.9 and 7.10)
	twoByte  bool    // of no meaning among speakers of 4-byte AS numbers (RFC 6793, section 4.1)
}

// rules lists the attributes that are decoded. All others are passed over: nothing is kept of
// them, so damage in them could only have them discarded.
var rules = [256]rule{
	bgp.BGP_ATTR_TYPE_ORIGIN:               {kept: true, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_AS_PATH:              {kept: true, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_NEXT_HOP:             {kept: true, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_MULTI_EXIT_DISC:      {kept: true, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_LOCAL_PREF:           {kept: true, damage: TreatAsWithdraw, internal: true},
	bgp.BGP_ATTR_TYPE_AGGREGATOR:           {kept: true, damage: AttributeDiscard, twoByte: true},
	bgp.BGP_ATTR_TYPE_COMMUNITIES:          {kept: true, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_ORIGINATOR_ID:        {kept: true, damage: TreatAsWithdraw, internal: true},
	bgp.BGP_ATTR_TYPE_CLUSTER_LIST:         {kept: true, damage: TreatAsWithdraw, internal: true},
	bgp.BGP_ATTR_TYPE_MP_REACH_NLRI:        {kept: true, damage: SessionReset},
	bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI:      {kept: true, damage: SessionReset},
	bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES: {kept: true, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_AS4_PATH:             {kept: true, damage: AttributeDiscard, twoByte: true},
	bgp.BGP_ATTR_TYPE_AS4_AGGREGATOR:       {kept: true, damage: AttributeDiscard, twoByte: true},
	bgp.BGP_ATTR_TYPE_LARGE_COMMUNITY:      {kept: true, damage: TreatAsWithdraw},
	typeOTC:                                {kept: true, damage: TreatAsWithdraw},
}

// typeOTC is Only to Customer (RFC 9234, 5), which the codec passes on as it came.
const typeOTC = 35

// paths are the attributes that make up the AS path of a speaker of 2-byte AS numbers.
type paths struct {
	path, path4    []segment
	aggregator     uint32 // AS of AGGREGATOR, asTrans without one
	has4Aggregator bool
}

// attributes decodes a list of path attributes into d.attrs. What is wrong goes to d.damage.
func (d *Decoder) attributes(list []byte) {
	d.attrs = Attributes{}
	d.paths = paths{aggregator: asTrans}
	var seen has
	for len(list) > 0 {
		size, length := 3, 0
		extended := list[0]&uint8(bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH) != 0
		if extended {
			size = 4
		}
		if len(list) < size {
			d.worse(TreatAsWithdraw, subcodeAttributeList, "attributes end in the header of one")
			break
		}
		if extended {
			length = int(binary.BigEndian.Uint16(list[2:]))
		} else {
			length = int(list[2])
		}
		if len(list) < size+length {
			d.worse(TreatAsWithdraw, subcodeLength, "%s is longer than all attributes", bgp.BGPAttrType(list[1]))
			break
		}
		d.attrs.Count++
		d.attribute(list[:size+length], list[size:size+length], seen.add(list[1]))
		list = list[size+length:]
	}
	if d.opt.TwoByteAS {
		p := &d.paths
		// An aggregator that wrote its 2-byte number has dropped the path before it, so what
		// AS4_PATH says is about another route (RFC 6793, section 4.2.3).
		if !(p.has4Aggregator && p.aggregator != asTrans) {
			p.path = merge(p.path, p.path4)
		}
		d.attrs.ASPath = pack(p.path)
	}
}

// attribute takes in one attribute: whole with its header, value without.
func (d *Decoder) attribute(whole, value []byte, first bool) {
	flags, kind := bgp.BGPAttrFlag(whole[0]), bgp.BGPAttrType(whole[1])
	r := rules[kind]
	switch {
	case !r.kept:
		if flags&bgp.BGP_ATTR_FLAG_OPTIONAL == 0 && kind != bgp.BGP_ATTR_TYPE_ATOMIC_AGGREGATE {
			d.worse(SessionReset, subcodeWellKnown, "attribute %d is unknown and not optional", kind)
		}
		return
	case r.internal && d.opt.External, r.twoByte && !d.opt.TwoByteAS:
		return
	case !first && r.damage == SessionReset:
		d.worse(SessionReset, subcodeAttributeList, "%s occurs twice", kind)
		return
	case !first:
		d.worse(AttributeDiscard, subcodeAttributeList, "%s occurs twice", kind)
		return
	}
	codec := d.codec
	if kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI || kind == bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI {
		switch {
		case d.opt.dumped() && len(value) > 0 && value[0] != 0:
			codec = d.dump // only the next hop, whose length is not 0 as the first byte of a family is
		case len(value) < 3:
			d.worse(SessionReset, subcodeOptionalAttribute, "%s ends before the address family", kind)
			return
		case familyOf(binary.BigEndian.Uint16(value), value[2]) == NoFamily:
			d.attrs.Ignored++
			return
		}
	}
	attr, err := d.decode(whole, codec)
	if err == nil {
		err = d.keep(attr, value)
	}
	if err != nil {
		subcode := uint8(subcodeOptionalAttribute)
		var known *bgp.MessageError
		var own *Damage
		switch {
		case errors.As(err, &known):
			subcode = known.SubTypeCode
		case errors.As(err, &own):
			subcode = own.Subcode
		}
		d.worse(r.damage, subcode, "%s: %v", kind, err)
	}
}

// decode runs the codec over one attribute.
func (d *Decoder) decode(whole []byte, codec []*bgp.MarshallingOption) (attr bgp.PathAttributeInterface, err error) {
	defer d.recovered(&err)
	if attr, err = bgp.GetPathAttribute(whole); err != nil {
		return nil, err
	}
	return attr, attr.DecodeFromBytes(whole, codec...)
}

// wrong is an error of an attribute that the codec has no objection to.
func wrong(subcode uint8, format string, args ...any) error {
	return &Damage{Reason: fmt.Sprintf(format, args...), Code: codeUpdate, Subcode: subcode}
}

// keep puts a decoded attribute into d.attrs. The packed forms in package rib are the attribute's
// bytes, which the codec has found sound.
func (d *Decoder) keep(attr bgp.PathAttributeInterface, value []byte) error {
	as := &d.attrs
	switch a := attr.(type) {
	case *bgp.PathAttributeOrigin:
		if len(value) != 1 || a.Value > rib.OriginIncomplete {
			return wrong(subcodeOrigin, "neither IGP, EGP nor incomplete")
		}
		as.Origin, as.HasOrigin = a.Value, true
	case *bgp.PathAttributeAsPath:
		if d.opt.TwoByteAS {
			path, err := segments(value, 2)
			if err != nil {
				return wrong(subcodeASPath, "%v", err)
			}
			d.paths.path = path
		} else {
			if err := checkASPath(value); err != nil {
				return wrong(subcodeASPath, "%v", err)
			}
			as.ASPath = rib.ASPath(value)
		}
		as.HasASPath = true
	case *bgp.PathAttributeAs4Path:
		path, err := segments(value, 4)
		if err != nil {
			return wrong(subcodeOptionalAttribute, "%v", err)
		}
		d.paths.path4 = path
	case *bgp.PathAttributeAggregator:
		if len(value) != 6 {
			return wrong(subcodeLength, "not of a 2-byte AS number")
		}
		d.paths.aggregator = a.Value.AS
	case *bgp.PathAttributeAs4Aggregator:
		d.paths.has4Aggregator = true
	case *bgp.PathAttributeNextHop:
		hop, ok := netip.AddrFromSlice(value)
		if !ok || !hop.Is4() || hop.IsUnspecified() || hop.IsMulticast() {
			return wrong(subcodeNextHop, "not the IPv4 address of a host")
		}
		as.NextHop, as.HasNextHop = hop, true
	case *bgp.PathAttributeMultiExitDisc:
		as.MED, as.HasMED = a.Value, true
	case *bgp.PathAttributeLocalPref:
		as.LocalPref, as.HasLocalPref = a.Value, true
	case *bgp.PathAttributeOriginatorId:
		as.OriginatorID = rib.RouterID(value)
	case *bgp.PathAttributeClusterList:
		if len(value) == 0 {
			return wrong(subcodeLength, "empty")
		}
		as.ClusterListLen = uint8(min(len(value)/4, 255))
	case *bgp.PathAttributeCommunities:
		if len(value) == 0 {
			return wrong(subcodeLength, "empty")
		}
		as.Communities = rib.Communities(value)
	case *bgp.PathAttributeExtendedCommunities:
		if len(value) == 0 {
			return wrong(subcodeLength, "empty")
		}
		as.ExtCommunities = rib.ExtCommunities(value)
	case *bgp.PathAttributeLargeCommunities:
		if len(value) == 0 {
			return wrong(subcodeLength, "empty")
		}
		as.LargeCommunities = rib.LargeCommunities(value)
	case *bgp.PathAttributeUnknown: // of those that are kept only typeOTC
		if flags := bgp.BGP_ATTR_FLAG_OPTIONAL | bgp.BGP_ATTR_FLAG_TRANSITIVE; a.Flags&flags != flags {
			return wrong(subcodeFlags, "not optional and transitive")
		}
		if len(value) != 4 {
			return wrong(subcodeLength, "%d bytes instead of an AS number", len(value))
		}
		as.OTC, as.HasOTC = binary.BigEndian.Uint32(value), true
	case *bgp.PathAttributeMpReachNLRI:
		return d.keepReach(a)
	case *bgp.PathAttributeMpUnreachNLRI:
		as.Unreach.Family = familyOf(a.AFI, a.SAFI)
		var err error
		d.mpUnreach, err = d.prefixesMP(d.mpUnreach[:0], a.Value, as.Unreach.Family)
		as.Unreach.NLRI = d.mpUnreach
		return err
	}
	return nil
}

// keepReach takes in an MP_REACH_NLRI.
func (d *Decoder) keepReach(a *bgp.PathAttributeMpReachNLRI) error {
	reach := &d.attrs.Reach
	reach.Family = familyOf(a.AFI, a.SAFI)
	hop, ok := netip.AddrFromSlice(a.Nexthop)
	if other, has := netip.AddrFromSlice(a.LinkLocalNexthop); has && hop.IsUnspecified() {
		hop = other // a neighbour without a global address
	}
	if !ok || reach.Family == IPv6 && hop.Is4() {
		return wrong(subcodeOptionalAttribute, "next hop of %d bytes", len(a.Nexthop))
	}
	reach.NextHop = hop
	if d.opt.dumped() {
		return nil // the prefix is the dumped one
	}
	var err error
	d.mpReach, err = d.prefixesMP(d.mpReach[:0], a.Value, reach.Family)
	reach.NLRI = d.mpReach
	return err
}
