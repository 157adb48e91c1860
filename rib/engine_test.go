package rib_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
)

// mapEngine is an lpm.Engine over plain maps that checks how it is used: what it finds wrong is
// in misuse. It copies the whole map for every update.
type mapEngine struct {
	mu      sync.Mutex
	newest  *mapTable
	open    int // tables not closed
	running int
	builds  []build
	misuse  []error

	takes   time.Duration // how long a build sleeps
	failing error         // what builds and updates return, nil for success
	foreign bool          // Update returns lpm.ErrForeignTable
}

// A build is one call of Build or Update.
type build struct {
	update     bool
	changes    int
	start, end time.Time
	err        error
}

func (e *mapEngine) Name() string { return "map" }

func (e *mapEngine) Close() error { return nil }

func (e *mapEngine) Build(ctx context.Context, routes lpm.Routes) (lpm.Table, error) {
	return e.make(ctx, nil, routes)
}

func (e *mapEngine) Update(ctx context.Context, prev lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	return e.make(ctx, prev.(*mapTable), changes)
}

func (e *mapEngine) make(ctx context.Context, prev *mapTable, changes lpm.Routes) (lpm.Table, error) {
	b := build{update: prev != nil, changes: changes.Len(), start: time.Now()}
	e.mu.Lock()
	e.running++
	e.expect(e.running == 1, "%d builds at once", e.running)
	takes, failing, foreign := e.takes, e.failing, e.foreign && prev != nil
	e.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			failing = ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	b.end = time.Now()
	switch {
	case foreign:
		b.err = lpm.ErrForeignTable
	case failing != nil:
		b.err = failing
	}
	e.builds = append(e.builds, b)
	if b.err != nil {
		return nil, b.err
	}
	return e.apply(prev, changes), nil
}

// apply is called under the lock.
func (e *mapEngine) apply(prev *mapTable, changes lpm.Routes) *mapTable {
	e.expect(changes.Validate() == nil, "invalid change: %v", changes.Validate())
	t := &mapTable{engine: e, handles: map[netip.Prefix]lpm.Handle{}}
	if prev != nil {
		e.expect(prev == e.newest, "update of a table that is not the newest")
		e.expect(!prev.closed, "update of a closed table")
		t.handles = maps.Clone(prev.handles)
	}
	all := flatten(changes)
	for _, c := range all {
		if c.handle == lpm.None {
			e.expect(t.handles[c.prefix] != lpm.None, "%s withdrawn and not there", c.prefix)
			delete(t.handles, c.prefix)
		}
	}
	for _, c := range all {
		if c.handle != lpm.None {
			e.expect(t.handles[c.prefix] == lpm.None, "%s announced and there already", c.prefix)
			t.handles[c.prefix] = c.handle
		}
	}
	if len(t.handles) < 10_000 { // for benchmarks
		byHandle := map[lpm.Handle]netip.Prefix{}
		for p, h := range t.handles {
			e.expect(byHandle[h] == netip.Prefix{}, "handle %d for %s and %s", h, p, byHandle[h])
			byHandle[h] = p
		}
	}
	e.open++
	e.newest = t
	return t
}

func (e *mapEngine) expect(ok bool, format string, args ...any) {
	if !ok {
		e.misuse = append(e.misuse, fmt.Errorf(format, args...))
	}
}

// problem is what was wrong with how the engine was used.
func (e *mapEngine) problem() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.misuse...)
}

func (e *mapEngine) set(f func(e *mapEngine)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e)
}

// history gives the builds so far.
func (e *mapEngine) history() []build {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.builds)
}

type change struct {
	prefix netip.Prefix
	handle lpm.Handle
}

func flatten(r lpm.Routes) []change {
	all := make([]change, 0, r.Len())
	for _, x := range r.V4 {
		all = append(all, change{x.Prefix(), x.Handle})
	}
	for _, x := range r.V6 {
		all = append(all, change{x.Prefix(), x.Handle})
	}
	return all
}

// mapTable is the lpm.Table of mapEngine.
type mapTable struct {
	engine  *mapEngine
	handles map[netip.Prefix]lpm.Handle
	closed  bool // under engine.mu
}

func (t *mapTable) isClosed() bool {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	return t.closed
}

func (t *mapTable) lookup(a netip.Addr) lpm.Handle {
	for bits := a.BitLen(); bits >= 0; bits-- {
		p, _ := a.Prefix(bits)
		if h := t.handles[p]; h != lpm.None {
			return h
		}
	}
	return lpm.None
}

func (t *mapTable) Lookup4(dst []lpm.Handle, addrs []uint32) error {
	if t.isClosed() {
		return lpm.ErrClosed
	}
	for i, a := range addrs {
		dst[i] = t.lookup(lpm.Netip4(a))
	}
	return nil
}

func (t *mapTable) Lookup6(dst []lpm.Handle, addrs []lpm.Addr6) error {
	if t.isClosed() {
		return lpm.ErrClosed
	}
	for i, a := range addrs {
		dst[i] = t.lookup(a.Netip())
	}
	return nil
}

func (t *mapTable) Find(p netip.Prefix) lpm.Handle { return t.handles[p] }

func (t *mapTable) Covering(dst []lpm.Handle, p netip.Prefix) []lpm.Handle {
	for bits := p.Bits(); bits >= 0; bits-- {
		if h := t.handles[netip.PrefixFrom(p.Addr(), bits).Masked()]; h != lpm.None {
			dst = append(dst, h)
		}
	}
	return dst
}

func (t *mapTable) Covered(dst []lpm.Handle, p netip.Prefix, limit int) []lpm.Handle {
	var inside []netip.Prefix
	for x := range t.handles {
		if x.Bits() >= p.Bits() && p.Contains(x.Addr()) {
			inside = append(inside, x)
		}
	}
	slices.SortFunc(inside, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	for _, x := range inside {
		if limit == 0 {
			break
		}
		limit--
		dst = append(dst, t.handles[x])
	}
	return dst
}

func (t *mapTable) Info() lpm.Info { return lpm.Info{Engine: "map"} }

func (t *mapTable) Close() error {
	t.engine.mu.Lock()
	defer t.engine.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.engine.open--
	}
	return nil
}
