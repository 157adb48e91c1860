package rib

import (
	"net/netip"
	"unsafe"
)

// Sizes that the memory of a table hangs on: no test is needed, what grew does not compile.
var (
	_ [16]byte  = [unsafe.Sizeof(path{})]byte{}
	_ [48]byte  = [unsafe.Sizeof(destination{})]byte{}
	_ [56]byte  = [unsafe.Sizeof(Route{})]byte{}
	_ [112]byte = [unsafe.Sizeof(Attrs{})]byte{} // a size class of the allocator
)

// HandlesInUse is the number of destinations that the RIB keeps.
func HandlesInUse(r *RIB) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.dests.next) - 1 - len(r.dests.free)
}

// Crowds is the number of destinations with so many paths that they are found by an index.
func Crowds(r *RIB) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.crowds)
}

// DiffWalks is Diff where very much changed.
func DiffWalks(from, to *Generation, behind netip.Prefix, same func(a, b Route) bool, yield func(Difference) bool) {
	diffWalks(from, to, behind, same, yield)
}

// DiffFew is Diff where little changed; ok is false where it is not taken.
func DiffFew(from, to *Generation, behind netip.Prefix, same func(a, b Route) bool, yield func(Difference) bool) (ok bool) {
	c, ok := fewChanged(from, to)
	if ok {
		c.diff(behind, same, yield)
	}
	return ok
}

// UncomparedSteps are the steps of the decision that explain nothing.
func UncomparedSteps() (names []string) {
	for _, s := range steps {
		if compared[s.name] == nil {
			names = append(names, s.name)
		}
	}
	return names
}

// Hidden is the number of prefixes that the root has no route to and other routers may have.
func Hidden(r *RIB) int { return int(r.hidden.count.Load()) }
