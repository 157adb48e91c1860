package flavors

import (
	"fmt"
	"slices"
)

// Flavor says what the nodes of a Tree hold.
type Flavor string

const (
	// List: cells hold children only; a search reads the containers on its way.
	List Flavor = "list"
	// Pushed: a cell without a child holds the best mask that covers it; a search reads one
	// cell a level.
	Pushed Flavor = "pushed"
)

// Cells. A cell with childBit set holds a node of the next level, by the number of its first cell
// there: its index (from 0) times the cells of a node, so that a search only adds. Any
// other cell holds a payload: a handle in a tree of flavor Pushed, 1 + a position on the last
// level of a key tree; 0 is nothing.
const childBit = 1 << 31

// An Entry is a mask in a node's container. Pos holds the number of the mask's bits that the
// node's stride leaves free in the high 6 bits, and the first cell that the mask covers in the
// low 26; so entries sorted by Pos are sorted longest mask first, then by value.
type Entry struct {
	Pos    uint32
	Handle uint32
}

const cellBits = 26 // of Entry.Pos

func entryPos(free int, cell uint32) uint32 { return uint32(free)<<cellBits | cell }

// free is the number of low cell bits that the mask leaves open: it covers 1<<free cells.
func (e Entry) free() int { return int(e.Pos >> cellBits) }

// cell is the first cell that the mask covers.
func (e Entry) cell() uint32 { return e.Pos & (1<<cellBits - 1) }

// An Image is a whole tree as flat arrays: the result of a build, the same bytes whichever
// processor built it.
type Image struct {
	Strides *Strides
	Nodes   []int // nodes of each level
	// Cells holds all nodes, level by level: node i of level l is the 2^stride cells from
	// Base[l] + i<<stride on. It may lie outside the Go heap and goes with the Image and the Tree
	// made of it: whoever keeps the slice must keep one of these alive.
	Cells []uint32
	Base  []int

	region *region // where Cells are

	// For masks: the container of node i of level l is Entries[Starts[g]:Starts[g+1]] with
	// g = NodeBase[l] + i.
	NodeBase []int
	Starts   []uint32
	Entries  []Entry
}

// BuildKeys builds the tree of keys: exact find of a key gives its position.
func BuildKeys(st *Strides, s *Sorted) (*Image, error) {
	v := Split(st, s)
	b := Borders(v)
	n := Indexes(b)
	im, err := allocate(st, NodeCounts(n))
	if err != nil {
		return nil, err
	}
	LinkCells(im, v, b, n)
	last := st.Levels() - 1
	for k, payload := range s.Payload {
		im.Cells[im.cellIndex(last, n[last][k], v[last][k])] = payload
	}
	return im, nil
}

// BuildMasks builds the tree of masks in one of its flavors.
func BuildMasks(st *Strides, s *Sorted, f Flavor) (*Image, error) {
	v := Split(st, s)
	b := Borders(v)
	n := Indexes(b)
	Trim(st, s.Bits, b, n)
	im, err := allocate(st, NodeCounts(n))
	if err != nil {
		return nil, err
	}
	FillContainers(im, s, v, n)
	if f == Pushed {
		Push(im, v, b, n)
	} else {
		LinkCells(im, v, b, n)
	}
	return im, nil
}

// allocate is step 6: 2^stride empty cells for every node.
func allocate(st *Strides, nodes []int) (*Image, error) {
	im := &Image{Strides: st, Nodes: nodes, Base: make([]int, len(nodes)), NodeBase: make([]int, len(nodes))}
	total, sum := 0, 0
	for l, n := range nodes {
		im.Base[l], im.NodeBase[l] = total, sum
		if err := st.checkNodes(l, n); err != nil {
			return nil, err
		}
		if uint64(n)<<st.list[l] > uint64(maxCells-total) {
			return nil, fmt.Errorf("%w: %s need more memory than there are addresses; use smaller strides", ErrStrides, FormatStrides(st.list))
		}
		total += n << st.list[l]
		sum += n
	}
	var err error
	if im.region, err = newRegion(total); err != nil {
		return nil, fmt.Errorf("%w: %s need %d MiB: %w; use smaller strides", ErrStrides, FormatStrides(st.list), total*cellSize>>20, err)
	}
	im.Cells = im.region.cells
	im.Starts = make([]uint32, sum+1)
	return im, nil
}

// cellIndex gives the place in Cells of a cell of a node numbered from 1 on.
func (im *Image) cellIndex(l int, node, cell uint32) int {
	return im.Base[l] + int(node-1)<<im.Strides.list[l] + int(cell)
}

// LinkCells is step 7: where a value is the first of a node, the cell above gets that node.
func LinkCells(im *Image, v [][]uint32, b [][]uint8, n [][]uint32) {
	for l := 0; l+1 < len(v); l++ {
		linkLevel(im, l, v, b, n, nil)
	}
}

// linkLevel links the nodes of level l+1 into the cells of level l. inherit, if not nil, receives
// by node what the cell above it held before.
func linkLevel(im *Image, l int, v [][]uint32, b [][]uint8, n [][]uint32, inherit []uint32) {
	for k, first := range b[l+1] {
		if first == 0 {
			continue
		}
		c := &im.Cells[im.cellIndex(l, n[l][k], v[l][k])]
		child := n[l+1][k] - 1
		if inherit != nil {
			inherit[child] = *c
		}
		*c = childBit | child<<im.Strides.list[l+1]
	}
}

// FillContainers is step 8: every mask goes to the container of its node. Lengths are counted
// by node, starts are their exclusive scan, and masks are placed longest first.
func FillContainers(im *Image, s *Sorted, v [][]uint32, n [][]uint32) {
	st := im.Strides
	nodeOf := make([]uint32, s.Len())
	for k, bits := range s.Bits {
		l := st.Level(bits)
		g := uint32(im.NodeBase[l]) + n[l][k] - 1
		nodeOf[k] = g
		im.Starts[g]++
	}
	exclusiveScan(im.Starts)
	im.Entries = make([]Entry, s.Len())
	// Starts[g] runs to the end of g's container while it fills, which is Starts[g+1].
	for _, k := range longestFirst(s.Bits, st.width) {
		l := st.Level(s.Bits[k])
		free := st.offsets[l] + st.list[l] - int(s.Bits[k])
		e := &im.Starts[nodeOf[k]]
		im.Entries[*e] = Entry{Pos: entryPos(free, v[l][k]), Handle: s.Payload[k]}
		*e++
	}
	copy(im.Starts[1:], im.Starts)
	im.Starts[0] = 0
}

// longestFirst gives the positions of masks sorted by length, longest first, and in the order
// of the input where lengths are equal: a counting sort.
func longestFirst(bits []uint8, width int) []uint32 {
	var counts [MaxWidth + 1]uint32
	for _, b := range bits {
		counts[width-int(b)]++
	}
	exclusiveScan(counts[:])
	order := make([]uint32, len(bits))
	for k, b := range bits {
		c := &counts[width-int(b)]
		order[*c] = uint32(k)
		*c++
	}
	return order
}

// container gives the list of node i (from 0) of level l.
func (im *Image) container(l, i int) []Entry {
	g := im.NodeBase[l] + i
	lo, hi := im.Starts[g], im.Starts[g+1]
	return im.Entries[lo:hi:hi]
}

// Push is step 9, in place of step 7, for flavor Pushed: from the root down, every node's cells
// get what the node inherits, then the masks of its container, shortest first, and then its
// children, who inherit what the cell held.
func Push(im *Image, v [][]uint32, b [][]uint8, n [][]uint32) {
	st := im.Strides
	inherit := make([]uint32, im.Nodes[0])
	for l, nodes := range im.Nodes {
		size := 1 << st.list[l]
		for i := range nodes {
			cells := im.Cells[im.Base[l]+i*size:][:size]
			if h := inherit[i]; h != 0 {
				fill(cells, h)
			}
			for _, e := range slices.Backward(im.container(l, i)) {
				fill(cells[e.cell():][:1<<e.free()], e.Handle)
			}
		}
		if l+1 < len(im.Nodes) {
			inherit = make([]uint32, im.Nodes[l+1])
			linkLevel(im, l, v, b, n, inherit)
		}
	}
}

// fill sets all cells to one value.
func fill(cells []uint32, h uint32) {
	for i := range cells {
		cells[i] = h
	}
}
