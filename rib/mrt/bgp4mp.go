package mrt

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	codec "github.com/osrg/gobgp/v3/pkg/packet/mrt"

	"github.com/ribwarp/ribwarp/rib/wire"
)

// bgp4mp reads a BGP4MP record (RFC 6396, section 4.4; RFC 8050, section 3): a message that a
// peer sent, or a change of its session.
func (l *loader) bgp4mp(rec record) error {
	var o wire.Options
	change := false
	switch codec.MRTSubTypeBGP4MP(rec.subtype) {
	case codec.STATE_CHANGE:
		o.TwoByteAS, change = true, true
	case codec.STATE_CHANGE_AS4:
		change = true
	case codec.MESSAGE:
		o.TwoByteAS = true
	case codec.MESSAGE_AS4:
	case codec.MESSAGE_ADDPATH:
		o = wire.Options{TwoByteAS: true, AddPath4: true, AddPath6: true}
	case codec.MESSAGE_AS4_ADDPATH:
		o = wire.Options{AddPath4: true, AddPath6: true}
	case codec.MESSAGE_LOCAL, codec.MESSAGE_AS4_LOCAL, codec.MESSAGE_LOCAL_ADDPATH, codec.MESSAGE_AS4_LOCAL_ADDPATH:
		return errIgnore // sent by the collector itself
	default:
		return errors.New("unknown subtype")
	}
	c, width := cursor{b: rec.body}, 4
	if o.TwoByteAS {
		width = 2
	}
	as := c.as(width)
	c.as(width) // the collector's AS
	c.take(2)   // interface
	afi := c.u16()
	if afi != bgp.AFI_IP && afi != bgp.AFI_IP6 && !c.short {
		return fmt.Errorf("peer's address family is %d", afi)
	}
	addr := c.addr(afi == bgp.AFI_IP6)
	c.addr(afi == bgp.AFI_IP6) // the collector's address
	if c.short {
		return errShort
	}
	key := peerKey{addr: addr, as: as}
	if change {
		return l.stateChange(&c, key)
	}
	return l.message(rec, &c, key, o)
}

// stateChange follows the session: leaving Established takes the peer's routes with it.
func (l *loader) stateChange(c *cursor, key peerKey) error {
	before, now := codec.BGPState(c.u16()), codec.BGPState(c.u16())
	if c.short {
		return errShort
	}
	p := l.peers[key]
	if p == nil {
		return nil // nothing to withdraw; its first message makes the peer
	}
	switch {
	case now == codec.ESTABLISHED && p.down != "":
		p.up()
	case before == codec.ESTABLISHED && now != codec.ESTABLISHED:
		p.lose(fmt.Sprintf("recorded session left Established for state %d", now))
	}
	return nil
}

// message applies a BGP message. Only UPDATEs change routes, but any message shows a peer.
func (l *loader) message(rec record, c *cursor, key peerKey, o wire.Options) error {
	c.take(16) // marker
	length, kind := int(c.u16()), c.u8()
	body := c.take(length - bgp.BGP_HEADER_LENGTH)
	if c.short {
		return fmt.Errorf("BGP message: %w", errShort)
	}
	p, err := l.peer(key, netip.Addr{})
	if err != nil {
		return &fatalError{err}
	}
	if kind != bgp.BGP_MSG_UPDATE {
		return errIgnore
	}
	m, err := l.decoder(o).Decode(body)
	if err != nil {
		return fmt.Errorf("UPDATE from %s: %w", key.addr, err)
	}
	if m.Damage != nil {
		l.problem(rec, KindAttributes, fmt.Sprintf("UPDATE from %s: %s", p.rib.Name(), m.Damage.Reason), m.Damage.Verdict.String())
	}
	for _, u := range m.Updates {
		l.result.Announced += len(u.Reach)
		l.result.Withdrawn += len(u.Unreach)
	}
	p.change(m.Updates)
	return nil
}
