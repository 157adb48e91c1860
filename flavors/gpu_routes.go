package flavors

import (
	"math/rand/v2"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
	"github.com/ribwarp/ribwarp/kernels/tree"
	"github.com/ribwarp/ribwarp/lpm"
)

// gpuRoutes are the routes of one table in hash maps of a device, from prefix to handle. An update inserts
// and erases its changes there, takes all pairs out and builds the next tree from them.
//
// The maps are those of the newest table as a rule. Where they are not, as after a build or after an update
// that failed, they are filled anew from the table that is to be updated.
type gpuRoutes struct{ v4, v6 gpuFamily }

func (r *gpuRoutes) free(q *device.Queue) {
	r.v4.free(q)
	r.v6.free(q)
}

// gpuFamily is one family's maps. IPv4 prefixes are 64-bit keys (tree.Columns.Pack32), all in the first
// map. IPv6 prefixes are 128-bit keys, which have no room for a length beside all 128 bits of an
// address (Pack128): host prefixes are in the second one.
type gpuFamily struct {
	maps [2]*dynamic.Map
	of   *gpuTree // whose values the maps hold; nil: nobody's
}

var kinds = map[bool]dynamic.Kind{
	false: dynamic.KindOf[uint64, uint32](),
	true:  dynamic.KindOf[lpm.Addr6, uint32](),
}

// edits are the changes of an update for each of a family's maps, a prefix once. Keys are of one word or
// two.
type edits struct {
	wide    bool
	longest int // of the prefixes that are put in
	maps    [2]struct {
		keys    []uint64
		handles []uint32
		gone    []uint64
	}
}

// add puts a change in: for handle None the prefix goes.
func (e *edits) add(m int, h lpm.Handle, bits uint8, key ...uint64) {
	to := &e.maps[m]
	if h == lpm.None {
		to.gone = append(to.gone, key...)
		return
	}
	e.longest = max(e.longest, int(bits))
	to.keys, to.handles = append(to.keys, key...), append(to.handles, uint32(h))
}

// edits4 and edits6 turn changes into edits. Of a prefix that occurs twice the later change counts.
func edits4(rs []lpm.Route4) edits {
	var e edits
	seen := make(map[uint64]bool, len(rs))
	for i := len(rs) - 1; i >= 0; i-- {
		r := rs[i]
		key := uint64(r.Addr)<<8 | uint64(r.Bits)
		if seen[key] {
			continue
		}
		seen[key] = true
		e.add(0, r.Handle, r.Bits, key)
	}
	return e
}

func edits6(rs []lpm.Route6) edits {
	e := edits{wide: true}
	seen := make(map[lpm.Route6]bool, len(rs))
	for i := len(rs) - 1; i >= 0; i-- {
		r := rs[i]
		prefix := lpm.Route6{Addr: r.Addr, Bits: r.Bits}
		if seen[prefix] {
			continue
		}
		seen[prefix] = true
		m, key := 0, r.Addr
		switch {
		case r.Bits < 64:
			key.Hi |= 1 << (63 - r.Bits)
		case r.Bits < 128:
			key.Lo |= 1 << (127 - r.Bits)
		default:
			m = 1
		}
		e.add(m, r.Handle, r.Bits, key.Hi, key.Lo)
	}
	return e
}

// update makes the maps' pairs those of prev with the edits, and gives them as columns. Until the next tree
// is built the maps are nobody's.
func (f *gpuFamily) update(q *device.Queue, prev *gpuTree, e edits) (tree.Columns, error) {
	was := f.of
	f.of = nil
	if was != prev {
		if err := f.fill(q, prev, e.wide); err != nil {
			return tree.Columns{}, err
		}
	}
	for i, m := range f.maps {
		x := &e.maps[i]
		keyWords := kinds[e.wide].KeyBytes() / 8
		if n := len(x.gone) / keyWords; n > 0 {
			if _, err := m.Erase(q, upload(q, x.gone), n, 0); err != nil {
				return tree.Columns{}, err
			}
		}
		if n := len(x.handles); n > 0 {
			if _, err := m.Insert(q, upload(q, x.keys), upload(q, x.handles), n, true, 0); err != nil {
				return tree.Columns{}, err
			}
		}
	}
	c := f.columns(q, max(prev.Sorted.Longest, e.longest))
	if q.Err() != nil {
		c.Free(q)
	}
	return c, q.Err()
}

// upload brings a slice to the device for the time of the job.
func upload[T uint32 | uint64](q *device.Queue, s []T) device.Ptr {
	p := q.Temp(len(s) * int(unsafe.Sizeof(T(0))))
	device.CopyIn(q, p, s)
	return p
}

// fill makes the maps anew with a tree's values.
func (f *gpuFamily) fill(q *device.Queue, from *gpuTree, wide bool) error {
	f.free(q)
	c := &from.Sorted
	kind := kinds[wide]
	type pairs struct{ keys, handles device.Ptr }
	var in [2]pairs
	counts := []uint64{uint64(c.N), 0}
	in[0] = pairs{q.Temp(kind.KeyBytes() * c.N), c.Payload}
	if wide {
		in[0].handles = q.Temp(4 * c.N)
		in[1] = pairs{q.Temp(kind.KeyBytes() * c.N), q.Temp(4 * c.N)}
		n := q.Temp(16)
		c.Pack128(q, in[0].keys, in[0].handles, in[1].keys, in[1].handles, n)
		device.CopyOut(q, counts, n)
		q.Wait()
	} else {
		c.Pack32(q, in[0].keys)
	}
	for i, x := range in {
		if q.Err() != nil {
			return q.Err()
		}
		// Twice the pairs: room for changes, and short ways.
		m, err := dynamic.New(q, kind, 2*int(counts[i]), dynamic.Options{Seed: rand.Uint64()})
		if err != nil {
			return err
		}
		f.maps[i] = m
		if _, err := m.Insert(q, x.keys, x.handles, int(counts[i]), true, 0); err != nil {
			return err
		}
	}
	for _, x := range in {
		q.Free(x.keys)
		if wide {
			q.Free(x.handles)
		}
	}
	return q.Err()
}

// columns gives all pairs of the maps as columns.
func (f *gpuFamily) columns(q *device.Queue, longest int) tree.Columns {
	n := f.maps[0].Len() + f.maps[1].Len()
	c := tree.NewColumns(q, n, longest)
	at := 0
	for i, m := range f.maps {
		n := m.Len()
		if n == 0 {
			continue
		}
		keys, handles, count := q.Temp(m.Kind().KeyBytes()*n), q.Temp(4*n), q.Temp(8)
		m.RetrieveAll(q, dynamic.Tiles, keys, handles, count)
		if m.Kind().Wide {
			c.Unpack128(q, at, keys, handles, n, i == 1)
		} else {
			c.Unpack32(q, at, keys, handles, n)
		}
		at += n
		for _, p := range []device.Ptr{keys, handles, count} {
			q.Free(p)
		}
	}
	return c
}

func (f *gpuFamily) free(q *device.Queue) {
	for i, m := range f.maps {
		if m != nil {
			m.Free(q)
		}
		f.maps[i] = nil
	}
	f.of = nil
}
