package rib

import (
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
)

// A path is one peer's way to a prefix: 16 bytes, since a table of 1.3 M prefixes from 40
// peers holds 52 M of them. The zero path is none.
type path struct {
	attrs Path
	id    uint32 // ADD-PATH identifier
	peer  uint16 // index into RIB.speakers
	loop  bool   // the own AS is in its AS path: kept, never chosen
}

func (p path) exists() bool { return p.attrs != Path{} }

// usable tells whether the decision may choose it.
func (p path) usable() bool { return p.exists() && !p.loop }

// A destination is a prefix with the paths of all peers to it, in no particular order: 48
// bytes with the first path, which is all that a table from one peer needs.
//
// Its key never changes while its handle is in use, and only the publisher ends that
// (RIB.release), so the publisher reads keys without the lock.
type destination struct {
	hi, lo uint64 // with bits and isV6 the prefixKey
	first  path
	more   *[]path // paths beside the first, nil for none
	bits   uint8
	isV6   bool
	dirty  bool // in RIB.dirty
	shared bool // a snapshot reads *more, so that it must be copied before the next change
}

func (d *destination) key() prefixKey { return prefixKey{d.hi, d.lo, d.bits, d.isV6} }

func (d *destination) setKey(k prefixKey) { d.hi, d.lo, d.bits, d.isV6 = k.hi, k.lo, k.bits, k.v6 }

func (d *destination) empty() bool { return !d.first.exists() }

// others gives the paths beside the first.
func (d *destination) others() []path {
	if d.more == nil {
		return nil
	}
	return *d.more
}

// usable tells whether any path may be chosen: whether the prefix has a best path.
func (d *destination) usable() bool {
	return d.first.usable() || slices.ContainsFunc(d.others(), path.usable)
}

// find gives the path of a peer and identifier, nil for none. It is for reading only: the
// snapshot may share it.
func (d *destination) find(peer uint16, id uint32) *path {
	if d.first.exists() && d.first.peer == peer && d.first.id == id {
		return &d.first
	}
	others := d.others()
	for i := range others {
		if others[i].peer == peer && others[i].id == id {
			return &others[i]
		}
	}
	return nil
}

// put adds a path or replaces the one of the same peer and identifier.
func (d *destination) put(p path) {
	switch old := d.find(p.peer, p.id); {
	case old == &d.first || d.empty():
		d.first = p
	case old == nil:
		d.own()
		*d.more = append(*d.more, p)
	default:
		d.own()
		*d.find(p.peer, p.id) = p
	}
}

// removeIf takes away the paths for which drop holds and gives their number.
func (d *destination) removeIf(drop func(path) bool) (removed int) {
	if slices.ContainsFunc(d.others(), drop) {
		d.own()
		before := len(*d.more)
		*d.more = slices.DeleteFunc(*d.more, drop)
		removed = before - len(*d.more)
	}
	if d.first.exists() && drop(d.first) {
		removed++
		d.first = path{}
		if n := len(d.others()); n > 0 {
			d.own()
			d.first = (*d.more)[n-1]
			(*d.more)[n-1] = path{}
			*d.more = (*d.more)[:n-1]
		}
	}
	if len(d.others()) == 0 {
		d.more = nil
	}
	return removed
}

// own makes *more this destination's alone, to be written to.
func (d *destination) own() {
	if d.more == nil {
		d.more = new([]path)
	} else if d.shared {
		mine := slices.Clone(*d.more)
		d.more = &mine
	}
	d.shared = false
}

const (
	pageBits = 12
	pageSize = 1 << pageBits
)

// destinations holds them by handle, in pages that never move: growing copies nothing, and who
// has the slice of pages may read the destinations in it while others are added.
type destinations struct {
	pages []*[pageSize]destination
	next  lpm.Handle   // lowest handle never used
	free  []lpm.Handle // used before and free again
}

func newDestinations() destinations { return destinations{next: lpm.None + 1} }

func (ds *destinations) at(h lpm.Handle) *destination {
	return &ds.pages[h>>pageBits][h&(pageSize-1)]
}

// add makes an empty destination. ok is false where every handle is in use.
func (ds *destinations) add(k prefixKey) (h lpm.Handle, ok bool) {
	if n := len(ds.free); n > 0 {
		h, ds.free = ds.free[n-1], ds.free[:n-1]
	} else {
		if ds.next > lpm.MaxHandle {
			return lpm.None, false
		}
		h = ds.next
		ds.next++
		if int(h>>pageBits) == len(ds.pages) {
			ds.pages = append(ds.pages, new([pageSize]destination))
		}
	}
	ds.at(h).setKey(k)
	return h, true
}

// remove makes a handle free for the next add.
func (ds *destinations) remove(h lpm.Handle) {
	*ds.at(h) = destination{}
	ds.free = append(ds.free, h)
}
