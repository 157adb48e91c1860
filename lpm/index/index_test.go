package index_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/exact"
	"github.com/ribwarp/ribwarp/lpm/index"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// newEngine is a tree on the processor with an index.
func newEngine(tb testing.TB, open func(int) (index.Table, error)) lpm.Engine {
	tb.Helper()
	base, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return index.New(base, open)
}

func openTable(n int) (index.Table, error) {
	return dynamic.NewLocal[uint64, uint32](2*n, dynamic.Options{Seed: rand.Uint64()})
}

func TestConformance(t *testing.T) {
	lpmtest.Conformance(t, func(tb testing.TB) lpm.Engine { return newEngine(tb, openTable) })
}

// Prefixes that share a hash are told apart.
func TestConformanceWithFewHashes(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute under the race detector")
	}
	index.WeakHash(t, 7)
	lpmtest.Conformance(t, func(tb testing.TB) lpm.Engine { return newEngine(tb, openTable) })
}

// counting says how many of its tables are open, and fails on request.
type counting struct {
	mu     sync.Mutex
	open   int
	most   int
	asked  int
	broken atomic.Bool
}

var errBroken = errors.New("broken")

type counted struct {
	index.Table
	c *counting
}

func (c *counting) wrap(t index.Table) index.Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.most = max(c.most, c.open)
	return &counted{t, c}
}

func (c *counting) table(n int) (index.Table, error) {
	if c.broken.Load() {
		return nil, errBroken
	}
	t, err := openTable(n)
	return c.wrap(t), err
}

func (t *counted) Find(values []uint32, found []bool, keys []uint64) error {
	t.c.mu.Lock()
	t.c.asked++
	t.c.mu.Unlock()
	if t.c.broken.Load() {
		return errBroken
	}
	return t.Table.Find(values, found, keys)
}

func (t *counted) Clone() (exact.Table[uint64, uint32], error) {
	if t.c.broken.Load() {
		return nil, errBroken
	}
	c, err := t.Table.Clone()
	return t.c.wrap(c), err
}

func (t *counted) Close() error {
	t.c.mu.Lock()
	t.c.open--
	t.c.mu.Unlock()
	return t.Table.Close()
}

// A long line of updates, of which some tables are held for a while: every table answers from its own
// generation, two copies suffice where none is held, there are never many, and all are closed in the end.
func TestGenerations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var c counting
	e := newEngine(t, c.table)
	type held struct {
		tab  lpm.Table
		want lpmtest.Oracle
	}
	rs := lpmtest.RandomRoutes(r, 500, 1)
	now := held{lpmtest.Build(t, e, rs), lpmtest.OracleOf(rs)}
	var older []held
	verify := func(h held) {
		t.Helper()
		var ps []netip.Prefix
		for p := range h.want {
			ps = append(ps, p)
		}
		for p := range now.want {
			ps = append(ps, p)
		}
		asked := c.asked
		got := make([]lpm.Handle, len(ps))
		if err := lpm.FindAll(h.tab, got, ps); err != nil {
			t.Fatal(err)
		}
		if (c.asked > asked) != index.Indexed(h.tab) {
			t.Fatalf("the index was asked %d times, indexed: %t", c.asked-asked, index.Indexed(h.tab))
		}
		for i, p := range ps {
			if got[i] != h.want[p] || h.tab.Find(p) != h.want[p] {
				t.Fatalf("%s: %d and %d, want %d", p, got[i], h.tab.Find(p), h.want[p])
			}
		}
	}
	index.Settle(now.tab)
	for n := range 60 {
		if n <= 20 && !index.Indexed(now.tab) {
			t.Fatalf("no index at table %d", n)
		}
		if n == 20 && c.most > 2 {
			t.Errorf("%d copies for one generation at a time, want 2", c.most)
		}
		changes := lpmtest.RandomRoutes(r, 40, lpm.Handle(1000*(n+1)))
		for p, h := range now.want {
			if h%5 == 0 && r.IntN(4) == 0 {
				changes.Add(p, lpm.None)
			}
		}
		next, err := e.Update(context.Background(), now.tab, changes)
		if err != nil {
			t.Fatal(err)
		}
		want := lpmtest.Oracle{}
		for p, h := range now.want {
			want[p] = h
		}
		want.Apply(changes)
		if n >= 20 && r.IntN(3) == 0 {
			older = append(older, now)
		} else {
			_ = now.tab.Close()
		}
		now = held{next, want}
		verify(now)
		for i := len(older) - 1; i >= 0; i-- {
			verify(older[i])
			if r.IntN(3) == 0 {
				_ = older[i].tab.Close()
				older = append(older[:i], older[i+1:]...)
			}
		}
	}
	for _, h := range older {
		verify(h)
		_ = h.tab.Close()
	}
	index.Settle(now.tab)
	_ = now.tab.Close()
	index.Settle(now.tab)
	if c.most > 4 {
		t.Errorf("%d copies", c.most)
	}
	if c.open != 0 {
		t.Errorf("%d copies were not closed", c.open)
	}
	_ = e.Close()
}

// Tables that are held cost a few copies and a bounded log, then tables have no index; when they are given back the next ones
// have it again, or the newest table is worn.
func TestHeldTables(t *testing.T) {
	for _, log := range []int{1 << 20, 500} {
		index.SetLog(t, log, 100)
		r := rand.New(rand.NewPCG(3, 3))
		var c counting
		e := newEngine(t, c.table)
		rs := lpmtest.RandomRoutes(r, 500, 1)
		o := lpmtest.OracleOf(rs)
		now := lpmtest.Build(t, e, rs)
		check := func() {
			t.Helper()
			v4, v6 := lpmtest.Probes(lpm.Routes{}, r)
			lpmtest.Check(t, now, o, v4, v6)
		}
		update := func() {
			t.Helper()
			index.Settle(now)
			changes := lpmtest.RandomRoutes(r, 40, 1000)
			next, err := e.Update(context.Background(), now, changes)
			if err != nil {
				t.Fatal(err)
			}
			o.Apply(changes)
			now = next
		}
		var held []lpm.Table
		for range 50 {
			held = append(held, now)
			update()
			if copies, logged := index.State(now); copies > 4 || logged > log {
				t.Fatalf("%d copies, %d routes in the log", copies, logged)
			}
		}
		check()
		if index.Indexed(now) {
			t.Fatal("the newest table has an index, and all before it are held")
		}
		for _, h := range held {
			_ = h.Close()
		}
		for range 3 {
			last := now
			update()
			_ = last.Close()
		}
		check()
		index.Settle(now)
		want := log > 500
		if index.Indexed(now) != want || lpm.Worn(now) == want {
			t.Fatalf("log of %d: indexed %t", log, index.Indexed(now))
		}
		if lpm.Worn(now) {
			t.Fatal("worn twice within a minute")
		}
		_ = now.Close()
		index.Settle(now)
		if c.open != 0 {
			t.Fatalf("%d copies were not closed", c.open)
		}
		_ = e.Close()
	}
}

// A table is there before its index, and answers. The index comes to those that it is right for, and the next ones, with what
// changed meanwhile; nobody asks for a new build until then.
func TestIndexFollowsTheTable(t *testing.T) {
	for _, log := range []int{1 << 20, 10} { // the changes are kept for it, or are too many
		index.SetLog(t, log, 100)
		r := rand.New(rand.NewPCG(5, 5))
		rs := lpmtest.RandomRoutes(r, 300, 1)
		var c counting
		begin := make(chan struct{})
		e := newEngine(t, func(n int) (index.Table, error) {
			<-begin
			return c.table(n)
		})
		update := func(tab lpm.Table, changes lpm.Routes) lpm.Table {
			t.Helper()
			next, err := e.Update(context.Background(), tab, changes)
			if err != nil {
				t.Fatal(err)
			}
			return next
		}
		v4, v6 := lpmtest.Probes(rs, r)
		tables := []lpm.Table{lpmtest.Build(t, e, rs)}
		tables = append(tables, update(tables[0], lpm.Routes{}))
		oracles := []lpmtest.Oracle{lpmtest.OracleOf(rs), lpmtest.OracleOf(rs)}
		change := func() {
			t.Helper()
			changes := lpmtest.RandomRoutes(r, 40, lpm.Handle(1000*len(tables)))
			o := maps.Clone(oracles[len(oracles)-1])
			o.Apply(changes)
			tables, oracles = append(tables, update(tables[len(tables)-1], changes)), append(oracles, o)
		}
		change()
		check := func(indexed ...bool) {
			t.Helper()
			for i, tab := range tables {
				if index.Indexed(tab) != indexed[i] {
					t.Fatalf("log of %d: table %d indexed: %t", log, i, !indexed[i])
				}
				lpmtest.Check(t, tab, oracles[i], v4, v6)
			}
		}
		check(false, false, false)
		if lpm.Worn(tables[2]) {
			t.Fatal("worn before there was an index")
		}
		clear(rs.V4) // the slices are the caller's
		clear(rs.V6)
		close(begin)
		index.Settle(tables[0])
		check(true, true, false)
		change()
		check(true, true, false, log > 10)
		if lpm.Worn(tables[3]) == (log > 10) {
			t.Fatalf("log of %d: worn is wrong", log)
		}
		for _, tab := range tables {
			_ = tab.Close()
		}
		index.Settle(tables[0])
		if c.open != 0 {
			t.Fatalf("%d copies were not closed", c.open)
		}
		_ = e.Close()
	}
}

// A table that is closed before its index is there leaves none behind.
func TestClosedBeforeItsIndex(t *testing.T) {
	var c counting
	begun, begin := make(chan struct{}), make(chan struct{})
	e := newEngine(t, func(n int) (index.Table, error) {
		close(begun)
		<-begin
		return c.table(n)
	})
	tab := lpmtest.Build(t, e, lpmtest.RandomRoutes(rand.New(rand.NewPCG(6, 6)), 100, 1))
	<-begun
	_ = tab.Close()
	close(begin)
	index.Settle(tab)
	if c.most != 1 || c.open != 0 || index.Indexed(tab) {
		t.Fatalf("%d copies, %d not closed, indexed: %t", c.most, c.open, index.Indexed(tab))
	}
	_ = e.Close()
}

// An update without changes shares the copy of the table before.
func TestUpdateWithoutChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	rs := lpmtest.RandomRoutes(r, 100, 1)
	var c counting
	e := newEngine(t, c.table)
	defer func() { _ = e.Close() }()
	tables := []lpm.Table{lpmtest.Build(t, e, rs)}
	index.Settle(tables[0])
	for range 20 {
		next, err := e.Update(context.Background(), tables[len(tables)-1], lpm.Routes{})
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, next)
	}
	o := lpmtest.OracleOf(rs)
	v4, v6 := lpmtest.Probes(rs, r)
	for i, tab := range tables {
		if !index.Indexed(tab) {
			t.Fatalf("table %d has no index", i)
		}
		lpmtest.Check(t, tab, o, v4, v6)
		_ = tab.Close()
	}
	if c.most > 2 || c.open != 0 {
		t.Fatalf("%d copies, %d not closed", c.most, c.open)
	}
}

// Without an index the trees answer.
func TestBrokenIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	rs := lpmtest.RandomRoutes(r, 300, 1)
	o := lpmtest.OracleOf(rs)
	v4, v6 := lpmtest.Probes(rs, r)
	var c counting
	c.broken.Store(true)
	e := newEngine(t, c.table)
	tab := lpmtest.Build(t, e, rs)
	lpmtest.Check(t, tab, o, v4, v6)
	c.broken.Store(false)
	next, err := e.Update(context.Background(), tab, rs)
	if err != nil {
		t.Fatal(err)
	}
	lpmtest.Check(t, next, o, v4, v6)
	again := lpmtest.Build(t, e, rs)
	c.broken.Store(true)
	lpmtest.Check(t, again, o, v4, v6)
	last, err := e.Update(context.Background(), again, rs)
	if err != nil {
		t.Fatal(err)
	}
	lpmtest.Check(t, last, o, v4, v6)
	for _, tab := range []lpm.Table{tab, next, again, last} {
		_ = tab.Close()
	}
	if c.open != 0 {
		t.Errorf("%d copies were not closed", c.open)
	}
}

// Find allocates nothing.
func TestFindAllocatesNothing(t *testing.T) {
	var rs lpm.Routes
	ps := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for i, p := range ps {
		rs.Add(p, lpm.Handle(i+1))
	}
	tab := lpmtest.Build(t, newEngine(t, openTable), rs)
	defer tab.Close()
	for i, p := range ps {
		// An average: under the race detector a pool forgets now and then.
		if n := testing.AllocsPerRun(1000, func() {
			if tab.Find(p) != lpm.Handle(i+1) {
				t.Fatal(p)
			}
		}); n >= 1 {
			t.Errorf("%s: %v allocations", p, n)
		}
	}
}

// A table is described also while a copy of its line is brought to date behind it.
func TestInfoDuringCatchUp(t *testing.T) {
	index.SetLog(t, 1<<20, 1)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 7))
	e := newEngine(t, openTable)
	now := lpmtest.Build(t, e, lpmtest.RandomRoutes(r, 500, 1))
	index.Settle(now)
	for n := range 8 {
		next, err := e.Update(context.Background(), now, lpmtest.RandomRoutes(r, 20, lpm.Handle(10_000+n*100)))
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 1 { // much at once, which the line follows in the background
			_ = now.Close()
			now = next
			if next, err = e.Update(context.Background(), now, lpmtest.RandomRoutes(r, 3000, lpm.Handle(100_000+n*10_000))); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			if next.Info().ExactBytes > 1<<30 {
				t.Fatal("too much")
			}
		}
		_ = now.Close()
		now = next
	}
	_ = now.Close()
}

// Where builds follow each other faster than indexes are made, only so many are under way, and none is begun for a table that is
// closed by then.
func TestIndexesInTurns(t *testing.T) {
	var opened atomic.Int64
	var c counting
	begin := make(chan struct{})
	e := newEngine(t, func(n int) (index.Table, error) {
		opened.Add(1)
		<-begin
		return c.table(n)
	})
	rs := lpmtest.RandomRoutes(rand.New(rand.NewPCG(8, 8)), 100, 1)
	var tables []lpm.Table
	for range 5 * runtime.GOMAXPROCS(0) {
		tab := lpmtest.Build(t, e, rs)
		tables = append(tables, tab)
		_ = tab.Close()
	}
	last := lpmtest.Build(t, e, rs)
	close(begin)
	for _, tab := range append(tables, last) {
		index.Settle(tab)
	}
	if n := opened.Load(); n > int64(1+runtime.GOMAXPROCS(0)) {
		t.Errorf("%d indexes were made for %d closed tables and one", n, len(tables))
	}
	if !index.Indexed(last) {
		t.Error("the last one has none")
	}
	_ = last.Close()
	index.Settle(last)
	if c.open != 0 {
		t.Errorf("%d copies were not closed", c.open)
	}
	_ = e.Close()
}
