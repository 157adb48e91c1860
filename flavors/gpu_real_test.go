package flavors_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/cow"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// What takes a GPU, or minutes on the simulator: whole tables, a day of updates, 10^9 lookups.

func needsGPU(t *testing.T) devicetest.Maker {
	t.Helper()
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			if testing.Short() {
				t.Skip("takes a while")
			}
			return m
		}
	}
	t.Skip("needs a GPU: build with the tag cuda")
	return devicetest.Maker{}
}

// TestGPUImagesOfWholeTables: the real tables, and 4 million generated prefixes.
func TestGPUImagesOfWholeTables(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some ten seconds")
	}
	for _, maker := range devicetest.Makers() {
		t.Run(maker.Name, func(t *testing.T) {
			d := maker.Open(t, flavors.GPUModules())
			defer d.Close()
			rs := realRoutes(t)
			if maker.Name == "sim" { // its memory is ours
				sameImages(t, d, []int{16, 8, 8}, eights(16, 16), rs)
				return
			}
			for _, l := range []struct{ v4, v6 []int }{{nil, nil}, {[]int{16, 8, 8}, eights(16, 16)}, {[]int{20, 4, 8}, eights(20, 12)}, {repeat(4, 8), repeat(4, 32)}} {
				sameImages(t, d, l.v4, l.v6, rs)
			}
			var many lpm.Routes
			for i, p := range fixtures.Generate(11, 3_000_000, 1_000_000).Prefixes() {
				many.Add(p, lpm.Handle(i+1))
			}
			r := rand.New(rand.NewPCG(1, 1))
			r.Shuffle(len(many.V4), func(i, j int) { many.V4[i], many.V4[j] = many.V4[j], many.V4[i] })
			r.Shuffle(len(many.V6), func(i, j int) { many.V6[i], many.V6[j] = many.V6[j], many.V6[i] })
			sameImages(t, d, []int{18, 6, 8}, eights(20, 12), many)
		})
	}
}

// TestGPURealDayOfUpdates is TestRealDayOfUpdates on a GPU.
func TestGPURealDayOfUpdates(t *testing.T) {
	maker := needsGPU(t)
	e := gpuEngine(t, flavors.Options{}, maker.Open(t, flavors.GPUModules()))
	defer e.Close()
	dayOfUpdates(t, e)
}

// TestGPUManyLookups: 10^9 lookups of each family in the real tables, no difference between GPU and
// processor; and 10^6 against the oracle.
func TestGPUManyLookups(t *testing.T) {
	maker := needsGPU(t)
	rs := realRoutes(t)
	gpu, cpu := bothEngines(t, flavors.Options{}, func(tb testing.TB) lpm.Engine {
		return gpuEngine(tb, flavors.Options{}, maker.Open(tb, flavors.GPUModules()))
	})
	g, c := lpmtest.Build(t, gpu, rs), lpmtest.Build(t, cpu, rs)
	defer g.Close()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const all, n = 1_000_000_000, 1 << 26
	v4, v6, got, want := make([]uint32, n), make([]lpm.Addr6, n), make([]lpm.Handle, n), make([]lpm.Handle, n)
	compare := func(round int, family string, lookup func(t lpm.Table, dst []lpm.Handle, from, to int) error) {
		if err := lookup(g, got, 0, n); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		var different atomic.Int64
		for w := range workers {
			wg.Go(func() {
				from, to := n*w/workers, n*(w+1)/workers
				if err := lookup(c, want[from:to], from, to); err != nil {
					t.Error(err)
				}
				for i := from; i < to; i++ {
					if got[i] != want[i] {
						different.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if different.Load() > 0 {
			t.Fatalf("%s, round %d: %d of %d answers differ", family, round, different.Load(), n)
		}
	}
	done := 0
	for round := 0; done < all; round++ {
		parallel(v4, seed+uint64(2*round), func(r *rand.Rand) uint32 {
			if round%4 == 3 {
				return r.Uint32()
			}
			return lpmtest.InPrefix4(rs.V4[r.IntN(len(rs.V4))], r)
		})
		parallel(v6, seed+uint64(2*round+1), func(r *rand.Rand) lpm.Addr6 {
			a := lpmtest.InPrefix6(rs.V6[r.IntN(len(rs.V6))], r)
			if round%4 == 3 {
				a.Hi ^= 1 << r.IntN(64) // near a prefix
			}
			return a
		})
		compare(round, "IPv4", func(t lpm.Table, dst []lpm.Handle, from, to int) error { return t.Lookup4(dst, v4[from:to]) })
		compare(round, "IPv6", func(t lpm.Table, dst []lpm.Handle, from, to int) error { return t.Lookup6(dst, v6[from:to]) })
		done += n
	}
	t.Logf("%d lookups of each family: no difference", done)
	o := lpmtest.OracleOf(rs)
	lpmtest.Check(t, g, o, v4[:1_000_000], v6[:1_000_000])
	t.Log("10^6 lookups of each family as the oracle has them")
}

// TestGPUUpdatesUnderLoad: 1,000 changes a second to 1.29 million routes, a new table every few
// milliseconds, while others look up in whatever is newest: every answer is the one of its
// generation, and memory does not grow.
func TestGPUUpdatesUnderLoad(t *testing.T) {
	maker := needsGPU(t)
	rs := realRoutes(t)
	gpu, cpu := bothEngines(t, flavors.Options{}, func(tb testing.TB) lpm.Engine {
		return gpuEngine(tb, flavors.Options{}, maker.Open(tb, flavors.GPUModules()))
	})
	var published lpm.Published[lpm.Table] // the processor's table of the generation
	publish := func(n uint64, g, c lpm.Table) {
		published.Publish(&lpm.Generation[lpm.Table]{Number: n, Table: g, Routes: cow.Of([]lpm.Table{nil, c})})
	}
	g, c := lpmtest.Build(t, gpu, rs), lpmtest.Build(t, cpu, rs)
	publish(1, g, c)
	r := rand.New(rand.NewPCG(9, 9))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	latencies := map[int][]time.Duration{}
	for w, n := range []int{1 << 10, 1 << 16, 1 << 20} {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(10, uint64(w)))
			v4, got, want := make([]uint32, n), make([]lpm.Handle, n), make([]lpm.Handle, n)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for i := range v4 {
					v4[i] = lpmtest.InPrefix4(rs.V4[r.IntN(len(rs.V4))], r)
				}
				gen := published.Acquire()
				start := time.Now()
				if err := gen.Table.Lookup4(got, v4); err != nil {
					t.Error(err)
				}
				mu.Lock()
				latencies[n] = append(latencies[n], time.Since(start))
				mu.Unlock()
				if err := gen.Route(1).Lookup4(want, v4); err != nil {
					t.Error(err)
				}
				if !slices.Equal(got, want) {
					t.Errorf("generation %d: a batch of %d differs", gen.Number, n)
				}
				gen.Release()
			}
		})
	}
	next := lpm.Handle(rs.Len() + 1)
	var updates []time.Duration
	begin := time.Now()
	applied := 0
	for number := uint64(2); time.Since(begin) < 15*time.Second && !t.Failed(); number++ {
		time.Sleep(5 * time.Millisecond)
		due := int(time.Since(begin).Seconds()*1000) - applied
		applied += due
		var changes lpm.Routes
		for range due {
			x := rs.V4[r.IntN(len(rs.V4))]
			if r.IntN(4) == 0 {
				y := rs.V6[r.IntN(len(rs.V6))]
				changes.V6 = append(changes.V6, lpm.Route6{Addr: y.Addr, Bits: y.Bits, Handle: next})
				next++
				continue
			}
			x.Handle = 0
			if r.IntN(3) > 0 {
				x.Handle, next = next, next+1
			}
			changes.V4 = append(changes.V4, x)
		}
		start := time.Now()
		g2, err := gpu.Update(context.Background(), g, changes)
		if err != nil {
			t.Fatal(err)
		}
		updates = append(updates, time.Since(start))
		c2, err := cpu.Update(context.Background(), c, changes)
		if err != nil {
			t.Fatal(err)
		}
		publish(number, g2, c2)
		g, c = g2, c2
	}
	close(stop)
	wg.Wait()
	published.Withdraw()
	slices.Sort(updates)
	t.Logf("%d changes in %d generations of %d routes; the GPU's part of one: p50 %v, p99 %v", applied, len(updates), rs.Len(), updates[len(updates)/2], updates[len(updates)*99/100])
	for n, l := range latencies {
		slices.Sort(l)
		t.Logf("%d batches of %d addresses meanwhile: p50 %v, p99 %v", len(l), n, l[len(l)/2], l[len(l)*99/100])
	}
}
