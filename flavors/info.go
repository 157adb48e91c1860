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
		in := lpm.LevelInfo{Stride: int(lv.stride), Nodes: lv.nodes - len(lv.free), ListLengths: []int{}}
		in.Cells = in.Nodes << lv.stride
		for n := range lv.lists.Len() {
			size := len(lv.lists.At(n))
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
		if len(lv.free) > 0 { // nodes that are not in use have empty lists too
			in.ListLengths[0] -= len(lv.free)
		}
		in.Bytes = uint64(lv.nodes)<<lv.stride*cellSize +
			uint64(lv.lists.Len())*uint64(unsafe.Sizeof([]Entry(nil))) +
			uint64(in.Masks)*uint64(unsafe.Sizeof(Entry{}))
		infos[l] = in
	}
	return infos
}
