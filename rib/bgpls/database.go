package bgpls

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"github.com/ribwarp/ribwarp/rib/igp"
)

// MaxObjects is how many NLRIs are kept of a peer: some 200 MB.
const MaxObjects = 1 << 20

// A Database is the link state that peers have announced. It is a hotpotato.Source. Safe for concurrent use.
type Database struct {
	log    *slog.Logger
	notify func()

	mu      sync.Mutex
	peers   []*Peer
	changed bool // since the last Topology
}

// NewDatabase makes an empty one. notify is called behind every change, from whoever makes it; it may be
// nil, and must not wait.
func NewDatabase(log *slog.Logger, notify func()) *Database {
	if notify == nil {
		notify = func() {}
	}
	return &Database{log: log, notify: notify}
}

// A Peer is what one peer has announced. Those that are the same session's are called in order.
type Peer struct {
	db   *Database
	name string

	// Under db.mu.
	objects   map[string]*kept // by NLRI
	stale     int
	crowded   uint64 // NLRIs left out, of more than MaxObjects
	discarded uint64 // malformed, or their attributes
}

type kept struct {
	Object
	stale bool // from a session that is lost
}

// Stats of a peer.
type Stats struct {
	Objects, Stale int
	Crowded        uint64
	Discarded      uint64
}

// AddPeer adds a peer without objects.
func (db *Database) AddPeer(name string) *Peer {
	db.mu.Lock()
	defer db.mu.Unlock()
	p := &Peer{db: db, name: name, objects: map[string]*kept{}}
	db.peers = append(db.peers, p)
	return p
}

// Remove takes a peer and all that it has announced away. What is called on it later changes nothing.
func (p *Peer) Remove() {
	p.change(func() bool {
		p.db.peers = slices.DeleteFunc(p.db.peers, func(x *Peer) bool { return x == p })
		was := len(p.objects) > 0
		p.objects, p.stale = nil, 0
		return was
	})
}

// Stats counts what the peer has announced.
func (p *Peer) Stats() Stats {
	p.db.mu.Lock()
	defer p.db.mu.Unlock()
	return Stats{len(p.objects), p.stale, p.crowded, p.discarded}
}

// change has f change the peer, which tells whether it did.
func (p *Peer) change(f func() bool) {
	p.db.mu.Lock()
	changed := p.objects != nil && f()
	p.db.changed = p.db.changed || changed
	p.db.mu.Unlock()
	if changed {
		p.db.notify()
	}
}

// Apply takes in what a message says.
func (p *Peer) Apply(u Update) {
	p.change(func() (changed bool) {
		p.discarded += uint64(u.Discarded)
		if u.AttributeDiscarded {
			p.discarded++
		}
		for _, key := range u.Unreach {
			if old := p.objects[key]; old != nil {
				p.drop(key, old)
				changed = true
			}
		}
		for _, o := range u.Reach {
			old := p.objects[o.key]
			switch {
			case old == nil && len(p.objects) >= MaxObjects:
				if p.crowded++; p.crowded&(p.crowded-1) == 0 {
					p.db.log.Warn("a peer announces too much link state: further objects are left out", "peer", p.name, "objects", MaxObjects, "left_out", p.crowded)
				}
				continue
			case old != nil && old.stale:
				p.stale--
			}
			changed = changed || old == nil || !old.same(&o)
			p.objects[o.key] = &kept{Object: o}
		}
		return changed
	})
}

// same tells whether two objects of one NLRI have the same attributes.
func (o *Object) same(x *Object) bool {
	return o.name == x.name && o.overload == x.overload && o.metric == x.metric && o.hasMetric == x.hasMetric &&
		slices.Equal(o.addresses, x.addresses) && slices.Equal(o.others, x.others)
}

func (p *Peer) drop(key string, k *kept) {
	delete(p.objects, key)
	if k.stale {
		p.stale--
	}
}

// Retain tells that the session is lost and what it announced is kept as stale, until it is announced
// again or Sweep. What was stale already goes.
func (p *Peer) Retain() {
	p.change(func() (changed bool) {
		for key, k := range p.objects {
			if k.stale {
				p.drop(key, k)
				changed = true
				continue
			}
			k.stale = true
			p.stale++
			changed = true // another peer's object may count now
		}
		return changed
	})
}

// Sweep takes what is stale away.
func (p *Peer) Sweep() {
	p.change(func() (changed bool) {
		for key, k := range p.objects {
			if k.stale {
				p.drop(key, k)
				changed = true
			}
		}
		return changed
	})
}

// Down takes all that the peer has announced away.
func (p *Peer) Down() {
	p.change(func() bool {
		was := len(p.objects) > 0
		p.objects, p.stale = map[string]*kept{}, 0
		return was
	})
}

// Topology is hotpotato.Source's: it makes a topology of all objects, nil where nothing has changed since the
// last one. 1,000 nodes and 8,000 directions take some 10 ms.
func (db *Database) Topology() (*igp.Topology, error) {
	db.mu.Lock()
	if !db.changed {
		db.mu.Unlock()
		return nil, nil
	}
	db.changed = false
	objects := db.all()
	db.mu.Unlock()
	return topologyOf(objects)
}

// Renew has the next Topology make one though nothing may have changed: for one who has not seen the last.
func (db *Database) Renew() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.changed = true
}

// all gives every object once, sorted by its bytes: what is not stale before what is, then that of the peer whose name comes
// first. It is called under the lock.
func (db *Database) all() []*Object {
	peers := slices.Clone(db.peers)
	slices.SortFunc(peers, func(a, b *Peer) int { return cmp.Compare(a.name, b.name) })
	found := map[string]*Object{}
	for _, stale := range []bool{false, true} {
		for _, p := range peers {
			for key, k := range p.objects {
				if k.stale == stale && found[key] == nil {
					found[key] = &k.Object
				}
			}
		}
	}
	list := make([]*Object, 0, len(found))
	for _, o := range found {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *Object) int { return cmp.Compare(a.key, b.key) })
	return list
}
