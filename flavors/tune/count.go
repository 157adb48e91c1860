package tune

import (
	"unsafe"

	"github.com/ribwarp/ribwarp/flavors"
)

const (
	maxStride = flavors.MaxStride
	maxCells  = 1 << 31 // of a level
)

// A Size is what a tree of certain strides takes.
type Size struct {
	Nodes []int  // of each level
	Cells int    // of all levels
	Bytes uint64 // on a CPU: cells, heads of containers and their entries, as lpm.FamilyInfo counts them
}

// Count gives the size of a newly built tree, the same for both flavors, without building it.
func (sh *Shape) Count(strides []int) Size {
	s := Size{Nodes: make([]int, len(strides)), Bytes: sh.entryBytes()}
	at := 0
	for l, n := range strides {
		s.Nodes[l] = sh.Nodes[at]
		s.Cells += sh.Nodes[at] << n
		s.Bytes += levelBytes(sh.Nodes[at], n)
		at += n
	}
	return s
}

// levelBytes is what the nodes of a level take without the entries of their containers.
func levelBytes(nodes, stride int) uint64 {
	return uint64(nodes)<<stride*4 + uint64(nodes)*uint64(unsafe.Sizeof([]flavors.Entry(nil)))
}

// entryBytes is what the entries of all containers take.
func (sh *Shape) entryBytes() uint64 {
	return uint64(sh.Masks) * uint64(unsafe.Sizeof(flavors.Entry{}))
}
