package lpm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

func cpu(t testing.TB, o flavors.Options) lpm.Engine {
	t.Helper()
	e, err := flavors.NewCPU(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestFailoverConformance(t *testing.T) {
	for _, crossover := range []int{50, 0} {
		if testing.Short() && crossover == 0 {
			continue
		}
		t.Run(fmt.Sprint(crossover), func(t *testing.T) {
			lpmtest.Conformance(t, func(t testing.TB) lpm.Engine {
				return lpm.NewFailover(cpu(t, flavors.Options{}), cpu(t, flavors.Options{Strides4: []int{16, 8, 8}}), lpm.FailoverOptions{Crossover4: crossover, Crossover6: crossover})
			})
		})
	}
}

// flaky is an accelerated engine that fails when it is told to, and counts.
type flaky struct {
	lpm.Engine
	buildError, lookupError atomic.Pointer[error]
	buildHook, lookupHook   atomic.Pointer[func()] // called before
	builds, lookups         atomic.Int64
	open                    atomic.Int64 // tables
	wrong                   atomic.Pointer[string]
}

func (f *flaky) fail(where *atomic.Pointer[error], err error) {
	if err == nil {
		where.Store(nil)
	} else {
		where.Store(&err)
	}
}

func (f *flaky) Name() string { return "flaky" }

func (f *flaky) Build(ctx context.Context, rs lpm.Routes) (lpm.Table, error) {
	return f.table(func() (lpm.Table, error) { return f.Engine.Build(ctx, rs) })
}

func (f *flaky) Update(ctx context.Context, prev lpm.Table, rs lpm.Routes) (lpm.Table, error) {
	p := prev.(*flakyTable)
	if p.closed.Load() > 0 {
		text := "update of a closed table"
		f.wrong.Store(&text)
	}
	if p.updated.Swap(true) {
		text := "update of a table that is not the newest"
		f.wrong.Store(&text)
	}
	tab, err := f.table(func() (lpm.Table, error) { return f.Engine.Update(ctx, p.Table, rs) })
	if err != nil {
		p.updated.Store(false)
	}
	return tab, err
}

func (f *flaky) table(build func() (lpm.Table, error)) (lpm.Table, error) {
	f.builds.Add(1)
	if hook := f.buildHook.Load(); hook != nil {
		(*hook)()
	}
	if err := f.buildError.Load(); err != nil {
		return nil, *err
	}
	tab, err := build()
	if err != nil {
		return nil, err
	}
	f.open.Add(1)
	return &flakyTable{Table: tab, engine: f}, nil
}

type flakyTable struct {
	lpm.Table
	engine  *flaky
	closed  atomic.Int64
	updated atomic.Bool
}

func (t *flakyTable) Lookup4(dst []lpm.Handle, addrs []uint32) error {
	t.engine.lookups.Add(1)
	if hook := t.engine.lookupHook.Load(); hook != nil {
		(*hook)()
	}
	if t.closed.Load() > 0 {
		text := "lookup in a closed table"
		t.engine.wrong.Store(&text)
	}
	if err := t.engine.lookupError.Load(); err != nil {
		for i := range dst[:len(addrs)/2] { // it got so far
			dst[i] = 0xbad
		}
		return *err
	}
	return t.Table.Lookup4(dst, addrs)
}

func (t *flakyTable) FindAll(dst []lpm.Handle, prefixes []netip.Prefix) error {
	t.engine.lookups.Add(1)
	if err := t.engine.lookupError.Load(); err != nil {
		for i := range dst[:len(prefixes)/2] { // it got so far
			dst[i] = 0xbad
		}
		return *err
	}
	return lpm.FindAll(t.Table, dst, prefixes)
}

func (t *flakyTable) Close() error {
	if t.closed.Add(1) > 1 {
		text := "a table was closed twice"
		t.engine.wrong.Store(&text)
	}
	t.engine.open.Add(-1)
	return t.Table.Close()
}

// clock is time that passes when told.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time       { return time.Unix(1000, c.nanos.Load()) }
func (c *clock) pass(d time.Duration) { c.nanos.Add(int64(d)) }

// failover is a Failover over a flaky engine, with its clock and log.
func failover(t *testing.T) (*lpm.Failover, *flaky, *clock, *bytes.Buffer) {
	t.Helper()
	acc := &flaky{Engine: cpu(t, flavors.Options{Strides4: []int{16, 8, 8}})}
	var log bytes.Buffer
	f := lpm.NewFailover(cpu(t, flavors.Options{}), acc, lpm.FailoverOptions{Crossover4: 10, Log: slog.New(slog.NewTextHandler(&log, nil))})
	c := &clock{}
	lpm.SetClock(f, c.now)
	t.Cleanup(func() {
		if wrong := acc.wrong.Load(); wrong != nil {
			t.Error(*wrong)
		}
		if n := acc.open.Load(); n != 0 {
			t.Errorf("%d accelerated tables were not closed", n)
		}
	})
	return f, acc, c, &log
}

func TestFailedBatchIsAnsweredByTheBase(t *testing.T) {
	f, acc, clock, log := failover(t)
	r := rand.New(rand.NewPCG(1, 1))
	rs := lpmtest.RandomRoutes(r, 100, 1)
	tab := lpmtest.Build(t, f, rs)
	defer tab.Close()
	v4, v6 := lpmtest.Probes(rs, r)
	o := lpmtest.OracleOf(rs)
	lpmtest.Check(t, tab, o, v4, v6)
	if n := acc.lookups.Load(); n == 0 {
		t.Fatal("the accelerated engine was not asked")
	}
	acc.fail(&acc.lookupError, errors.New("kernel match: launch failed"))
	lpmtest.Check(t, tab, o, v4, v6)
	s := f.Status()
	if s.FailedBatches != 1 || s.Lost || !strings.Contains(s.Degraded, "kernel match") {
		t.Errorf("status %+v", s)
	}
	asked := acc.lookups.Load()
	lpmtest.Check(t, tab, o, v4, v6)
	if acc.lookups.Load() != asked {
		t.Error("it was asked again at once")
	}
	clock.pass(time.Second)
	lpmtest.Check(t, tab, o, v4, v6) // and fails again
	if f.Status().FailedBatches != 2 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("status %+v, log %q", f.Status(), log)
	}
	clock.pass(time.Second) // not two
	asked = acc.lookups.Load()
	lpmtest.Check(t, tab, o, v4, v6)
	if acc.lookups.Load() != asked {
		t.Error("the pause did not double")
	}
	clock.pass(time.Second)
	acc.fail(&acc.lookupError, nil)
	lpmtest.Check(t, tab, o, v4, v6)
	if s := f.Status(); s.Degraded != "" || acc.lookups.Load() == asked || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("after it works again: status %+v, log %q", s, log)
	}
}

// A pause is at most LastRetry, and batches that fail together begin only one.
func TestPauses(t *testing.T) {
	f, acc, clock, _ := failover(t)
	tab := lpmtest.Build(t, f, lpmtest.RoutesOf("10.0.0.0/8"))
	defer tab.Close()
	acc.fail(&acc.lookupError, errors.New("launch failed"))
	addrs, dst := make([]uint32, 20), make([]lpm.Handle, 20)
	ask := func() (asked bool) {
		before := acc.lookups.Load()
		if err := tab.Lookup4(dst, addrs); err != nil {
			t.Fatal(err)
		}
		return acc.lookups.Load() > before
	}
	var entered, leave sync.WaitGroup
	entered.Add(8)
	leave.Add(1)
	hook := func() { entered.Done(); leave.Wait() }
	acc.lookupHook.Store(&hook)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := tab.Lookup4(make([]lpm.Handle, 20), addrs); err != nil {
				t.Error(err)
			}
		})
	}
	entered.Wait()
	leave.Done()
	wg.Wait()
	acc.lookupHook.Store(nil)
	if s := f.Status(); s.FailedBatches != 8 {
		t.Errorf("status %+v", s)
	}
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		clock.pass(pause*time.Second - 1)
		if ask() {
			t.Fatalf("asked before a pause of %d s was over", pause)
		}
		clock.pass(1)
		if !ask() {
			t.Fatalf("not asked after a pause of %d s", pause)
		}
	}
}

// After a loss in a build the tables that are there are not asked either.
func TestLostInABuild(t *testing.T) {
	f, acc, clock, _ := failover(t)
	tab := lpmtest.Build(t, f, lpmtest.RoutesOf("10.0.0.0/8"))
	acc.fail(&acc.buildError, lpm.ErrLost)
	next, err := f.Update(context.Background(), tab, lpmtest.RoutesOf("11.0.0.0/8"))
	if err != nil {
		t.Fatal(err)
	}
	clock.pass(time.Hour)
	asked := acc.lookups.Load()
	if err := tab.Lookup4(make([]lpm.Handle, 20), make([]uint32, 20)); err != nil || acc.lookups.Load() != asked {
		t.Errorf("a table of a lost engine was asked, error %v", err)
	}
	_ = tab.Close()
	_ = next.Close()
}

// A cancelled accelerated build is no failure of the engine.
func TestCancelledAcceleratedBuild(t *testing.T) {
	f, acc, _, _ := failover(t)
	ctx, cancel := context.WithCancel(context.Background())
	hook := func() { cancel() }
	acc.buildHook.Store(&hook)
	tab, err := f.Build(ctx, lpmtest.RoutesOf("10.0.0.0/8"))
	acc.buildHook.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := f.Status(); s.Degraded != "" || s.FailedBuilds != 0 || tab.Info().Accelerator != nil {
		t.Errorf("status %+v", s)
	}
	next, err := f.Update(context.Background(), tab, lpm.Routes{})
	if err != nil {
		t.Fatal(err)
	}
	if in := next.Info().Accelerator; in == nil || in.Families[0].Prefixes != 1 {
		t.Errorf("what the cancelled build missed is not there: %+v", in)
	}
	_ = tab.Close()
	_ = next.Close()
}

func TestSmallBatchesStayWithTheBase(t *testing.T) {
	f, acc, _, _ := failover(t)
	tab := lpmtest.Build(t, f, lpmtest.RoutesOf("10.0.0.0/8"))
	defer tab.Close()
	addrs, dst := make([]uint32, 10), make([]lpm.Handle, 10)
	for n, asked := range []int64{0: 0, 9: 0, 10: 1} {
		if n != 0 && n < 9 {
			continue
		}
		acc.lookups.Store(0)
		if err := tab.Lookup4(dst[:n], addrs[:n]); err != nil || acc.lookups.Load() != asked {
			t.Errorf("a batch of %d: asked %d times, error %v", n, acc.lookups.Load(), err)
		}
	}
	for range 5 { // asking what it is does not use it up
		if tab.Info().Accelerator == nil {
			t.Fatal("the accelerated table does not say what it is")
		}
	}
	s := f.Status()
	if s.AcceleratedBatches != 1 || s.AcceleratedAddresses != 10 || s.BaseBatches != 2 || s.BaseAddresses != 9 {
		t.Errorf("counts %+v", s)
	}
	if err := tab.Lookup4(dst, addrs); err != nil { // and it is still open
		t.Error(err)
	}
}

func TestLostEngineIsNotAskedAgain(t *testing.T) {
	for _, where := range []string{"lookup", "build"} {
		t.Run(where, func(t *testing.T) {
			f, acc, clock, log := failover(t)
			r := rand.New(rand.NewPCG(2, 2))
			rs := lpmtest.RandomRoutes(r, 100, 1)
			tab := lpmtest.Build(t, f, rs)
			v4, v6 := lpmtest.Probes(rs, r)
			o := lpmtest.OracleOf(rs)
			lost := fmt.Errorf("%w: illegal address", lpm.ErrLost)
			if where == "lookup" {
				acc.fail(&acc.lookupError, lost)
				lpmtest.Check(t, tab, o, v4, v6)
			} else {
				acc.fail(&acc.buildError, lost)
			}
			for i := range 3 {
				changes := lpmtest.RandomRoutes(r, 20, lpm.Handle(1000*(i+1)))
				next, err := f.Update(context.Background(), tab, changes)
				if err != nil {
					t.Fatal(err)
				}
				o.Apply(changes)
				tab.Close()
				tab = next
				acc.fail(&acc.lookupError, nil)
				acc.fail(&acc.buildError, nil)
				clock.pass(time.Hour)
				lookups, builds := acc.lookups.Load(), acc.builds.Load()
				lpmtest.Check(t, tab, o, v4, v6)
				if acc.lookups.Load() != lookups || acc.builds.Load() != builds {
					t.Fatal("it was asked again")
				}
			}
			if s := f.Status(); !s.Lost || s.Degraded == "" || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("status %+v, log %q", s, log)
			}
			tab.Close()
		})
	}
}

// An accelerated engine that cannot build for a while catches up with all that it missed.
func TestMissedChangesAreMadeUpFor(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("from the first build: %v", first), func(t *testing.T) {
			f, acc, clock, _ := failover(t)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 3))
			rs := lpmtest.RandomRoutes(r, 150, 1)
			memory := fmt.Errorf("%w: 500 MiB", lpm.ErrMemory)
			if first {
				acc.fail(&acc.buildError, memory)
			}
			tab := lpmtest.Build(t, f, rs)
			clear(rs.V4) // the caller's memory is the caller's
			rs = lpm.Routes{}
			r = rand.New(rand.NewPCG(seed, 3))
			rs = lpmtest.RandomRoutes(r, 150, 1)
			o := lpmtest.OracleOf(rs)
			v4, v6 := lpmtest.Probes(rs, r)
			acc.fail(&acc.buildError, memory)
			update := func(i int) {
				changes := lpmtest.RandomRoutes(r, 40, lpm.Handle(10_000*(i+1)))
				for j := range changes.V4 {
					if r.IntN(2) == 0 {
						changes.V4[j] = rs.V4[r.IntN(len(rs.V4))]
						changes.V4[j].Handle = lpm.None
					}
				}
				next, err := f.Update(context.Background(), tab, changes)
				if err != nil {
					t.Fatal(err)
				}
				o.Apply(changes)
				clear(changes.V4)
				clear(changes.V6)
				tab.Close()
				tab = next
				lpmtest.Check(t, tab, o, v4, v6)
			}
			for i := range 6 {
				builds := acc.builds.Load()
				update(i)
				if i > 1 && acc.builds.Load() != builds {
					t.Fatal("it was tried again at once")
				}
			}
			if s := f.Status(); s.Degraded == "" || s.Lost || s.FailedBuilds != 1 {
				t.Errorf("status %+v", s)
			}
			acc.fail(&acc.buildError, nil)
			clock.pass(time.Second)
			update(6)
			lookups := acc.lookups.Load()
			lpmtest.Check(t, tab, o, v4, v6)
			if s := f.Status(); s.Degraded != "" || acc.lookups.Load() == lookups {
				t.Errorf("after it works again: status %+v, %d lookups", s, acc.lookups.Load()-lookups)
			}
			update(7)
			tab.Close()
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUpdateOfAnOlderTable(t *testing.T) {
	f, _, _, _ := failover(t)
	a := lpmtest.Build(t, f, lpmtest.RoutesOf("10.0.0.0/8"))
	b, err := f.Update(context.Background(), a, lpmtest.RoutesOf("11.0.0.0/8"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Update(context.Background(), a, lpmtest.RoutesOf("12.0.0.0/8")); err == nil {
		t.Error("two tables from one")
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Update(cancelled, b, lpmtest.RoutesOf("12.0.0.0/8")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c, err := f.Update(context.Background(), b, lpmtest.RoutesOf("12.0.0.0/8")) // b is still the newest
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range []lpm.Table{a, b, c, a, c} {
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Readers, generations and failures at the same time.
func TestFailoverUnderLoad(t *testing.T) {
	f, acc, clock, _ := failover(t)
	r := rand.New(rand.NewPCG(4, 4))
	rs := lpmtest.RandomRoutes(r, 100, 1)
	v4, _ := lpmtest.Probes(rs, r)
	var published lpm.Published[int]
	tab := lpmtest.Build(t, f, rs)
	oracle := lpmtest.OracleOf(rs)
	want := map[uint64][]lpm.Handle{}
	var mu sync.Mutex
	publish := func(n uint64) {
		answers := make([]lpm.Handle, len(v4))
		for i, a := range v4 {
			answers[i] = oracle.Lookup(lpm.Netip4(a))
		}
		mu.Lock()
		want[n] = answers
		mu.Unlock()
		published.Publish(&lpm.Generation[int]{Number: n, Table: tab})
	}
	publish(1)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			got := make([]lpm.Handle, len(v4))
			for !stop.Load() {
				g := published.Acquire()
				if err := g.Table.Lookup4(got, v4); err != nil {
					t.Error(err)
				}
				mu.Lock()
				answers := want[g.Number]
				mu.Unlock()
				for i := range got {
					if got[i] != answers[i] {
						t.Errorf("generation %d: %s is route %d, want %d", g.Number, lpm.Netip4(v4[i]), got[i], answers[i])
						break
					}
				}
				g.Release()
			}
		})
	}
	for n := uint64(2); n < 200; n++ {
		switch r.IntN(6) {
		case 0:
			acc.fail(&acc.lookupError, errors.New("launch failed"))
		case 1:
			acc.fail(&acc.buildError, lpm.ErrMemory)
		default:
			acc.fail(&acc.lookupError, nil)
			acc.fail(&acc.buildError, nil)
		}
		clock.pass(700 * time.Millisecond)
		changes := lpmtest.RandomRoutes(r, 10, lpm.Handle(1000*n))
		next, err := f.Update(context.Background(), tab, changes)
		if err != nil {
			t.Fatal(err)
		}
		oracle.Apply(changes)
		tab = next
		publish(n)
	}
	stop.Store(true)
	wg.Wait()
	published.Withdraw()
	if s := f.Status(); s.AcceleratedBatches == 0 || s.BaseBatches == 0 || s.FailedBuilds == 0 {
		t.Errorf("status %+v", s)
	}
}
