package mrt

import (
	"fmt"
	"net/netip"

	"github.com/ribwarp/ribwarp/rib"
)

// A peerKey tells the peers of a file apart. A table dump may list the same address and AS
// twice, for two sessions: nth counts them from 0.
type peerKey struct {
	addr netip.Addr
	as   uint32
	nth  int
}

// A peer is one peer of the file with the announcements not yet applied.
type peer struct {
	rib     *rib.Peer
	reach   []rib.NLRI
	attrs   *rib.Attrs // of reach
	session rib.Session
	down    string // why the recorded session went down; empty while it is up
}

// batch is how many prefixes with equal attributes are applied at once.
const batch = 1024

// peer gives the peer for a key and adds it to the RIB where it is new.
func (l *loader) peer(key peerKey, routerID netip.Addr) (*peer, error) {
	if p := l.peers[key]; p != nil {
		return p, nil
	}
	name := fmt.Sprintf("%s %s AS%d", l.name, key.addr, key.as)
	if key.nth > 0 {
		name += fmt.Sprintf(" #%d", key.nth+1)
	}
	to := l.restoredPeer(name, key)
	if to == nil {
		var err error
		if to, err = l.rib.AddPeer(rib.PeerConfig{
			Name: name, Kind: rib.KindMRT, Addr: key.addr, AS: key.as, RouterID: routerID, Awaited: l.awaited,
		}); err != nil {
			return nil, fmt.Errorf("add peer: %w", err)
		}
	}
	p := &peer{rib: to, session: rib.Session{RouterID: routerID}}
	p.rib.Up(p.session)
	l.peers[key] = p
	l.order = append(l.order, p)
	return p, nil
}

// restoredPeer gives a peer that is there from a saved generation, nil for none.
func (l *loader) restoredPeer(name string, key peerKey) *rib.Peer {
	p := l.restored[name]
	if p == nil || p.Config().Addr != key.addr || p.Config().AS != key.as {
		return nil
	}
	p.SetAwaited(l.awaited)
	return p
}

// announce adds one prefix. Prefixes with the same attributes in a row are applied together.
func (p *peer) announce(n rib.NLRI, attrs *rib.Attrs) {
	if p.attrs != attrs || len(p.reach) == batch {
		p.flush()
	}
	p.attrs = attrs
	p.reach = append(p.reach, n)
}

// flush applies what is waiting.
func (p *peer) flush() {
	if len(p.reach) > 0 {
		p.rib.Apply(rib.Update{Reach: p.reach, Attrs: *p.attrs})
		p.reach = p.reach[:0]
	}
}

// change applies a message in its place among the others.
func (p *peer) change(us []rib.Update) {
	p.flush()
	if p.down != "" { // the file's state changes may be incomplete: a message shows a session
		p.up()
	}
	for _, u := range us {
		p.rib.Apply(u)
	}
}

func (p *peer) up() {
	p.down = ""
	p.rib.Up(p.session)
}

// lose withdraws all the peer's routes.
func (p *peer) lose(reason string) {
	p.flush()
	p.down = reason
	p.rib.Down(reason)
}
