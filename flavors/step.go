package flavors

import "unsafe"

// stepGeneric takes the keys of a block down one level: for each of the first n whose cell in
// cur holds a child, it reads that child's cell in pages, the one that bits hi>>shift&mask of the
// key name, into cur. live is not 0 where a child is left. It is the meaning of step in plain Go.
func stepGeneric(cur *[block]uint32, hi *[block]uint64, n int, pages unsafe.Pointer, shift, mask uint64) (live uint64) {
	for i, c := range cur[:n] {
		if c&childBit != 0 {
			cur[i] = cellAt(pages, uint64(c&^childBit)+hi[i]>>shift&mask)
			live |= uint64(cur[i] & childBit)
		}
	}
	return live
}
