package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"

	"github.com/ribwarp/ribwarp/rib"
)

// Options are what two speakers agreed upon when the session came up: without it the bytes of
// an UPDATE cannot be told apart.
type Options struct {
	// TwoByteAS says that AS_PATH has 2-byte AS numbers: one side lacks RFC 6793. AS4_PATH is
	// then merged in.
	TwoByteAS bool
	// AddPath4 and AddPath6 say that prefixes carry a path identifier (RFC 7911).
	AddPath4, AddPath6 bool
	// External says that the peer is in another AS: LOCAL_PREF, ORIGINATOR_ID and CLUSTER_LIST
	// mean nothing from there and are left out.
	External bool
	// Mirrored says that the message was sent to a router, which passes it on (RFC 7854). The
	// peer may be of the router's confederation, so that neither its segments in AS_PATH nor
	// attributes that mean nothing here are damage.
	Mirrored bool
	// Dumped is the family of the dumped route whose attributes these are, NoFamily for
	// messages. Dumps cut MP_REACH_NLRI down to the next hop (RFC 6396, section 4.3.4).
	Dumped Family
}

func (o Options) dumped() bool { return o.Dumped != NoFamily }

// A Message is what an UPDATE says.
type Message struct {
	// Updates are its changes, in order: none, one, or two where prefixes of two families have
	// different next hops. Withdrawals are all in the first.
	Updates []rib.Update
	// EndOfRIB is the family whose first load this message ends (RFC 4724), or NoFamily.
	EndOfRIB Family
	// Damage is what is wrong with it, nil for nothing.
	Damage *Damage
	// Ignored counts the parts of families that are not kept.
	Ignored int
	// Panic is what the codec panicked with, nil if it did not. Damage says what that costs.
	Panic any
}

// Verdict is that of the damage, OK without any.
func (m *Message) Verdict() Verdict {
	if m.Damage == nil {
		return OK
	}
	return m.Damage.Verdict
}

// A Decoder decodes the messages of one session, reusing its memory. Not safe for concurrent
// use.
type Decoder struct {
	opt   Options
	codec []*bgp.MarshallingOption // for the codec: which families have path identifiers
	dump  []*bgp.MarshallingOption // for the codec: MP_REACH_NLRI of a dump

	prefix                             bgp.IPAddrPrefix
	whole                              []byte // an attribute as the codec takes it
	unreach, reach, mpUnreach, mpReach []rib.NLRI
	updates                            [2]rib.Update
	attrs                              Attributes
	paths                              paths
	damage                             *Damage
	panicked                           any
}

// NewDecoder makes a decoder of messages that follow opt.
func NewDecoder(opt Options) *Decoder {
	d := &Decoder{opt: opt}
	if opt.AddPath4 || opt.AddPath6 {
		modes := make(map[bgp.RouteFamily]bgp.BGPAddPathMode)
		if opt.AddPath4 {
			modes[bgp.RF_IPv4_UC] = bgp.BGP_ADD_PATH_RECEIVE
		}
		if opt.AddPath6 {
			modes[bgp.RF_IPv6_UC] = bgp.BGP_ADD_PATH_RECEIVE
		}
		d.codec = []*bgp.MarshallingOption{{AddPath: modes}}
	}
	switch opt.Dumped {
	case IPv4:
		d.dump = []*bgp.MarshallingOption{{ImplicitPrefix: bgp.NewIPAddrPrefix(0, "0.0.0.0")}}
	case IPv6:
		d.dump = []*bgp.MarshallingOption{{ImplicitPrefix: bgp.NewIPv6AddrPrefix(0, "::")}}
	}
	return d
}

// Decode decodes one UPDATE without its 19-byte header. The error is not nil, and a *Damage,
// where the session has to be reset; all lesser damage is in the Message, and what could be
// kept beside it. The slices of a Message are valid until the next call; body is not kept.
// It never panics.
func (d *Decoder) Decode(body []byte) (m Message, err error) {
	d.damage, d.panicked = nil, nil
	defer func() {
		if p := recover(); p != nil { // a mistake of our own: the codec's panics end where it is called
			d.panicked = p
			d.worse(SessionReset, 0, "decoding panicked: %v", p)
		}
		m.Panic, m.Damage = d.panicked, d.damage
		if m.Verdict() == SessionReset {
			m, err = Message{Damage: d.damage, Panic: d.panicked}, d.damage
		}
	}()
	withdrawn, attributes, nlri, ok := sections(body)
	if !ok {
		d.worse(SessionReset, subcodeAttributeList, "UPDATE of %d bytes is shorter than its fields", len(body))
		return m, nil
	}
	if d.unreach, err = d.prefixes4(d.unreach[:0], withdrawn); err != nil {
		d.worse(SessionReset, subcodeNetworkField, "withdrawn routes: %v", err)
		return m, nil
	}
	if d.reach, err = d.prefixes4(d.reach[:0], nlri); err != nil {
		d.worse(SessionReset, subcodeNetworkField, "NLRI: %v", err)
		return m, nil
	}
	d.attributes(attributes)
	m.Ignored = d.attrs.Ignored
	if len(withdrawn) == 0 && len(nlri) == 0 && d.damage == nil {
		switch {
		case len(attributes) == 0:
			m.EndOfRIB = IPv4
			return m, nil
		case d.attrs.Count == 1 && d.attrs.Unreach.Family != NoFamily && len(d.attrs.Unreach.NLRI) == 0:
			m.EndOfRIB = d.attrs.Unreach.Family
			return m, nil
		}
	}
	m.Updates = d.changes()
	return m, nil
}

// Attributes decodes a list of path attributes that stands for itself, as in a dump. The error
// is a *Damage; with a verdict below SessionReset the attributes that are sound are there, and
// below TreatAsWithdraw they will do for a route. The slices are valid until the next call.
// It never panics.
func (d *Decoder) Attributes(list []byte) (Attributes, error) {
	d.damage, d.panicked = nil, nil
	d.attributes(list)
	if d.damage != nil {
		return d.attrs, d.damage
	}
	return d.attrs, nil
}

// Decode is Decoder.Decode for a single message.
func Decode(body []byte, opt Options) (Message, error) { return NewDecoder(opt).Decode(body) }

// sections takes a message apart (RFC 4271, section 4.3).
func sections(body []byte) (withdrawn, attributes, nlri []byte, ok bool) {
	if withdrawn, body, ok = field(body); !ok {
		return nil, nil, nil, false
	}
	attributes, nlri, ok = field(body)
	return withdrawn, attributes, nlri, ok
}

// field cuts off a field that starts with its length in 2 bytes.
func field(b []byte) (value, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n {
		return nil, nil, false
	}
	return b[2:n], b[n:], true
}

// changes makes updates of the decoded parts and settles what damage costs.
func (d *Decoder) changes() []rib.Update {
	as := &d.attrs
	announces := len(d.reach)+len(as.Reach.NLRI) > 0 || as.ignoredReach
	switch {
	case len(d.reach)+len(as.Reach.NLRI) == 0: // nothing that could lack an attribute
	case !as.HasOrigin:
		d.worse(TreatAsWithdraw, subcodeMissing, "ORIGIN is missing")
	case !as.HasASPath:
		d.worse(TreatAsWithdraw, subcodeMissing, "AS_PATH is missing")
	case len(d.reach) > 0 && !as.HasNextHop:
		d.worse(TreatAsWithdraw, subcodeMissing, "NEXT_HOP is missing")
	}
	// Damage without announced prefixes may have hidden them, so that there is nothing to
	// withdraw in their place (RFC 7606, section 5.2).
	if d.damage != nil && d.damage.Verdict == TreatAsWithdraw && !announces {
		d.damage.Verdict = SessionReset
	}
	if d.damage != nil && d.damage.Verdict == SessionReset {
		return nil
	}
	d.unreach = append(d.unreach, as.Unreach.NLRI...)
	if d.damage != nil && d.damage.Verdict == TreatAsWithdraw {
		d.unreach = append(append(d.unreach, d.reach...), as.Reach.NLRI...)
		d.reach, as.Reach.NLRI = d.reach[:0], nil
	}
	first, second := &d.updates[0], &d.updates[1]
	*first = rib.Update{Unreach: d.unreach, Reach: d.reach, Attrs: as.Attrs}
	switch {
	case len(as.Reach.NLRI) == 0:
	case len(d.reach) == 0:
		first.Reach, first.Attrs.NextHop = as.Reach.NLRI, as.Reach.NextHop
	case as.Reach.NextHop == as.NextHop:
		d.reach = append(d.reach, as.Reach.NLRI...)
		first.Reach = d.reach
	default:
		*second = rib.Update{Reach: as.Reach.NLRI, Attrs: as.Attrs}
		second.Attrs.NextHop = as.Reach.NextHop
		return d.updates[:]
	}
	if len(first.Unreach) == 0 && len(first.Reach) == 0 {
		return nil // attributes of other families only
	}
	return d.updates[:1]
}

// worse notes damage unless there is some as bad already.
func (d *Decoder) worse(v Verdict, subcode uint8, format string, args ...any) {
	if d.damage == nil || d.damage.Verdict < v {
		d.damage = &Damage{Verdict: v, Reason: fmt.Sprintf(format, args...), Code: codeUpdate, Subcode: subcode}
	}
}

// recovered turns a panic of the codec into an error. To be deferred.
func (d *Decoder) recovered(err *error) {
	if p := recover(); p != nil {
		d.panicked = p
		*err = fmt.Errorf("the codec panicked: %v", p)
	}
}
