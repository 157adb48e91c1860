package flavors

import (
	"math/bits"
	"unsafe"

	"github.com/ribwarp/ribwarp/lpm"
)

// Info describes the tree's levels: nodes, cells, bytes and the lengths of containers. It looks
// at every container, which takes milliseconds for a full routing table.
func (t *Tree) Info() []lpm.LevelInfo {
	infos := make([]lpm.LevelInfo, len(t.levels))
	for l := range t.levels {
		lv := &t.levels[l]
		in := levelInfo(int(lv.stride), lv.lists.Len(), func(n int) int { return len(lv.lists.At(n)) })
		if free := len(lv.free); free > 0 { // nodes that are not in use have empty lists too
			in.Nodes -= free
			in.ListLengths[0] -= free
		}
		in.Cells = in.Nodes << lv.stride
		in.Bytes = uint64(lv.nodes)<<lv.stride*cellSize +
			uint64(lv.lists.Len())*uint64(unsafe.Sizeof([]Entry(nil))) +
			uint64(in.Masks)*uint64(unsafe.Sizeof(Entry{}))
		infos[l] = in
	}
	return infos
}

// levelInfo describes a level by its nodes' containers, all but its bytes.
func levelInfo(stride, nodes int, list func(node int) (length int)) lpm.LevelInfo {
	in := lpm.LevelInfo{Stride: stride, Nodes: nodes, Cells: nodes << stride, ListLengths: []int{}}
	for n := range nodes {
		size := list(n)
		in.Masks += size
		in.LongestList = max(in.LongestList, size)
		if size > 0 {
			in.Containers++
		}
		class := bits.Len(uint(size))
		for len(in.ListLengths) <= class {
			in.ListLengths = append(in.ListLengths, 0)
		}
		in.ListLengths[class]++
	}
	return in
}
