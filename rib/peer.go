package rib

import (
	"iter"
	"time"
	"unique"

	"github.com/ribwarp/ribwarp/lpm"
)

// States of a peer as PeerStatus shows them.
const (
	stateDown        = "down"
	stateEstablished = "established" // a BGP session
	stateLoading     = "loading"     // any other source being read
	stateLoaded      = "loaded"      // any other source, read
)

// Peer is one source's Adj-RIB-In. Methods are safe for concurrent use, but calls that must be
// in order (one session's messages) are the caller's to order.
type Peer struct {
	rib    *RIB
	config PeerConfig
	index  uint16 // in RIB.speakers and path.peer

	// Below: under rib.mu.
	session   Session
	state     string
	changed   time.Time // when state became what it is
	lastError string
	v4, v6    int
	updates   uint64
	endOfRIB4 bool
	endOfRIB6 bool
	loaded    bool
	gaveUp    bool
	removed   bool
}

// Name is the peer's name, unique in its RIB.
func (p *Peer) Name() string { return p.config.Name }

// Config is what the peer was added with.
func (p *Peer) Config() PeerConfig { return p.config }

// Up tells that a session was established (BGP) or that loading began (everything else). What
// is left of a session before it is withdrawn. A BGP session then has its first load complete
// with the End-of-RIB of every family that it negotiated: at once where there is none.
func (p *Peer) Up(s Session) {
	p.rib.withdrawAll(p)
	p.change(func() {
		p.session = s
		p.endOfRIB4, p.endOfRIB6 = false, false
		routerID := s.RouterID
		if !routerID.IsValid() {
			routerID = p.config.RouterID
		}
		p.rib.setSpeaker(p.index, speaker{peer: p, internal: s.Internal, routerID: routerID})
		if p.config.Kind != KindBGP {
			p.setState(stateLoading, "")
			return
		}
		p.setState(stateEstablished, "")
		p.loadedWithEndOfRIB()
	})
}

// Apply takes one message's changes. The caller may reuse the slices afterwards. Prefixes that
// are not valid are skipped, host bits cleared. It costs about 0.2 µs a prefix.
func (p *Peer) Apply(u Update) {
	var announced path
	if len(u.Reach) > 0 {
		announced = path{
			attrs: unique.Make(u.Attrs),
			peer:  p.index,
			loop:  p.looped(u.Attrs.ASPath),
		}
	}
	r := p.rib
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.removed {
		return
	}
	p.updates++
	for _, n := range u.Unreach {
		r.withdraw(n.Prefix, p.index, n.PathID)
	}
	for _, n := range u.Reach {
		announced.id = n.PathID
		r.announce(n.Prefix, announced)
	}
}

// EndOfRIB tells that the peer has sent all that it had of a family (RFC 4724, 2).
func (p *Peer) EndOfRIB(v6 bool) {
	p.change(func() {
		if v6 {
			p.endOfRIB6 = true
		} else {
			p.endOfRIB4 = true
		}
		if p.state == stateEstablished {
			p.loadedWithEndOfRIB()
		}
	})
}

// Loaded tells that the whole source is in: a file was read, or a session's first load is
// complete by other signs than End-of-RIB.
func (p *Peer) Loaded() {
	p.change(func() {
		p.loaded, p.gaveUp = true, false
		if p.config.Kind != KindBGP {
			p.setState(stateLoaded, "")
		}
	})
}

// GaveUp has readiness no longer wait for the peer's first load: it takes too long, or the
// file is broken. Routes that were applied stay. A file is down from then on, and a session
// that is down shows the reason.
func (p *Peer) GaveUp(reason string) {
	p.change(func() {
		p.gaveUp = true
		if p.config.Kind != KindBGP {
			p.setState(stateDown, reason)
		} else if p.state == stateDown {
			p.lastError = reason
		}
	})
}

// Down tells that the session is lost: all its routes are withdrawn. It returns when they are;
// a table of 1.3 M routes takes some tens of milliseconds, while other peers go on.
func (p *Peer) Down(reason string) {
	p.change(func() {
		p.endOfRIB4, p.endOfRIB6 = false, false
		p.setState(stateDown, reason)
	})
	p.rib.withdrawAll(p)
}

// Status describes the peer.
func (p *Peer) Status() PeerStatus {
	p.rib.mu.Lock()
	defer p.rib.mu.Unlock()
	return p.status()
}

// Routes gives the peer's Adj-RIB-In in any order. Of what changes while it runs it may give
// the old state, the new one or, for a prefix withdrawn and announced again, both.
func (p *Peer) Routes() iter.Seq2[NLRI, Path] {
	type route struct {
		key prefixKey
		path
	}
	return func(yield func(NLRI, Path) bool) {
		var found []route // of one page: the caller looks at them without the lock
		for n := 0; p.rib.visitPage(n, func(_ lpm.Handle, page []destination) {
			found = found[:0]
			if p.removed {
				return
			}
			for i := range page {
				d := &page[i]
				if d.first.exists() && d.first.peer == p.index {
					found = append(found, route{d.key(), d.first})
				}
				for _, x := range d.others() {
					if x.peer == p.index {
						found = append(found, route{d.key(), x})
					}
				}
			}
		}); n++ {
			for _, x := range found {
				if !yield(NLRI{Prefix: x.key.prefix(), PathID: x.id}, x.attrs) {
					return
				}
			}
		}
	}
}

// change changes the peer's state unless it was removed.
func (p *Peer) change(f func()) {
	p.rib.mu.Lock()
	defer p.rib.mu.Unlock()
	if p.removed {
		return
	}
	f()
	p.rib.notify() // readiness may have waited for it
}

// setState is called under the lock.
func (p *Peer) setState(state, lastError string) {
	p.state, p.lastError, p.changed = state, lastError, time.Now()
}

// loadedWithEndOfRIB is called under the lock.
func (p *Peer) loadedWithEndOfRIB() {
	if (p.endOfRIB4 || !p.session.IPv4) && (p.endOfRIB6 || !p.session.IPv6) {
		p.loaded, p.gaveUp = true, false
	}
}

// pending tells whether readiness waits for the peer. It is called under the lock.
func (p *Peer) pending() bool { return p.config.Awaited && !p.loaded && !p.gaveUp }

// count is called under the lock.
func (p *Peer) count(v6 bool, by int) {
	if v6 {
		p.v6 += by
	} else {
		p.v4 += by
	}
}

// status is called under the lock.
func (p *Peer) status() PeerStatus {
	s := PeerStatus{
		Name: p.config.Name, Kind: p.config.Kind, Addr: p.config.Addr, AS: p.config.AS,
		RouterID: p.session.RouterID, State: p.state, Since: p.changed, LastError: p.lastError,
		V4: p.v4, V6: p.v6, Updates: p.updates,
		EndOfRIB4: p.endOfRIB4, EndOfRIB6: p.endOfRIB6, Loaded: p.loaded, Awaited: p.config.Awaited,
	}
	if !s.RouterID.IsValid() {
		s.RouterID = p.config.RouterID
	}
	return s
}

// looped tells whether a path is back where it came from (RFC 4271 9.1.2). Only a session can
// bring one: a dump or a list may be of another router, which has our own routes from us.
func (p *Peer) looped(path ASPath) bool {
	return p.config.Kind == KindBGP && p.rib.localAS != 0 && path.Contains(p.rib.localAS)
}
