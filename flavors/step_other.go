//go:build !amd64

package flavors

import "unsafe"

// useStep says whether step is worth taking: not without instructions for it.
var useStep = false

func step(cur *[block]uint32, hi *[block]uint64, n int, pages unsafe.Pointer, shift, mask uint64) (live uint64) {
	return stepGeneric(cur, hi, n, pages, shift, mask)
}
