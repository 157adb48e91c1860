package rib

import "github.com/ribwarp/ribwarp/lpm"

// A crowd finds the paths to a prefix that very many lead to: 1,000 peers with MaxPaths each have
// 64,000, which to search one after the other, under the lock that all peers share, takes as long
// as 200 other changes. Other destinations have none.
type crowd struct {
	at map[uint64]int32 // the number of a path, as destination.at takes it
	of map[uint16]int32 // how many a peer has
}

// A crowd is made at so many paths, and goes at half as many.
const crowdSize = 512

func crowdKey(peer uint16, id uint32) uint64 { return uint64(peer)<<32 | uint64(id) }

// crowd gives that of a destination, nil where it has none.
func (r *RIB) crowd(h lpm.Handle, d *destination) *crowd {
	if len(d.others()) < crowdSize/2-1 {
		return nil
	}
	return r.crowds[h]
}

// findPath gives the number of the path of a peer and identifier, -1 for none.
func (r *RIB) findPath(h lpm.Handle, d *destination, peer uint16, id uint32) int {
	c := r.crowd(h, d)
	if c == nil {
		return d.find(peer, id)
	}
	if i, ok := c.at[crowdKey(peer, id)]; ok {
		return int(i)
	}
	return -1
}

// pathsOf counts the paths of a peer.
func (r *RIB) pathsOf(h lpm.Handle, d *destination, peer uint16) int {
	if c := r.crowd(h, d); c != nil {
		return int(c.of[peer])
	}
	return d.pathsOf(peer)
}

// addPath puts in a path that is not there.
func (r *RIB) addPath(h lpm.Handle, d *destination, x path) {
	c := r.crowd(h, d)
	d.add(x)
	n := len(d.others())
	switch {
	case c != nil:
		c.add(x, n)
	case n+1 == crowdSize:
		c = &crowd{at: make(map[uint64]int32), of: make(map[uint16]int32)}
		for i := range crowdSize {
			c.add(d.at(i), i)
		}
		r.crowds[h] = c
	}
}

// removePath takes path i away and puts the last one in its place.
func (r *RIB) removePath(h lpm.Handle, d *destination, i int) {
	if c := r.crowd(h, d); c != nil {
		last, gone := d.at(len(d.others())), d.at(i)
		c.at[crowdKey(last.peer, last.id)] = int32(i)
		delete(c.at, crowdKey(gone.peer, gone.id)) // behind the other, which may be the same
		if c.of[gone.peer]--; c.of[gone.peer] == 0 {
			delete(c.of, gone.peer)
		}
		if len(c.at) < crowdSize/2 {
			delete(r.crowds, h)
		}
	}
	d.remove(i)
}

func (c *crowd) add(x path, i int) {
	c.at[crowdKey(x.peer, x.id)] = int32(i)
	c.of[x.peer]++
}
