// Package index answers exact questions, which route has this prefix, from a hash table beside the tree
// that answers the longest match.
//
// An engine made by New builds another engine's tables, and with each of them a table of its prefixes
// (package exact) that Find and FindAll are answered from.
//
// A hash table changes in place, and a generation's table must not. So there are two copies, as in the
// left-right scheme: while one is read, the other gets what it lacks and then the next changes, and the next
// generation reads that one (line.go). Where readers hold generations for longer there are a few copies more,
// and then generations without one, which the tree answers for.
package index

import (
	"context"
	"hash/maphash"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// Table is what the prefixes are kept in.
type Table = exact.Table[uint64, uint32]

// engine is another engine with an index.
type engine struct {
	lpm.Engine
	open   func(prefixes int) (Table, error)
	seed   maphash.Seed
	making chan struct{} // holds an item for each line that makes its first copy
	routes atomic.Int64  // of all copies that are open
	worn   atomic.Int64  // when a table was last said to be worn, Unix time in seconds
}

// New makes an engine that builds base's tables with an index, and takes base over. open makes an
// empty table for the given number of prefixes.
//
// An index that cannot be made, or fails, as where a device has no memory left, is left out: its table is
// asked instead, and asks to be built anew (Worn). Making it takes about as long as building the table, and begins
// when that is there: until it is done the table is asked instead, too. The copies of all tables together have 20 million
// routes at most.
func New(base lpm.Engine, open func(prefixes int) (Table, error)) lpm.Engine {
	return &engine{Engine: base, open: open, seed: maphash.MakeSeed(), making: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// mostRoutes bounds the routes in the copies of all lines of an engine, to some 0.6 GB: as many lines as generations are held
// may have copies in use.
const mostRoutes = 20 << 20

// table is a base's table with an index.
type table struct {
	lpm.Table
	engine *engine
	line   *line
	number int                  // of the line's changes that it has
	copy   atomic.Pointer[copy] // nil where there is no index
	closed atomic.Bool
}

// Build makes the base's table, and has the index made in the background.
func (e *engine) Build(ctx context.Context, routes lpm.Routes) (lpm.Table, error) {
	base, err := e.Engine.Build(ctx, routes)
	if err != nil {
		return nil, err
	}
	t := &table{Table: base, engine: e, line: newLine(e)}
	t.line.begin(t, lpm.Routes{V4: slices.Clone(routes.V4), V6: slices.Clone(routes.V6)})
	return t, nil
}

// build makes a copy of exactly the given routes, nil where that fails.
func (e *engine) build(routes lpm.Routes) *copy {
	if !e.room(routes.Len()) {
		return nil
	}
	t, err := e.open(routes.Len())
	if err != nil {
		e.routes.Add(int64(-routes.Len()))
		return nil
	}
	c, err := newCopy(t, e.seed, routes)
	c.counted = routes.Len()
	if err != nil {
		e.close(c)
		return nil
	}
	return c
}

// room counts the routes of one copy more, unless there are too many.
func (e *engine) room(routes int) bool {
	if e.routes.Add(int64(routes)) <= mostRoutes {
		return true
	}
	e.routes.Add(int64(-routes))
	return false
}

// clone makes a copy of a copy that nobody changes meanwhile, nil where that fails.
func (e *engine) clone(from *copy) *copy {
	n := from.table.Len()
	if !e.room(n) {
		return nil
	}
	c, err := from.clone()
	if err != nil {
		e.routes.Add(int64(-n))
		return nil
	}
	c.counted = n
	return c
}

func (e *engine) close(c *copy) {
	e.routes.Add(int64(-c.counted))
	c.close()
}

// Update makes the base's next table and the index's.
func (e *engine) Update(ctx context.Context, prev lpm.Table, changes lpm.Routes) (lpm.Table, error) {
	p, ok := prev.(*table)
	if !ok || p.engine != e {
		return nil, lpm.ErrForeignTable
	}
	base, err := e.Engine.Update(ctx, p.Table, changes)
	if err != nil {
		return nil, err
	}
	t := &table{Table: base, engine: e, line: p.line}
	if !t.line.next(t, p, changes) {
		t.line = newLine(e) // there is a newer table than p: this one begins a line without an index
	}
	return t, nil
}

// wornEvery is how often a table may be said to be worn: building is much more than updating.
const wornEvery = time.Minute

// Worn implements lpm.Worn: the line has lost its index, and updates do not bring it back. It says so once a minute.
func (t *table) Worn() bool {
	if t.closed.Load() || !t.line.lost() || t.engine.routes.Load() > mostRoutes/2 {
		return false
	}
	last, now := t.engine.worn.Load(), time.Now().Unix()
	return now-last >= int64(wornEvery/time.Second) && t.engine.worn.CompareAndSwap(last, now)
}

// Close frees the table.
func (t *table) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.line.release(t)
	return t.Table.Close()
}

// Find is the base's Find, from the index.
func (t *table) Find(p netip.Prefix) lpm.Handle {
	c := t.copy.Load()
	if c == nil || t.closed.Load() {
		return t.Table.Find(p)
	}
	q := questions.Get().(*question)
	defer questions.Put(q)
	q.one[0] = p
	if c.find(q, q.dst[:], q.one[:]) != nil {
		return t.Table.Find(p)
	}
	return q.dst[0]
}

// FindAll puts the handle of every prefix into dst, None for those that the table lacks.
func (t *table) FindAll(dst []lpm.Handle, prefixes []netip.Prefix) error {
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	if c := t.copy.Load(); c != nil {
		q := questions.Get().(*question)
		defer questions.Put(q)
		if c.find(q, dst, prefixes) == nil {
			return nil
		}
	}
	return lpm.FindAll(t.Table, dst, prefixes)
}

// Info adds the index's memory to the base's.
func (t *table) Info() lpm.Info {
	in := t.Table.Info()
	if !t.closed.Load() {
		in.ExactBytes = t.line.bytes()
	}
	return in
}
