package rib

import (
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// A snapshot is what changed in a RIB up to one moment: the publisher decides and builds from
// it without the RIB's lock, while peers go on.
type snapshot struct {
	changed  []destinationPaths
	pages    []*[pageSize]destination // for the keys of every handle in use, nothing else
	speakers []speaker
	igp      IGPCost
	since    time.Time // of the oldest change
	complete bool      // no awaited peer was pending: every first load is in
}

// destinationPaths are the paths to one destination at that moment.
type destinationPaths struct {
	first  path
	more   *[]path // shared: the RIB copies it before it changes it
	handle lpm.Handle
}

func (c destinationPaths) others() []path {
	if c.more == nil {
		return nil
	}
	return *c.more
}

func (s *snapshot) key(h lpm.Handle) prefixKey { return s.pages[h>>pageBits][h&(pageSize-1)].key() }

// take gives what changed since the last take and marks it clean. It holds the lock for about
// 20 ns a changed destination.
func (r *RIB) take() *snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &snapshot{
		changed: make([]destinationPaths, len(r.dirty)),
		pages:   r.dests.pages, speakers: r.speakers, igp: r.igp, since: r.since, complete: !r.anyPending(),
	}
	for i, h := range r.dirty {
		d := r.dests.at(h)
		d.dirty, d.shared = false, d.more != nil
		s.changed[i] = destinationPaths{first: d.first, more: d.more, handle: h}
	}
	if cap(r.dirty) > smallDirty {
		r.dirty = nil // a full load must not keep its memory for ever
	}
	r.dirty = r.dirty[:0]
	r.room.Broadcast()
	return s
}

// smallDirty is the capacity up to which the dirty list's memory is kept for the next changes.
const smallDirty = 1 << 14

// putBack marks dirty again what could not be published.
func (r *RIB) putBack(s *snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range s.changed {
		r.markDirty(c.handle, r.dests.at(c.handle))
	}
	if len(s.changed) > 0 {
		r.since = s.since // older than whatever changed meanwhile
	}
	r.notify()
}

// release frees the handles of destinations without paths. The newest generation must not hold
// them. Those that changed again stay, for the next snapshot.
func (r *RIB) release(gone []lpm.Handle) {
	if len(gone) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range gone {
		if d := r.dests.at(h); d.empty() && !d.dirty {
			r.index.remove(d.key())
			r.dests.remove(h)
		}
	}
}

// dirtyCount is the number of destinations that changed since the last take.
func (r *RIB) dirtyCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.dirty)
}
