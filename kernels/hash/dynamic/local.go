package dynamic

import (
	"sync"
	"unsafe"

	"github.com/ribwarp/ribwarp/lpm/exact"
)

// Local is a map in the Go heap, with the layout and the growth of Map. It implements exact.Table; finds
// run beside each other, changes alone.
type Local[K Keys, V Values] struct {
	mu    sync.RWMutex
	core  core
	sizes sizes // its descriptors are of the core's submaps
	open  bool
}

// NewLocal makes a map with so many slots, rounded up.
func NewLocal[K Keys, V Values](slots int, o Options) (*Local[K, V], error) {
	load, err := o.load()
	if err != nil {
		return nil, err
	}
	l := &Local[K, V]{core: core{wide: wide[K](), seed: o.Seed}, open: true}
	l.sizes = sizes{slotWords: KindOf[K, V]().slotWords(), load: load}
	l.append(sectorsOf(uint64(max(slots, 0)), l.sizes.slotWords))
	return l, nil
}

func (l *Local[K, V]) append(sectors uint64) {
	l.core.maps = append(l.core.maps, submap{words: make([]uint64, words(sectors)), sectors: sectors})
	l.count()
}

// add appends a submap with room for n pairs.
func (l *Local[K, V]) add(n int) (target int, err error) {
	sectors, err := l.sizes.next(uint64(n))
	if err != nil {
		return 0, err
	}
	l.append(sectors)
	return len(l.core.maps) - 1, nil
}

// count brings the counters to where the rules of growth look at them.
func (l *Local[K, V]) count() {
	l.sizes.maps = l.sizes.maps[:0]
	for _, m := range l.core.maps {
		l.sizes.maps = append(l.sizes.maps, descriptor{sectors: m.sectors, live: m.live, used: m.used})
	}
}

// key gives a key as the core takes it.
func (l *Local[K, V]) key(k K) key {
	if l.core.wide {
		w := *(*[2]uint64)(unsafe.Pointer(&k))
		return l.core.wideKey(w[0], w[1])
	}
	return l.core.narrowKey(*(*uint64)(unsafe.Pointer(&k)))
}

// Insert puts pairs in, or gives a key that is there its new value, and counts the new keys. Of a key that
// is in a batch twice the later value stays. It does not fail but for a closed map.
func (l *Local[K, V]) Insert(keys []K, values []V) (added int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, exact.ErrClosed
	}
	target, room := -1, uint64(0)
	for i, k := range keys {
		if room == 0 {
			// Submaps that could take one more, but not many, are left alone.
			l.count()
			if target = l.roomy(); target < 0 {
				if target, err = l.grow(len(keys) - i); err != nil {
					return added, err
				}
			}
			room = l.sizes.room(l.sizes.maps[target])
		}
		fresh, ok := l.core.insert(l.key(k), uint64(values[i]), target, true)
		if !ok {
			// Its region is full: the salt makes that as good as impossible.
			if target, err = l.add(len(keys) - i); err != nil {
				return added, err
			}
			room = l.sizes.room(l.sizes.maps[target])
			fresh, _ = l.core.insert(l.key(k), uint64(values[i]), target, true)
		}
		if fresh {
			added++
			room--
		}
	}
	return added, nil
}

// roomy gives the submap with the most room, -1 if that is little.
func (l *Local[K, V]) roomy() int {
	best := 0
	for i, m := range l.sizes.maps {
		if l.sizes.room(m) > l.sizes.room(l.sizes.maps[best]) {
			best = i
		}
	}
	if l.sizes.room(l.sizes.maps[best]) <= l.sizes.slots(l.sizes.maps[best])/64 {
		return -1
	}
	return best
}

// grow makes room for n pairs and gives the submap where it is.
func (l *Local[K, V]) grow(n int) (target int, err error) {
	for at := l.sizes.stale(); at >= 0; at = l.sizes.stale() {
		old := l.core.maps[at]
		fresh := core{wide: l.core.wide, seed: l.core.seed, maps: []submap{{words: make([]uint64, len(old.words)), sectors: old.sectors}}}
		fresh.all(&old, func(hi, lo, value uint64) {
			k := fresh.narrowKey(lo)
			if fresh.wide {
				k = fresh.wideKey(hi, lo)
			}
			fresh.insert(k, value, 0, false)
		})
		l.core.maps[at] = fresh.maps[0]
		l.count()
	}
	if at := l.roomy(); at >= 0 {
		return at, nil
	}
	return l.add(n)
}

// Find gives every key's value, 0 for missing ones, and in found, which may be nil, whether it is there.
func (l *Local[K, V]) Find(values []V, found []bool, keys []K) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return exact.ErrClosed
	}
	for i, k := range keys {
		v, ok := l.core.find(l.key(k))
		values[i] = V(v)
		if found != nil {
			found[i] = ok
		}
	}
	return nil
}

// Delete takes keys out and counts those that were there.
func (l *Local[K, V]) Delete(keys []K) (deleted int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, exact.ErrClosed
	}
	for _, k := range keys {
		if l.core.erase(l.key(k)) {
			deleted++
		}
	}
	for i := range l.core.maps {
		if m := &l.core.maps[i]; m.live == 0 && m.used > 0 {
			clear(m.words)
			m.used = 0
		}
	}
	return deleted, nil
}

// Len is the number of pairs.
func (l *Local[K, V]) Len() (n int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, m := range l.core.maps {
		n += int(m.live)
	}
	return n
}

// All gives all pairs, in no order.
func (l *Local[K, V]) All() (keys []K, values []V, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return nil, nil, exact.ErrClosed
	}
	for i := range l.core.maps {
		l.core.all(&l.core.maps[i], func(hi, lo, value uint64) {
			w := [2]uint64{hi, lo}
			k := (*K)(unsafe.Pointer(&w))
			if !l.core.wide {
				k = (*K)(unsafe.Pointer(&w[1]))
			}
			keys, values = append(keys, *k), append(values, V(value))
		})
	}
	return keys, values, nil
}

// Clone gives a copy.
func (l *Local[K, V]) Clone() (exact.Table[K, V], error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return nil, exact.ErrClosed
	}
	c := &Local[K, V]{core: l.core, sizes: l.sizes, open: true}
	c.core.maps, c.sizes.maps = nil, nil
	for _, m := range l.core.maps {
		m.words = append([]uint64(nil), m.words...)
		c.core.maps = append(c.core.maps, m)
	}
	c.count()
	return c, nil
}

// Bytes is the memory of the map.
func (l *Local[K, V]) Bytes() (n int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, m := range l.core.maps {
		n += 8 * len(m.words)
	}
	return n
}

// Close frees the map.
func (l *Local[K, V]) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core.maps, l.sizes.maps, l.open = nil, nil, false
	return nil
}
