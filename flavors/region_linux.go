package flavors

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a large page on the processors where it matters here.
const hugePage = 2 << 20

// The garbage collector sees nothing of mapped memory. Left alone it would run only after hundreds
// of small tables, each of which has let go of several MiB. So it is called whenever collectAfter
// bytes were mapped since the last time.
const collectAfter = 256 << 20

var mapped atomic.Int64 // bytes since the collector was last called

// mapRegion maps memory of its own for large regions and asks for huge pages: a random cell
// then costs one cache miss and not another one to translate its address, and filling the cells
// takes a fault every 2 MiB and not every 4 KiB. The Go heap would do neither, because it hands
// out memory that was in use before, in small pages. The memory is given back when the region
// becomes unreachable. nil without an error: too small to matter, use the heap. An error means that
// the kernel has no such memory: it would not give it to the heap either, and that would end the
// process.
func mapRegion(n int) (*region, error) {
	if n*cellSize < hugePage {
		return nil, nil
	}
	size := (n*cellSize + hugePage - 1) &^ (hugePage - 1)
	mem, err := unix.Mmap(-1, 0, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map memory: %w", err)
	}
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (hugePage - 1)
	cells := mem[skip:][:size]
	_ = unix.Madvise(cells, unix.MADV_HUGEPAGE) // advice: without it the region is only slower
	r := &region{cells: unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(cells))), n)}
	runtime.AddCleanup(r, func(mem []byte) { _ = unix.Munmap(mem) }, mem)
	if mapped.Add(int64(size)) > collectAfter {
		mapped.Store(0)
		go runtime.GC() // it can take longer than the build that called for it
	}
	return r, nil
}
