package flavors

import (
	"runtime"
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
)

// A Tree holds masks of up to Strides.Width bits and answers which of them match a key. It is
// immutable and safe for concurrent use; Edit makes a changed one.
type Tree struct {
	strides *Strides
	flavor  Flavor
	levels  []level
	masks   int
	// region keeps the cells of the last full build alive, which the Go heap may not hold: a method
	// that reads cells keeps the tree alive to its end.
	region *region
}

// level is one level of a Tree: cells in pages, node i at i<<stride, and every node's container.
type level struct {
	pages  []*page
	stride uint8
	offset uint8 // first key bit
	nodes  int   // node numbers in use are below this
	lists  cow.Array[[]Entry]
	free   []uint32 // node numbers below nodes that are not in use
}

// at gives cell v of node n.
func (lv *level) at(n, v uint32) uint32 {
	i := uint(n)<<lv.stride | uint(v)
	return lv.pages[i>>pageBits][i&pageMask]
}

// child gives the node that a cell of the level above holds.
func (lv *level) child(c uint32) uint32 { return c &^ childBit >> lv.stride }

// NewTree builds a tree of masks in any order. Where a mask occurs twice the later one counts.
// Masks must fit the strides' width, with the bits behind their length zero.
func NewTree(st *Strides, f Flavor, masks []lpm.Route6) (*Tree, error) {
	return treeOf(st, f, SortMasks(st.width, masks))
}

// treeOf builds a tree of sorted masks.
func treeOf(st *Strides, f Flavor, s *Sorted) (*Tree, error) {
	im, err := BuildMasks(st, s, f)
	if err != nil {
		return nil, err
	}
	return TreeOf(im, f), nil
}

// TreeOf makes a built image searchable. It takes the image over.
func TreeOf(im *Image, f Flavor) *Tree {
	t := &Tree{strides: im.Strides, flavor: f, levels: make([]level, len(im.Nodes)), masks: len(im.Entries), region: im.region}
	for l, nodes := range im.Nodes {
		lists := make([][]Entry, nodes)
		for i := range lists {
			lists[i] = im.container(l, i)
		}
		t.levels[l] = level{
			pages:  pagesOf(im.Cells, im.Base[l], nodes<<im.Strides.list[l]),
			stride: uint8(im.Strides.list[l]),
			offset: uint8(im.Strides.offsets[l]),
			nodes:  nodes,
			lists:  cow.Of(lists),
		}
	}
	return t
}

// Len is the number of masks.
func (t *Tree) Len() int { return t.masks }

// Strides gives the tree's strides.
func (t *Tree) Strides() *Strides { return t.strides }

// node gives the node of level l that key's bits lead to; ok is false where there is none.
func (t *Tree) node(key Key, l int) (n uint32, ok bool) {
	for i := range l {
		c := t.levels[i].at(n, t.strides.cell(key, i))
		if c&childBit == 0 {
			return 0, false
		}
		n = t.levels[i+1].child(c)
	}
	return n, true
}

// Find gives the handle of exactly the mask of the given length, None if the tree lacks it.
func (t *Tree) Find(key Key, length int) lpm.Handle {
	l := t.strides.Level(uint8(length))
	n, ok := t.node(key, l)
	runtime.KeepAlive(t)
	if !ok {
		return lpm.None
	}
	list := t.levels[l].lists.At(int(n))
	if i, ok := search(list, t.pos(key, length, l)); ok {
		return lpm.Handle(list[i].Handle)
	}
	return lpm.None
}

// pos gives the Entry.Pos of a mask in its node of level l.
func (t *Tree) pos(key Key, length, l int) uint32 {
	st := t.strides
	free := st.offsets[l] + st.list[l] - length
	return entryPos(free, st.cell(key, l)&^(1<<free-1))
}

// Covering appends the handles of all masks that contain the given one, it among them if the
// tree has it, longest first. It costs a binary search for every length.
func (t *Tree) Covering(dst []lpm.Handle, key Key, length int) []lpm.Handle {
	from := len(dst)
	last := t.strides.Level(uint8(length))
	n := uint32(0)
	for l := 0; l <= last; l++ {
		lv := &t.levels[l]
		cell := t.strides.cell(key, l)
		least := 0 // fewest free bits a covering mask may have
		if l == last {
			least = int(lv.offset) + int(lv.stride) - length
		}
		list := lv.lists.At(int(n))
		for free := int(lv.stride); free >= least; free-- { // shortest first
			if i, ok := search(list, entryPos(free, cell&^(1<<free-1))); ok {
				dst = append(dst, lpm.Handle(list[i].Handle))
			}
		}
		if l < last {
			c := lv.at(n, cell)
			if c&childBit == 0 {
				break
			}
			n = t.levels[l+1].child(c)
		}
	}
	runtime.KeepAlive(t)
	slices.Reverse(dst[from:])
	return dst
}

// search finds the entry at pos, or where it would be, in a container: a binary search.
func search(list []Entry, pos uint32) (int, bool) {
	lo, hi := 0, len(list)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if list[m].Pos < pos {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo, lo < len(list) && list[lo].Pos == pos
}

// best gives the longest mask of a container that covers cell and leaves at least the given
// number of bits free: None if there is none.
func best(list []Entry, cell uint32, stride, least int) uint32 {
	if len(list) <= 16 { // one or two cache lines: look at all
		for _, e := range list {
			if f := e.free(); f >= least && (e.cell()^cell)>>f == 0 {
				return e.Handle
			}
		}
		return uint32(lpm.None)
	}
	for free := least; free <= stride; free++ {
		if i, ok := search(list, entryPos(free, cell&^(1<<free-1))); ok {
			return list[i].Handle
		}
	}
	return uint32(lpm.None)
}
