package flavors

import (
	"runtime"
	"unsafe"

	"github.com/ribwarp/ribwarp/lpm"
)

// A search reads one cell a level until it meets one without a child. What it costs is the
// cache misses of these reads, and what hides them is to have many in flight. The two loops for
// flavor Pushed do that in different ways, and both were measured to be the faster one for
// their family (docs/benchmarks/lookup.txt).

// Match puts the handle of the longest mask that matches each key into dst, which must be as
// long as keys. It allocates nothing.
func (t *Tree) Match(dst []lpm.Handle, keys []Key) {
	if t.flavor == List {
		for i, k := range keys {
			dst[i] = t.matchLists(k)
		}
	} else {
		for len(keys) >= block {
			t.matchBlock((*[block]lpm.Handle)(dst), (*[block]Key)(keys), block)
			dst, keys = dst[block:], keys[block:]
		}
		if n := len(keys); n > 0 {
			var ds [block]lpm.Handle
			var ks [block]Key
			copy(ks[:], keys)
			t.matchBlock(&ds, &ks, n)
			copy(dst, ds[:n])
		}
	}
	runtime.KeepAlive(t) // its cells are not all in the heap
}

// Match4 is Match for a tree of 32-bit keys.
//
// One address after the other: where most addresses end on the same level the branches are
// predicted, and the processor runs ahead into the reads of the next addresses.
func (t *Tree) Match4(dst []lpm.Handle, keys []uint32) {
	dst = dst[:len(keys)]
	if t.flavor == List {
		for i, k := range keys {
			dst[i] = t.matchLists(Key{Hi: uint64(k) << 32})
		}
		return
	}
	root := pagesPointer(&t.levels[0])
	rootShift := -t.levels[0].stride & 31
	deeper := t.levels[1:]
	for i, k := range keys {
		c := cellAt(root, uint64(k>>rootShift))
		for l := 0; int32(c) < 0; l++ {
			lv := &deeper[l]
			v := k << (lv.offset & 31) >> (-lv.stride & 31)
			c = cellAt(pagesPointer(lv), uint64(c&^childBit)+uint64(v))
		}
		dst[i] = lpm.Handle(c)
	}
	runtime.KeepAlive(t)
}

// block is the number of keys that matchBlock takes through the levels together. It is one more
// than the largest uint8, so that such an index needs no bounds check.
const block = 256

// matchBlock matches n keys level by level. IPv6 addresses end on many different levels, which
// no branch predictor can tell; so the keys that are still on their way are kept in a list that
// is compacted without a branch, and all their reads on one level are independent of each other.
func (t *Tree) matchBlock(dst *[block]lpm.Handle, keys *[block]Key, n int) {
	var cur [block]uint32 // the cell that a key on its way has reached
	var live [block]uint8 // the keys on their way
	root := pagesPointer(&t.levels[0])
	shift := -t.levels[0].stride & 63
	for k := range n {
		i := uint8(k)
		cur[i] = cellAt(root, keys[i].Hi>>shift)
		live[i] = i
	}
	for l := 1; ; l++ {
		next := 0
		for k := range n {
			i, c := live[uint8(k)], cur[uint8(k)]
			dst[i] = lpm.Handle(c)
			live[uint8(next)], cur[uint8(next)] = i, c
			next += int(c >> 31) // childBit: the key stays on the list
		}
		n = next
		if n == 0 {
			return
		}
		lv := &t.levels[l]
		pages := pagesPointer(lv)
		end := lv.offset + lv.stride
		if end <= 64 {
			shift, mask := (64-end)&63, uint64(1)<<(lv.stride&31)-1
			for k := range n {
				i := uint8(k)
				cur[i] = cellAt(pages, uint64(cur[i]&^childBit)+keys[live[i]].Hi>>shift&mask)
			}
		} else {
			for k := range n {
				i := uint8(k)
				v := window(keys[live[i]], int(lv.offset), int(lv.stride))
				cur[i] = cellAt(pages, uint64(cur[i]&^childBit)+uint64(v))
			}
		}
	}
}

// pagesPointer gives the level's page table for cellAt.
func pagesPointer(lv *level) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(lv.pages)) }

// cellAt reads cell i of a level. It is a slice access without bounds checks, which cost a
// tenth of a lookup: every i that a search comes to is a cell of a node that the build made, and
// every level has at least one page.
func cellAt(pages unsafe.Pointer, i uint64) uint32 {
	p := *(*unsafe.Pointer)(unsafe.Add(pages, i>>pageBits*uint64(unsafe.Sizeof(uintptr(0)))))
	return *(*uint32)(unsafe.Add(p, i&pageMask*cellSize))
}

// matchLists matches one key in flavor List: the best mask of the deepest container that has
// one.
func (t *Tree) matchLists(key Key) lpm.Handle {
	n, found := uint32(0), uint32(lpm.None)
	for l := range t.levels {
		lv := &t.levels[l]
		cell := t.strides.cell(key, l)
		if h := best(lv.lists.At(int(n)), cell, int(lv.stride), 0); h != uint32(lpm.None) {
			found = h // deeper is longer
		}
		c := lv.at(n, cell)
		if c&childBit == 0 {
			break
		}
		n = t.levels[l+1].child(c)
	}
	return lpm.Handle(found)
}
