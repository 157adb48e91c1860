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
	standing
}

// A standing is what the RIB makes of a path. It is a struct of its own because the compiler
// keeps structs of up to four fields in registers: Apply took a quarter longer with five.
type standing struct {
	reject Reject // kept, and not chosen where it is not Accepted
	marks  marks
}

// marks are what a path carries beside its attributes.
type marks uint8

const (
	// stale: kept from a lost session or a saved generation (RFC 4724, 4.2).
	stale marks = 1 << iota
	// longLived: stale for longer than the peer said it would be (RFC 9494, 4.2).
	longLived
	// llgrStale: the peer says that it is long-lived stale where it comes from (RFC 9494, 4.3).
	llgrStale
	// unconfirmed: not announced again since an enhanced refresh began (RFC 7313).
	unconfirmed
	// heavy: its attributes take more than LightAttributes bytes (Peer.charge).
	heavy

	leastPreferred = longLived | llgrStale
)

func (p path) exists() bool { return p.attrs != Path{} }

// usable tells whether the decision may choose it.
func (p path) usable() bool { return p.exists() && p.reject == Accepted }

// is tells whether it has any of the marks.
func (p path) is(m marks) bool { return p.marks&m != 0 }

// shown gives what of a path the publisher looks at: nothing where it is not usable.
func (p path) shown() path {
	if !p.usable() {
		return path{}
	}
	p.marks &^= unconfirmed
	return p
}

// samePaths tells whether two destinations have the same paths, as those have that came in the same messages. Where they
// have them in another order it does not tell.
func samePaths(a, b path, others, othersOfB []path) bool {
	return a == b && slices.Equal(others, othersOfB)
}

// A destination is a prefix with the paths of all peers to it, in no particular order: 48
// bytes with the first path, which is all that a table from one peer needs.
//
// Its key never changes while its handle is in use, and only the publisher ends that
// (RIB.release), so the publisher reads keys without the lock.
type destination struct {
	hi, lo uint64 // with bits and isV6 the prefixKey
	first  path
	more   *[]path // paths beside the first, nil for none
	fit    uint32  // how many paths may be chosen
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
func (d *destination) usable() bool { return d.fit > 0 }

// fits notes that a path comes (+1) or goes (-1).
func (d *destination) fits(p path, by int) {
	if p.usable() {
		d.fit += uint32(by)
	}
}

// Paths are numbered: the first is 0, the others follow.

// pathsOf counts the paths of a peer.
func (d *destination) pathsOf(peer uint16) (n int) {
	if d.first.exists() && d.first.peer == peer {
		n++
	}
	for _, x := range d.others() {
		if x.peer == peer {
			n++
		}
	}
	return n
}

// find gives the number of the path of a peer and identifier, -1 for none.
func (d *destination) find(peer uint16, id uint32) int {
	if d.first.exists() && d.first.peer == peer && d.first.id == id {
		return 0
	}
	for i, x := range d.others() {
		if x.peer == peer && x.id == id {
			return 1 + i
		}
	}
	return -1
}

func (d *destination) at(i int) path {
	if i == 0 {
		return d.first
	}
	return (*d.more)[i-1]
}

func (d *destination) set(i int, p path) {
	d.fits(d.at(i), -1)
	d.fits(p, +1)
	d.put(i, p)
}

func (d *destination) put(i int, p path) {
	if i == 0 {
		d.first = p
		return
	}
	d.own()
	(*d.more)[i-1] = p
}

func (d *destination) add(p path) {
	d.fits(p, +1)
	if d.empty() {
		d.first = p
		return
	}
	d.own()
	*d.more = append(*d.more, p)
}

// remove takes path i away and puts the last one in its place.
func (d *destination) remove(i int) {
	d.fits(d.at(i), -1)
	last := len(d.others())
	if i != last {
		d.put(i, d.at(last))
	}
	switch last {
	case 0:
		d.first = path{}
	case 1:
		d.more, d.shared = nil, false
	default:
		d.own()
		(*d.more)[last-1] = path{}
		*d.more = (*d.more)[:last-1]
	}
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
