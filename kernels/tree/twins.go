package tree

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// The kernels of tree.cu in plain Go, over the same buffers, in the order of that file.

const levelSize = int(unsafe.Sizeof(level{}))

var twins = map[string]device.Twin{
	"columns_32": columns32, "columns_128": columns128,
	"pack_32": pack32, "unpack_32": unpack32, "pack_128": pack128, "unpack_128": unpack128, "records": records, "keep": keep, "gather": gather,
	"borders": borders, "row_ends": rowEnds,
	"by_length": byLength, "classes": classes, "entries": entries, "starts": starts,
	"inherit": inherit, "paint": paint, "link": link, "leaves": leaves,
	"root_index": rootIndex, "root_pages": rootPages, "pack_pages": packPages,
	"match_32_plain": match(32, "plain"), "match_32_direct": match(32, "direct"), "match_32_paged": match(32, "paged"), "match_32_global": match(32, "global"),
	"match_64_plain": match(64, "plain"), "match_64_direct": match(64, "direct"), "match_64_paged": match(64, "paged"), "match_64_global": match(64, "global"),
	"match_128_plain": match(128, "plain"), "match_128_direct": match(128, "direct"), "match_128_paged": match(128, "paged"), "match_128_global": match(128, "global"),
	"match_lists_32": matchLists(32), "match_lists_64": matchLists(64), "match_lists_128": matchLists(128),
	"find_masks": findMasks, "covering": covering, "inside": inside,
}

// column is View for columns that may not be there: nil then.
func column[T any](m device.Memory, p uint64, n int) []T {
	if p == 0 {
		return nil
	}
	return device.View[T](m, p, n)
}

func word[T any](m device.Memory, p uint64) *T { return &device.View[T](m, p, 1)[0] }

// window gives n bits of a key from bit off on.
func window(hi, lo uint64, off, n uint32) uint32 {
	if off >= 64 {
		return uint32(lo << (off - 64) >> (64 - n))
	}
	return uint32((hi<<off | lo>>(64-off)) >> (64 - n))
}

func at(lo []uint64, k int) uint64 {
	if lo == nil {
		return 0
	}
	return lo[k]
}

// nodeOf gives the node that value k falls into on level l, counted through all levels.
func nodeOf(nodes []uint32, row, l, k int) uint32 {
	if l == 0 {
		return 0
	}
	return nodes[(l-1)*row+k]
}

func columns32(m device.Memory, a []uint64) {
	n := int(a[4])
	hi, length, payload := device.View[uint64](m, a[0], n), device.View[uint8](m, a[1], n), device.View[uint32](m, a[2], n)
	in := device.View[[3]uint32](m, a[3], n)
	for i, r := range in {
		hi[i], payload[i], length[i] = uint64(r[0])<<32, r[1], uint8(r[2])
	}
}

func columns128(m device.Memory, a []uint64) {
	n := int(a[5])
	hi, lo, length, payload := device.View[uint64](m, a[0], n), column[uint64](m, a[1], n), device.View[uint8](m, a[2], n), device.View[uint32](m, a[3], n)
	in := device.View[[3]uint64](m, a[4], n)
	for i, r := range in {
		hi[i], payload[i], length[i] = r[0], uint32(r[2]), uint8(r[2]>>32)
		if lo != nil {
			lo[i] = r[1]
		}
	}
}

func pack32(m device.Memory, a []uint64) {
	n := int(a[3])
	keys, hi, length := device.View[uint64](m, a[0], n), device.View[uint64](m, a[1], n), device.View[uint8](m, a[2], n)
	for i := range n {
		keys[i] = hi[i]>>32<<8 | uint64(length[i])
	}
}

func unpack32(m device.Memory, a []uint64) {
	n := int(a[3])
	hi, length, keys := device.View[uint64](m, a[0], n), device.View[uint8](m, a[1], n), device.View[uint64](m, a[2], n)
	for i, k := range keys {
		hi[i], length[i] = k>>8<<32, uint8(k)
	}
}

func pack128(m device.Memory, a []uint64) {
	n := int(a[9])
	counts := device.View[uint64](m, a[4], 2)
	hi, lo := device.View[uint64](m, a[5], n), column[uint64](m, a[6], n)
	length, payload := device.View[uint8](m, a[7], n), device.View[uint32](m, a[8], n)
	for i := range n {
		k, to := [2]uint64{hi[i], at(lo, i)}, 0
		switch b := length[i]; {
		case b < 64:
			k[0] |= 1 << (63 - b)
		case b < 128:
			k[1] |= 1 << (127 - b)
		default:
			to = 1
		}
		place := int(counts[to])
		device.View[[2]uint64](m, a[2*to], place+1)[place] = k
		device.View[uint32](m, a[2*to+1], place+1)[place] = payload[i]
		counts[to]++
	}
}

func unpack128(m device.Memory, a []uint64) {
	n := int(a[4])
	hi, lo, length := device.View[uint64](m, a[0], n), column[uint64](m, a[1], n), device.View[uint8](m, a[2], n)
	for i, k := range device.View[[2]uint64](m, a[3], n) {
		b := 128
		switch {
		case a[5] != 0:
		case k[1] != 0:
			b = 127 - bits.TrailingZeros64(k[1])
			k[1] &= k[1] - 1
		default:
			b = 63 - bits.TrailingZeros64(k[0])
			k[0] &= k[0] - 1
		}
		hi[i], length[i] = k[0], uint8(b)
		if lo != nil {
			lo[i] = k[1]
		}
	}
}

func records(m device.Memory, a []uint64) {
	n, words := int(a[6]), int(a[7])
	hi, lo, length := device.View[uint64](m, a[3], n), column[uint64](m, a[4], n), column[uint8](m, a[5], n)
	w := [3][]uint64{device.View[uint64](m, a[0], n), column[uint64](m, a[1], n), column[uint64](m, a[2], n)}
	for i := range n {
		b := uint64(0)
		if length != nil {
			b = uint64(length[i])
		}
		w[0][i] = hi[i]
		switch words {
		case 1:
			w[0][i] |= b<<placeBits | uint64(i)
		case 2:
			w[1][i] = b<<32 | uint64(i)
		case 3:
			w[1][i], w[2][i] = at(lo, i), b<<32|uint64(i)
		}
	}
}

// sortedValue reads the records that the sort leaves.
type sortedValues struct {
	w     [3][]uint64
	words int
}

func sortedOf(m device.Memory, w []uint64, words, n int) sortedValues {
	s := sortedValues{words: words}
	for i := range words {
		s.w[i] = device.View[uint64](m, w[i], n)
	}
	return s
}

func (s sortedValues) key(i int) (hi, lo uint64, length uint32, place uint32) {
	switch w := s.w; s.words {
	case 1:
		return w[0][i] &^ (1<<32 - 1), 0, uint32(w[0][i]>>placeBits) & 63, uint32(w[0][i]) & (1<<placeBits - 1)
	case 2:
		return w[0][i], 0, uint32(w[1][i] >> 32), uint32(w[1][i])
	default:
		return w[0][i], w[1][i], uint32(w[2][i] >> 32), uint32(w[2][i])
	}
}

func (s sortedValues) same(i, j int) bool {
	h, l, b, _ := s.key(i)
	hh, ll, bb, _ := s.key(j)
	return h == hh && l == ll && b == bb
}

func keep(m device.Memory, a []uint64) {
	n := int(a[5])
	flags, s, payload := device.View[uint32](m, a[0], n), sortedOf(m, a[1:4], int(a[4]), n), column[uint32](m, a[6], n)
	for i := range n {
		_, _, _, place := s.key(i)
		stays := i == 0 || !s.same(i-1, i)
		if a[7] != 0 {
			stays = i+1 == n || !s.same(i, i+1)
		}
		stays = stays && (payload == nil || payload[place] != 0)
		flags[i] = 0
		if stays {
			flags[i] = 1
		}
	}
}

func gather(m device.Memory, a []uint64) {
	n := int(*word[uint32](m, a[10]))
	index := device.View[uint32](m, a[9], n)
	last := 0
	for _, i := range index {
		last = max(last, int(i)+1)
	}
	s := sortedOf(m, a[5:8], int(a[8]), last)
	hi, lo, length, payload := device.View[uint64](m, a[0], n), column[uint64](m, a[1], n), column[uint8](m, a[2], n), device.View[uint32](m, a[3], n)
	lengths := device.View[uint32](m, a[4], 256)
	for j, i := range index {
		h, l, b, place := s.key(int(i))
		hi[j], payload[j] = h, place+1
		if a[11] != 0 {
			payload[j] = *word[uint32](m, a[11]+4*uint64(place))
		}
		if lo != nil {
			lo[j] = l
		}
		if length != nil {
			length[j] = uint8(b)
			lengths[b]++
		}
	}
}

// borders is for all levels: launches have a row of blocks for each.
func borders(m device.Memory, a []uint64) {
	n, row := int(*word[uint32](m, a[4])), int(a[5])
	hi, lo, length := device.View[uint64](m, a[1], n), column[uint64](m, a[2], n), column[uint8](m, a[3], n)
	out := rest[uint32](m, a[0])
	levels := rest[level](m, a[6])
	for l := 1; l*row <= len(out) && l < len(levels); l++ {
		off := levels[l].off
		reaches := func(k int) bool { return length == nil || uint32(length[k]) > off }
		for k := range row {
			out[(l-1)*row+k] = 0
			if k >= n || !reaches(k) {
				continue
			}
			if k == 0 || !reaches(k-1) || common(hi[k], at(lo, k), hi[k-1], at(lo, k-1)) < int(off) {
				out[(l-1)*row+k] = 1
			}
		}
	}
}

// common is the number of first bits that two keys share.
func common(hi, lo, hi2, lo2 uint64) int {
	if x := hi ^ hi2; x != 0 {
		return bits.LeadingZeros64(x)
	}
	return 64 + bits.LeadingZeros64(lo^lo2)
}

// rest gives what is allocated from p on.
func rest[T any](m device.Memory, p uint64) []T {
	var zero T
	all := m.Rest(device.Ptr(p))
	return device.View[T](m, p, len(all)/int(unsafe.Sizeof(zero)))
}

func rowEnds(m device.Memory, a []uint64) {
	row, rows := int(a[2]), int(a[3])
	out, nodes := device.View[uint32](m, a[0], rows), device.View[uint32](m, a[1], row*rows)
	for i := range out {
		out[i] = nodes[i*row+row-1]
	}
}

func byLength(m device.Memory, a []uint64) {
	n := int(a[2])
	out, length := device.View[uint64](m, a[0], n), device.View[uint8](m, a[1], n)
	for k, b := range length {
		out[k] = uint64(b)<<32 | uint64(k)
	}
}

func classes(m device.Memory, a []uint64) {
	n, row := int(a[4]), int(a[6])
	cls, first, count := device.View[uint32](m, a[0], n), rest[uint32](m, a[1]), rest[uint32](m, a[2])
	sorted, nodes := device.View[uint64](m, a[3], n), column2(m, a[5])
	levels, levelOf := rest[level](m, a[7]), device.View[uint8](m, a[8], 129)
	for p, r := range sorted {
		b, k := uint32(r>>32), int(uint32(r))
		l := int(levelOf[b])
		v := levels[l]
		c := v.classBase + (nodeOf(nodes, row, l, k)-v.nodeBase)*(v.stride+1) + v.off + v.stride - b
		cls[p] = c
		if count[c] == 0 {
			first[c] = uint32(p)
		}
		count[c]++
	}
}

// column2 is rest for the scan of the borders, which is not there where all values are in the root.
func column2(m device.Memory, p uint64) []uint32 {
	if p == 0 {
		return nil
	}
	return rest[uint32](m, p)
}

func entries(m device.Memory, a []uint64) {
	n := int(a[5])
	out, cls, first, start := device.View[Entry](m, a[0], n), device.View[uint32](m, a[1], n), rest[uint32](m, a[2]), rest[uint32](m, a[3])
	sorted, hi, lo, payload := device.View[uint64](m, a[4], n), device.View[uint64](m, a[6], n), column[uint64](m, a[7], n), device.View[uint32](m, a[8], n)
	levels, levelOf := rest[level](m, a[9]), device.View[uint8](m, a[10], 129)
	for p, r := range sorted {
		b, k, c := uint32(r>>32), int(uint32(r)), cls[p]
		v := levels[levelOf[b]]
		out[start[c]+uint32(p)-first[c]] = Entry{(v.off+v.stride-b)<<freeShift | window(hi[k], at(lo, k), v.off, v.stride), payload[k]}
	}
}

func starts(m device.Memory, a []uint64) {
	total, n, used := int(a[2]), uint32(a[3]), int(a[5])
	out, start, levels := device.View[uint32](m, a[0], total+1), rest[uint32](m, a[1]), device.View[level](m, a[4], used)
	g := 0
	for l, v := range levels {
		end := total
		if l+1 < used {
			end = int(levels[l+1].nodeBase)
		}
		for ; g < end; g++ {
			out[g] = start[v.classBase+(uint32(g)-v.nodeBase)*(v.stride+1)]
		}
	}
	out[total] = n
}

func inherit(m device.Memory, a []uint64) {
	n, stride := int(a[2]), a[3]
	cells, from := device.View[uint32](m, a[0], n), device.View[uint32](m, a[1], n>>stride)
	for i := range cells {
		cells[i] = from[i>>stride]
	}
}

// cellOf gives the place of the cell that value k takes on level l.
func cellOf(v level, nodes []uint32, row, l, k int, hi, lo []uint64) uint64 {
	node := nodeOf(nodes, row, l, k) - v.nodeBase
	return v.base + uint64(node)<<v.stride + uint64(window(hi[k], at(lo, k), v.off, v.stride))
}

func paint(m device.Memory, a []uint64) {
	n, free, row, l := int(a[2]), a[3], int(a[8]), int(a[10])
	cells, sorted := rest[uint32](m, a[0]), device.View[uint64](m, a[1], n)
	hi, lo, payload := rest[uint64](m, a[4]), column3(m, a[5]), rest[uint32](m, a[6])
	nodes, v := column2(m, a[7]), rest[level](m, a[9])[l]
	for _, r := range sorted {
		k := int(uint32(r))
		c := cellOf(v, nodes, row, l, k, hi, lo)
		for i := range cells[c : c+1<<free] {
			cells[c+uint64(i)] = payload[k]
		}
	}
}

func column3(m device.Memory, p uint64) []uint64 {
	if p == 0 {
		return nil
	}
	return rest[uint64](m, p)
}

// link is for one level, or, where nobody inherits, for all.
func link(m device.Memory, a []uint64) {
	n, row, first := int(a[2]), int(a[6]), int(a[8])
	cells, from := rest[uint32](m, a[0]), column2(m, a[1])
	hi, lo := device.View[uint64](m, a[3], n), column[uint64](m, a[4], n)
	nodes, levels := column2(m, a[5]), rest[level](m, a[7])
	for l := first; (l+1)*row <= len(nodes) && l+1 < len(levels) && (l == first || from == nil); l++ {
		w := levels[l+1]
		for k := range n {
			i := l*row + k
			if i > 0 && nodes[i] == nodes[i-1] || i == 0 && nodes[i] == 0 {
				continue
			}
			child := nodes[i] - w.nodeBase
			c := cellOf(levels[l], nodes, row, l, k, hi, lo)
			if from != nil {
				from[child] = cells[c]
			}
			cells[c] = childBit | child<<w.stride
		}
	}
}

func leaves(m device.Memory, a []uint64) {
	n, row, l := int(a[1]), int(a[6]), int(a[8])
	cells, hi, lo, payload := rest[uint32](m, a[0]), device.View[uint64](m, a[2], n), column[uint64](m, a[3], n), device.View[uint32](m, a[4], n)
	nodes, v := column2(m, a[5]), rest[level](m, a[7])[l]
	for k := range n {
		cells[cellOf(v, nodes, row, l, k, hi, lo)] = payload[k]
	}
}

// A rootWord is 32 cells of the root: which of them hold children, and the number of the first.
type rootWord struct{ have, number uint32 }

func (w rootWord) child(bit uint32) (number uint32, ok bool) {
	return w.number + uint32(bits.OnesCount32(w.have&(1<<bit-1))), w.have>>bit&1 != 0
}

func rootIndex(m device.Memory, a []uint64) {
	count, stride, pageBits := int(a[3]), a[4], a[5]
	words, cells := device.View[rootWord](m, a[0], count/32), device.View[uint32](m, a[2], count)
	for i := range words {
		w := rootWord{}
		for bit, c := range cells[32*i : 32*i+32] {
			if c&childBit == 0 {
				continue
			}
			if w.have == 0 {
				w.number = c &^ childBit >> stride
			}
			w.have |= 1 << bit
		}
		words[i] = w
		if a[1] != 0 && w.have != 0 {
			*word[uint32](m, a[1]+4*uint64(32*i>>pageBits)) = 1
		}
	}
}

func rootPages(m device.Memory, a []uint64) {
	pages := int(a[3])
	table, used := device.View[uint16](m, a[0], pages), device.View[uint32](m, a[2], pages)
	n := uint32(0)
	for i, u := range used {
		table[i] = 0
		if u != 0 {
			n++
			table[i] = uint16(n)
		}
	}
	*word[uint32](m, a[1]) = n
}

func packPages(m device.Memory, a []uint64) {
	count, pageWords := int(a[3]), a[4]
	out, words, table := rest[rootWord](m, a[0]), device.View[rootWord](m, a[1], count), device.View[uint16](m, a[2], count>>pageWords)
	for i, t := range table {
		if t != 0 {
			copy(out[int(t-1)<<pageWords:][:1<<pageWords], words[i<<pageWords:])
		}
	}
}

// keyColumn are keys of 32, 64 or 128 bits.
type keyColumn struct {
	k32  []uint32
	k64  []uint64
	k128 [][2]uint64
}

func keysOf(m device.Memory, p uint64, n, width int) (k keyColumn) {
	switch width {
	case 32:
		k.k32 = device.View[uint32](m, p, n)
	case 64:
		k.k64 = device.View[uint64](m, p, n)
	default:
		k.k128 = device.View[[2]uint64](m, p, n)
	}
	return k
}

func (k *keyColumn) at(i int) (hi, lo uint64) {
	switch {
	case k.k32 != nil:
		return uint64(k.k32[i]) << 32, 0
	case k.k64 != nil:
		return k.k64[i], 0
	}
	return k.k128[i][0], k.k128[i][1]
}

// index is the index of the root.
type index struct {
	words    []rootWord
	table    []uint16 // of pages; nil where words are all
	pageBits uint32
}

// child gives the node that cell v of the root holds.
func (x *index) child(v uint32) (number uint32, ok bool) {
	switch {
	case x.words == nil:
		return 0, false
	case x.table == nil:
		return x.words[v>>5].child(v & 31)
	}
	t := uint32(x.table[v>>x.pageBits])
	if t == 0 {
		return 0, false
	}
	return x.words[(t-1)<<(x.pageBits-5)+v&(1<<x.pageBits-1)>>5].child(v & 31)
}

func match(width int, mode string) device.Twin {
	return func(m device.Memory, a []uint64) {
		n, minus := int(a[2]), uint32(a[10])
		dst, key := device.View[uint32](m, a[0], n), keysOf(m, a[1], n, width)
		cells, levels := rest[uint32](m, a[3]), rest[level](m, a[4])
		var root index
		if mode != "plain" {
			root.words = device.View[rootWord](m, a[5], int(a[6]))
		}
		if mode == "paged" {
			root.table, root.pageBits = device.View[uint16](m, a[7], int(a[8])), uint32(a[9])
		}
		for i := range dst {
			hi, lo := key.at(i)
			v := window(hi, lo, 0, levels[0].stride)
			c := uint32(0)
			if number, ok := root.child(v); ok {
				c = childBit | number<<levels[1].stride
			} else {
				c = cells[v]
			}
			for l := 1; c&childBit != 0; l++ {
				c = cells[levels[l].base+uint64(c&^childBit)+uint64(window(hi, lo, levels[l].off, levels[l].stride))]
			}
			dst[i] = c - minus
		}
	}
}

// lists reads containers.
type lists struct {
	starts  []uint32
	entries []Entry
}

func listsOf(m device.Memory, starts, entries uint64) lists {
	return lists{rest[uint32](m, starts), rest[Entry](m, entries)}
}

// at gives the payload of the mask of node g that leaves so many bits free and covers cell, 0 if there is none.
func (x lists) at(g, free, cell uint32) uint32 {
	list := x.entries[x.starts[g]:x.starts[g+1]]
	pos := free<<freeShift | cell&^(1<<free-1)
	if i := slices.IndexFunc(list, func(e Entry) bool { return e.Pos == pos }); i >= 0 {
		return list[i].Payload
	}
	return 0
}

// walk visits the nodes on a key's way down to level last, the root first.
func walk(cells []uint32, levels []level, hi, lo uint64, last int, visit func(l int, g, cell uint32)) {
	in := uint32(0)
	for l := 0; l <= last; l++ {
		v := levels[l]
		cell := window(hi, lo, v.off, v.stride)
		visit(l, v.nodeBase+in>>v.stride, cell)
		if l == last {
			return
		}
		c := cells[v.base+uint64(in)+uint64(cell)]
		if c&childBit == 0 {
			return
		}
		in = c &^ childBit
	}
}

func matchLists(width int) device.Twin {
	return func(m device.Memory, a []uint64) {
		n := int(a[2])
		dst, key := device.View[uint32](m, a[0], n), keysOf(m, a[1], n, width)
		cells, levels, x := rest[uint32](m, a[3]), rest[level](m, a[4]), listsOf(m, a[5], a[6])
		for i := range dst {
			hi, lo := key.at(i)
			dst[i] = 0
			walk(cells, levels, hi, lo, len(levels)-1, func(l int, g, cell uint32) {
				for free := range levels[l].stride + 1 {
					if h := x.at(g, free, cell); h != 0 {
						dst[i] = h
						return
					}
				}
			})
		}
	}
}

func findMasks(m device.Memory, a []uint64) {
	n := int(a[3])
	dst, key, length := device.View[uint32](m, a[0], n), keysOf(m, a[1], n, 128), device.View[uint8](m, a[2], n)
	cells, levels, x, levelOf := rest[uint32](m, a[4]), rest[level](m, a[5]), listsOf(m, a[6], a[7]), device.View[uint8](m, a[8], 129)
	for i := range dst {
		hi, lo := key.at(i)
		dst[i] = 0
		last := int(levelOf[length[i]])
		walk(cells, levels, hi, lo, last, func(l int, g, cell uint32) {
			if v := levels[l]; l == last {
				dst[i] = x.at(g, v.off+v.stride-uint32(length[i]), cell)
			}
		})
	}
}

func covering(m device.Memory, a []uint64) {
	room, n := int(a[2]), int(a[5])
	dst, counts := device.View[uint32](m, a[0], room*n), device.View[uint32](m, a[1], n)
	key, length := keysOf(m, a[3], n, 128), device.View[uint8](m, a[4], n)
	cells, levels, x, levelOf := rest[uint32](m, a[6]), rest[level](m, a[7]), listsOf(m, a[8], a[9]), device.View[uint8](m, a[10], 129)
	for i := range counts {
		hi, lo := key.at(i)
		found := dst[i*room : i*room : (i+1)*room]
		last := int(levelOf[length[i]])
		walk(cells, levels, hi, lo, last, func(l int, g, cell uint32) {
			v, least := levels[l], 0
			if l == last {
				least = int(v.off + v.stride - uint32(length[i]))
			}
			for free := int(v.stride); free >= least; free-- {
				if h := x.at(g, uint32(free), cell); h != 0 {
					found = append(found, h)
				}
			}
		})
		slices.Reverse(found)
		counts[i] = uint32(len(found))
	}
}

func inside(m device.Memory, a []uint64) {
	n, key, keyLo, length := int(a[4]), a[5], a[6], uint8(a[7])
	out := device.View[uint32](m, a[0], 2)
	hi, lo, lengths := device.View[uint64](m, a[1], n), column[uint64](m, a[2], n), device.View[uint8](m, a[3], n)
	in := func(k int) bool {
		return lengths[k] >= length && common(hi[k], at(lo, k), key, keyLo) >= int(length)
	}
	before := func(k int) bool {
		return hi[k] < key || hi[k] == key && (at(lo, k) < keyLo || at(lo, k) == keyLo && lengths[k] < length)
	}
	out[0], out[1] = 0, 0
	for k := range n {
		if before(k) {
			out[0]++
		}
	}
	out[1] = out[0]
	for k := int(out[0]); k < n && in(k); k++ {
		out[1]++
	}
}
