// Package index answers exact questions, which route has this prefix, from a hash table beside the tree
// that answers the longest match.
//
// An engine made by New builds another engine's tables, and with each of them a table of its prefixes
// (package exact) that Find and FindAll are answered from.
//
// A hash table changes in place, and a generation's table must not. So there are two copies, as in the
// left-right scheme: while one is read, the other gets what it lacks and then the next changes, and the next
// generation reads that one. Where readers hold generations for longer, the newest copy is cloned.
package index

import (
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// Table is what the prefixes are kept in.
type Table = exact.Table[uint64, uint32]

// engine is another engine with an index.
type engine struct {
	lpm.Engine
	open func(prefixes int) (Table, error)
	seed maphash.Seed
}

// New makes an engine that builds base's tables with an index, and takes base over. open makes an
// empty table for the given number of prefixes.
//
// An index that cannot be made, or fails, as where a device has no memory left, is left out: its table is
// asked instead, and the next Build makes a new one. Making it takes about as long as building the table, on another
// processor if there is one.
func New(base lpm.Engine, open func(prefixes int) (Table, error)) lpm.Engine {
	return &engine{Engine: base, open: open, seed: maphash.MakeSeed()}
}

// table is a base's table with an index.
type table struct {
	lpm.Table
	engine *engine
	line   *line
	number int   // of updates since the build
	copy   *copy // nil where there is no index
	closed atomic.Bool
}

// line is the copies that the tables of one build and its updates share.
type line struct {
	mu     sync.Mutex
	newest int     // number of the newest table
	copies []*copy // of which every one is in use, or free
	log    []lpm.Routes
	first  int // number of the table that log[0] made
}

// spare is how many free copies are kept.
const spare = 1

// Build makes the base's table and the index beside each other.
func (e *engine) Build(ctx context.Context, routes lpm.Routes) (lpm.Table, error) {
	if err := routes.Validate(); err != nil {
		return nil, err
	}
	made := make(chan *copy, 1)
	go func() { made <- e.build(routes) }()
	base, err := e.Engine.Build(ctx, routes)
	c := <-made
	if err != nil {
		if c != nil {
			c.close()
		}
		return nil, err
	}
	l := &line{first: 1}
	if c != nil {
		l.copies = []*copy{c}
		// The first update needs a second copy, and somebody waits for it then.
		go l.prepare(c)
	}
	return &table{Table: base, engine: e, line: l, copy: c}, nil
}

// prepare makes a free copy of the line's first one, unless an update has made it or nobody needs it any more.
func (l *line) prepare(first *copy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest > 0 || len(l.copies) != 1 || l.copies[0] != first {
		return
	}
	if c, err := first.clone(); err == nil {
		l.copies = append(l.copies, c)
	}
}

// build makes a copy of exactly the given routes, nil where that fails.
func (e *engine) build(routes lpm.Routes) *copy {
	t, err := e.open(routes.Len())
	if err != nil {
		return nil
	}
	c, err := newCopy(t, e.seed, routes)
	if err != nil {
		c.close()
		return nil
	}
	return c
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
	t := &table{Table: base, engine: e, line: p.line, number: p.number + 1}
	t.copy = p.line.next(p, changes)
	return t, nil
}

// next gives the copy for the table after p, nil where there is none.
func (l *line) next(p *table, changes lpm.Routes) *copy {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.copy == nil || p.number != l.newest || p.closed.Load() {
		return nil
	}
	l.newest++
	l.log = append(l.log, lpm.Routes{V4: slices.Clone(changes.V4), V6: slices.Clone(changes.V6)})
	c := l.free(p)
	if c == nil {
		return nil
	}
	for c.number < l.newest {
		if c.apply(l.log[c.number+1-l.first]) != nil {
			l.drop(c)
			return nil
		}
		c.number++
	}
	c.users = 1
	// What no copy lacks any more is not needed.
	oldest := l.newest
	for _, c := range l.copies {
		oldest = min(oldest, c.number)
	}
	l.log = slices.Clone(l.log[oldest+1-l.first:])
	l.first = oldest + 1
	return c
}

// free gives a copy that nobody reads, or a clone of p's; nil where there is no memory for one.
func (l *line) free(p *table) *copy {
	for _, c := range l.copies {
		if c.users == 0 {
			return c
		}
	}
	c, err := p.copy.clone()
	if err != nil {
		return nil
	}
	l.copies = append(l.copies, c)
	return c
}

// drop closes a copy.
func (l *line) drop(c *copy) {
	l.copies = slices.Delete(l.copies, slices.Index(l.copies, c), slices.Index(l.copies, c)+1)
	c.close()
}

// release says that t does not read its copy any more.
func (l *line) release(t *table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.copy.users--
	free, used := 0, false
	for _, c := range slices.Clone(l.copies) {
		switch {
		case c.users > 0:
			used = true
		case free == spare:
			l.drop(c)
		default:
			free++
		}
	}
	if !used { // the last table of the line
		for len(l.copies) > 0 {
			l.drop(l.copies[0])
		}
	}
}

// Close frees the table.
func (t *table) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	if t.copy != nil {
		t.line.release(t)
	}
	return t.Table.Close()
}

// Find is the base's Find, from the index.
func (t *table) Find(p netip.Prefix) lpm.Handle {
	if t.copy == nil || t.closed.Load() {
		return t.Table.Find(p)
	}
	q := questions.Get().(*question)
	defer questions.Put(q)
	q.one[0] = p
	if t.copy.find(q, q.dst[:], q.one[:]) != nil {
		return t.Table.Find(p)
	}
	return q.dst[0]
}

// FindAll puts the handle of every prefix into dst, None for those that the table lacks.
func (t *table) FindAll(dst []lpm.Handle, prefixes []netip.Prefix) error {
	if t.closed.Load() {
		return lpm.ErrClosed
	}
	if t.copy != nil {
		q := questions.Get().(*question)
		defer questions.Put(q)
		if t.copy.find(q, dst, prefixes) == nil {
			return nil
		}
	}
	return lpm.FindAll(t.Table, dst, prefixes)
}

// Info adds the index's memory to the base's.
func (t *table) Info() lpm.Info {
	in := t.Table.Info()
	if t.copy == nil || t.closed.Load() {
		return in
	}
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	for _, c := range t.line.copies {
		in.ExactBytes += uint64(c.bytes())
	}
	return in
}
