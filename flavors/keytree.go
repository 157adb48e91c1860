package flavors

import (
	"runtime"

	"github.com/ribwarp/ribwarp/lpm"
)

// A KeyTree finds keys of one length exactly. It is immutable and safe for concurrent use.
type KeyTree struct {
	tree Tree
	keys int
}

// NewKeyTree builds a tree of keys in any order. Of equal keys the first counts. Keys must fit
// the strides' width, with the bits behind it zero; there can be up to 2^31-2.
func NewKeyTree(st *Strides, keys []Key) (*KeyTree, error) {
	s := SortKeys(st.width, keys)
	im, err := BuildKeys(st, s)
	if err != nil {
		return nil, err
	}
	return &KeyTree{tree: *TreeOf(im, Pushed), keys: s.Len()}, nil
}

// Len is the number of different keys.
func (t *KeyTree) Len() int { return t.keys }

// Find gives the position that key had in the input; ok is false where the tree lacks it,
// and the position then means nothing.
func (t *KeyTree) Find(key Key) (position int, ok bool) {
	last := t.tree.strides.Levels() - 1
	c := uint32(0)
	if n, ok := t.tree.node(key, last); ok {
		c = t.tree.levels[last].at(n, t.tree.strides.cell(key, last))
	}
	runtime.KeepAlive(t)
	return int(c) - 1, c != 0
}

// NotFound is what FindAll gives for a key that the tree lacks.
const NotFound = -1

// FindAll is Find for many keys: dst, as long as keys, gets positions or NotFound. It allocates
// nothing.
func (t *KeyTree) FindAll(dst []int32, keys []Key) {
	for i, k := range keys {
		p, ok := t.Find(k)
		if !ok {
			p = NotFound
		}
		dst[i] = int32(p)
	}
}

// Info describes the levels.
func (t *KeyTree) Info() []lpm.LevelInfo { return t.tree.Info() }
