package flavors

// The steps between the sort and the cells: what node and what cell every value falls into.
// A matrix is one slice a level, with one element a value; n is the number of values.

// Split is step 2: V[l][k] is the cell that value k takes in a node of level l.
func Split(st *Strides, s *Sorted) [][]uint32 {
	v := make([][]uint32, st.Levels())
	for l := range v {
		off, n := st.offsets[l], st.list[l]
		row := make([]uint32, s.Len())
		switch {
		case off+n <= 64: // the usual case, without a look at Lo
			up, down := off, 64-n
			for k, hi := range s.Hi {
				row[k] = uint32(hi << up >> down)
			}
		default:
			for k, hi := range s.Hi {
				row[k] = window(Key{Hi: hi, Lo: s.Lo[k]}, off, n)
			}
		}
		v[l] = row
	}
	return v
}

// Borders is step 3: B[l][k] is 1 where value k is the first of a node of level l, that is where
// its bits above level l differ from those of value k-1.
func Borders(v [][]uint32) [][]uint8 {
	b := make([][]uint8, len(v))
	for l := range v {
		row := make([]uint8, len(v[l]))
		if len(row) > 0 {
			row[0] = 1
		}
		if l > 0 {
			above, cells := b[l-1], v[l-1]
			for k := 1; k < len(row); k++ {
				row[k] = above[k]
				if cells[k] != cells[k-1] {
					row[k] = 1
				}
			}
		}
		b[l] = row
	}
	return b
}

// Indexes is step 4: N[l][k] is the number, from 1 on, of the node that value k falls into on
// level l: the inclusive scan of the borders. The last element of a row counts its nodes.
func Indexes(b [][]uint8) [][]uint32 {
	n := make([][]uint32, len(b))
	for l := range b {
		row := make([]uint32, len(b[l]))
		sum := uint32(0)
		for k, x := range b[l] {
			sum += uint32(x)
			row[k] = sum
		}
		n[l] = row
	}
	return n
}

// Trim is step 5, for masks: it clears the indexes below the level that a mask reaches, keeps
// one border for every node that some mask still reaches, at the first mask that does, and
// scans again. b and n are changed in place. Afterwards N[l][k] is 0 where mask k does not reach
// level l, and nodes are numbered densely.
func Trim(st *Strides, bits []uint8, b [][]uint8, n [][]uint32) {
	for l := 1; l < len(n); l++ { // every mask reaches the root
		above := uint8(st.offsets[l]) // masks longer than this reach level l
		bl, nl := b[l], n[l]
		node := uint32(0) // the last node that a mask before k reached
		count := uint32(0)
		for k := range nl {
			if bits[k] <= above {
				bl[k], nl[k] = 0, 0
				continue
			}
			bl[k] = 0
			if nl[k] != node {
				node = nl[k]
				bl[k] = 1
				count++
			}
			nl[k] = count
		}
	}
}

// NodeCounts gives the number of nodes of every level: the largest index of its row. A tree
// without values still has its root.
func NodeCounts(n [][]uint32) []int {
	counts := make([]int, len(n))
	for l, row := range n {
		for _, x := range row {
			counts[l] = max(counts[l], int(x))
		}
	}
	counts[0] = 1
	return counts
}
