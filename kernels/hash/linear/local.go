package linear

import (
	"fmt"
	"slices"
	"sync"

	"github.com/ribwarp/ribwarp/lpm/exact"
)

// Options tune a Local and an OnDevice.
type Options struct {
	// Grow has an insert that would fill more than three quarters of the slots double their number.
	// Without it the capacity is fixed.
	Grow bool
}

// Local is a table in the Go heap, with the layout of Table. It implements exact.Table; finds run beside each
// other, changes alone.
type Local[W Word] struct {
	mu      sync.RWMutex
	core    core[W]
	options Options
	open    bool
}

// NewLocal makes an empty table of 2^log2 slots.
func NewLocal[W Word](log2 int, o Options) (*Local[W], error) {
	if err := checkLog2(log2); err != nil {
		return nil, err
	}
	return &Local[W]{core: newCore[W](log2), options: o, open: true}, nil
}

func newCore[W Word](log2 int) core[W] {
	buckets := log2 - slotBits[W]()
	return core[W]{words: make([]uint64, wordsOf[W](buckets)), log2: buckets, patient: true}
}

// log2 is that of the number of slots.
func (l *Local[W]) log2() int { return l.core.log2 + slotBits[W]() }

func (l *Local[W]) rehash(log2 int) {
	to := newCore[W](log2)
	l.core.rehash(&to)
	l.core = to
}

// makeRoom gives an insert that found no slot more of them, if there may be more.
func (l *Local[W]) makeRoom() bool {
	switch {
	case stale(l.core.dead, l.log2()):
		l.rehash(l.log2())
	case l.options.Grow && l.log2() < MaxLog2:
		l.rehash(l.log2() + 1)
	default:
		return false
	}
	return true
}

// Insert puts pairs in, or gives a key that is there its new value, and counts the new keys. Of a key that
// is in a batch twice the later value stays. ErrFull says that some found no slot.
func (l *Local[W]) Insert(keys, values []W) (added int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, exact.ErrClosed
	}
	var starts [group]start[W]
	before, left := l.core.live, 0
	for from := 0; from < len(keys); from += group {
		l.core.begin(&starts, keys[from:])
		for i, v := range values[from:min(from+group, len(keys))] {
			if l.options.Grow && crowded(l.core.live+l.core.dead+1, l.log2()) {
				l.makeRoom()
			}
			for l.core.insert(starts[i].h, v) == Left {
				if !l.makeRoom() {
					left++
					break
				}
			}
		}
	}
	if left > 0 {
		err = fullError(left, l.core.live, l.log2())
	}
	return l.core.live - before, err
}

func fullError(left, live, log2 int) error {
	return fmt.Errorf("no slot for %d requests, with %d pairs in 2^%d slots: %w", left, live, log2, ErrFull)
}

// Find gives every key's value, 0 for missing ones, and in found, which may be nil, whether it is there.
func (l *Local[W]) Find(values []W, found []bool, keys []W) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return exact.ErrClosed
	}
	var starts [group]start[W]
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
func (l *Local[W]) Delete(keys []W) (deleted int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0, exact.ErrClosed
	}
	var starts [group]start[W]
	before := l.core.live
	for from := 0; from < len(keys); from += group {
		l.core.begin(&starts, keys[from:])
		for i := range min(group, len(keys)-from) {
			l.core.erase(starts[i].h)
		}
	}
	if stale(l.core.dead, l.log2()) {
		l.rehash(l.log2())
	}
	return before - l.core.live, nil
}

// Len is the number of pairs.
func (l *Local[W]) Len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.core.live
}

// Slots is the number of slots.
func (l *Local[W]) Slots() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return 1 << l.log2()
}

// All gives all pairs, in no order.
func (l *Local[W]) All() (keys, values []W, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return nil, nil, exact.ErrClosed
	}
	keys, values = make([]W, 0, l.core.live), make([]W, 0, l.core.live)
	l.core.each(func(h, value W) { keys, values = append(keys, unmix(h)), append(values, value) })
	return keys, values, nil
}

// Stats goes through the whole table.
func (l *Local[W]) Stats() (Stats, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return Stats{}, exact.ErrClosed
	}
	return l.core.stats(), nil
}

// Clone gives a copy.
func (l *Local[W]) Clone() (exact.Table[W, W], error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.open {
		return nil, exact.ErrClosed
	}
	c := &Local[W]{core: l.core, options: l.options, open: true}
	c.core.words = slices.Clone(l.core.words)
	return c, nil
}

// Close frees the table.
func (l *Local[W]) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core, l.open = core[W]{}, false
	return nil
}
