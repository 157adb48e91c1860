package flavors

import (
	"runtime"
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
)

// Edit gives a tree with the changes applied, in any order; t stays as it is. A change with
// handle None takes its mask away. Where a mask occurs twice the later change counts.
//
// It costs what the changes touch: for each a walk to its node, the cells between the mask and
// the longer masks inside it, and a move of what follows it in its node's container; for all of
// them together a copy of each 64 KiB page that holds such a cell and of each container; besides,
// a copy of the page tables (8 bytes a page, and 24 for every 256 containers).
//
// An error wraps ErrStrides: a level would need more cells than cells can number.
func (t *Tree) Edit(changes []lpm.Route6) (*Tree, error) {
	e := edit{t: &Tree{strides: t.strides, flavor: t.flavor, masks: t.masks, region: t.region}}
	e.t.levels = slices.Clone(t.levels)
	e.levels = make([]levelEdit, len(t.levels))
	changes = lastOfEach(changes)
	// A handle may move from one mask to another in one edit, and push tells masks apart by
	// handle. So everything that goes is gone before anything comes.
	for _, c := range changes {
		if h := e.find(c.Addr, int(c.Bits)); h != lpm.None && h != c.Handle {
			e.remove(c.Addr, int(c.Bits))
		}
	}
	for _, c := range changes {
		if c.Handle != lpm.None {
			if err := e.insert(c.Addr, int(c.Bits), uint32(c.Handle)); err != nil {
				return nil, err
			}
		}
	}
	e.done()
	runtime.KeepAlive(t)
	return e.t, nil
}

// lastOfEach drops all changes to a mask but the last.
func lastOfEach(changes []lpm.Route6) []lpm.Route6 {
	type mask struct {
		key  Key
		bits uint8
	}
	last := make(map[mask]int, len(changes))
	for i, c := range changes {
		last[mask{c.Addr, c.Bits}] = i
	}
	if len(last) == len(changes) {
		return changes
	}
	kept := make([]lpm.Route6, 0, len(last))
	for i, c := range changes {
		if last[mask{c.Addr, c.Bits}] == i {
			kept = append(kept, c)
		}
	}
	return kept
}

// edit is a tree while it changes: its levels are its own, their pages only where owned.
type edit struct {
	t      *Tree
	levels []levelEdit
}

// levelEdit says what of a level belongs to the edit alone.
type levelEdit struct {
	ownTable bool   // the slice of pages
	ownFree  bool   // the slice of free nodes
	owned    []bool // by page
	lists    *cow.Edit[[]Entry]
	ownLists map[uint32]bool // containers, by node
}

// done moves the changed containers into the tree.
func (e *edit) done() {
	for l := range e.levels {
		if lists := e.levels[l].lists; lists != nil {
			e.t.levels[l].lists = lists.Done()
			e.levels[l].lists = nil
		}
	}
}

// set writes cell v of node n of level l.
func (e *edit) set(l int, n, v, x uint32) {
	lv := &e.t.levels[l]
	i := uint(n)<<lv.stride | uint(v)
	e.own(l, int(i>>pageBits))[i&pageMask] = x
}

// own gives a page of level l for writing: a copy, unless it was copied before.
func (e *edit) own(l, p int) *page {
	lv, le := &e.t.levels[l], &e.levels[l]
	if !le.ownTable {
		lv.pages = slices.Clone(lv.pages)
		le.ownTable = true
		le.owned = make([]bool, len(lv.pages))
	}
	if !le.owned[p] {
		c := *lv.pages[p]
		lv.pages[p] = &c
		le.owned[p] = true
	}
	return lv.pages[p]
}

// list gives the container of node n of level l.
func (e *edit) list(l int, n uint32) []Entry {
	if lists := e.levels[l].lists; lists != nil {
		return lists.At(int(n))
	}
	return e.t.levels[l].lists.At(int(n))
}

// find is Tree.Find on the tree as it is now.
func (e *edit) find(key Key, length int) lpm.Handle {
	l := e.t.strides.Level(uint8(length))
	if n, ok := e.t.node(key, l); ok {
		list := e.list(l, n)
		if i, ok := search(list, e.t.pos(key, length, l)); ok {
			return lpm.Handle(list[i].Handle)
		}
	}
	return lpm.None
}

// setList replaces the container of node n of level l.
func (e *edit) setList(l int, n uint32, list []Entry) {
	le := &e.levels[l]
	if le.lists == nil {
		le.lists = e.t.levels[l].lists.Edit()
	}
	le.lists.Set(int(n), list)
}

// ownList gives the container of node n of level l for writing: a copy with room for one more
// entry, unless it was copied before. A root's container can have 100,000 entries, too many to be
// copied for every change.
func (e *edit) ownList(l int, n uint32) []Entry {
	list, le := e.list(l, n), &e.levels[l]
	if le.ownLists[n] {
		return list
	}
	if le.ownLists == nil {
		le.ownLists = map[uint32]bool{}
	}
	le.ownLists[n] = true
	return append(make([]Entry, 0, len(list)+1), list...)
}

// newNode makes a node of level l whose cells all hold x, and gives its number.
func (e *edit) newNode(l int, x uint32) (uint32, error) {
	lv, le := &e.t.levels[l], &e.levels[l]
	var n uint32
	if f := len(lv.free); f > 0 {
		n = lv.free[f-1]
		lv.free = lv.free[: f-1 : f-1] // a later append must not write to the old tree's slice
		le.ownFree = true
	} else {
		if err := e.t.strides.checkNodes(l, lv.nodes+1); err != nil {
			return 0, err
		}
		n = uint32(lv.nodes)
		lv.nodes++
	}
	first, last := uint(n)<<lv.stride, (uint(n)+1)<<lv.stride-1
	for p := first >> pageBits; p <= last>>pageBits; p++ {
		if int(p) == len(lv.pages) {
			if !le.ownTable {
				e.own(l, 0) // take the table over
			}
			lv.pages = append(lv.pages, new(page))
			le.owned = append(le.owned, true)
		}
		lo, hi := max(first, p<<pageBits), min(last, p<<pageBits|pageMask)
		fill(e.own(l, int(p))[lo&pageMask:hi&pageMask+1], x)
	}
	e.setList(l, n, nil)
	return n, nil
}

// freeNode gives back node n of level l, which nothing links to any more.
func (e *edit) freeNode(l int, n uint32) {
	lv, le := &e.t.levels[l], &e.levels[l]
	if !le.ownFree {
		lv.free = slices.Clone(lv.free)
		le.ownFree = true
	}
	lv.free = append(lv.free, n)
	e.setList(l, n, nil)
}

// insert adds a mask that the tree lacks; one that it has with the same handle stays.
func (e *edit) insert(key Key, length int, h uint32) error {
	t := e.t
	last := t.strides.Level(uint8(length))
	n := uint32(0)
	cover := uint32(lpm.None) // the longest mask shorter than the new one
	for l := 0; l < last; l++ {
		lv := &t.levels[l]
		cell := t.strides.cell(key, l)
		if b := best(e.list(l, n), cell, int(lv.stride), 0); b != 0 {
			cover = b
		}
		c := lv.at(n, cell)
		if c&childBit == 0 {
			child, err := e.newNode(l+1, c) // it inherits what the cell held
			if err != nil {
				return err
			}
			c = childBit | child<<t.levels[l+1].stride
			e.set(l, n, cell, c)
		}
		n = t.levels[l+1].child(c)
	}
	list := e.list(last, n)
	pos := t.pos(key, length, last)
	i, found := search(list, pos)
	if found {
		return nil
	}
	entry := Entry{Pos: pos, Handle: h}
	if b := best(list, entry.cell(), int(t.levels[last].stride), entry.free()+1); b != 0 {
		cover = b
	}
	e.setList(last, n, slices.Insert(e.ownList(last, n), i, entry))
	t.masks++
	e.push(last, n, entry, cover, h)
	return nil
}

// remove takes away a mask that the tree has.
func (e *edit) remove(key Key, length int) {
	t := e.t
	last := t.strides.Level(uint8(length))
	var path [MaxWidth]uint32 // the nodes on the way
	cover := uint32(lpm.None)
	for l := 0; l < last; l++ {
		cell := t.strides.cell(key, l)
		if b := best(e.list(l, path[l]), cell, int(t.levels[l].stride), 0); b != 0 {
			cover = b
		}
		path[l+1] = t.levels[l+1].child(t.levels[l].at(path[l], cell))
	}
	list := e.list(last, path[last])
	i, _ := search(list, t.pos(key, length, last))
	entry := list[i]
	if b := best(list, entry.cell(), int(t.levels[last].stride), entry.free()+1); b != 0 {
		cover = b
	}
	e.setList(last, path[last], slices.Delete(e.ownList(last, path[last]), i, i+1))
	t.masks--
	e.push(last, path[last], entry, entry.Handle, cover)
	for l := last; l > 0 && e.empty(l, path[l]); l-- {
		e.set(l-1, path[l-1], t.strides.cell(key, l-1), t.levels[l].at(path[l], 0))
		e.freeNode(l, path[l])
	}
}

// empty tells whether node n of level l has no mask and no child. All its cells then hold the
// same inherited value.
func (e *edit) empty(l int, n uint32) bool {
	if len(e.list(l, n)) > 0 {
		return false
	}
	lv := &e.t.levels[l]
	for v := range uint32(1) << lv.stride {
		if lv.at(n, v)&childBit != 0 {
			return false
		}
	}
	return true
}

// push replaces from by to in the cells that a mask of node n of level l covers, and in the
// nodes below them. That is all that a mask's coming or going changes: the cells that it is
// best for are those that the next shorter mask is best for without it.
func (e *edit) push(l int, n uint32, m Entry, from, to uint32) {
	if e.t.flavor == Pushed {
		e.replace(l, n, m.cell(), 1<<m.free(), from, to)
	}
}

// replace is push for count cells from first on.
func (e *edit) replace(l int, n, first, count, from, to uint32) {
	lv := &e.t.levels[l]
	for v := first; v < first+count; v++ {
		switch c := lv.at(n, v); {
		case c&childBit != 0:
			e.replace(l+1, e.t.levels[l+1].child(c), 0, 1<<e.t.levels[l+1].stride, from, to)
		case c == from:
			e.set(l, n, v, to)
		}
	}
}
