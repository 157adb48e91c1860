package device

import (
	"slices"
	"sync"
	"unsafe"
)

// Pinned is host memory that copies to and from devices run at full rate from, and without
// blocking. It lies outside the Go heap.
type Pinned[T any] struct {
	Slice []T

	d    *Device
	base unsafe.Pointer
}

// NewPinned allocates n values of a type without pointers. The memory works with every device,
// until d is closed. It is scarce: the system cannot move or swap it.
func NewPinned[T any](d *Device, n int) (*Pinned[T], error) {
	var zero T
	p := &Pinned[T]{d: d}
	err := d.bound(func() (err error) {
		p.base, err = d.driver.AllocPinned(max(n*int(unsafe.Sizeof(zero)), 1))
		return err
	})
	if err != nil {
		return nil, err
	}
	p.Slice = unsafe.Slice((*T)(p.base), n)
	pinnedRanges.add(uintptr(p.base), uintptr(size(p.Slice)))
	return p, nil
}

// Close frees the memory. Nothing may use the slice any more; a second call does nothing.
func (p *Pinned[T]) Close() {
	if p.base == nil {
		return
	}
	base := p.base
	pinnedRanges.remove(uintptr(base))
	p.base, p.Slice = nil, nil
	_ = p.d.bound(func() error { return p.d.driver.FreePinned(base) })
}

// IsPinned tells whether all of s lies in memory of one Pinned.
func IsPinned[T any](s []T) bool {
	return pinnedRanges.contain(uintptr(unsafe.Pointer(unsafe.SliceData(s))), uintptr(size(s)))
}

// ranges is a small set of address ranges.
type ranges struct {
	mu  sync.RWMutex
	all []addressRange
}

type addressRange struct{ from, to uintptr }

var pinnedRanges ranges

func (r *ranges) add(from, n uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, addressRange{from, from + n})
}

func (r *ranges) remove(from uintptr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(x addressRange) bool { return x.from == from })
}

func (r *ranges) contain(from, n uintptr) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.ContainsFunc(r.all, func(x addressRange) bool { return x.from <= from && from+n <= x.to })
}
