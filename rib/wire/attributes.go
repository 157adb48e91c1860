package wire

import (
	"bytes"
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
	Ignored      int
	ignoredReach bool // an MP_REACH_NLRI was among them
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
	known    bool
	flags    bgp.BGPAttrFlag // which of "optional" and "transitive" it has to have
	size     int             // its length; 0: not a fixed one
	list     int             // the length of each of its elements, of which there is one at least; 0: no list
	damage   Verdict         // what it costs where it cannot be decoded (RFC 7606, section 7)
	internal bool            // of no meaning from another AS (RFC 7606, sections 7.5, 7.9 and 7.10)
	twoByte  bool            // of no meaning among speakers of 4-byte AS numbers (RFC 6793, section 4.1)
}

const (
	isOptional   = bgp.BGP_ATTR_FLAG_OPTIONAL
	isTransitive = bgp.BGP_ATTR_FLAG_TRANSITIVE

	// ruledFlags are those that an attribute's type prescribes (RFC 7606, section 3 c). The
	// others say how it came here, and the low four bits nothing at all (RFC 4271, section 4.3).
	ruledFlags = isOptional | isTransitive
)

// rules lists the attributes that are decoded. All others are passed over: nothing is kept of
// them, so damage in them could only have them discarded.
var rules = [256]rule{
	bgp.BGP_ATTR_TYPE_ORIGIN:               {known: true, flags: isTransitive, size: 1, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_AS_PATH:              {known: true, flags: isTransitive, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_NEXT_HOP:             {known: true, flags: isTransitive, size: 4, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_MULTI_EXIT_DISC:      {known: true, flags: isOptional, size: 4, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_LOCAL_PREF:           {known: true, flags: isTransitive, size: 4, damage: TreatAsWithdraw, internal: true},
	bgp.BGP_ATTR_TYPE_ATOMIC_AGGREGATE:     {known: true, flags: isTransitive, damage: AttributeDiscard},
	bgp.BGP_ATTR_TYPE_AGGREGATOR:           {known: true, flags: isOptional | isTransitive, damage: AttributeDiscard},
	bgp.BGP_ATTR_TYPE_COMMUNITIES:          {known: true, flags: isOptional | isTransitive, list: 4, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_ORIGINATOR_ID:        {known: true, flags: isOptional, size: 4, damage: TreatAsWithdraw, internal: true},
	bgp.BGP_ATTR_TYPE_CLUSTER_LIST:         {known: true, flags: isOptional, list: 4, damage: TreatAsWithdraw, internal: true},
	bgp.BGP_ATTR_TYPE_MP_REACH_NLRI:        {known: true, flags: isOptional, damage: SessionReset},
	bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI:      {known: true, flags: isOptional, damage: SessionReset},
	bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES: {known: true, flags: isOptional | isTransitive, list: 8, damage: TreatAsWithdraw},
	bgp.BGP_ATTR_TYPE_AS4_PATH:             {known: true, flags: isOptional | isTransitive, damage: AttributeDiscard, twoByte: true},
	bgp.BGP_ATTR_TYPE_AS4_AGGREGATOR:       {known: true, flags: isOptional | isTransitive, size: 8, damage: AttributeDiscard, twoByte: true},
	bgp.BGP_ATTR_TYPE_LARGE_COMMUNITY:      {known: true, flags: isOptional | isTransitive, list: 12, damage: TreatAsWithdraw},
	typeOTC:                                {known: true, flags: isOptional | isTransitive, size: 4, damage: TreatAsWithdraw},
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
	var hop *Damage // in NEXT_HOP
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
			verdict, subcode := TreatAsWithdraw, uint8(subcodeLength)
			if rules[list[1]].damage == SessionReset { // prefixes are lost that could not be withdrawn (RFC 7606, section 3 j)
				verdict, subcode = SessionReset, subcodeOptionalAttribute
			}
			d.worse(verdict, subcode, "%s is longer than all attributes", bgp.BGPAttrType(list[1]))
			break
		}
		d.attrs.Count++
		before := d.damage
		d.attribute(list[:size+length], list[size:size+length], seen.add(list[1]))
		if d.damage != before {
			d.damage.Data = bytes.Clone(list[:size+length])
			if list[1] == byte(bgp.BGP_ATTR_TYPE_NEXT_HOP) {
				hop, d.damage = d.damage, before
			}
		}
		list = list[size+length:]
	}
	// NEXT_HOP means nothing where all prefixes are in MP_REACH_NLRI (RFC 4760, section 3).
	unused := len(d.reach) == 0
	if d.opt.dumped() {
		unused = d.opt.Dumped == IPv6
	}
	reach := !seen.add(byte(bgp.BGP_ATTR_TYPE_MP_REACH_NLRI))
	if hop != nil && !(unused && reach) && (d.damage == nil || d.damage.Verdict < hop.Verdict) {
		d.damage = hop
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
	case !first && r.damage == SessionReset:
		d.worse(SessionReset, subcodeAttributeList, "%s occurs twice", kind)
		return
	case !first:
		d.worse(AttributeDiscard, subcodeAttributeList, "%s occurs twice", kind)
		return
	case !r.known && flags&isOptional == 0:
		d.worse(SessionReset, subcodeWellKnown, "attribute %d is unknown and not optional", kind)
		return
	case !r.known:
		return
	case d.opt.dumped() && !d.opt.TwoByteAS && kind == bgp.BGP_ATTR_TYPE_AGGREGATOR:
		return // collectors leave it as it was when they write the path in 4 bytes
	case r.internal && d.opt.External, r.twoByte && !d.opt.TwoByteAS:
		if !d.opt.dumped() && !d.opt.Mirrored {
			d.worse(AttributeDiscard, subcodeOptionalAttribute, "%s means nothing from this peer", kind)
		}
		return
	case (flags^r.flags)&ruledFlags != 0:
		subcode := uint8(subcodeFlags)
		if r.damage == SessionReset {
			subcode = subcodeOptionalAttribute // RFC 7606, section 5.3
		}
		d.worse(max(r.damage, TreatAsWithdraw), subcode, "%s has flags %#02x", kind, whole[0])
		return
	case r.size > 0 && len(value) != r.size, r.list > 0 && (len(value) == 0 || len(value)%r.list != 0):
		d.worse(r.damage, subcodeLength, "%s has %d bytes", kind, len(value))
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
			if kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI && len(value) < 5 { // RFC 7606, section 5.3, whatever the family
				d.worse(SessionReset, subcodeOptionalAttribute, "%s has %d bytes", kind, len(value))
				return
			}
			d.attrs.Ignored++
			d.attrs.ignoredReach = d.attrs.ignoredReach || kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI
			return
		}
	}
	if kind == bgp.BGP_ATTR_TYPE_EXTENDED_COMMUNITIES {
		// The codec objects to subtypes that it does not know, which are no error (RFC 7606,
		// section 7.14).
		d.attrs.ExtCommunities = rib.ExtCommunities(value)
		return
	}
	if other := ^byte(ruledFlags | bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH); whole[0]&other != 0 { // to the codec they are errors
		d.whole = append(d.whole[:0], whole...)
		d.whole[0] &^= other
		whole = d.whole
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
		case r.damage == SessionReset: // RFC 4760, section 7, whatever is wrong
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
		if a.Value > rib.OriginIncomplete {
			return wrong(subcodeOrigin, "neither IGP, EGP nor incomplete")
		}
		as.Origin, as.HasOrigin = a.Value, true
	case *bgp.PathAttributeAsPath:
		last := byte(rib.SegmentConfedSet)
		if d.opt.External && !d.opt.Mirrored {
			last = rib.SegmentSequence
		}
		if d.opt.TwoByteAS {
			path, err := segments(value, 2, last)
			if err != nil {
				return wrong(subcodeASPath, "%v", err)
			}
			d.paths.path = path
		} else {
			if err := checkASPath(value, last); err != nil {
				return wrong(subcodeASPath, "%v", err)
			}
			as.ASPath = rib.ASPath(value)
		}
		as.HasASPath = true
	case *bgp.PathAttributeAs4Path:
		path, err := segments(value, 4, rib.SegmentConfedSet)
		if err == nil && len(path) == 0 {
			err = errors.New("empty") // RFC 6793, section 6
		}
		if err != nil {
			return wrong(subcodeOptionalAttribute, "%v", err)
		}
		d.paths.path4 = path
	case *bgp.PathAttributeAtomicAggregate:
		if len(value) != 0 {
			return wrong(subcodeLength, "%d bytes instead of none", len(value))
		}
	case *bgp.PathAttributeAggregator:
		if d.opt.TwoByteAS != (len(value) == 6) {
			return wrong(subcodeLength, "%d bytes", len(value))
		}
		if a.Value.AS == 0 {
			return wrong(subcodeOptionalAttribute, "AS 0") // RFC 7607
		}
		d.paths.aggregator = a.Value.AS
	case *bgp.PathAttributeAs4Aggregator:
		if a.Value.AS == 0 {
			return wrong(subcodeOptionalAttribute, "AS 0") // RFC 7607
		}
		d.paths.has4Aggregator = true
	case *bgp.PathAttributeNextHop:
		hop := netip.AddrFrom4([4]byte(value))
		if !host4(hop) {
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
		as.ClusterListLen = uint8(min(len(value)/4, 255))
	case *bgp.PathAttributeCommunities:
		as.Communities = rib.Communities(value)
	case *bgp.PathAttributeLargeCommunities:
		as.LargeCommunities = rib.LargeCommunities(value)
	case *bgp.PathAttributeUnknown: // of those that are known only typeOTC
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

// host4 tells whether an IPv4 address may be that of a host (RFC 4271, section 6.3).
func host4(a netip.Addr) bool {
	first := a.As4()[0]
	return first != 0 && first < 224 // neither this network, nor multicast, nor reserved
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
	if hop.IsUnspecified() || hop.IsMulticast() || hop.Is4() && !host4(hop) {
		d.worse(TreatAsWithdraw, subcodeNextHop, "MP_REACH_NLRI: the next hop %s is no host", hop)
	}
	var err error
	d.mpReach, err = d.prefixesMP(d.mpReach[:0], a.Value, reach.Family)
	reach.NLRI = d.mpReach
	return err
}
