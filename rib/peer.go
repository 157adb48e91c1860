package rib

import (
	"iter"
	"sync/atomic"
	"time"
	"unique"

	"github.com/ribwarp/ribwarp/lpm"
)

// States of a peer as PeerStatus shows them.
const (
	stateDown        = "down"
	stateEstablished = "established" // a session
	stateLoading     = "loading"     // any other source being read
	stateLoaded      = "loaded"      // any other source, read
	stateStale       = "stale"       // not there, and routes of it are kept
)

// Well-known communities of RFC 9494, 5.
const (
	communityLLGRStale = 0xffff0006
	communityNoLLGR    = 0xffff0007
)

// Peer is one source's Adj-RIB-In. Methods are safe for concurrent use, but calls that must be
// in order (one session's messages) are the caller's to order. Those that look at all of the
// peer's routes (Up, Down, Retain, Sweep, ...) return when they have: a table of 1.3 M routes
// takes some tens of milliseconds, while other peers go on.
//
// What becomes of a session's routes:
//
//	Up ── Apply ── Down                                            withdrawn
//	          └─── Retain ── Sweep, or LongLived ── Sweep, or Down  kept as stale, given up
//	                  └───── Up (Keep) ── Apply ── EndOfRIB         announced again, the rest swept
//
// Restore puts in what a saved generation had, as stale as what Retain keeps.
type Peer struct {
	rib     *RIB
	config  PeerConfig // but for Awaited
	index   uint16     // in RIB.speakers and path.peer
	awaited atomic.Bool
	// received is what Received gives: written under rib.mu, behind every message.
	received [2]atomic.Int64
	bytes    atomic.Int64 // what AttributeBytes gives, likewise

	// Below: under rib.mu.
	imports     Import // nil accepts all
	judged      int    // how often all routes were judged anew
	session     Session
	state       string
	changed     time.Time // when state became what it is
	lastError   string
	paths       [2]int // by family
	stale       [2]int // those that are
	unconfirmed [2]int // those that are
	staleSince  time.Time
	rejected    [NumRejects]int // paths by reason, those accepted among them
	// heavy counts the paths with each set of attributes that is charged for (charge), and charged
	// adds up what the sets take.
	heavy     map[Path]int
	charged   int
	updates   uint64
	crowded   uint64 // announcements left out: too many paths to a prefix
	endOfRIB4 bool
	endOfRIB6 bool
	loaded    bool
	gaveUp    bool
	removed   bool
	ended     int   // how often a session ended
	attrs     Attrs // scratch of apply: what an Import looks at
}

// Name is the peer's name, unique in its RIB.
func (p *Peer) Name() string { return p.config.Name }

// Config is what the peer was added with, and what SetAwaited changed.
func (p *Peer) Config() PeerConfig {
	c := p.config
	c.Awaited = p.awaited.Load()
	return c
}

// SetAwaited changes whether readiness waits for the peer's first load.
func (p *Peer) SetAwaited(awaited bool) {
	p.change(func() { p.awaited.Store(awaited) })
}

// SetImport has i decide which of the peer's routes may be chosen, those that it has among them;
// nil accepts all. A session's routes with the own AS in the path are never chosen.
func (p *Peer) SetImport(i Import) {
	p.change(func() { p.imports = i })
	p.Reconsider()
}

// Reconsider has the Import judge every route of the peer again: what it goes by has changed.
func (p *Peer) Reconsider() {
	p.rib.mu.Lock()
	p.judged++
	p.rib.mu.Unlock()
	var last Path
	attrs := new(Attrs) // of last
	p.rewrite(func(d *destination, x path) path {
		if x.reject == RejectLoop {
			return x // no policy lets that in
		}
		x.reject = Accepted
		if p.imports != nil {
			if x.attrs != last {
				last, *attrs = x.attrs, x.attrs.Value()
			}
			x.reject = p.imports.Check(d.key().prefix(), attrs)
		}
		return x
	})
}

// check judges a route by the Import of now. It is called under the lock.
func (p *Peer) check(k prefixKey, attrs Path) Reject {
	if p.imports == nil {
		return Accepted
	}
	p.attrs = attrs.Value()
	return p.imports.Check(k.prefix(), &p.attrs)
}

// Up tells that a session was established (BGP, BMP) or that loading began (everything else).
// What is there of a family that the session keeps, or of a file, is stale from then on, until
// it is announced again or swept; the rest is withdrawn. A session then has its first load
// complete with the End-of-RIB of every family that it negotiated: at once where there is none.
func (p *Peer) Up(s Session) {
	if !p.config.Kind.session() {
		s.KeepIPv4, s.KeepIPv6 = true, true
	}
	other := false // the decision sees another speaker behind the paths
	p.change(func() {
		p.session = s
		p.endOfRIB4, p.endOfRIB6 = false, false
		if p.config.Kind.session() {
			p.setState(stateEstablished, "")
		} else {
			p.setState(stateLoading, "")
		}
		now := speaker{peer: p, internal: s.Internal, routerID: s.RouterID}
		if !now.routerID.IsValid() {
			now.routerID = p.config.RouterID
		}
		other = now != p.rib.speakers[p.index]
		p.rib.setSpeaker(p.index, now)
	})
	p.rewrite(func(d *destination, x path) path {
		if !s.keeps(d.isV6) {
			return path{}
		}
		return x.aged()
	})
	p.change(func() {
		other = other && p.holds()
		if p.state == stateEstablished {
			p.loadedWithEndOfRIB()
		}
	})
	if other {
		p.rib.Reevaluate()
	}
}

func (s *Session) keeps(v6 bool) bool { return v6 && s.KeepIPv6 || !v6 && s.KeepIPv4 }

// aged gives a path as stale.
func (p path) aged() path {
	p.marks |= stale
	return p
}

// Apply takes one message's changes. The caller may reuse the slices afterwards. Prefixes that
// are not valid are skipped, host bits cleared. It costs about 0.2 µs a prefix, and what the
// Import takes. It waits where more than Options.MaxPending prefixes wait for the publisher; a
// session that ends meanwhile, with Down, Retain or RemovePeer, takes the message with it.
func (p *Peer) Apply(u Update) {
	x := p.path(&u)
	r := p.rib
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.admit(p) {
		return
	}
	p.updates++
	p.apply(&u, x)
}

// Restore is a Restoration of one update.
func (p *Peer) Restore(u Update) {
	var t Restoration
	t.Add(p, u)
	t.Done()
}

// path makes the path that an update announces, but for identifier and policy.
func (p *Peer) path(u *Update) path {
	if len(u.Reach) == 0 {
		return path{}
	}
	x := path{attrs: unique.Make(u.Attrs), peer: p.index}
	if u.Attrs.Communities.Contains(communityLLGRStale) {
		x.marks |= llgrStale
	}
	if u.Attrs.size() > LightAttributes {
		x.marks |= heavy
	}
	if p.looped(u.Attrs.ASPath) {
		x.reject = RejectLoop
	}
	return x
}

// apply is called under the lock.
func (p *Peer) apply(u *Update, x path) {
	for _, n := range u.Unreach {
		p.rib.withdraw(p, n.Prefix, n.PathID)
	}
	if p.imports != nil {
		p.attrs = u.Attrs
	}
	for _, n := range u.Reach {
		x.id = n.PathID
		p.rib.announce(p, n.Prefix, x, p.imports, &p.attrs)
	}
	p.counted()
}

// EndOfRIB tells that the peer has sent all that it had of a family (RFC 4724, 2). What Up kept
// of it and was not announced again is withdrawn.
func (p *Peer) EndOfRIB(v6 bool) {
	up := false
	p.change(func() { up = p.state == stateEstablished })
	if up {
		p.sweep(v6, stale)
	}
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

// MarkStale tells that the peer announces all of a family once more (RFC 7313, 4): what it has
// not announced again until Sweep goes. Until then the routes are as good as any, and their
// Stale is false.
func (p *Peer) MarkStale(v6 bool) {
	p.rewrite(func(d *destination, x path) path {
		if d.isV6 == v6 {
			x.marks |= unconfirmed
		}
		return x
	})
}

// Sweep withdraws what is still stale in a family, or not announced again since MarkStale.
func (p *Peer) Sweep(v6 bool) { p.sweep(v6, stale|unconfirmed) }

func (p *Peer) sweep(v6 bool, m marks) {
	f := family(v6)
	left := func() bool { return m&stale != 0 && p.stale[f] > 0 || m&unconfirmed != 0 && p.unconfirmed[f] > 0 }
	p.rewriteWhile(left, func(d *destination, x path) path {
		if d.isV6 == v6 && x.is(m) {
			return path{}
		}
		return x
	})
}

// Loaded tells that the whole source is in: a file was read, or a session's first load is
// complete by other signs than End-of-RIB. Stale routes of a file are withdrawn.
func (p *Peer) Loaded() {
	if !p.config.Kind.session() {
		p.Sweep(false)
		p.Sweep(true)
	}
	p.change(func() {
		p.loaded, p.gaveUp = true, false
		if !p.config.Kind.session() {
			p.setState(stateLoaded, "")
		}
	})
}

// GaveUp has readiness no longer wait for the peer's first load: it takes too long, or the
// file is broken. Routes that were applied stay. A file is down from then on, and a session
// that is not there shows the reason.
func (p *Peer) GaveUp(reason string) {
	p.change(func() {
		p.gaveUp = true
		switch {
		case !p.config.Kind.session():
			p.setState(stateDown, reason)
		case p.state != stateEstablished:
			p.lastError = reason
		}
	})
}

// Down tells that the session is lost: all its routes are withdrawn, stale ones among them.
func (p *Peer) Down(reason string) {
	p.change(func() { p.end(stateDown, reason) })
	p.withdrawAll()
}

// Retain tells that the session is lost and its routes are kept as stale, for Up to keep or
// Sweep, LongLived or Down to end (RFC 4724, 4.2). What was stale already goes, so that no route
// survives two restarts unconfirmed; long-lived stale routes may.
func (p *Peer) Retain(reason string) { p.RetainAgain(reason, false, false) }

// RetainAgain is Retain, but what was stale already stays in the given families, for as long as the
// caller has the time run on that they were kept for (RFC 8538, 4.1; RFC 9494, 4.2).
func (p *Peer) RetainAgain(reason string, v4, v6 bool) {
	was := ""
	p.change(func() {
		was = p.state
		p.end(stateStale, reason)
	})
	again := [2]bool{v4, v6}
	p.rewrite(func(d *destination, x path) path {
		if was != stateStale && x.is(stale) && !x.is(longLived) && !again[family(d.isV6)] {
			return path{}
		}
		return x.aged()
	})
}

// LongLived makes the stale routes of a family long-lived ones, which are chosen only where there is nothing
// else; those whose NO_LLGR community forbids that are withdrawn (RFC 9494, 4.2).
func (p *Peer) LongLived(v6 bool) {
	p.rewrite(func(d *destination, x path) path {
		switch {
		case d.isV6 != v6 || !x.is(stale) || x.is(longLived):
			return x
		case x.attrs.Value().Communities.Contains(communityNoLLGR):
			return path{}
		}
		x.marks |= longLived
		return x
	})
}

// withdrawAll takes the peer out of every destination.
func (p *Peer) withdrawAll() {
	p.rewrite(func(*destination, path) path { return path{} })
}

// rewrite has change say what every path of the peer shall be: itself, one with other marks, or
// none. Others get the lock in between, but change has it.
func (p *Peer) rewrite(change func(d *destination, x path) path) { p.rewriteWhile(p.holds, change) }

// rewriteWhile is rewrite until no path is left to change. A peer without paths has none: else
// a removed one would reach the routes of the one that has its index now.
func (p *Peer) rewriteWhile(left func() bool, change func(d *destination, x path) path) {
	r := p.rib
	more := true
	for n := 0; more && r.visit(n, func(first lpm.Handle, some []destination) {
		if more = left(); !more {
			return
		}
		for i := range some {
			d := &some[i]
			for j := len(d.others()); j >= 0; j-- { // remove puts one that was looked at in its place
				if x := d.at(j); x.peer == p.index && x.exists() {
					r.replace(p, first+lpm.Handle(i), d, j, change(d, x))
				}
			}
		}
		p.counted()
	}); n++ {
	}
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
		var found []route // of one visit: the caller looks at them without the lock
		for n := 0; p.rib.visit(n, func(_ lpm.Handle, some []destination) {
			found = found[:0]
			if p.removed {
				return
			}
			for i := range some {
				d := &some[i]
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

// end ends a session. It is called under the lock.
func (p *Peer) end(state, reason string) {
	p.endOfRIB4, p.endOfRIB6 = false, false
	p.setState(state, reason)
	p.ended++
	p.rib.room.Broadcast()
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
func (p *Peer) pending() bool { return p.awaited.Load() && !p.loaded && !p.gaveUp }

// count notes a path that comes (+1) or goes (-1). It is called under the lock.
func (p *Peer) count(x path, v6 bool, by int) {
	f := family(v6)
	p.paths[f] += by
	p.rejected[x.reject] += by
	if x.is(stale) {
		if p.stale == [2]int{} {
			p.staleSince = time.Now()
		}
		p.stale[f] += by
	}
	if x.is(unconfirmed) {
		p.unconfirmed[f] += by
	}
	if x.is(heavy) {
		p.charge(x.attrs, by)
	}
}

// LightAttributes is the size of a set of attributes, in bytes, up to which AttributeBytes does
// not count it: 112 for what is of fixed size, the rest for AS path and communities. Most sets
// are light, so to count the others costs next to nothing; and as a route has one set, light ones
// are bounded with the number of routes.
const LightAttributes = 256

// charge notes that paths with a heavy set of attributes come or go. It is called under the lock.
func (p *Peer) charge(set Path, by int) {
	before := p.heavy[set]
	switch after := before + by; {
	case after > 0:
		if p.heavy == nil {
			p.heavy = make(map[Path]int)
		}
		p.heavy[set] = after
		if before == 0 {
			attrs := set.Value()
			p.charged += attrs.size()
		}
	default:
		attrs := set.Value()
		p.charged -= attrs.size()
		if delete(p.heavy, set); len(p.heavy) == 0 {
			p.heavy = nil // a map never shrinks
		}
	}
}

// family numbers the families: IPv4 is 0.
func family(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

// counted shows what was counted to Received. It is called under the lock.
func (p *Peer) counted() {
	for f := range p.received {
		p.received[f].Store(int64(p.paths[f] - p.stale[f]))
	}
	p.bytes.Store(int64(p.charged))
}

// Received is the number of routes that the session has announced and not withdrawn, by family;
// stale ones do not count. It takes no lock: for a look behind every message.
func (p *Peer) Received() (v4, v6 int) {
	return int(p.received[0].Load()), int(p.received[1].Load())
}

// AttributeBytes is the memory that the peer's sets of attributes take, stale routes' too, as far
// as they are larger than LightAttributes. A set counts once however many of the peer's routes
// have it, and for each peer that has it: interned, it is there once. It takes no lock.
func (p *Peer) AttributeBytes() int64 { return p.bytes.Load() }

// holds tells whether the peer has any path. It is called under the lock.
func (p *Peer) holds() bool { return p.paths != [2]int{} }

// status is called under the lock.
func (p *Peer) status() PeerStatus {
	s := PeerStatus{
		Name: p.config.Name, Kind: p.config.Kind, Addr: p.config.Addr, AS: p.config.AS,
		RouterID: p.session.RouterID, State: p.state, Since: p.changed, LastError: p.lastError,
		V4: p.paths[0], V6: p.paths[1], Updates: p.updates, Crowded: p.crowded,
		EndOfRIB4: p.endOfRIB4, EndOfRIB6: p.endOfRIB6, Loaded: p.loaded, Awaited: p.awaited.Load(),
		Stale4: p.stale[0], Stale6: p.stale[1], Rejected: p.rejected, AttributeBytes: int64(p.charged),
	}
	s.Rejected[Accepted] = 0
	if s.Stale4+s.Stale6 > 0 {
		s.StaleSince = p.staleSince
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
