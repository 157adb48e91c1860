package tree

import (
	"errors"
	"fmt"
)

// MaxStride is the widest level in bits: a list entry keeps a cell number and a number of free bits
// in one word.
const MaxStride = freeShift

const (
	childBit  = 1 << 31
	freeShift = 26
	placeBits = 26
)

// ErrCells is wrapped by errors about levels with more cells than a cell can number.
var ErrCells = errors.New("too many cells")

// A Shape says how many key bits each level of a tree consumes.
type Shape struct {
	Width   int // key length in bits, 1 to 128
	Strides []int
	offsets []int
	levelOf [129]uint8 // the level that a mask's last bit lies in, by the mask's length
}

// NewShape makes a shape of strides that are 1 to MaxStride each; their sum is the key length.
func NewShape(strides []int) *Shape {
	s := &Shape{Strides: strides}
	for l, n := range strides {
		s.offsets = append(s.offsets, s.Width)
		for b := s.Width + 1; b <= s.Width+n && b < len(s.levelOf); b++ {
			s.levelOf[b] = uint8(l)
		}
		s.Width += n
	}
	return s
}

// Kind says what a tree's values are and what its cells hold.
type Kind int

const (
	// Keys have the tree's full length; cells of the last level hold their payloads.
	Keys Kind = iota
	// List: masks of any length; cells hold children only, and nodes have containers.
	List
	// Pushed: masks; nodes have containers, and a cell without a child holds the payload of the longest mask
	// that covers it.
	Pushed
)

// level is struct Level of tree.cu.
type level struct {
	base                             uint64
	off, stride, nodeBase, classBase uint32
	_                                uint64
}

// plan is what follows from the number of nodes of each level: where everything lies.
type plan struct {
	nodes    []int
	base     []int // first cell of each level
	nodeBase []int
	used     int // levels with nodes
	cells    int
	total    int // nodes
	classes  int
}

// plan lays out levels with the given numbers of nodes.
func (s *Shape) plan(nodes []int) (*plan, error) {
	p := &plan{nodes: nodes, base: make([]int, len(nodes)), nodeBase: make([]int, len(nodes))}
	for l, n := range nodes {
		p.base[l], p.nodeBase[l] = p.cells, p.total
		if uint64(n)<<s.Strides[l] > childBit {
			return nil, fmt.Errorf("%w: %d nodes of 2^%d cells on level %d, and a level can have 2^31 cells; use smaller strides", ErrCells, n, s.Strides[l], l)
		}
		p.cells += n << s.Strides[l]
		p.total += n
		p.classes += n * (s.Strides[l] + 1)
		if n > 0 {
			p.used = l + 1
		}
	}
	if uint64(p.classes) > childBit {
		return nil, fmt.Errorf("%w: %d nodes; use larger strides", ErrCells, p.total)
	}
	return p, nil
}

// levels gives the table that kernels read. p may be nil: before the nodes are counted.
func (s *Shape) levels(p *plan) []level {
	t := make([]level, len(s.Strides))
	classes := 0
	for l, n := range s.Strides {
		t[l].off, t[l].stride = uint32(s.offsets[l]), uint32(n)
		if p != nil {
			t[l].base, t[l].nodeBase, t[l].classBase = uint64(p.base[l]), uint32(p.nodeBase[l]), uint32(classes)
			classes += p.nodes[l] * (n + 1)
		}
	}
	return t
}
