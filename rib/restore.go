package rib

import (
	"slices"
	"sync"
)

// A Restoration puts into a RIB what a saved generation had, as stale routes of stale peers: Add all of it, then Done once. The
// zero value is empty. It takes the routes in any order and puts them in shard by shard of the index, each of which a
// processor's cache holds: in the order of a file 70 % of the time went into waiting for memory. Until Done it
// takes 24 bytes a route and 24 an update, and up to 4 KiB a shard.
type Restoration struct {
	rib *RIB // of all peers

	mu     sync.Mutex
	peers  map[*Peer]*restoredPeer
	paths  []restoredPath
	shards [2][numShards][][]restoredRoute // by family: chunks of the same capacity, all but the last one full
	attrs  Attrs                           // scratch of Add: what an Import looks at
}

// A restoredPeer is what a peer's routes were judged by.
type restoredPeer struct {
	*Peer
	imports Import
	judged  int // Peer.judged at that time
	ended   int // Peer.ended at that time
}

type restoredPath struct {
	path
	from *restoredPeer
}

type restoredRoute struct {
	hi, lo uint64 // with bits and the family of the shard the prefixKey
	path   uint32 // index into Restoration.paths
	bits   uint8
	reject Reject
}

// restoreChunk is how many routes one allocation holds, 4 KiB, and how many are put in with one lock.
const restoreChunk = 170

// Add takes in what the saved generation had of a peer; of u only Reach and Attrs count. All peers are of one RIB.
// Safe for concurrent use: what takes long, to intern the attributes, is done on the caller's processor.
func (t *Restoration) Add(p *Peer, u Update) {
	x := p.path(&u).aged()
	t.mu.Lock()
	defer t.mu.Unlock()
	from := t.peer(p)
	t.attrs = u.Attrs
	at := -1 // the path's place
	for _, n := range u.Reach {
		k, ok := keyOf(n.Prefix)
		if !ok {
			continue
		}
		if at < 0 || x.id != n.PathID {
			x.id = n.PathID
			at = len(t.paths)
			t.paths = append(t.paths, restoredPath{x, from})
		}
		r := restoredRoute{hi: k.hi, lo: k.lo, bits: k.bits, path: uint32(at), reject: x.reject}
		if from.imports != nil && r.reject == Accepted {
			r.reject = from.imports.Check(k.prefix(), &t.attrs)
		}
		chunks := &t.shards[family(k.v6)][k.shard()]
		last := len(*chunks) - 1
		if last < 0 || len((*chunks)[last]) == restoreChunk {
			*chunks = append(*chunks, make([]restoredRoute, 0, restoreChunk))
			last++
		}
		(*chunks)[last] = append((*chunks)[last], r)
	}
}

// peer gives what a peer's routes are judged by.
func (t *Restoration) peer(p *Peer) *restoredPeer {
	if s, ok := t.peers[p]; ok {
		return s
	}
	if t.rib == nil {
		t.rib, t.peers = p.rib, map[*Peer]*restoredPeer{}
	}
	if t.rib != p.rib {
		panic("rib: a Restoration has peers of two RIBs")
	}
	t.rib.mu.Lock()
	defer t.rib.mu.Unlock()
	t.peers[p] = &restoredPeer{Peer: p, imports: p.imports, judged: p.judged, ended: p.ended}
	return t.peers[p]
}

// Done puts all in. A peer that is up, or loaded, knows better, and none of its routes changes, nor does a route that was kept
// from then. It does not wait for the
// publisher, which may not run yet: what was saved bounds it. Others get the lock in between.
func (t *Restoration) Done() {
	r := t.rib
	if r == nil {
		return
	}
	t.start()
	for f := range t.shards {
		for s, chunks := range t.shards[f] {
			v6, routes := f == family(true), length(chunks)
			t.reserve(v6, s, routes)
			for _, some := range chunks {
				t.put(v6, some)
			}
			t.fit(v6, s, routes)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range t.peers {
		p.counted()
	}
}

// start has the peers stale, and the RIB make room for what changes.
func (t *Restoration) start() {
	routes := 0
	for f := range t.shards {
		for _, chunks := range t.shards[f] {
			routes += length(chunks)
		}
	}
	r := t.rib
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range t.peers {
		if p.state == stateDown && !p.removed && !r.closed {
			p.setState(stateStale, p.lastError)
		}
	}
	r.dirty = slices.Grow(r.dirty, routes)
}

// reserve has the RIB make room for so many routes of one shard.
func (t *Restoration) reserve(v6 bool, shard, routes int) {
	if routes == 0 {
		return
	}
	t.rib.mu.Lock()
	defer t.rib.mu.Unlock()
	t.rib.index.reserve(v6, shard, routes)
}

// fit has the RIB give back room that nobody took: of a prefix that no peer has a best path to the paths of all peers
// were saved.
func (t *Restoration) fit(v6 bool, shard, routes int) {
	if routes == 0 {
		return
	}
	t.rib.mu.Lock()
	defer t.rib.mu.Unlock()
	t.rib.index.fit(v6, shard, routes)
}

// length counts the routes of a shard.
func length(chunks [][]restoredRoute) int {
	if len(chunks) == 0 {
		return 0
	}
	return (len(chunks)-1)*restoreChunk + len(chunks[len(chunks)-1])
}

// put puts in routes of one family.
func (t *Restoration) put(v6 bool, some []restoredRoute) {
	r := t.rib
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	for i := range some {
		n := &some[i]
		p := t.paths[n.path]
		if p.from.state != stateStale {
			continue
		}
		k := prefixKey{n.hi, n.lo, n.bits, v6}
		if p.from.ended != p.from.Peer.ended && r.has(k, p.path) { // from a session of the meantime: newer
			continue
		}
		p.reject = n.reject
		if p.from.judged != p.from.Peer.judged && p.reject != RejectLoop { // the policy is another one now
			p.reject = p.from.check(k, p.attrs)
		}
		r.put(p.from.Peer, k, p.path)
	}
}
