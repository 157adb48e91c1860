package slab

import (
	"slices"
	"sync"

	"github.com/ribwarp/ribwarp/lpm/exact"
)

// Local is a table in the Go heap, with the layout of Table. It implements exact.Table; finds run beside each
// other, changes alone. It gets more buckets where they are crowded.
type Local[K Key] struct {
	mu   sync.RWMutex
	core core[K]
	open bool
}

// The kinds of tables in the Go heap.
type (
	Local32 = Local[uint32]
	Local64 = Local[uint64]
)

// NewLocal makes an empty table with so many buckets.
func NewLocal[K Key](buckets int) (*Local[K], error) {
	if err := checkBuckets(buckets); err != nil {
		return nil, err
	}
	return &Local[K]{core: newCore[K](buckets), open: true}, nil
}

func newCore[K Key](buckets int) core[K] {
	c := core[K]{heads: make([]slab, buckets+reserved[K]()), buckets: uint64(buckets), log2: arenaFor(buckets)}
	c.setFlags()
	return c
}

// grow adds an arena. There is always one more: all buckets' slabs together are more than memory has.
func (c *core[K]) grow() {
	c.settle()
	arena := 0
	for c.arenas[arena] != nil {
		arena++
	}
	n := arenaSlabs(c.log2, arena)
	c.arenas[arena] = make([]slab, n)
	c.capacity += uint64(n)
	c.list = append(c.list, make([]uint32, n)...)
}

// insertGrowing is insert that makes slabs.
func (c *core[K]) insertGrowing(h K, v uint32) {
	for c.insert(h, v, true, true) == Left {
		c.grow()
	}
}

func (l *Local[K]) rehash(buckets int) {
	to := newCore[K](buckets)
	l.core.all(func(h K, v uint32) { to.insertGrowing(h, v) })
	l.core = to
}

// Insert puts pairs in, or gives a key that is there its new value, and counts the new keys. Of a key that
// is in a batch twice the later value stays.
func (l *Local[K]) Insert(keys []K, values []uint32) (added int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, exact.ErrClosed
	}
	var starts [group]start[K]
	before := l.core.live
	for from := 0; from < len(keys); from += group {
		if buckets := int(l.core.buckets); crowded[K](l.core.live+group, buckets) && buckets < MaxBuckets {
			l.rehash(min(2*buckets+1, MaxBuckets))
		}
		l.core.begin(&starts, keys[from:])
		for i, v := range values[from:min(from+group, len(keys))] {
			l.core.insertGrowing(starts[i].h, v)
		}
	}
	return l.core.live - before, nil
}

// Find gives every key's value, 0 for missing ones, and in found, which may be nil, whether it is there.
func (l *Local[K]) Find(values []uint32, found []bool, keys []K) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return exact.ErrClosed
	}
	var starts [group]start[K]
	values = values[:len(keys)]
	for from := 0; from < len(keys); from += group {
		l.core.begin(&starts, keys[from:])
		vs := values[from:min(from+group, len(keys))]
		if found == nil {
			for i := range vs {
				vs[i], _ = l.core.findFrom(&starts[i])
			}
			continue
		}
		fs := found[from:][:len(vs)]
		for i := range vs {
			vs[i], fs[i] = l.core.findFrom(&starts[i])
		}
	}
	return nil
}

// Delete takes keys out and counts those that were there.
func (l *Local[K]) Delete(keys []K) (deleted int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, exact.ErrClosed
	}
	var starts [group]start[K]
	before := l.core.live
	for from := 0; from < len(keys); from += group {
		l.core.begin(&starts, keys[from:])
		for i := range min(group, len(keys)-from) {
			l.core.delete(starts[i].h)
		}
	}
	if stale(l.core.dead, l.core.live) {
		l.core.settle()
		l.core.flush()
	}
	return before - l.core.live, nil
}

// Bytes is the memory of the table.
func (l *Local[K]) Bytes() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slabBytes * (len(l.core.heads) + int(l.core.capacity))
}

// Len is the number of pairs.
func (l *Local[K]) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.core.live
}

// All gives all pairs, in no order.
func (l *Local[K]) All() (keys []K, values []uint32, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return nil, nil, exact.ErrClosed
	}
	keys, values = make([]K, 0, l.core.live), make([]uint32, 0, l.core.live)
	l.core.all(func(h K, v uint32) { keys, values = append(keys, unmix(h)), append(values, v) })
	return keys, values, nil
}

// Clone gives a copy.
func (l *Local[K]) Clone() (exact.Table[K, uint32], error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return nil, exact.ErrClosed
	}
	c := &Local[K]{core: l.core, open: true}
	c.core.heads, c.core.list = slices.Clone(l.core.heads), slices.Clone(l.core.list)
	for i, a := range l.core.arenas {
		c.core.arenas[i] = slices.Clone(a)
	}
	return c, nil
}

// Close frees the table.
func (l *Local[K]) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core, l.open = core[K]{}, false
	return nil
}
