package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib/wire"
)

// Local is what we are to a peer: our side of the OPEN, and what the peer's has to be.
type Local struct {
	AS       uint32
	RouterID netip.Addr    // an IPv4 address, the BGP identifier
	HoldTime time.Duration // whole seconds, 3 to 65535; 0: 90 s. The peer's counts where it is shorter
	// OpenTimeout is how long the peer may take to send its OPEN, and with a hold time of 0 its
	// first KEEPALIVE; 0: 30 s.
	OpenTimeout time.Duration
	PeerAS      uint32 // what the peer must have

	IPv4, IPv6 bool // families to ask for, one at least; the peer has to have one of them
	LinkState  bool // BGP-LS (RFC 9552), as another one
	AddPath    bool // several paths to a prefix (RFC 7911)
	// ExtendedMessages takes messages of up to 65535 bytes from a peer that has them (RFC 8654).
	ExtendedMessages bool
	ExtendedNextHop  bool // IPv4 prefixes with IPv6 next hops (RFC 8950)

	// RestartTime is what the peer is told to wait for us after a restart (RFC 4724), at most
	// 4095 s. With 0 the capability has no families: it then only asks for End-of-RIB, and says
	// that a NOTIFICATION need not end the peer's routes here (RFC 8538).
	RestartTime time.Duration
	Restarting  bool // the R bit: the peer need not wait for our End-of-RIB
	LongLived   bool // we keep routes as long-lived stale (RFC 9494)

	Role       Role // towards an external peer (RFC 9234); NoRole: not announced
	StrictRole bool // the peer has to announce its role as well

	Hostname string // for the peer's operator; empty: not announced
}

const (
	defaultHoldTime    = 90 * time.Second
	defaultOpenTimeout = 30 * time.Second
)

// withDefaults fills in what is left open.
func (l Local) withDefaults() Local {
	if l.HoldTime == 0 {
		l.HoldTime = defaultHoldTime
	}
	if l.OpenTimeout == 0 {
		l.OpenTimeout = defaultOpenTimeout
	}
	return l
}

// Open is what a peer's OPEN says.
type Open struct {
	AS       uint32
	RouterID netip.Addr
	HoldTime time.Duration // 0: it wants no KEEPALIVEs and sends none

	FourOctet          bool // AS numbers of 4 bytes (RFC 6793)
	IPv4, IPv6         bool // without RFC 4760 it has IPv4
	LinkState          bool // BGP-LS (RFC 9552)
	AddPath4, AddPath6 bool // it will send several paths to a prefix (RFC 7911)
	Refresh            bool // RFC 2918
	EnhancedRefresh    bool // RFC 7313
	Extended           bool // RFC 8654
	ExtendedNextHop    bool // IPv4 prefixes with IPv6 next hops (RFC 8950)

	Restart   *Restart   // nil without RFC 4724
	LongLived *LongLived // nil without RFC 9494

	Role    Role // NoRole with HasRole: one that is not known
	HasRole bool // RFC 9234

	Capabilities []uint8 // their codes, each once, in order

	rolesDiffer bool // it has announced several
}

// Restart is the capability of graceful restart (RFC 4724, 3).
type Restart struct {
	Time                     time.Duration // how long it takes at most
	Restarting               bool          // it has restarted
	Notification             bool          // a NOTIFICATION is no reason to drop routes (RFC 8538, 2)
	Listed4, Listed6         bool          // its routes of the family are to be kept
	Forwarding4, Forwarding6 bool          // it has forwarded by them while it restarted
	ListedLS                 bool          // its link state is to be kept
}

// LongLived is the capability of long-lived graceful restart (RFC 9494, 3.1).
type LongLived struct {
	Time4, Time6             time.Duration // how long its routes are to be kept when the restart time is over
	Listed4, Listed6         bool
	Forwarding4, Forwarding6 bool
}

// Collide decides between two connections to a peer that were made from both sides at once:
// the one that the side with the higher BGP identifier has made is kept (RFC 4271, 6.8), with
// the same identifiers that of the higher AS number (RFC 6286, 2.3).
func Collide(ours, theirs netip.Addr, ourAS, theirAS uint32) (keepOurs bool) {
	if c := ours.Compare(theirs); c != 0 {
		return c > 0
	}
	return ourAS > theirAS
}

// capabilityExtendedMessage and capabilityRole are not among the codec's.
const (
	capabilityExtendedMessage bgp.BGPCapabilityCode = 6
	capabilityRole            bgp.BGPCapabilityCode = 9
)

const (
	version             = 4
	asTrans             = 23456 // for AS numbers that do not fit into 2 bytes (RFC 6793)
	parameterCapability = 2
	parameterExtended   = 255 // RFC 9072
	flagForwarding      = 0x80
	flagRestarting      = 0x8 // of four bits
	flagNotification    = 0x4 // of four bits (RFC 8538)
	maxRestartTime      = 4095 * time.Second
)

// families are those that we ask for, in the codec's terms.
func (l *Local) families() []bgp.RouteFamily {
	var all []bgp.RouteFamily
	if l.IPv4 {
		all = append(all, bgp.RF_IPv4_UC)
	}
	if l.IPv6 {
		all = append(all, bgp.RF_IPv6_UC)
	}
	return all
}

// multiprotocol are the capabilities of our families.
func (l *Local) multiprotocol() []bgp.ParameterCapabilityInterface {
	var all []bgp.ParameterCapabilityInterface
	for _, f := range l.families() {
		all = append(all, bgp.NewCapMultiProtocol(f))
	}
	if l.LinkState {
		all = append(all, bgp.NewCapMultiProtocol(bgp.RF_LS))
	}
	return all
}

// openMessage is our OPEN.
func (l *Local) openMessage() []byte {
	caps := l.multiprotocol()
	add := func(c bgp.ParameterCapabilityInterface) { caps = append(caps, c) }
	add(bgp.NewCapRouteRefresh())
	if l.ExtendedNextHop && l.IPv4 {
		add(bgp.NewCapExtendedNexthop([]*bgp.CapExtendedNexthopTuple{bgp.NewCapExtendedNexthopTuple(bgp.RF_IPv4_UC, bgp.AFI_IP6)}))
	}
	if l.ExtendedMessages {
		add(bgp.NewCapUnknown(capabilityExtendedMessage, nil))
	}
	if l.Role != NoRole {
		add(bgp.NewCapUnknown(capabilityRole, []byte{l.Role.value()}))
	}
	restarting := l.Restarting && l.RestartTime > 0
	var kept []*bgp.CapGracefulRestartTuple
	var longKept []*bgp.CapLongLivedGracefulRestartTuple
	var paths []*bgp.CapAddPathTuple
	for _, f := range l.families() {
		if l.RestartTime > 0 {
			kept = append(kept, bgp.NewCapGracefulRestartTuple(f, false))
		}
		// No time: we announce nothing that could be kept.
		longKept = append(longKept, bgp.NewCapLongLivedGracefulRestartTuple(f, false, 0))
		paths = append(paths, bgp.NewCapAddPathTuple(f, bgp.BGP_ADD_PATH_RECEIVE))
	}
	add(bgp.NewCapGracefulRestart(restarting, true, uint16(min(l.RestartTime, maxRestartTime)/time.Second), kept))
	add(bgp.NewCapFourOctetASNumber(l.AS))
	if l.AddPath && len(paths) > 0 {
		add(bgp.NewCapAddPath(paths))
	}
	add(bgp.NewCapEnhancedRouteRefresh())
	if l.LongLived {
		add(bgp.NewCapLongLivedGracefulRestart(longKept))
	}
	if l.Hostname != "" {
		add(bgp.NewCapFQDN(l.Hostname, ""))
	}
	as := l.AS
	if as > 0xffff {
		as = asTrans
	}
	id := l.RouterID.As4()
	body := binary.BigEndian.AppendUint16([]byte{version}, uint16(as))
	body = binary.BigEndian.AppendUint16(body, uint16(l.HoldTime/time.Second))
	body = append(body, id[:]...)
	list := serialize(caps) // all of them take 150 bytes at most
	body = append(body, byte(2+len(list)), parameterCapability, byte(len(list)))
	return message(msgOpen, append(body, list...)...)
}

func serialize(caps []bgp.ParameterCapabilityInterface) []byte {
	var list []byte
	for _, c := range caps {
		b, _ := c.Serialize() // these never fail
		list = append(list, b...)
	}
	return list
}

// malformed refuses an OPEN that cannot be read (RFC 4271, 6.2: recognized, but malformed).
func malformed(format string, args ...any) *Notification {
	return refuse(codeOpen, openUnspecific, nil, "damaged OPEN: %s", fmt.Sprintf(format, args...))
}

// parseOpen decodes the body of an OPEN, which has at least the 10 bytes before the optional
// parameters (RFC 4271, 4.2; RFC 9072; RFC 5492). It never panics.
func parseOpen(body []byte) (*Open, *Notification) {
	if body[0] != version {
		return nil, refuse(codeOpen, openUnsupportedVersion, []byte{0, version}, "the peer speaks BGP version %d", body[0])
	}
	o := &Open{
		AS:       uint32(binary.BigEndian.Uint16(body[1:])),
		HoldTime: time.Duration(binary.BigEndian.Uint16(body[3:])) * time.Second,
		RouterID: netip.AddrFrom4([4]byte(body[5:9])),
	}
	length, list, head := int(body[9]), body[10:], 2
	if length > 0 && len(list) >= 3 && list[0] == parameterExtended {
		length, list, head = int(binary.BigEndian.Uint16(list[1:])), list[3:], 3
	}
	if length != len(list) {
		return nil, malformed("its optional parameters have %d bytes, and there are %d", length, len(list))
	}
	multiprotocol := false
	for len(list) > 0 {
		if len(list) < head {
			return nil, malformed("it ends in the header of a parameter")
		}
		kind, length := list[0], int(list[1])
		if head == 3 {
			length = int(binary.BigEndian.Uint16(list[1:]))
		}
		if len(list) < head+length {
			return nil, malformed("it ends in a parameter")
		}
		if kind != parameterCapability {
			return nil, refuse(codeOpen, openUnsupportedParameter, nil, "the peer sends an OPEN with an unknown parameter %d", kind)
		}
		caps := list[head : head+length]
		for len(caps) > 0 {
			if len(caps) < 2 || len(caps) < 2+int(caps[1]) {
				return nil, malformed("its capabilities end in one")
			}
			end := 2 + int(caps[1])
			if err := o.capability(caps[:end:end]); err != nil {
				return nil, malformed("capability %d: %v", caps[0], err)
			}
			multiprotocol = multiprotocol || bgp.BGPCapabilityCode(caps[0]) == bgp.BGP_CAP_MULTIPROTOCOL
			caps = caps[end:]
		}
		list = list[head+length:]
	}
	if !multiprotocol {
		o.IPv4 = true // what there was before RFC 4760
	}
	if o.Restart == nil {
		o.LongLived = nil // it means nothing alone (RFC 9494, 3.1)
	}
	return o, nil
}

// capability takes in one capability, of exactly the bytes that it claims to have. The codec
// is asked only about those of use here: damage in others is none of ours.
func (o *Open) capability(c []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the codec panicked: %v", p)
		}
	}()
	code, length := bgp.BGPCapabilityCode(c[0]), len(c)-2
	if !slices.Contains(o.Capabilities, c[0]) {
		o.Capabilities = append(o.Capabilities, c[0])
	}
	fits := true
	switch code {
	case bgp.BGP_CAP_ROUTE_REFRESH:
		o.Refresh = true
		return nil
	case bgp.BGP_CAP_ENHANCED_ROUTE_REFRESH:
		o.EnhancedRefresh = true
		return nil
	case capabilityExtendedMessage:
		o.Extended = true
		return nil
	case capabilityRole:
		fits = length == 1
	case bgp.BGP_CAP_MULTIPROTOCOL, bgp.BGP_CAP_FOUR_OCTET_AS_NUMBER:
		fits = length == 4
	case bgp.BGP_CAP_GRACEFUL_RESTART:
		fits = length%4 == 2
	case bgp.BGP_CAP_ADD_PATH:
		fits = length%4 == 0
	case bgp.BGP_CAP_EXTENDED_NEXTHOP:
		fits = length%6 == 0
	case bgp.BGP_CAP_LONG_LIVED_GRACEFUL_RESTART:
		fits = length%7 == 0
	default:
		return nil
	}
	switch {
	case !fits:
		return fmt.Errorf("it has %d bytes", length)
	case length == 0 && code != bgp.BGP_CAP_LONG_LIVED_GRACEFUL_RESTART:
		return nil // a list without families, which the codec does not take
	case code == capabilityRole:
		o.role(c[2])
		return nil
	}
	decoded, err := bgp.DecodeCapability(c)
	if err != nil {
		return err
	}
	switch c := decoded.(type) {
	case *bgp.CapFourOctetASNumber:
		o.AS, o.FourOctet = c.CapValue, true
	case *bgp.CapMultiProtocol:
		o.IPv4 = o.IPv4 || c.CapValue == bgp.RF_IPv4_UC
		o.IPv6 = o.IPv6 || c.CapValue == bgp.RF_IPv6_UC
		o.LinkState = o.LinkState || c.CapValue == bgp.RF_LS
	case *bgp.CapAddPath:
		o.addPath(c.Tuples)
	case *bgp.CapExtendedNexthop:
		for _, t := range c.Tuples {
			if t.NLRIAFI == afiIPv4 && t.NLRISAFI == safiUnicast && t.NexthopAFI == afiIPv6 {
				o.ExtendedNextHop = true
			}
		}
	case *bgp.CapGracefulRestart:
		o.restart(c)
	case *bgp.CapLongLivedGracefulRestart:
		o.longLived(c)
	}
	return nil
}

func (o *Open) role(value byte) {
	role := roleOf(value)
	o.rolesDiffer = o.rolesDiffer || o.HasRole && role != o.Role
	o.Role, o.HasRole = role, true
}

// addPath takes in the families of which the peer sends several paths. A mode that there is
// not has the whole capability ignored (RFC 7911, 4).
func (o *Open) addPath(tuples []*bgp.CapAddPathTuple) {
	for _, t := range tuples {
		if t.Mode < bgp.BGP_ADD_PATH_RECEIVE || t.Mode > bgp.BGP_ADD_PATH_BOTH {
			return
		}
	}
	for _, t := range tuples {
		sends := t.Mode&bgp.BGP_ADD_PATH_SEND != 0
		o.AddPath4 = o.AddPath4 || sends && t.RouteFamily == bgp.RF_IPv4_UC
		o.AddPath6 = o.AddPath6 || sends && t.RouteFamily == bgp.RF_IPv6_UC
	}
}

// restart takes in graceful restart. The last of several counts (RFC 4724, 3).
func (o *Open) restart(c *bgp.CapGracefulRestart) {
	r := &Restart{Time: time.Duration(c.Time) * time.Second, Restarting: c.Flags&flagRestarting != 0, Notification: c.Flags&flagNotification != 0}
	for _, t := range c.Tuples {
		switch bgp.AfiSafiToRouteFamily(t.AFI, t.SAFI) {
		case bgp.RF_IPv4_UC:
			r.Listed4, r.Forwarding4 = true, t.Flags&flagForwarding != 0
		case bgp.RF_IPv6_UC:
			r.Listed6, r.Forwarding6 = true, t.Flags&flagForwarding != 0
		case bgp.RF_LS:
			r.ListedLS = true
		}
	}
	o.Restart = r
}

// longLived takes in long-lived graceful restart. The last of several counts.
func (o *Open) longLived(c *bgp.CapLongLivedGracefulRestart) {
	l := &LongLived{}
	for _, t := range c.Tuples {
		after, forwarding := time.Duration(t.RestartTime)*time.Second, t.Flags&flagForwarding != 0
		switch bgp.AfiSafiToRouteFamily(t.AFI, t.SAFI) {
		case bgp.RF_IPv4_UC:
			l.Time4, l.Listed4, l.Forwarding4 = after, true, forwarding
		case bgp.RF_IPv6_UC:
			l.Time6, l.Listed6, l.Forwarding6 = after, true, forwarding
		}
	}
	o.LongLived = l
}

// check says what of a peer's OPEN we do not take, nil for nothing.
func (l *Local) check(o *Open) *Notification {
	switch {
	case o.AS != l.PeerAS || o.AS == 0: // 0 is nobody's (RFC 7607)
		return refuse(codeOpen, openBadPeerAS, nil, "wrong peer AS: expected %d, the peer has %d", l.PeerAS, o.AS)
	case o.RouterID.IsUnspecified():
		return refuse(codeOpen, openBadIdentifier, nil, "the peer's router ID is 0.0.0.0")
	case o.AS == l.AS && o.RouterID == l.RouterID: // RFC 6286, 2.2: external peers may have the same
		return refuse(codeOpen, openBadIdentifier, nil, "the peer has our router ID %s", o.RouterID)
	case o.HoldTime == 1*time.Second || o.HoldTime == 2*time.Second:
		return refuse(codeOpen, openUnacceptableHoldTime, nil, "the peer proposes a hold time of %d s: it has to be 3 s or more, or 0", o.HoldTime/time.Second)
	case o.rolesDiffer:
		return refuse(codeOpen, openRoleMismatch, nil, "the peer announces several roles (RFC 9234)")
	case l.Role != NoRole && o.HasRole && o.Role != counterparts[l.Role]:
		return refuse(codeOpen, openRoleMismatch, nil, "the peer's role is %s: to our role %s it has to be %s", cmp.Or(o.Role.String(), "not known"), l.Role, counterparts[l.Role])
	case l.Role != NoRole && l.StrictRole && !o.HasRole:
		return refuse(codeOpen, openRoleMismatch, nil, "the peer announces no role: it has to be %s", counterparts[l.Role])
	case !(l.IPv4 && o.IPv4) && !(l.IPv6 && o.IPv6) && !(l.LinkState && o.LinkState):
		return refuse(codeOpen, openUnsupportedCapability, serialize(l.multiprotocol()), "the peer has no address family that we ask for")
	}
	return nil
}

// holdTime is the one that counts: the shorter one, and none at all where a side wants none
// (RFC 4271, 4.2).
func (l *Local) holdTime(o *Open) time.Duration { return min(l.HoldTime, o.HoldTime) }

// options says how the peer's UPDATEs are to be read, as both sides have it.
func (l *Local) options(o *Open) wire.Options {
	return wire.Options{
		TwoByteAS: !o.FourOctet,
		AddPath4:  l.AddPath && l.IPv4 && o.AddPath4,
		AddPath6:  l.AddPath && l.IPv6 && o.AddPath6,
		External:  o.AS != l.AS,
	}
}
