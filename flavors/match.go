package flavors

import (
	"runtime"
	"unsafe"

	"github.com/ribwarp/ribwarp/lpm"
)

// A search reads one cell a level until it meets one without a child. What it costs is the
// cache misses of these reads, and what hides them is to have many in flight. So keys are taken
// in blocks, and a whole block goes down one level before any key goes down the next: the reads
// of one level do not depend on each other.

const (
	// block is the number of keys that go down the levels together. It is one more than the
	// largest uint8, so that such an index needs no bounds check.
	block = 256
	// few is the number of keys below which a block is not worth setting up.
	few = 8
)

// Match puts the handle of the longest mask that matches each key into dst, which must be as
// long as keys. It allocates nothing.
func (t *Tree) Match(dst []lpm.Handle, keys []Key) {
	dst = dst[:len(keys):len(dst)] // panics where dst is too short, also where its array is not
	switch {
	case t.flavor == List:
		for i, k := range keys {
			dst[i] = t.matchLists(k)
		}
	case useStep && len(keys) >= few:
		var cur [block]uint32
		var hi [block]uint64
		for len(keys) > 0 {
			n := min(len(keys), block)
			for i := range keys[:n] {
				hi[i] = keys[i].Hi
			}
			l := t.descend(&cur, &hi, n)
			for i, c := range cur[:n] {
				if int32(c) < 0 { // the key's second word decides
					c = t.finish(keys[i], l, c)
				}
				dst[i] = lpm.Handle(c)
			}
			dst, keys = dst[n:], keys[n:]
		}
	default:
		for len(keys) >= few {
			n := min(len(keys), block)
			t.matchBlock(dst[:n], keys[:n])
			dst, keys = dst[n:], keys[n:]
		}
		for i, k := range keys {
			dst[i] = lpm.Handle(t.finish(k, 0, childBit))
		}
	}
	runtime.KeepAlive(t) // its cells are not all in the heap
}

// Match4 is Match for a tree of 32-bit keys.
func (t *Tree) Match4(dst []lpm.Handle, keys []uint32) {
	dst = dst[:len(keys):len(dst)]
	switch {
	case t.flavor == List:
		for i, k := range keys {
			dst[i] = t.matchLists(key4(k))
		}
	case useStep && len(keys) >= few:
		var cur [block]uint32
		var hi [block]uint64
		for len(keys) > 0 {
			n := min(len(keys), block)
			for i, k := range keys[:n] {
				hi[i] = uint64(k) << 32
			}
			t.descend(&cur, &hi, n)
			for i, c := range cur[:n] {
				dst[i] = lpm.Handle(c)
			}
			dst, keys = dst[n:], keys[n:]
		}
	default:
		// Most IPv4 addresses end on the same level. Then the branches are predicted and the
		// processor runs ahead into the reads of the next addresses by itself, which is faster
		// than to go level by level.
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
	}
	runtime.KeepAlive(t)
}

// descend takes n keys down all levels that lie in their first word, hi, and gives the level
// below those. cur receives the cells they reach.
func (t *Tree) descend(cur *[block]uint32, hi *[block]uint64, n int) int {
	for i := range cur {
		cur[i] = 0
		if i < n {
			cur[i] = childBit // the root is the child number 0 of nothing
		}
	}
	for l := range t.levels {
		lv := &t.levels[l]
		end := lv.offset + lv.stride
		if end > 64 {
			return l
		}
		if step(cur, hi, n, pagesPointer(lv), uint64(64-end), 1<<lv.stride-1) == 0 {
			return l + 1
		}
	}
	return len(t.levels)
}

// finish takes one key, which has reached cell c above level l, down to its last cell.
func (t *Tree) finish(key Key, l int, c uint32) uint32 {
	for ; int32(c) < 0; l++ {
		lv := &t.levels[l]
		v := window(key, int(lv.offset), int(lv.stride))
		c = cellAt(pagesPointer(lv), uint64(c&^childBit)+uint64(v))
	}
	return c
}

// matchBlock matches up to a block of keys level by level, without wide instructions. IPv6
// addresses end on many different levels, which no branch predictor can tell; so the keys that
// are still on their way are kept in a list that is compacted without a branch.
func (t *Tree) matchBlock(dst []lpm.Handle, keys []Key) {
	var cur [block]uint32 // the cell that a key on its way has reached
	var live [block]uint8 // the keys on their way
	n := len(keys)
	for k := range n {
		cur[uint8(k)], live[uint8(k)] = childBit, uint8(k)
	}
	for l := 0; n > 0; l++ {
		lv := &t.levels[l]
		pages := pagesPointer(lv)
		if end := lv.offset + lv.stride; end <= 64 {
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
		next := 0
		for k := range n {
			i, c := live[uint8(k)], cur[uint8(k)]
			dst[i] = lpm.Handle(c)
			live[uint8(next)], cur[uint8(next)] = i, c
			next += int(c >> 31) // childBit: the key stays on the list
		}
		n = next
	}
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

// pagesPointer gives the level's page table for cellAt and step.
func pagesPointer(lv *level) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(lv.pages)) }

// cellAt reads cell i of a level. It is a slice access without bounds checks, which cost a
// tenth of a lookup: every i that a search comes to is a cell of a node that the build made, and
// every level has at least one page.
func cellAt(pages unsafe.Pointer, i uint64) uint32 {
	p := *(*unsafe.Pointer)(unsafe.Add(pages, i>>pageBits*uint64(unsafe.Sizeof(uintptr(0)))))
	return *(*uint32)(unsafe.Add(p, i&pageMask*cellSize))
}
