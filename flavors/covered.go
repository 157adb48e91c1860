package flavors

import (
	"cmp"
	"runtime"
	"slices"

	"github.com/ribwarp/ribwarp/lpm"
)

// Covered appends the handles of the masks inside the given one, it among them, by value and
// then by length, at most limit of them (all if limit is negative).
func (t *Tree) Covered(dst []lpm.Handle, key Key, length, limit int) []lpm.Handle {
	t.walk(key, length, func(h lpm.Handle, _ Key, _ int) bool {
		if limit == 0 {
			return false
		}
		limit--
		dst = append(dst, h)
		return true
	})
	return dst
}

// All calls yield for every mask, by value and then by length, until it returns false.
func (t *Tree) All(yield func(key Key, length int, h lpm.Handle) bool) {
	t.walk(Key{}, 0, func(h lpm.Handle, key Key, length int) bool { return yield(key, length, h) })
}

// walk calls yield for the masks inside the given one, by value and then by length.
func (t *Tree) walk(key Key, length int, yield func(h lpm.Handle, key Key, length int) bool) {
	l := t.strides.Level(uint8(length))
	n, ok := t.node(key, l)
	defer runtime.KeepAlive(t)
	if !ok {
		return
	}
	free := t.strides.offsets[l] + t.strides.list[l] - length
	first := t.strides.cell(key, l) &^ (1<<free - 1)
	t.walkNode(l, n, clip(key, t.strides.offsets[l]), first, free, yield)
}

// walkNode walks the 1<<free cells of node n of level l from first on, and the nodes below.
// above holds the key bits that lead to the node.
func (t *Tree) walkNode(l int, n uint32, above Key, first uint32, free int, yield func(lpm.Handle, Key, int) bool) bool {
	lv := &t.levels[l]
	end := first + 1<<free
	var inside []Entry
	for _, e := range lv.lists.At(int(n)) {
		if e.free() <= free && e.cell() >= first && e.cell() < end {
			inside = append(inside, e)
		}
	}
	slices.SortFunc(inside, func(a, b Entry) int { // by cell, the mask of more cells first
		return cmp.Or(cmp.Compare(a.cell(), b.cell()), cmp.Compare(b.free(), a.free()))
	})
	bottom := int(lv.offset) + int(lv.stride)
	for cell := first; cell < end; cell++ {
		key := with(above, cell, bottom)
		for len(inside) > 0 && inside[0].cell() == cell {
			if !yield(lpm.Handle(inside[0].Handle), key, bottom-inside[0].free()) {
				return false
			}
			inside = inside[1:]
		}
		if c := lv.at(n, cell); c&childBit != 0 {
			if !t.walkNode(l+1, t.levels[l+1].child(c), key, 0, int(t.levels[l+1].stride), yield) {
				return false
			}
		}
	}
	return true
}

// with puts a cell number into key so that its last bit is bit end-1.
func with(key Key, cell uint32, end int) Key {
	c := uint64(cell)
	if end <= 64 {
		return Key{Hi: key.Hi | c<<(64-end), Lo: key.Lo}
	}
	return Key{Hi: key.Hi | c>>(end-64), Lo: key.Lo | c<<(128-end)}
}
