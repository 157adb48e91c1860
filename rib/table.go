package rib

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// Errors of AddPeer.
var (
	// ErrPeerExists is what it returns for a name that is taken.
	ErrPeerExists = errors.New("peer exists")
	// ErrTableGone is what it returns once the RIB is closed: there may be another one of its name.
	ErrTableGone = errors.New("the table is gone")
)

// Options of a RIB.
type Options struct {
	LocalAS uint32       // own AS: paths of sessions that contain it are not chosen (loop); 0 checks nothing
	IGP     IGPCost      // until SetIGP; nil: every next hop costs the same
	Log     *slog.Logger // nil: slog.Default
	// MaxPending is how many prefixes may have changed and wait for the publisher before Apply
	// waits, too: what is slow then is the peer, not the heap. 0: 4 M; negative: no limit,
	// for who applies first and has the publisher run later.
	MaxPending int
}

// defaultMaxPending is three full tables: only what is no Internet table waits.
const defaultMaxPending = 4_000_000

// A RIB holds the routes of all peers and which destinations changed since the publisher
// looked last. Safe for concurrent use. A table of one peer takes about 90 bytes an IPv4 prefix
// beside its attributes, a path of one more peer 16 to 50; the published generation takes 56
// more a prefix.
//
// One Publisher belongs to it, which also frees what was withdrawn: without one the RIB keeps
// a destination for every prefix that it ever saw.
type RIB struct {
	localAS    uint32
	log        *slog.Logger
	maxPending int
	igpTurn    sync.Mutex // of SetIGP
	hidden     hidden

	// wake holds an item when there may be something to publish.
	wake chan struct{}

	mu     sync.RWMutex // everything below, and the peers' state; held for microseconds, and shared by a scan alone
	igp    IGPCost      // in force
	room   *sync.Cond   // the publisher took what waited, or somebody need not wait any more
	waits  int          // who waits for room
	index  index
	dests  destinations
	crowds map[lpm.Handle]*crowd // of destinations with very many paths
	dirty  []lpm.Handle          // changed since the last snapshot, each once
	since  time.Time             // of the oldest change in dirty
	v4     int                   // destinations with a best path
	v6     int
	peers  map[string]*Peer
	// speakers are the peers by path.peer. The slice is replaced, never written: a snapshot
	// goes on with the one it took.
	speakers []speaker
	full     bool // the log has told that no handle is free
	closed   bool
	vacant   time.Time // since when there is no peer; zero while there is one
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
	switch {
	case o.MaxPending == 0:
		o.MaxPending = defaultMaxPending
	case o.MaxPending < 0:
		o.MaxPending = math.MaxInt
	}
	r := &RIB{
		localAS: o.LocalAS, igp: o.IGP, log: o.Log, maxPending: o.MaxPending,
		wake:  make(chan struct{}, 1),
		dests: newDestinations(), crowds: map[lpm.Handle]*crowd{}, peers: map[string]*Peer{}, vacant: time.Now(),
	}
	r.room = sync.NewCond(&r.mu)
	return r
}

// Close is for the end of the publisher: whoever waits for it goes on, and what peers announce
// from then on changes nothing.
func (r *RIB) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.room.Broadcast()
}

// AddPeer adds a source of routes, which is down until its Up. The error is ErrPeerExists for a
// name that is taken, or ErrTableGone.
func (r *RIB) AddPeer(c PeerConfig) (*Peer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("add peer %q: %w", c.Name, ErrTableGone)
	}
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
	p.awaited.Store(c.Awaited)
	r.peers[c.Name], r.vacant = p, time.Time{}
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
	p.end(stateDown, "removed")
	delete(r.peers, p.config.Name)
	if len(r.peers) == 0 {
		r.vacant = time.Now()
	}
	r.mu.Unlock()

	p.withdrawAll()

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

// Counts is the number of prefixes that have a path to choose, not necessarily published yet.
// Whether the IGP reaches its next hop does not count.
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

// mayRest tells whether there is time until the next generation: Pending names somebody, and
// nobody waits for room.
func (r *RIB) mayRest() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.anyPending() && r.waits == 0
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
	speakers, igp := r.speakers, r.igp
	r.mu.Unlock()
	return newDecision(speakers, igp).explain(k.prefix(), paths)
}

// Reevaluate has every destination with more than one path decided again: for when a peer is another
// to the decision than before. It costs a walk over the table.
func (r *RIB) Reevaluate() {
	for n := 0; r.visit(n, func(first lpm.Handle, some []destination) {
		for i := range some {
			if some[i].more != nil {
				r.markDirty(first+lpm.Handle(i), &some[i])
			}
		}
	}); n++ {
	}
}

// MaxPaths is how many paths a peer may have to a prefix (ADD-PATH): all of them take part in each
// decision, so a peer with very many would hold all others up.
const MaxPaths = 64

// announce puts in a path of p, which check may reject; attrs are the path's. It is called under
// the lock.
func (r *RIB) announce(p *Peer, prefix netip.Prefix, x path, check Import, attrs *Attrs) {
	k, ok := keyOf(prefix)
	if !ok {
		return
	}
	if check != nil && x.reject == Accepted {
		x.reject = check.Check(k.prefix(), attrs)
	}
	r.put(p, k, x)
}

// put puts in a path of p, which was judged. It is called under the lock.
func (r *RIB) put(p *Peer, k prefixKey, x path) {
	h := r.index.find(k)
	if h == lpm.None {
		var ok bool
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
	i := r.findPath(h, d, x.peer, x.id)
	if i >= 0 {
		r.replace(p, h, d, i, x)
		return
	}
	if len(d.others())+1 >= MaxPaths && r.pathsOf(h, d, x.peer) >= MaxPaths {
		p.crowded++
		if p.crowded&(p.crowded-1) == 0 {
			r.log.Warn("a peer has too many paths to a prefix: further ones are left out", "peer", p.config.Name, "prefix", k.prefix(), "paths", MaxPaths, "left_out", p.crowded)
		}
		return
	}
	was := d.usable()
	r.addPath(h, d, x)
	p.count(x, k.v6, +1)
	if x.usable() {
		r.countUsable(d, was)
		r.markDirty(h, d)
	}
}

// has tells whether there is a path to a prefix of x's peer and identifier. It is called under the lock.
func (r *RIB) has(k prefixKey, x path) bool {
	h := r.index.find(k)
	return h != lpm.None && r.findPath(h, r.dests.at(h), x.peer, x.id) >= 0
}

// withdraw is called under the lock.
func (r *RIB) withdraw(p *Peer, prefix netip.Prefix, id uint32) {
	k, ok := keyOf(prefix)
	if !ok {
		return
	}
	h := r.index.find(k)
	if h == lpm.None {
		return
	}
	d := r.dests.at(h)
	if i := r.findPath(h, d, p.index, id); i >= 0 {
		r.replace(p, h, d, i, path{})
	}
}

// replace puts x, of the same peer and identifier, in the place of path i; the zero path takes
// it away. It is called under the lock.
func (r *RIB) replace(p *Peer, h lpm.Handle, d *destination, i int, x path) {
	old := d.at(i)
	if old == x {
		return // announced again as it was
	}
	was := d.usable()
	if x.exists() {
		p.count(x, d.isV6, +1)
		d.set(i, x)
	} else {
		r.removePath(h, d, i)
	}
	p.count(old, d.isV6, -1) // behind the other, so that what stays stale is so since then
	if old.shown() != x.shown() {
		r.countUsable(d, was)
		r.markDirty(h, d)
	} else if d.empty() {
		r.markDirty(h, d) // to be released
	}
}

// countUsable notes whether a destination has a best path; was tells whether it had one before.
// It is called under the lock.
func (r *RIB) countUsable(d *destination, was bool) {
	is := d.usable()
	if is == was {
		return
	}
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

// visit calls f with part n of the destinations and the handle of its first one, under the
// lock: a walk part by part lets others have the lock after some 20 µs. It gives false behind
// the last part.
func (r *RIB) visit(n int, f func(first lpm.Handle, some []destination)) bool {
	first := n << visitBits
	if r.visitLocked(first, f) {
		runtime.Gosched() // a mutex is unfair: who waits for it would get it after a millisecond
		return true
	}
	return false
}

func (r *RIB) visitLocked(first int, f func(first lpm.Handle, some []destination)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first >= len(r.dests.pages)<<pageBits {
		return false
	}
	at := first & (pageSize - 1)
	f(lpm.Handle(first), r.dests.pages[first>>pageBits][at:at+1<<visitBits])
	return true
}

// A scanner looks at a part of the destinations, the first of which has this handle, and appends the handles of those
// that it wants.
type scanner func(dst []lpm.Handle, first lpm.Handle, some []destination) []lpm.Handle

// scan has all cores look at the destinations, each with a scanner of its own, and gives the handles, by page. It is
// visit for many cores: the scanners share the lock, so they write to nothing of the RIB. It leaves out destinations
// that are added meanwhile.
func (r *RIB) scan(newScanner func() scanner) [][]lpm.Handle {
	r.mu.RLock()
	pages := r.dests.pages
	r.mu.RUnlock()
	found := make([][]lpm.Handle, len(pages))
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(pages)) {
		wait.Go(func() {
			look := newScanner()
			for n := int(next.Add(1)) - 1; n < len(pages); n = int(next.Add(1)) - 1 {
				for at := 0; at < pageSize; at += 1 << visitBits {
					r.mu.RLock()
					found[n] = look(found[n], lpm.Handle(n<<pageBits+at), pages[n][at:at+1<<visitBits])
					r.mu.RUnlock()
				}
			}
		})
	}
	wait.Wait()
	return found
}

// visitBits is how many destinations a walk looks at with one lock, as a power of two: 48 KiB.
const visitBits = 10

// admit waits while too much waits for the publisher. It is false where the peer has lost its
// session meanwhile or nobody wants to know any more: what it was to apply is void. It is called
// under the lock, which it gives up while it waits.
func (r *RIB) admit(p *Peer) bool {
	ended := p.ended
	for len(r.dirty) >= r.maxPending && p.ended == ended && !r.closed {
		r.waits++
		r.notify() // the publisher may rest
		r.room.Wait()
		r.waits--
	}
	return p.ended == ended && !p.removed && !r.closed
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
