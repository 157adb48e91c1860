package bgp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/jwhited/corebgp"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib/wire"
)

// An open is what a peer's OPEN says.
type open struct {
	as        uint32
	routerID  netip.Addr
	holdTime  uint16 // seconds
	fourOctet bool   // it has the capability of RFC 6793
	ipv4      bool
	ipv6      bool
	addPath4  bool // it will send several paths to a prefix (RFC 7911)
	addPath6  bool
}

// options says how the peer's messages are to be read, as both sides have it now.
func (o *open) options(ownAS uint32) wire.Options {
	return wire.Options{TwoByteAS: !o.fourOctet, AddPath4: o.addPath4, AddPath6: o.addPath6, External: o.as != ownAS}
}

// parseOpen decodes the body of an OPEN.
func parseOpen(body []byte) (o *open, err error) {
	defer func() {
		if p := recover(); p != nil {
			o, err = nil, fmt.Errorf("the codec panicked: %v", p)
		}
	}()
	var m bgp.BGPOpen
	if err := m.DecodeFromBytes(body); err != nil {
		return nil, err
	}
	o = &open{as: uint32(m.MyAS), holdTime: m.HoldTime}
	o.routerID, _ = netip.AddrFromSlice(m.ID)
	multiprotocol := false
	for _, param := range m.OptParams {
		list, ok := param.(*bgp.OptionParameterCapability)
		if !ok {
			continue
		}
		for _, c := range list.Capability {
			switch c := c.(type) {
			case *bgp.CapFourOctetASNumber:
				o.as, o.fourOctet = c.CapValue, true
			case *bgp.CapMultiProtocol:
				multiprotocol = true
				o.ipv4 = o.ipv4 || c.CapValue == bgp.RF_IPv4_UC
				o.ipv6 = o.ipv6 || c.CapValue == bgp.RF_IPv6_UC
			case *bgp.CapAddPath:
				for _, t := range c.Tuples {
					sends := t.Mode == bgp.BGP_ADD_PATH_SEND || t.Mode == bgp.BGP_ADD_PATH_BOTH
					o.addPath4 = o.addPath4 || sends && t.RouteFamily == bgp.RF_IPv4_UC
					o.addPath6 = o.addPath6 || sends && t.RouteFamily == bgp.RF_IPv6_UC
				}
			}
		}
	}
	if !multiprotocol {
		o.ipv4 = true // what there was before RFC 4760
	}
	return o, nil
}

const (
	headerLength = 19
	openLength   = headerLength + 10 // without optional parameters
	maxMessage   = 4096
)

// forStateMachine gives the OPEN that corebgp is to see in place of the peer's: it has no
// capability but that of 4-byte AS numbers, which corebgp insists on. A hold time of 0, at
// which corebgp would crash, becomes 1, which it refuses with the right NOTIFICATION.
func (o *open) forStateMachine(message []byte) []byte {
	m := append([]byte(nil), message[:openLength]...)
	holdTime := m[headerLength+3 : headerLength+5]
	if binary.BigEndian.Uint16(holdTime) == 0 {
		holdTime[1] = 1
	}
	if o == nil {
		return append(m, message[openLength:]...) // damaged: corebgp says what is wrong with it
	}
	m = append(m, 2, 6, byte(bgp.BGP_CAP_FOUR_OCTET_AS_NUMBER), 4)
	m = binary.BigEndian.AppendUint32(m, o.as)
	m[openLength-1] = byte(len(m) - openLength)
	binary.BigEndian.PutUint16(m[16:], uint16(len(m)))
	return m
}

// capabilities are what we announce, besides 4-byte AS numbers, which corebgp adds.
func capabilities() []corebgp.Capability {
	const ip, ip6, unicast = bgp.AFI_IP, bgp.AFI_IP6, bgp.SAFI_UNICAST
	return []corebgp.Capability{
		corebgp.NewMPExtensionsCapability(ip, unicast),
		corebgp.NewMPExtensionsCapability(ip6, unicast),
		{Code: uint8(bgp.BGP_CAP_ROUTE_REFRESH)},
		{Code: uint8(bgp.BGP_CAP_EXTENDED_NEXTHOP), Value: []byte{0, ip, 0, unicast, 0, ip6}},
		// No family, no time: we keep nothing over a restart, but are to be sent End-of-RIB.
		{Code: uint8(bgp.BGP_CAP_GRACEFUL_RESTART), Value: []byte{0, 0}},
		corebgp.NewAddPathCapability([]corebgp.AddPathTuple{{AFI: ip, SAFI: unicast, Rx: true}, {AFI: ip6, SAFI: unicast, Rx: true}}),
	}
}

// endOfRIB is the marker of an empty table, without header: we have nothing to tell.
func endOfRIB(ipv6 bool) []byte {
	if !ipv6 {
		return []byte{0, 0, 0, 0}
	}
	return []byte{0, 0, 0, 6, 0x80, uint8(bgp.BGP_ATTR_TYPE_MP_UNREACH_NLRI), 3, 0, bgp.AFI_IP6, bgp.SAFI_UNICAST}
}
