package rib

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ribwarp/ribwarp/lpm"
)

// DefaultTable is the table that is always there, and that is meant where none is named.
const DefaultTable = "default"

const (
	defaultMaxTables = 64
	defaultIdleTime  = 10 * time.Minute
	maxTableName     = 128
)

// Errors of Tables.Open.
var (
	ErrTooManyTables = errors.New("too many tables")
	ErrTablesClosed  = errors.New("the tables are closed")
)

// TablesOptions say what tables are made of.
type TablesOptions struct {
	// Engine builds the tables of all of them: its methods may be called concurrently, and what it
	// keeps from one table to the next it keeps for each line of updates. Tables does not close it.
	Engine    lpm.Engine
	RIB       Options          // of each
	Publisher PublisherOptions // of each; Source is that of the default table, others have their name
	Max       int              // tables, the default one among them; default 64
	// IdleTime is how long a passing table may be without a peer before it is dropped; default 10 min.
	IdleTime time.Duration
}

// A Table is a named RIB with its publisher and generations.
type Table struct {
	Name      string
	RIB       *RIB
	Publisher *Publisher

	passing bool          // dropped once it has been without a peer for long; under Tables.mu
	ended   chan struct{} // closed when the publisher has; nil before it runs
	stop    context.CancelFunc
}

// Peer gives a peer of the table by its name.
func (t *Table) Peer(name string) (*Peer, bool) {
	t.RIB.mu.Lock()
	defer t.RIB.mu.Unlock()
	p, ok := t.RIB.peers[name]
	return p, ok
}

// Tables are named RIBs (VRFs), each with its publisher and generations; they share nothing but an
// engine. DefaultTable is always there. Safe for concurrent use.
type Tables struct {
	options TablesOptions
	main    *Table // DefaultTable
	ready   atomic.Bool
	ended   chan struct{}  // closed by Close
	ending  sync.WaitGroup // tables that were dropped

	mu      sync.RWMutex // below
	others  map[string]*Table
	started bool
	closed  bool
}

// NewTables makes the default table. Publishers run from Start on.
func NewTables(o TablesOptions) *Tables {
	if o.Max <= 0 {
		o.Max = defaultMaxTables
	}
	if o.IdleTime <= 0 {
		o.IdleTime = defaultIdleTime
	}
	if o.RIB.Log == nil {
		o.RIB.Log = slog.Default()
	}
	if o.Publisher.Log == nil {
		o.Publisher.Log = o.RIB.Log
	}
	t := &Tables{options: o, others: map[string]*Table{}, ended: make(chan struct{})}
	t.main = t.make(DefaultTable)
	return t
}

func (t *Tables) make(name string) *Table {
	r, p := t.options.RIB, t.options.Publisher
	if name != DefaultTable {
		r.Log, p.Log = r.Log.With("table", name), p.Log.With("table", name)
		p.Source = name
	}
	table := &Table{Name: name, RIB: New(r)}
	table.Publisher = NewPublisher(table.RIB, t.options.Engine, p)
	return table
}

// CheckTableName says what is wrong with the name of a table: it has 1 to 128 bytes, all of them
// printable UTF-8.
func CheckTableName(name string) error {
	switch {
	case name == "":
		return errors.New("a table without a name")
	case len(name) > maxTableName:
		return fmt.Errorf("table %.32q...: its name has %d bytes, give it %d at most", name, len(name), maxTableName)
	case !utf8.ValidString(name) || slices.ContainsFunc([]rune(name), func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("table %q: its name has characters that cannot be printed", name)
	}
	return nil
}

// Open gives a table that stays until Release, made where it is not there. A table that is made
// after Start is published at once, as it is, and readiness does not wait for it. Where there are
// too many, a passing one without peers makes room. The error is ErrTooManyTables, ErrTablesClosed
// or one of CheckTableName. An empty table takes about 6 MB of cells.
func (t *Tables) Open(name string) (*Table, error) { return t.open(name, false) }

// OpenPassing is Open for a table that nobody has named for good: once it has been without a peer
// for TablesOptions.IdleTime, or where room is needed, it is dropped. Who adds a peer to it and
// gets ErrTableGone has come too late and opens it again. One that stays, stays.
func (t *Tables) OpenPassing(name string) (*Table, error) { return t.open(name, true) }

func (t *Tables) open(name string, passing bool) (*Table, error) {
	if name == DefaultTable {
		return t.main, nil
	}
	if err := CheckTableName(name); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if table := t.others[name]; table != nil {
		table.passing = table.passing && passing
		return table, nil
	}
	if t.closed {
		return nil, fmt.Errorf("table %q: %w", name, ErrTablesClosed)
	}
	if 1+len(t.others) >= t.options.Max && !t.makeRoom() {
		return nil, fmt.Errorf("table %q: %w: there are %d", name, ErrTooManyTables, t.options.Max)
	}
	table := t.make(name)
	table.passing = passing
	t.others[name] = table
	if t.started {
		table.run()
	}
	return table, nil
}

// makeRoom drops the passing table that has been without peers for longest. It is called under the
// lock.
func (t *Tables) makeRoom() bool {
	var idle *Table
	var longest time.Duration
	for _, table := range t.others {
		if d, vacant := table.RIB.idle(); table.passing && vacant && (idle == nil || d > longest) {
			idle, longest = table, d
		}
	}
	return idle != nil && t.dropIdle(idle, 0)
}

// dropIdle drops a table that has been without a peer for so long. It is called under the lock.
func (t *Tables) dropIdle(table *Table, d time.Duration) bool {
	if t.closed || !table.RIB.closeIdle(d) {
		return false
	}
	delete(t.others, table.Name)
	t.ending.Go(table.end) // which waits for a generation that is being built
	t.options.RIB.Log.Info("table dropped: nothing feeds it", "table", table.Name)
	return true
}

// Release makes a table a passing one. Without peers it is dropped at once. The default table stays.
func (t *Tables) Release(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if table := t.others[name]; table != nil {
		table.passing = true
		t.dropIdle(table, 0)
	}
}

// dropAllIdle drops passing tables that have been without a peer for too long.
func (t *Tables) dropAllIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, table := range t.others {
		if table.passing {
			t.dropIdle(table, t.options.IdleTime)
		}
	}
}

// idle tells for how long the RIB has been without a peer.
func (r *RIB) idle() (d time.Duration, vacant bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.vacant), !r.vacant.IsZero()
}

// closeIdle closes the RIB if it has been without a peer for so long, so that none can come any more.
func (r *RIB) closeIdle(d time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.vacant.IsZero() || time.Since(r.vacant) < d {
		return false
	}
	r.closed = true
	r.room.Broadcast()
	return true
}

// Get gives a table if it is there.
func (t *Tables) Get(name string) (*Table, bool) {
	if name == DefaultTable {
		return t.main, true
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	table, ok := t.others[name]
	return table, ok
}

// All gives the tables: the default one, then the others by name.
func (t *Tables) All() []*Table {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*Table, 1, 1+len(t.others))
	all[0] = t.main
	for _, table := range t.others {
		all = append(all, table)
	}
	slices.SortFunc(all[1:], func(a, b *Table) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Start has the publishers run. Add the peers that readiness is to wait for before it, and call it
// before anything announces more prefixes than Options.MaxPending.
func (t *Tables) Start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.started || t.closed {
		return
	}
	t.started = true
	t.main.run()
	for _, table := range t.others {
		table.run()
	}
	go func() {
		often := time.NewTicker(max(t.options.IdleTime/10, time.Millisecond))
		defer often.Stop()
		for {
			select {
			case <-t.ended:
				return
			case <-often.C:
				t.dropAllIdle()
			}
		}
	}()
}

// run has the publisher run until end.
func (t *Table) run() {
	ctx, stop := context.WithCancel(context.Background())
	t.stop, t.ended = stop, make(chan struct{})
	go func() {
		defer close(t.ended)
		_ = t.Publisher.Run(ctx) // fails only where the generation was withdrawn, which end does behind it
	}()
}

// Ready is true once every table was (Publisher.Ready), and stays true, whatever tables come
// later. While it is not, waitingFor names the peers that it waits for, those of other tables than
// the default one with their table.
func (t *Tables) Ready() (ok bool, waitingFor []string) {
	if t.ready.Load() {
		return true, nil
	}
	ok = true
	for _, table := range t.All() {
		ready, names := table.Publisher.Ready()
		ok = ok && ready
		for _, name := range names {
			if table != t.main {
				name += " in table " + table.Name
			}
			waitingFor = append(waitingFor, name)
		}
	}
	if ok {
		t.ready.Store(true)
	}
	return ok, waitingFor
}

// Drop ends a table: nothing is published in it any more, and its generation is gone with its last
// reader. What peers of it still announce changes nothing. The default table stays.
func (t *Tables) Drop(name string) {
	t.mu.Lock()
	table := t.others[name]
	delete(t.others, name)
	t.mu.Unlock()
	if table != nil {
		table.end()
	}
}

// end ends the publisher and what it published.
func (t *Table) end() {
	t.RIB.Close()
	if t.stop != nil {
		t.stop()
		<-t.ended
	}
	t.Publisher.Generations().Withdraw()
}

// Close ends all tables. They can be asked still, and have no generation.
func (t *Tables) Close() {
	t.mu.Lock()
	all := []*Table{t.main}
	for _, table := range t.others {
		all = append(all, table)
	}
	already := t.closed
	t.closed = true
	t.mu.Unlock()
	if already {
		return
	}
	close(t.ended)
	for _, table := range all {
		table.end()
	}
	t.ending.Wait()
}
