package bmp

import (
	"fmt"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

// An open is what one side's OPEN says that matters for reading UPDATEs.
type open struct {
	as         uint32
	fourOctet  bool // RFC 6793
	ipv4, ipv6 bool // families (RFC 4760)
	// Several paths to a prefix (RFC 7911), by family.
	sends4, sends6, receives4, receives6 bool
}

// parseOpen decodes the body of an OPEN. It never panics.
func parseOpen(body []byte) (o open, err error) {
	defer func() {
		if p := recover(); p != nil {
			o, err = open{}, fmt.Errorf("the codec panicked: %v", p)
		}
	}()
	var m bgp.BGPOpen
	if err := m.DecodeFromBytes(body); err != nil {
		return open{}, err
	}
	o.as = uint32(m.MyAS)
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
					o.addPath(t)
				}
			}
		}
	}
	if !multiprotocol {
		o.ipv4 = true // what there was before RFC 4760
	}
	return o, nil
}

func (o *open) addPath(t *bgp.CapAddPathTuple) {
	sends, receives := t.Mode&bgp.BGP_ADD_PATH_SEND != 0, t.Mode&bgp.BGP_ADD_PATH_RECEIVE != 0
	switch t.RouteFamily {
	case bgp.RF_IPv4_UC:
		o.sends4, o.receives4 = o.sends4 || sends, o.receives4 || receives
	case bgp.RF_IPv6_UC:
		o.sends6, o.receives6 = o.sends6 || sends, o.receives6 || receives
	}
}

// An agreement is what the two OPENs of a Peer Up make of a session.
type agreement struct {
	as, localAS        uint32 // of the peer, of the router
	internal           bool
	ipv4, ipv6         bool
	addPath4, addPath6 bool
	twoByteAS          bool
}

// agree derives it from what the router sent to its peer and received from it. The OPENs of a
// Loc-RIB are made up by the router to say what its messages have (RFC 9069, 4.4): nobody receives
// there.
func agree(sent, received open, locRIB bool) agreement {
	a := agreement{
		as: received.as, localAS: sent.as, internal: locRIB || sent.as == received.as,
		ipv4: sent.ipv4 && received.ipv4, ipv6: sent.ipv6 && received.ipv6,
		addPath4: received.sends4 && sent.receives4, addPath6: received.sends6 && sent.receives6,
		twoByteAS: !sent.fourOctet || !received.fourOctet,
	}
	if locRIB {
		a.addPath4, a.addPath6 = sent.sends4, sent.sends6
	}
	return a
}
