package bgpls

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib/igp"
)

// An Update is what a message says about link state.
type Update struct {
	// Reach and Unreach are objects and NLRIs, each by its bytes.
	Reach    []Object
	Unreach  []string
	EndOfRIB bool // nothing but the end of the first load (RFC 4724)
	Parts    int  // MP_REACH_NLRI and MP_UNREACH_NLRI of link state

	// Discarded are NLRIs that are malformed and were left out (NLRI discard), Ignored those of kinds that are
	// not kept, and AttributeDiscarded says that the NLRIs have no attributes, since these are malformed (RFC 9552,
	// 8.2.2). Reason is about the first that is malformed.
	Discarded, Ignored int
	AttributeDiscarded bool
	Reason             string
}

// An Object is an NLRI with what is kept of its attributes.
type Object struct {
	key  string // its bytes: type and value
	kind bgp.LsNLRIType

	protocol      bgp.LsProtocolID
	local, remote nodeID
	ends          ends         // of a link
	prefix        netip.Prefix // of a prefix

	name      string
	overload  bool
	metric    uint32
	hasMetric bool
	addresses []netip.Addr // of the local node
	others    []netip.Addr // of the remote node
}

// A nodeID tells routers apart, whatever level or area says it: instance, AS, BGP-LS identifier and
// IGP router.
type nodeID struct {
	instance uint64
	as, ls   uint32
	router   string
}

// ends are what tells links between the same nodes apart.
type ends struct {
	local4, remote4, local6, remote6 netip.Addr
	localID, remoteID                uint32
	hasID                            bool
}

// errMalformed is damage in the lengths of NLRIs, so that what follows cannot be read.
var errMalformed = errors.New("link-state NLRI: lengths do not add up")

// errIgnored is about an NLRI whose kind is not kept: no damage.
var errIgnored = errors.New("not kept")

// The codec's decoders of NLRIs lose their place behind a sub-TLV that they do not know, know neither
// metrics of prefixes nor a default route, and pass topologies over. So TLVs are gone through here.
const (
	tlvHeader = 4
	tlvMetric = bgp.LS_TLV_PREFIX_METRIC

	flagOverload = 0x80 // of LS_TLV_NODE_FLAG_BITS

	isisIPv6 = 2 // MT-ID (RFC 5120)
)

// Decode finds what an UPDATE, without its header, says about link state. withdraw takes what is announced for
// withdrawn, as damage elsewhere in the message may have it (RFC 7606). After an error nothing of it can be used: the
// family, or the session, has to end. It never panics.
func Decode(body []byte, withdraw bool) (u Update, err error) {
	defer func() {
		if p := recover(); p != nil { // a mistake of ours
			u, err = Update{}, fmt.Errorf("%w: decoding panicked: %v", errMalformed, p)
		}
	}()
	if len(body) < 2 {
		return u, nil // rib/wire says what is wrong with it
	}
	skip := 2 + int(binary.BigEndian.Uint16(body))
	if len(body) < skip+2 {
		return u, nil
	}
	rest := body[skip+2:]
	if n := int(binary.BigEndian.Uint16(body[skip:])); n <= len(rest) {
		rest = rest[:n]
	}
	var reach, attributes []byte
	var has [256]bool
	count := 0
	for len(rest) >= 3 {
		head, length := 3, int(rest[2])
		flags, kind := rest[0], bgp.BGPAttrType(rest[1])
		if flags&uint8(bgp.BGP_ATTR_FLAG_EXTENDED_LENGTH) != 0 && len(rest) >= 4 {
			head, length = 4, int(binary.BigEndian.Uint16(rest[2:]))
		}
		if len(rest) < head+length {
			break
		}
		value := rest[head : head+length]
		rest = rest[head+length:]
		count++
		again := has[kind]
		has[kind] = true
		switch {
		case again:
		case kind == bgp.BGP_ATTR_TYPE_MP_REACH_NLRI && isLinkState(value):
			u.Parts++
			if len(value) < 5 || len(value) < 5+int(value[3]) {
				return Update{}, errMalformed
			}
			reach = value[5+int(value[3]):]
		case kind == bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI && isLinkState(value):
			u.Parts++
			u.EndOfRIB = len(value) == 3
			if err := u.each(value[3:], func(key string, _ bgp.LsNLRIType, _ []byte) error {
				u.Unreach = append(u.Unreach, key)
				return nil
			}); err != nil {
				return Update{}, err
			}
		case kind == bgp.BGP_ATTR_TYPE_LS:
			attributes = value
			if flags&uint8(bgp.BGP_ATTR_FLAG_OPTIONAL|bgp.BGP_ATTR_FLAG_TRANSITIVE) != uint8(bgp.BGP_ATTR_FLAG_OPTIONAL) {
				u.AttributeDiscarded, u.Reason = true, fmt.Sprintf("link-state attribute with flags %#02x", flags)
			}
		}
	}
	u.EndOfRIB = u.EndOfRIB && count == 1
	if reach == nil {
		u.AttributeDiscarded = false
		return u, nil
	}
	withdraw = withdraw || !has[bgp.BGP_ATTR_TYPE_ORIGIN] || !has[bgp.BGP_ATTR_TYPE_AS_PATH]
	var with Object
	if !u.AttributeDiscarded {
		if err := with.attributes(attributes); err != nil {
			u.AttributeDiscarded, u.Reason, with = true, err.Error(), Object{}
		}
	}
	err = u.each(reach, func(key string, kind bgp.LsNLRIType, value []byte) error {
		o := with
		o.key, o.kind = key, kind
		if err := o.nlri(value); err != nil {
			return err
		}
		if withdraw {
			u.Unreach = append(u.Unreach, key)
		} else {
			u.Reach = append(u.Reach, o)
		}
		return nil
	})
	if err != nil {
		return Update{}, err
	}
	return u, nil
}

// isLinkState tells whether an attribute is of this family.
func isLinkState(value []byte) bool {
	return len(value) >= 3 && binary.BigEndian.Uint16(value) == bgp.AFI_LS && value[2] == bgp.SAFI_LS
}

// each calls f with every NLRI of a list. What f finds malformed is left out, and counted.
func (u *Update) each(list []byte, f func(key string, kind bgp.LsNLRIType, value []byte) error) error {
	for len(list) > 0 {
		if len(list) < tlvHeader {
			return errMalformed
		}
		end := tlvHeader + int(binary.BigEndian.Uint16(list[2:]))
		if len(list) < end {
			return errMalformed
		}
		err := f(string(list[:end]), bgp.LsNLRIType(binary.BigEndian.Uint16(list)), list[tlvHeader:end])
		switch {
		case errors.Is(err, errIgnored):
			u.Ignored++
		case err != nil:
			u.Discarded++
			if u.Reason == "" {
				u.Reason = "link-state NLRI: " + err.Error()
			}
		}
		list = list[end:]
	}
	return nil
}

// tlvs calls f with each TLV of a list, which must be in order where ordered says so (RFC 9552, 5.1).
func tlvs(list []byte, ordered bool, f func(kind uint16, value []byte) error) error {
	last := uint16(0)
	for len(list) > 0 {
		if len(list) < tlvHeader {
			return errors.New("it ends in the header of a TLV")
		}
		kind, end := binary.BigEndian.Uint16(list), tlvHeader+int(binary.BigEndian.Uint16(list[2:]))
		if len(list) < end {
			return fmt.Errorf("TLV %d is longer than what it is in", kind)
		}
		if ordered && kind < last {
			return fmt.Errorf("TLV %d stands behind %d", kind, last)
		}
		if err := f(kind, list[tlvHeader:end]); err != nil {
			return fmt.Errorf("TLV %d: %w", kind, err)
		}
		list, last = list[end:], kind
	}
	return nil
}

// size checks the length of a TLV.
func size(value []byte, want ...int) error {
	for _, n := range want {
		if len(value) == n {
			return nil
		}
	}
	return fmt.Errorf("it has %d bytes", len(value))
}

// nlri reads what the NLRI itself says.
func (o *Object) nlri(value []byte) error {
	if len(value) < 9 {
		return fmt.Errorf("it has %d bytes", len(value))
	}
	is6 := o.kind == bgp.LS_NLRI_TYPE_PREFIX_IPV6
	switch o.kind {
	case bgp.LS_NLRI_TYPE_NODE, bgp.LS_NLRI_TYPE_LINK, bgp.LS_NLRI_TYPE_PREFIX_IPV4, bgp.LS_NLRI_TYPE_PREFIX_IPV6:
	default:
		return errIgnored
	}
	o.protocol = bgp.LsProtocolID(value[0])
	instance := binary.BigEndian.Uint64(value[1:])
	o.local.instance, o.remote.instance = instance, instance
	hasPrefix, counts := false, true
	err := tlvs(value[9:], true, func(kind uint16, v []byte) (err error) {
		switch kind {
		case bgp.LS_TLV_LOCAL_NODE_DESC:
			return o.local.read(v)
		case bgp.LS_TLV_REMOTE_NODE_DESC:
			return o.remote.read(v)
		case bgp.LS_TLV_LINK_ID:
			if err = size(v, 8); err == nil {
				o.ends.localID, o.ends.remoteID, o.ends.hasID = binary.BigEndian.Uint32(v), binary.BigEndian.Uint32(v[4:]), true
			}
		case bgp.LS_TLV_IPV4_INTERFACE_ADDR:
			o.ends.local4, err = address(v, 4)
		case bgp.LS_TLV_IPV4_NEIGHBOR_ADDR:
			o.ends.remote4, err = address(v, 4)
		case bgp.LS_TLV_IPV6_INTERFACE_ADDR:
			o.ends.local6, err = address(v, 16)
		case bgp.LS_TLV_IPV6_NEIGHBOR_ADDR:
			o.ends.remote6, err = address(v, 16)
		case bgp.LS_TLV_MULTI_TOPO_ID:
			if len(v) == 0 || len(v)%2 != 0 {
				return fmt.Errorf("it has %d bytes", len(v))
			}
			topology := binary.BigEndian.Uint16(v) & 0x0fff
			counts = topology == 0 || topology == isisIPv6 && is6
		case bgp.LS_TLV_IP_REACH_INFO:
			o.prefix, err = reachable(v, is6)
			hasPrefix = err == nil
		}
		return err
	})
	isPrefix := is6 || o.kind == bgp.LS_NLRI_TYPE_PREFIX_IPV4
	switch {
	case err != nil:
		return err
	case !counts, o.local.router == "", o.kind == bgp.LS_NLRI_TYPE_LINK && o.remote.router == "", isPrefix && !hasPrefix:
		return errIgnored // of another topology, or of no IGP: BGP's own links have other identifiers (RFC 9086)
	}
	return nil
}

// read takes in a node descriptor.
func (n *nodeID) read(v []byte) error {
	return tlvs(v, true, func(kind uint16, v []byte) (err error) {
		switch kind {
		case bgp.LS_TLV_AS:
			if err = size(v, 4); err == nil {
				n.as = binary.BigEndian.Uint32(v)
			}
		case bgp.LS_TLV_BGP_LS_ID:
			if err = size(v, 4); err == nil {
				n.ls = binary.BigEndian.Uint32(v)
			}
		case bgp.LS_TLV_IGP_ROUTER_ID:
			if err = size(v, 4, 6, 7, 8); err == nil {
				n.router = string(v)
			}
		}
		return err
	})
}

// address reads an address of so many bytes.
func address(v []byte, n int) (netip.Addr, error) {
	if err := size(v, n); err != nil {
		return netip.Addr{}, err
	}
	a, _ := netip.AddrFromSlice(v)
	return a, nil
}

// reachable reads a prefix: its length in bits and no more bytes than these take.
func reachable(v []byte, is6 bool) (netip.Prefix, error) {
	n := 4
	if is6 {
		n = 16
	}
	if len(v) < 1 || int(v[0]) > 8*n || len(v) != 1+(int(v[0])+7)/8 {
		return netip.Prefix{}, errors.New("its prefix has not the length that it says")
	}
	full := make([]byte, n)
	copy(full, v[1:])
	a, _ := netip.AddrFromSlice(full)
	return a.Prefix(int(v[0]))
}

// attributes reads the link-state attribute, whatever kind of NLRI it is of.
func (o *Object) attributes(list []byte) error {
	err := tlvs(list, false, func(kind uint16, v []byte) (err error) {
		switch kind {
		case bgp.LS_TLV_NODE_FLAG_BITS:
			if err = size(v, 1); err == nil {
				o.overload = v[0]&flagOverload != 0
			}
		case bgp.LS_TLV_NODE_NAME:
			o.name = string(v)
		case bgp.LS_TLV_IPV4_LOCAL_ROUTER_ID, bgp.LS_TLV_IPV6_LOCAL_ROUTER_ID, bgp.LS_TLV_IPV4_REMOTE_ROUTER_ID, bgp.LS_TLV_IPV6_REMOTE_ROUTER_ID:
			n := 4
			if kind == bgp.LS_TLV_IPV6_LOCAL_ROUTER_ID || kind == bgp.LS_TLV_IPV6_REMOTE_ROUTER_ID {
				n = 16
			}
			var a netip.Addr
			if a, err = address(v, n); err != nil {
				return err
			}
			if kind == bgp.LS_TLV_IPV4_LOCAL_ROUTER_ID || kind == bgp.LS_TLV_IPV6_LOCAL_ROUTER_ID {
				o.addresses = append(o.addresses, a)
			} else {
				o.others = append(o.others, a)
			}
		case bgp.LS_TLV_IGP_METRIC:
			if err = size(v, 1, 2, 3); err != nil {
				return err
			}
			o.metric, o.hasMetric = 0, true
			for _, b := range v {
				o.metric = o.metric<<8 | uint32(b)
			}
			if len(v) == 1 { // two bits of an IS-IS metric of 6 are flags
				o.metric &= 63
			}
		case tlvMetric:
			if err = size(v, 4); err == nil {
				o.metric, o.hasMetric = binary.BigEndian.Uint32(v), true
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("link-state attribute: %w", err)
	}
	return nil
}

// What takes a direction or a prefix out.
const (
	maxWide       = 1<<24 - 1  // RFC 5305, 3
	maxISISPrefix = 0xfe000000 // larger ones: RFC 5305, 4
	maxOSPFPrefix = 1<<24 - 1  // LSInfinity, RFC 2328, B
)

func (o *Object) isis() bool {
	return o.protocol == bgp.LS_PROTOCOL_ISIS_L1 || o.protocol == bgp.LS_PROTOCOL_ISIS_L2
}

func (o *Object) ospf() bool {
	return o.protocol == bgp.LS_PROTOCOL_OSPF_V2 || o.protocol == bgp.LS_PROTOCOL_OSPF_V3
}

// linkMetric is the metric of a link's direction.
func (o *Object) linkMetric() uint32 {
	if !o.hasMetric || o.isis() && o.metric == maxWide {
		return igp.Unused
	}
	return o.metric
}

// prefixMetric is the metric of a prefix.
func (o *Object) prefixMetric() uint32 {
	if o.isis() && o.metric > maxISISPrefix || o.ospf() && o.metric >= maxOSPFPrefix {
		return igp.Unused
	}
	return o.metric
}
