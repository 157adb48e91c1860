package rib

import "unsafe"

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
