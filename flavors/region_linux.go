package flavors

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a large page on the processors where it matters here.
const hugePage = 2 << 20

// mapRegion maps memory of its own for large regions and asks for huge pages: a random cell
// then costs one cache miss and not another one to translate its address, and filling the cells
// takes a fault every 2 MiB and not every 4 KiB. The Go heap would do neither, because it hands
// out memory that was in use before, in small pages. The memory is given back when the region
// becomes unreachable. nil: too small to matter, or the kernel declined; use the heap.
func mapRegion(n int) *region {
	size := (n*cellSize + hugePage - 1) &^ (hugePage - 1)
	if n*cellSize < hugePage {
		return nil
	}
	mem, err := unix.Mmap(-1, 0, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (hugePage - 1)
	cells := mem[skip:][:size]
	_ = unix.Madvise(cells, unix.MADV_HUGEPAGE) // advice: without it the region is only slower
	r := &region{cells: unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(cells))), n)}
	runtime.AddCleanup(r, func(mem []byte) { _ = unix.Munmap(mem) }, mem)
	return r
}
