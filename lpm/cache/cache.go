// Package cache answers repeated questions from a table of the answers there were: IPv4 address to handle,
// bounded, in front of the longest match.
//
// It pays where finding an address in the table costs less than matching it, and that is seldom so: a tree
// in cells finds most addresses in one or two reads, and the cache needs one, too (docs/benchmarks/cache.txt). Nothing
// uses it unless it is asked for. Addresses of IPv6 are not kept: as keys they take four times as much
// memory, which leaves less of it in the processor's caches than the tree takes.
package cache

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// Table is what answers are kept in: one with a fixed capacity (exact.ErrFull).
type Table = exact.Table[uint32, uint32]

// engine is another engine whose tables have a cache each.
type engine struct {
	lpm.Engine
	open func() (Table, error)
}

// New makes an engine that builds base's tables with a cache in front, and takes base over. open makes an
// empty one. Every table has its own, so a new generation begins with none, and makes it at its first lookup.
func New(base lpm.Engine, open func() (Table, error)) lpm.Engine { return &engine{base, open} }

// Build is the base's.
func (e *engine) Build(ctx context.Context, routes lpm.Routes) (lpm.Table, error) {
	return e.table(e.Engine.Build(ctx, routes))
}

// Update is the base's.
func (e *engine) Update(ctx context.Context, prev lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	p, ok := prev.(*table)
	if !ok || p.engine != e {
		return nil, lpm.ErrForeignTable
	}
	return e.table(e.Engine.Update(ctx, p.Table, changes))
}

func (e *engine) table(base lpm.Table, err error) (lpm.Table, error) {
	if err != nil {
		return nil, err
	}
	return &table{Table: base, engine: e}, nil
}

// table is a base's table with a cache.
type table struct {
	lpm.Table
	engine *engine

	mu     sync.RWMutex // held for reading by lookups
	answer Table        // nil before the first lookup, after Close, and where it cannot be made
	closed bool

	made    atomic.Bool // whether the first one was tried
	opening atomic.Bool // somebody makes one; the base answers meanwhile
}

// scratch is the memory that a lookup takes, kept for the next one.
type scratch struct {
	found  []bool
	places []int
	addrs  []uint32
	dst    []lpm.Handle
	values []uint32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Lookup4 asks the cache, then the base for what is not there, and keeps those answers.
func (t *table) Lookup4(dst []lpm.Handle, addrs []uint32) error {
	if !t.made.Load() {
		t.renew(nil)
	}
	full, err := t.lookup(dst, addrs)
	if full != nil {
		t.renew(full)
	}
	return err
}

// lookup gives the cache if it is full.
func (t *table) lookup(dst []lpm.Handle, addrs []uint32) (full Table, err error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.answer == nil {
		return nil, t.Table.Lookup4(dst, addrs)
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.found = slices.Grow(s.found[:0], len(addrs))[:len(addrs)]
	s.values = slices.Grow(s.values[:0], len(addrs))[:len(addrs)]
	if err := t.answer.Find(s.values, s.found, addrs); err != nil {
		return nil, t.Table.Lookup4(dst, addrs)
	}
	s.places, s.addrs = s.places[:0], s.addrs[:0]
	for i, ok := range s.found {
		dst[i] = lpm.Handle(s.values[i])
		if !ok {
			s.places, s.addrs = append(s.places, i), append(s.addrs, addrs[i])
		}
	}
	if len(s.addrs) == 0 {
		return nil, nil
	}
	n := len(s.addrs)
	s.dst = slices.Grow(s.dst[:0], n)[:n]
	if err := t.Table.Lookup4(s.dst, s.addrs); err != nil {
		return nil, err
	}
	s.values = s.values[:n]
	for i, h := range s.dst {
		dst[s.places[i]] = h
		s.values[i] = uint32(h)
	}
	if _, err := t.answer.Insert(s.addrs, s.values); errors.Is(err, exact.ErrFull) {
		return t.answer, nil
	}
	return nil, nil // what is not kept is asked for once more
}

// renew puts an empty cache in the place of old, which is full, or of none.
func (t *table) renew(old Table) {
	if !t.opening.CompareAndSwap(false, true) {
		return
	}
	defer t.opening.Store(false)
	fresh, err := t.engine.open() // takes long where it is large
	if err != nil {
		fresh = nil // the base answers
	}
	t.mu.Lock()
	if t.answer == old && !t.closed {
		t.answer, fresh = fresh, old
	}
	t.made.Store(true)
	t.mu.Unlock()
	if fresh != nil {
		_ = fresh.Close() // nobody is left to tell
	}
}

// Worn is the base's.
func (t *table) Worn() bool { return lpm.Worn(t.Table) }

// FindAll is the base's.
func (t *table) FindAll(dst []lpm.Handle, prefixes []netip.Prefix) error {
	return lpm.FindAll(t.Table, dst, prefixes)
}

// Close frees the table and its cache.
func (t *table) Close() error {
	t.mu.Lock()
	if t.answer != nil {
		_ = t.answer.Close()
	}
	t.answer, t.closed = nil, true
	t.made.Store(true)
	t.mu.Unlock()
	return t.Table.Close()
}
