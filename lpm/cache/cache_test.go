package cache_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cache"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

func open(log2 int) func() (cache.Table, error) {
	return func() (cache.Table, error) { return linear.NewLocal[uint32](log2, linear.Options{}) }
}

func newEngine(tb testing.TB, open func() (cache.Table, error)) lpm.Engine {
	tb.Helper()
	base, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return cache.New(base, open)
}

func TestConformance(t *testing.T) {
	lpmtest.Conformance(t, func(tb testing.TB) lpm.Engine { return newEngine(tb, open(12)) })
}

var errBroken = errors.New("broken")

func TestConformanceWithoutMemory(t *testing.T) {
	lpmtest.Conformance(t, func(tb testing.TB) lpm.Engine {
		return newEngine(tb, func() (cache.Table, error) { return nil, errBroken })
	})
}

// asked counts what gets past the cache.
type asked struct {
	lpm.Table
	mu        sync.Mutex
	addresses int
}

func (a *asked) Lookup4(dst []lpm.Handle, addrs []uint32) error {
	a.mu.Lock()
	a.addresses += len(addrs)
	a.mu.Unlock()
	return a.Table.Lookup4(dst, addrs)
}

type askedEngine struct {
	lpm.Engine
	last *asked
}

func (e *askedEngine) Build(ctx context.Context, rs lpm.Routes) (lpm.Table, error) {
	t, err := e.Engine.Build(ctx, rs)
	e.last = &asked{Table: t}
	return e.last, err
}

// An address that was asked for before is answered by the cache, until it is full and begins anew; several
// at the same time get the right answers throughout.
func TestAnswersComeFromTheCache(t *testing.T) {
	base, err := flavors.NewCPU(flavors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	counting := &askedEngine{Engine: base}
	e := cache.New(counting, open(12))
	r := rand.New(rand.NewPCG(1, 1))
	rs := lpmtest.RandomRoutes(r, 300, 1)
	plain := lpmtest.Build(t, base, rs)
	tab := lpmtest.Build(t, e, rs)
	defer tab.Close()
	addrs := make([]uint32, 1000)
	for i := range addrs {
		addrs[i] = lpmtest.InPrefix4(rs.V4[r.IntN(len(rs.V4))], r)
	}
	want, got := make([]lpm.Handle, len(addrs)), make([]lpm.Handle, len(addrs))
	if err := plain.Lookup4(want, addrs); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		clear(got)
		if err := tab.Lookup4(got, addrs); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%08x: %d, want %d", addrs[i], got[i], want[i])
			}
		}
	}
	if n := counting.last.addresses; n != len(addrs) {
		t.Errorf("%d addresses got past the cache, want %d", n, len(addrs))
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(w)))
			addrs, got, want := make([]uint32, 500), make([]lpm.Handle, 500), make([]lpm.Handle, 500)
			for range 200 { // 400,000 addresses through 4,096 slots
				for i := range addrs {
					addrs[i] = r.Uint32() >> (18 * r.IntN(2))
				}
				if err := errors.Join(tab.Lookup4(got, addrs), plain.Lookup4(want, addrs)); err != nil {
					t.Error(err)
				}
				for i := range got {
					if got[i] != want[i] {
						t.Errorf("%08x: %d, want %d", addrs[i], got[i], want[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
