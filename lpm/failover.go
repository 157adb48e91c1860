package lpm

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// FailoverOptions of a Failover. The zero value sends every batch to the accelerated engine.
type FailoverOptions struct {
	// Crossover4 and Crossover6 are the smallest batches of each family that are worth the
	// accelerated engine (see Crossover); smaller ones go to the base. Batches of prefixes (Finder),
	// which are of both families, go by Crossover4.
	Crossover4, Crossover6 int
	// FirstRetry is how long the accelerated engine is left alone after a failure that it can
	// recover from; it doubles with each that follows, up to LastRetry. 0 is 1 s and 1 min.
	FirstRetry, LastRetry time.Duration
	// Log receives a line when the accelerated engine fails and when it is back. It may be nil.
	Log *slog.Logger
}

// Failover is an engine made of two: a base that always works, and an accelerated one for large
// batches, which may fail. Its tables hold one set of routes in both forms, so a batch that fails on
// the accelerated one is answered by the base, from the same generation; nobody sees the failure but
// through Status and the log.
//
// After an error that wraps ErrLost the accelerated engine is not asked again. After any other one
// it is left alone for a while; what its tables miss meanwhile is kept, one change a prefix, and
// catches up with the first generation after that.
type Failover struct {
	base, accelerated Engine
	o                 FailoverOptions
	now               func() time.Time
	lost              atomic.Bool
	builds, batches   health
	mu                sync.Mutex // Build and Update follow each other
	answeredBase      served
	answered          served
}

// served counts what one side answered.
type served struct{ batches, addresses atomic.Uint64 }

func (s *served) add(n int) {
	s.batches.Add(1)
	s.addresses.Add(uint64(n))
}

// FailoverStatus says how a Failover is. Counts are since its start.
type FailoverStatus struct {
	// Degraded says why the accelerated engine does not answer what it should; "" where it does.
	Degraded string
	// Lost tells that it never will again.
	Lost bool
	// FailedBatches failed on the accelerated engine and were answered by the base; FailedBuilds are
	// generations that it could not make.
	FailedBatches, FailedBuilds uint64
	// Batches and addresses by who answered them; prefixes of FindAll count as addresses.
	BaseBatches, BaseAddresses, AcceleratedBatches, AcceleratedAddresses uint64
}

// NewFailover makes an engine of two and takes both over.
func NewFailover(base, accelerated Engine, o FailoverOptions) *Failover {
	if o.FirstRetry <= 0 {
		o.FirstRetry = time.Second
	}
	if o.LastRetry <= 0 {
		o.LastRetry = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Failover{base: base, accelerated: accelerated, o: o, now: time.Now}
}

// Name is the accelerated engine's.
func (f *Failover) Name() string { return f.accelerated.Name() }

// Close closes both engines. Tables stay usable until closed.
func (f *Failover) Close() error { return errors.Join(f.accelerated.Close(), f.base.Close()) }

// Status is cheap and may be called at any time.
func (f *Failover) Status() FailoverStatus {
	s := FailoverStatus{
		Lost:                 f.lost.Load(),
		FailedBatches:        f.batches.failures.Load(),
		FailedBuilds:         f.builds.failures.Load(),
		BaseBatches:          f.answeredBase.batches.Load(),
		BaseAddresses:        f.answeredBase.addresses.Load(),
		AcceleratedBatches:   f.answered.batches.Load(),
		AcceleratedAddresses: f.answered.addresses.Load(),
	}
	for _, h := range []*health{&f.builds, &f.batches} {
		if why := h.reason.Load(); why != nil && s.Degraded == "" {
			s.Degraded = *why
		}
	}
	return s
}

// health is how one kind of work fares on the accelerated engine.
type health struct {
	failures atomic.Uint64
	again    atomic.Int64 // unix nanoseconds before which it is not asked; 0 when all is well
	reason   atomic.Pointer[string]

	mu    sync.Mutex // held to change again and reason
	pause int64      // what again was put off by last
}

// usable tells whether the accelerated engine is to be asked.
func (f *Failover) usable(h *health) bool {
	if f.lost.Load() {
		return false
	}
	again := h.again.Load()
	return again == 0 || f.now().UnixNano() >= again
}

// went takes note of how something that was asked of the accelerated engine went. What was asked
// before a failure and ends after it changes nothing: several batches that fail together are one
// failure, and one that still succeeds says nothing about the next.
func (f *Failover) went(h *health, what string, err error) {
	if err == nil && h.again.Load() == 0 {
		return
	}
	if err != nil {
		h.failures.Add(1)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	lost := errors.Is(err, ErrLost)
	now, again := f.now().UnixNano(), h.again.Load()
	if now < again && !lost || f.lost.Load() {
		return
	}
	if err == nil {
		h.again.Store(0)
		h.pause = 0
		if h.reason.Swap(nil) != nil {
			f.o.Log.Info("accelerated engine works again", "engine", f.Name(), "what", what)
		}
		return
	}
	h.pause = min(max(2*h.pause, int64(f.o.FirstRetry)), int64(f.o.LastRetry))
	h.again.Store(now + h.pause)
	why := what + " on engine " + f.Name() + " failed: " + err.Error()
	first := h.reason.Swap(&why) == nil
	switch {
	case lost:
		if !f.lost.Swap(true) {
			f.o.Log.Error("accelerated engine is lost: the base answers everything until a restart", "engine", f.Name(), "what", what, "err", err)
		}
	case first:
		f.o.Log.Warn("accelerated engine failed: the base answers, and it is tried again later", "engine", f.Name(), "what", what, "err", err)
	}
}

// Build makes both tables. Only the base's failure is one.
func (f *Failover) Build(ctx context.Context, routes Routes) (Table, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	base, err := f.base.Build(ctx, routes)
	if err != nil {
		return nil, err
	}
	return f.complete(ctx, base, &line{}, routes), nil
}

// Update makes the next of both tables. Only the base's failure is one.
func (f *Failover) Update(ctx context.Context, prev Table, changes Routes) (Table, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := prev.(*failoverTable)
	if !ok || p.engine != f {
		return nil, ErrForeignTable
	}
	l, err := p.takeLine()
	if err != nil {
		return nil, err
	}
	base, err := f.base.Update(ctx, p.base, changes)
	if err != nil {
		p.giveLine(l)
		return nil, err
	}
	return f.complete(ctx, base, l, changes), nil
}

// complete adds the accelerated table to a base one, if it can be made, and moves the line on.
func (f *Failover) complete(ctx context.Context, base Table, l *line, changes Routes) Table {
	t := &failoverTable{engine: f, base: base, line: l}
	if f.lost.Load() {
		l.release() // nothing will catch up any more
		return t
	}
	l.miss(changes)
	if !f.usable(&f.builds) {
		l.keep()
		return t
	}
	var accelerated Table
	var err error
	if l.table == nil {
		accelerated, err = f.accelerated.Build(ctx, l.missed())
	} else {
		accelerated, err = f.accelerated.Update(ctx, l.table.Table, l.missed())
	}
	if err == nil || ctx.Err() == nil { // a cancelled build says nothing about the engine
		f.went(&f.builds, "a build", err)
	}
	if err != nil {
		l.keep()
		return t
	}
	l.release()
	l.table = &sharedTable{Table: accelerated}
	l.table.users.Store(2) // the line and t
	t.accelerated = l.table
	return t
}

// line is what the next accelerated table is made from. The newest table of a line of updates has
// it.
type line struct {
	table *sharedTable // the newest accelerated table; nil where there is none
	now   Routes       // the changes at hand: the caller's memory
	later *changes     // those that table lacks since a failure; nil where it lacks none
}

// miss notes changes that the table lacks, in memory that is the caller's.
func (l *line) miss(changes Routes) {
	if l.later != nil {
		l.later.apply(changes)
		return
	}
	l.now = changes
}

// missed gives what the table lacks.
func (l *line) missed() Routes {
	if l.later != nil {
		return l.later.routes()
	}
	return l.now
}

// keep copies what the table lacks: it is not made now.
func (l *line) keep() {
	if l.later == nil {
		l.later = &changes{v4: map[Route4]Handle{}, v6: map[Route6]Handle{}, all: l.table == nil}
		l.later.apply(l.now)
		l.now = Routes{}
	}
}

// release gives up all that the line holds.
func (l *line) release() {
	l.table.release()
	*l = line{}
}

// changes are routes by prefix: the key has no handle.
type changes struct {
	v4  map[Route4]Handle
	v6  map[Route6]Handle
	all bool // changes to an empty table: a withdrawal leaves nothing
}

func (c *changes) apply(rs Routes) {
	for _, r := range rs.V4 {
		key := Route4{Addr: r.Addr, Bits: r.Bits}
		if r.Handle == None && c.all {
			delete(c.v4, key)
		} else {
			c.v4[key] = r.Handle
		}
	}
	for _, r := range rs.V6 {
		key := Route6{Addr: r.Addr, Bits: r.Bits}
		if r.Handle == None && c.all {
			delete(c.v6, key)
		} else {
			c.v6[key] = r.Handle
		}
	}
}

func (c *changes) routes() (rs Routes) {
	rs.V4, rs.V6 = make([]Route4, 0, len(c.v4)), make([]Route6, 0, len(c.v6))
	for r, h := range c.v4 {
		r.Handle = h
		rs.V4 = append(rs.V4, r)
	}
	for r, h := range c.v6 {
		r.Handle = h
		rs.V6 = append(rs.V6, r)
	}
	return rs
}

// sharedTable is an accelerated table that a generation and the line use: the last closes it.
type sharedTable struct {
	Table
	users atomic.Int32
}

func (s *sharedTable) release() {
	if s != nil && s.users.Add(-1) == 0 {
		_ = s.Table.Close() // nobody is left to tell
	}
}

// failoverTable is a table in both forms.
type failoverTable struct {
	engine      *Failover
	base        Table
	accelerated *sharedTable // nil where it could not be made

	mu     sync.Mutex
	line   *line // nil where the table is not the newest of its line
	closed bool
}

// takeLine gives the line to an update.
func (t *failoverTable) takeLine() (*line, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.line
	switch {
	case t.closed:
		return nil, ErrClosed
	case l == nil:
		return nil, errors.New("update of a table that was updated already: only the newest can be")
	}
	t.line = nil
	return l, nil
}

// giveLine takes the line back from an update that failed.
func (t *failoverTable) giveLine(l *line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		l.release()
		return
	}
	t.line = l
}

func (t *failoverTable) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	t.accelerated.release()
	if t.line != nil {
		t.line.release()
	}
	t.line = nil
	return t.base.Close()
}

func (t *failoverTable) Lookup4(dst []Handle, addrs []uint32) error {
	if t.worth(len(addrs), t.engine.o.Crossover4) {
		err := t.accelerated.Lookup4(dst, addrs)
		if t.done(len(addrs), err) {
			return nil
		}
	}
	t.engine.answeredBase.add(len(addrs))
	return t.base.Lookup4(dst, addrs)
}

func (t *failoverTable) Lookup6(dst []Handle, addrs []Addr6) error {
	if t.worth(len(addrs), t.engine.o.Crossover6) {
		err := t.accelerated.Lookup6(dst, addrs)
		if t.done(len(addrs), err) {
			return nil
		}
	}
	t.engine.answeredBase.add(len(addrs))
	return t.base.Lookup6(dst, addrs)
}

// worth tells whether a batch goes to the accelerated table.
func (t *failoverTable) worth(n, crossover int) bool {
	return t.accelerated != nil && n >= crossover && n > 0 && t.engine.usable(&t.engine.batches)
}

// done takes note of how a batch went on the accelerated table. One that is closed says so, and so
// will the base.
func (t *failoverTable) done(n int, err error) bool {
	if errors.Is(err, ErrClosed) {
		return false
	}
	t.engine.went(&t.engine.batches, "a batch", err)
	if err == nil {
		t.engine.answered.add(n)
	}
	return err == nil
}

func (t *failoverTable) Find(p netip.Prefix) Handle { return t.base.Find(p) }

// FindAll goes the way of Lookup4, where the accelerated table is a Finder.
func (t *failoverTable) FindAll(dst []Handle, prefixes []netip.Prefix) error {
	if t.worth(len(prefixes), t.engine.o.Crossover4) {
		if finder, ok := t.accelerated.Table.(Finder); ok && t.done(len(prefixes), finder.FindAll(dst, prefixes)) {
			return nil
		}
	}
	t.engine.answeredBase.add(len(prefixes))
	return FindAll(t.base, dst, prefixes)
}

// Worn is the base table's.
func (t *failoverTable) Worn() bool { return Worn(t.base) }

func (t *failoverTable) Covering(dst []Handle, p netip.Prefix) []Handle {
	return t.base.Covering(dst, p)
}

func (t *failoverTable) Covered(dst []Handle, p netip.Prefix, limit int) []Handle {
	return t.base.Covered(dst, p, limit)
}

// Info is the base table's, with the accelerated one's beside it.
func (t *failoverTable) Info() Info {
	in := t.base.Info()
	if a := t.hold(); a != nil {
		accelerated := a.Info()
		in.Accelerator = &accelerated
		a.release()
	}
	return in
}

// hold gives the accelerated table with a reference, nil where there is none any more.
func (t *failoverTable) hold() *sharedTable {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.accelerated == nil {
		return nil
	}
	t.accelerated.users.Add(1)
	return t.accelerated
}
