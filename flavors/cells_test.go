package flavors

import (
	"slices"
	"testing"
)

// handMade gives the matrices of four masks of 4 bits in strides 2 and 2, made by hand, and an
// image with room for their nodes. In order:
//
//	k  mask   length  level 0 cell, node   level 1 cell, node
//	0  0X-XX  1       0, 1                 -
//	1  00-1X  3       0, 1                 2, 1
//	2  00-11  4       0, 1                 3, 1
//	3  10-00  4       2, 1                 0, 2
func handMade(t *testing.T) (im *Image, s *Sorted, v [][]uint32, b [][]uint8, n [][]uint32) {
	t.Helper()
	st := strides(t, 4, 2, 2)
	s = &Sorted{
		Hi:      []uint64{0, 0b0010 << 60, 0b0011 << 60, 0b1000 << 60},
		Bits:    []uint8{1, 3, 4, 4},
		Payload: []uint32{70, 71, 72, 73},
	}
	v = [][]uint32{{0, 0, 0, 2}, {0, 2, 3, 0}}
	b = [][]uint8{{1, 0, 0, 0}, {0, 1, 0, 1}}
	n = [][]uint32{{1, 1, 1, 1}, {0, 1, 1, 2}}
	im, err := allocate(st, []int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	return im, s, v, b, n
}

func TestLinkCellsPutsEveryNodeIntoTheCellAboveIt(t *testing.T) {
	im, _, v, b, n := handMade(t)
	LinkCells(im, v, b, n)
	want := []uint32{
		childBit, 0, childBit | 4, 0, // the root: 00 and 10 have children
		0, 0, 0, 0, 0, 0, 0, 0,
	}
	if !slices.Equal(im.Cells, want) {
		t.Errorf("cells %x, want %x", im.Cells, want)
	}
}

func TestFillContainersListsTheLongestMaskFirst(t *testing.T) {
	im, s, v, _, n := handMade(t)
	FillContainers(im, s, v, n)
	if want := []uint32{0, 1, 3, 4}; !slices.Equal(im.Starts, want) {
		t.Errorf("starts %v, want %v", im.Starts, want)
	}
	want := []Entry{
		{entryPos(1, 0), 70},                       // root: 0X covers cells 0 and 1
		{entryPos(0, 3), 72}, {entryPos(1, 2), 71}, // node 00: 11 before 1X
		{entryPos(0, 0), 73}, // node 10
	}
	if !slices.Equal(im.Entries, want) {
		t.Errorf("entries %v, want %v", im.Entries, want)
	}
}

func TestPushFillsCellsFromAboveAndFromTheirOwnMasks(t *testing.T) {
	im, s, v, b, n := handMade(t)
	FillContainers(im, s, v, n)
	Push(im, v, b, n)
	want := []uint32{
		childBit, 70, childBit | 4, 0, // 01 is the short mask's, 11 nobody's
		70, 70, 71, 72, // node 00 inherits the short mask where it has none of its own
		73, 0, 0, 0, // node 10 has nothing to inherit
	}
	if !slices.Equal(im.Cells, want) {
		t.Errorf("cells %x, want %x", im.Cells, want)
	}
}
