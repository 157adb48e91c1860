package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"net/netip"
	"time"

	"github.com/ribwarp/ribwarp/rib"
)

// A writer makes a file block by block.
type writer struct {
	to      io.Writer
	sum     uint32 // of everything so far but checksums
	content []byte // of the block that is being made, behind room for its start
	bytes   int64
	tables  int
	routes  int
	err     error // the first one; nothing is written after it
}

func newWriter(to io.Writer, created time.Time) *writer {
	w := &writer{to: to, content: make([]byte, blockStart, blockSize+blockSize/4)}
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint64(b, uint64(nanoseconds(created)))
	w.write(b)
	return w
}

// blockStart is the length and the kind.
const blockStart = 5

// write writes b and the checksum behind it.
func (w *writer) write(b []byte) {
	w.sum = crc32.Update(w.sum, castagnoli, b)
	b = binary.LittleEndian.AppendUint32(b, w.sum)
	if w.err != nil {
		return
	}
	n, err := w.to.Write(b)
	w.bytes += int64(n)
	w.err = err
}

// block ends the block that is being made. One without content is left out.
func (w *writer) block(kind byte) {
	n := len(w.content) - blockStart
	if n == 0 {
		return
	}
	if n > maxBlock && w.err == nil {
		w.err = fmt.Errorf("a block of %d bytes: %d is the most", n, maxBlock)
	}
	binary.LittleEndian.PutUint32(w.content, uint32(n))
	w.content[blockStart-1] = kind
	w.write(w.content)
	w.content = w.content[:blockStart]
}

func (w *writer) uvarint(v uint64) { w.content = binary.AppendUvarint(w.content, v) }

func (w *writer) string(s string) {
	w.uvarint(uint64(len(s)))
	w.content = append(w.content, s...)
}

func (w *writer) addr(a netip.Addr) {
	b, _ := a.MarshalBinary() // never fails
	w.uvarint(uint64(len(b)))
	w.content = append(w.content, b...)
}

// flag gives f where it is to be set.
func flag(is bool, f byte) byte {
	if is {
		return f
	}
	return 0
}

// A batchKey is what the routes of a batch share.
type batchKey struct {
	attrs rib.Path
	peer  *rib.Peer
	flags byte // of flagIPv6, flagPathIDs, flagStale
}

// routes are numbered from 0 to n-1; the zero route is none.
type routes struct {
	n  int
	at func(int) rib.Route
}

// maxWithheld bounds the memory that routes take which are in no generation: 4 MB.
const maxWithheld = 1 << 16

// generation writes a generation, and what of its table is in none: paths to destinations of which
// nothing is chosen, in tables of the same name.
func (w *writer) generation(name string, g *rib.Generation, withheld iter.Seq[rib.Route], staleSince func(*rib.Peer) time.Time) {
	w.table(name, g.Number, routes{g.Routes.Len(), g.Routes.At}, staleSince)
	var some []rib.Route
	flush := func() {
		if len(some) > 0 {
			w.table(name, g.Number, routes{len(some), func(i int) rib.Route { return some[i] }}, staleSince)
		}
		some = some[:0]
	}
	for r := range withheld {
		if some = append(some, r); len(some) == maxWithheld {
			flush()
		}
	}
	flush()
}

// table writes a table of a generation of that number. staleSince tells of a peer that has stale
// routes since when it has them. It takes 8 bytes a route while it runs, and some 250 a set of
// attributes.
func (w *writer) table(name string, number uint64, all routes, staleSince func(*rib.Peer) time.Time) {
	// Count the routes of every batch, then sort them by batch.
	numbers := make(map[batchKey]uint32, all.n/8)
	var keys []batchKey
	var counts []int
	of := make([]uint32, all.n) // batch by the route's number, counted from 1
	last, batch := batchKey{}, uint32(0)
	for i := range of {
		r := all.at(i)
		if r == (rib.Route{}) {
			continue
		}
		k := batchKey{r.Path, r.Peer, flag(r.Prefix.Addr().Is6(), flagIPv6) | flag(r.PathID != 0, flagPathIDs) | flag(r.Stale, flagStale)}
		if k != last { // handles are given out in the order of announcements: neighbours are alike
			var known bool
			if batch, known = numbers[k]; !known {
				keys, counts = append(keys, k), append(counts, 0)
				batch = uint32(len(keys))
				numbers[k] = batch
			}
			last = k
		}
		of[i] = batch
		counts[batch-1]++
	}
	next := make([]int, len(counts)) // where the batch's next route goes
	total, v6 := 0, 0
	for i, n := range counts {
		next[i] = total
		total += n
		if keys[i].flags&flagIPv6 != 0 {
			v6 += n
		}
	}
	sorted := make([]uint32, total)
	for i, batch := range of {
		if batch > 0 {
			sorted[next[batch-1]] = uint32(i)
			next[batch-1]++
		}
	}

	w.string(name)
	w.uvarint(number)
	w.uvarint(uint64(total - v6))
	w.uvarint(uint64(v6))
	w.block(blockTable)
	w.tables++
	peers := w.peers(keys, staleSince)
	for i, k := range keys {
		for of := sorted[next[i]-counts[i] : next[i]]; len(of) > 0 && w.err == nil; {
			n := min(len(of), maxBatch)
			w.batch(peers[k.peer], k, all, of[:n])
			if of = of[n:]; len(w.content) >= blockSize {
				w.block(blockRoutes)
			}
		}
	}
	w.block(blockRoutes)
	w.routes += total
}

// peers writes the peers of the batches and gives their numbers.
func (w *writer) peers(keys []batchKey, staleSince func(*rib.Peer) time.Time) map[*rib.Peer]int {
	numbers := map[*rib.Peer]int{}
	stale := map[*rib.Peer]bool{}
	var order []*rib.Peer
	for _, k := range keys {
		if _, known := numbers[k.peer]; !known {
			numbers[k.peer] = len(order)
			order = append(order, k.peer)
		}
		if k.flags&flagStale != 0 {
			stale[k.peer] = true
		}
	}
	for _, p := range order {
		s, since := p.Status(), time.Time{} // the one look at what the RIB's lock guards
		if stale[p] {
			since = staleSince(p)
		}
		w.string(s.Name)
		w.string(string(s.Kind))
		w.addr(s.Addr)
		w.uvarint(uint64(s.AS))
		w.addr(s.RouterID)
		w.content = binary.LittleEndian.AppendUint64(w.content, uint64(nanoseconds(since)))
		if len(w.content) >= blockSize {
			w.block(blockPeers)
		}
	}
	w.block(blockPeers)
	return numbers
}

func (w *writer) batch(peer int, k batchKey, all routes, which []uint32) {
	a := k.attrs.Value()
	w.uvarint(uint64(peer))
	w.content = append(w.content,
		k.flags|flag(a.HasMED, flagMED)|flag(a.HasLocalPref, flagLocalPref)|flag(a.HasOTC, flagOTC),
		a.Origin, a.ClusterListLen)
	w.content = append(w.content, a.OriginatorID[:]...)
	w.uvarint(uint64(a.MED))
	w.uvarint(uint64(a.LocalPref))
	w.uvarint(uint64(a.OTC))
	w.addr(a.NextHop)
	w.string(string(a.ASPath))
	w.string(string(a.Communities))
	w.string(string(a.LargeCommunities))
	w.string(string(a.ExtCommunities))
	w.uvarint(uint64(len(which)))
	b := w.content
	for _, i := range which {
		r := all.at(int(i))
		if k.flags&flagPathIDs != 0 {
			b = binary.LittleEndian.AppendUint32(b, r.PathID)
		}
		bits := r.Prefix.Bits()
		b = append(b, byte(bits))
		if k.flags&flagIPv6 != 0 {
			a := r.Prefix.Addr().As16()
			b = append(b, a[:(bits+7)/8]...)
		} else {
			a := r.Prefix.Addr().As4()
			b = append(b, a[:(bits+7)/8]...)
		}
	}
	w.content = b
}

// end writes the last block and gives the first error of all.
func (w *writer) end() error {
	w.uvarint(uint64(w.tables))
	w.uvarint(uint64(w.routes))
	w.block(blockEnd)
	return w.err
}
