package rib

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// ErrPeerExists is what AddPeer returns for a name that is taken.
var ErrPeerExists = errors.New("peer exists")

// IGPCost is the seam for the cost of the way to a next hop (RFC 4271 9.1.2.2 e). ok is false
// where it is unknown. Without one every next hop costs the same. Safe for concurrent use.
type IGPCost interface {
	Cost(nextHop netip.Addr) (cost uint32, ok bool)
}

// Options of a RIB.
type Options struct {
	LocalAS uint32 // own AS: paths of sessions that contain it are not chosen (loop); 0 checks nothing
	IGP     IGPCost
	Log     *slog.Logger // nil: slog.Default
}

// A RIB holds the routes of all peers and which destinations changed since the publisher
// looked last. Safe for concurrent use. A table of one peer takes about 90 bytes an IPv4 prefix
// beside its attributes, a path of one more peer 16 to 50; the published generation takes 56
// more a prefix.
//
// One Publisher belongs to it, which also frees what was withdrawn: without one the RIB keeps
// a destination for every prefix that it ever saw.
type RIB struct {
	localAS uint32
	igp     IGPCost
	log     *slog.Logger

	// wake holds an item when there may be something to publish.
	wake chan struct{}

	mu    sync.Mutex // everything below, and the peers' state; held for microseconds
	index index
	dests destinations
	dirty []lpm.Handle // changed since the last snapshot, each once
	since time.Time    // of the oldest change in dirty
	v4    int          // destinations with a best path
	v6    int
	peers map[string]*Peer
	// speakers are the peers by path.peer. The slice is replaced, never written: a snapshot
	// goes on with the one it took.
	speakers []speaker
	full     bool // the log has told that no handle is free
}

// A speaker is what the decision asks about a peer. The zero speaker is an unused index.
type speaker struct {
	peer     *Peer
	internal bool
	routerID netip.Addr
}

// New makes a RIB without peers.
func New(o Options) *RIB {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &RIB{
		localAS: o.LocalAS, igp: o.IGP, log: o.Log,
		wake:  make(chan struct{}, 1),
		index: newIndex(), dests: newDestinations(), peers: map[string]*Peer{},
	}
}

// AddPeer adds a source of routes, which is down until its Up. The error is ErrPeerExists for a
// name that is taken.
func (r *RIB) AddPeer(c PeerConfig) (*Peer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.peers[c.Name]; taken {
		return nil, fmt.Errorf("add peer %q: %w: choose another name", c.Name, ErrPeerExists)
	}
	i := slices.IndexFunc(r.speakers, func(s speaker) bool { return s.peer == nil })
	if i < 0 {
		if i = len(r.speakers); i > math.MaxUint16 {
			return nil, fmt.Errorf("add peer %q: a RIB holds %d peers at most: remove one first", c.Name, math.MaxUint16+1)
		}
	}
	p := &Peer{rib: r, config: c, index: uint16(i), state: stateDown, changed: time.Now()}
	r.peers[c.Name] = p
	r.setSpeaker(p.index, speaker{peer: p, routerID: c.RouterID})
	return p, nil
}

// RemovePeer withdraws a peer's routes and forgets it. Whatever is called on the peer later
// changes nothing.
func (r *RIB) RemovePeer(p *Peer) {
	r.mu.Lock()
	if p.removed {
		r.mu.Unlock()
		return
	}
	p.removed = true // before the withdrawal, so that nothing is announced behind it
	p.setState(stateDown, "removed")
	delete(r.peers, p.config.Name)
	r.mu.Unlock()

	r.withdrawAll(p)

	r.mu.Lock()
	r.setSpeaker(p.index, speaker{})
	r.mu.Unlock()
	r.notify() // readiness may have waited for this peer
}

// setSpeaker is called under the lock.
func (r *RIB) setSpeaker(i uint16, s speaker) {
	speakers := slices.Clone(r.speakers)
	if int(i) == len(speakers) {
		speakers = append(speakers, s)
	} else {
		speakers[i] = s
	}
	r.speakers = speakers
}

// Peers describes all peers, sorted by name.
func (r *RIB) Peers() []PeerStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]PeerStatus, 0, len(r.peers))
	for _, p := range r.peers {
		all = append(all, p.status())
	}
	slices.SortFunc(all, func(a, b PeerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Counts is the number of prefixes that have a best path, not necessarily published yet.
func (r *RIB) Counts() (v4, v6 int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.v4, r.v6
}

// Pending names the awaited peers whose first load is not complete, sorted.
func (r *RIB) Pending() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, p := range r.peers {
		if p.pending() {
			names = append(names, p.config.Name)
		}
	}
	slices.Sort(names)
	return names
}

// waiting tells whether Pending names anybody.
func (r *RIB) waiting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.anyPending()
}

// anyPending is called under the lock.
func (r *RIB) anyPending() bool {
	for _, p := range r.peers {
		if p.pending() {
			return true
		}
	}
	return false
}

// Paths gives every peer's path to exactly this prefix, best first, each with the step of the
// decision that took it out. The others come in the order in which they would be preferred as
// far as the decision compared them: who was taken out last comes first.
func (r *RIB) Paths(p netip.Prefix) []Candidate {
	k, ok := keyOf(p)
	if !ok {
		return nil
	}
	r.mu.Lock()
	h := r.index.find(k)
	if h == lpm.None {
		r.mu.Unlock()
		return nil
	}
	d := r.dests.at(h)
	paths := slices.Clone(d.others())
	if !d.empty() {
		paths = append(paths, d.first)
	}
	speakers := r.speakers
	r.mu.Unlock()
	return newDecision(speakers, r.igp).explain(k.prefix(), paths)
}

// Reevaluate has every destination with more than one path decided again: for when IGP costs
// changed. It costs a walk over the table.
func (r *RIB) Reevaluate() {
	for n := 0; r.visitPage(n, func(first lpm.Handle, page []destination) {
		for i := range page {
			if page[i].more != nil {
				r.markDirty(first+lpm.Handle(i), &page[i])
			}
		}
	}); n++ {
	}
}

// announce is called under the lock.
func (r *RIB) announce(prefix netip.Prefix, p path) {
	k, ok := keyOf(prefix)
	if !ok {
		return
	}
	h := r.index.find(k)
	if h == lpm.None {
		if h, ok = r.dests.add(k); !ok {
			if !r.full {
				r.full = true
				r.log.Error("no handle is free: further prefixes are dropped", "prefixes", r.v4+r.v6)
			}
			return
		}
		r.index.set(k, h)
	}
	d := r.dests.at(h)
	old := d.find(p.peer, p.id)
	if old != nil && *old == p {
		return // announced again as it was
	}
	if old == nil {
		r.speakers[p.peer].peer.count(k.v6, +1)
	}
	was := d.usable()
	d.put(p)
	r.changed(h, d, was)
}

// withdraw is called under the lock.
func (r *RIB) withdraw(prefix netip.Prefix, peer uint16, id uint32) {
	k, ok := keyOf(prefix)
	if !ok {
		return
	}
	if h := r.index.find(k); h != lpm.None {
		r.remove(h, r.dests.at(h), peer, func(p path) bool { return p.peer == peer && p.id == id })
	}
}

// remove takes paths of one peer out of a destination. It is called under the lock.
func (r *RIB) remove(h lpm.Handle, d *destination, peer uint16, drop func(path) bool) {
	was := d.usable()
	if n := d.removeIf(drop); n > 0 {
		r.speakers[peer].peer.count(d.isV6, -n)
		r.changed(h, d, was)
	}
}

// withdrawAll takes a peer out of every destination. Others get the lock in between.
func (r *RIB) withdrawAll(p *Peer) {
	mine := func(x path) bool { return x.peer == p.index }
	done := false
	for n := 0; !done && r.visitPage(n, func(first lpm.Handle, page []destination) {
		// Without this a removed peer would reach the routes of the one that has its index now.
		if done = p.v4+p.v6 == 0; done {
			return
		}
		for i := range page {
			if d := &page[i]; !d.empty() {
				r.remove(first+lpm.Handle(i), d, p.index, mine)
			}
		}
	}); n++ {
	}
}

// visitPage calls visit with page n of the destinations and the handle of its first one, under
// the lock: a walk page by page lets others have the lock after some 50 µs. It gives false
// behind the last page.
func (r *RIB) visitPage(n int, visit func(first lpm.Handle, page []destination)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n >= len(r.dests.pages) {
		return false
	}
	visit(lpm.Handle(n<<pageBits), r.dests.pages[n][:])
	return true
}

// changed notes that a destination's paths changed; was tells whether it had a best path
// before. It is called under the lock.
func (r *RIB) changed(h lpm.Handle, d *destination, was bool) {
	if is := d.usable(); is != was {
		by := +1
		if was {
			by = -1
		}
		if d.isV6 {
			r.v6 += by
		} else {
			r.v4 += by
		}
	}
	r.markDirty(h, d)
}

// markDirty is called under the lock.
func (r *RIB) markDirty(h lpm.Handle, d *destination) {
	if d.dirty {
		return
	}
	d.dirty = true
	if len(r.dirty) == 0 {
		r.since = time.Now()
		r.notify()
	}
	r.dirty = append(r.dirty, h)
}

// notify has the publisher look for something to do.
func (r *RIB) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}
