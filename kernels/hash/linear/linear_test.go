package linear_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// each runs a test for tables of both kinds on every device.
func each(t *testing.T, test32 func(*testing.T, *device.Device), test64 func(*testing.T, *device.Device)) {
	t.Helper()
	devicetest.Each(t, linear.Modules(), func(t *testing.T, d *device.Device) {
		t.Run("32", func(t *testing.T) { test32(t, d) })
		t.Run("64", func(t *testing.T) { test64(t, d) })
	})
}

// random logs its seed.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func do(t *testing.T, d *device.Device, job func(q *device.Queue)) {
	t.Helper()
	if err := d.Do(device.Build, func(q *device.Queue) error { job(q); return q.Err() }); err != nil {
		t.Fatal(err)
	}
}

// harness drives a table in device memory from slices and checks the space behind outputs.
type harness[W linear.Word] struct {
	t   *testing.T
	d   *device.Device
	tab *linear.Table[W]
}

func newHarness[W linear.Word](t *testing.T, d *device.Device, log2 int) *harness[W] {
	t.Helper()
	h := &harness[W]{t: t, d: d}
	do(t, d, func(q *device.Queue) {
		tab, err := linear.NewTable[W](q, log2)
		if err != nil {
			t.Fatal(err)
		}
		h.tab = tab
	})
	t.Cleanup(func() { do(t, d, func(q *device.Queue) { h.tab.Free(q) }) })
	return h
}

func bytesOf[T any](n int) int { return n * int(unsafe.Sizeof(*new(T))) }

const guard = 0xa5

// output is n bytes of device memory with guards behind them, that checkGuard looks at.
func output(q *device.Queue, n int) device.Ptr {
	p := q.Temp(n + 68)
	q.Fill(p, guard*0x01010101, (n+68)/4)
	return p
}

func checkGuard(t *testing.T, q *device.Queue, p device.Ptr, n int) {
	t.Helper()
	b := make([]byte, 64)
	device.CopyOut(q, b, p.Add(n))
	q.Wait()
	for i, x := range b {
		if x != guard {
			t.Errorf("byte %d behind an output of %d is overwritten", i, n)
			return
		}
	}
}

func input[T any](q *device.Queue, s []T) device.Ptr {
	p := q.Temp(bytesOf[T](len(s)))
	device.CopyIn(q, p, s)
	return p
}

func (h *harness[W]) counts() (c linear.Counts) {
	h.t.Helper()
	do(h.t, h.d, func(q *device.Queue) { c, _ = h.tab.Counts(q) })
	return c
}

func (h *harness[W]) insert(keys, values []W, results []linear.Result) {
	h.t.Helper()
	do(h.t, h.d, func(q *device.Queue) {
		kp, vp, rp := input(q, keys), input(q, values), device.Ptr(0)
		if results != nil {
			rp = output(q, len(keys))
		}
		h.tab.Insert(q, kp, vp, rp, len(keys))
		if results != nil {
			device.CopyOut(q, results, rp)
			checkGuard(h.t, q, rp, len(keys))
		}
	})
}

func (h *harness[W]) erase(keys []W, erased []bool) {
	h.t.Helper()
	do(h.t, h.d, func(q *device.Queue) {
		kp, rp := input(q, keys), device.Ptr(0)
		if erased != nil {
			rp = output(q, len(keys))
		}
		h.tab.Erase(q, kp, rp, len(keys))
		if erased != nil {
			device.CopyOut(q, erased, rp)
			checkGuard(h.t, q, rp, len(keys))
		}
	})
}

func (h *harness[W]) find(keys []W) (values []W, found []bool) {
	h.t.Helper()
	values, found = make([]W, len(keys)), make([]bool, len(keys))
	do(h.t, h.d, func(q *device.Queue) {
		kp, vp, fp := input(q, keys), output(q, bytesOf[W](len(keys))), output(q, len(keys))
		h.tab.Find(q, vp, fp, kp, len(keys))
		device.CopyOut(q, values, vp)
		device.CopyOut(q, found, fp)
		checkGuard(h.t, q, vp, bytesOf[W](len(keys)))
		checkGuard(h.t, q, fp, len(keys))
	})
	return values, found
}

// iterate gives up to room pairs and the number of all.
func (h *harness[W]) iterate(room int) (pairs map[W]W, count int) {
	h.t.Helper()
	keys, values, n := make([]W, room), make([]W, room), make([]uint64, 1)
	do(h.t, h.d, func(q *device.Queue) {
		kp, vp, cp := output(q, bytesOf[W](room)), output(q, bytesOf[W](room)), input(q, []uint64{0})
		h.tab.Iterate(q, kp, vp, room, cp)
		device.CopyOut(q, keys, kp)
		device.CopyOut(q, values, vp)
		device.CopyOut(q, n, cp)
		checkGuard(h.t, q, kp, bytesOf[W](room))
		checkGuard(h.t, q, vp, bytesOf[W](room))
	})
	pairs = map[W]W{}
	for i, k := range keys[:min(room, int(n[0]))] {
		if _, ok := pairs[k]; ok {
			h.t.Errorf("key %#x twice", k)
		}
		pairs[k] = values[i]
	}
	return pairs, int(n[0])
}

// check compares all of the table, and finds of keys, with what should be there.
func (h *harness[W]) check(want map[W]W, keys []W) {
	h.t.Helper()
	if pairs, n := h.iterate(len(want) + 3); n != len(want) || !maps.Equal(pairs, want) {
		h.t.Fatalf("%d pairs, want %d, or others", n, len(want))
	}
	if c := h.counts(); c.Live != len(want) || c.Dead < 0 || c.Live+c.Dead > h.tab.Slots()+64 {
		h.t.Fatalf("counts %+v with %d pairs in %d slots", c, len(want), h.tab.Slots())
	}
	values, found := h.find(keys)
	for i, k := range keys {
		if v, ok := want[k]; values[i] != v || found[i] != ok {
			h.t.Fatalf("key %#x: %#x, %t; want %#x, %t", k, values[i], found[i], v, ok)
		}
	}
}

// distinct gives n different random keys.
func distinct[W linear.Word](r *rand.Rand, n int) []W {
	seen := make(map[W]bool, n)
	keys := make([]W, 0, n)
	for len(keys) < n {
		if k := W(r.Uint64()); !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys
}

// Large tables have so many regions that batches are sorted in two steps.
func TestManyRegions(t *testing.T) { each(t, manyRegions[uint32], manyRegions[uint64]) }

func manyRegions[W linear.Word](t *testing.T, d *device.Device) {
	defer linear.SetSorting(1, math.MaxInt, 70_000, 0)()
	r := random(t)
	h := newHarness[W](t, d, 22)
	h.tab.Alone = true
	keys := append(distinct[W](r, 100_000), special[W]()...)
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	want := map[W]W{}
	for i, k := range keys {
		want[k] = W(i)
	}
	values := make([]W, len(keys))
	for i, k := range keys {
		values[i] = want[k]
	}
	h.insert(keys, values, nil)
	h.check(want, nil)
	h.erase(keys[:50_000], nil)
	for _, k := range keys[:50_000] {
		delete(want, k)
	}
	h.check(want, keys[:50_000])
	for i := range values {
		values[i]++
	}
	h.insert(keys[20_000:], values[20_000:], nil) // some new, some in slots of erased pairs, some there
	for i, k := range keys[20_000:] {
		want[k] = values[20_000+i]
	}
	h.check(want, keys[:20_000])
}

// Batches with and without results, small ones and sorted ones, in tables that keep their tombstones for
// the next insert and in shared ones, which a rehash rids of them: all as a Go map has it.
func TestStreams(t *testing.T) { each(t, streams[uint32], streams[uint64]) }

func streams[W linear.Word](t *testing.T, d *device.Device) {
	rounds, space := 60, 6000
	if testing.Short() {
		rounds, space = 12, 1500
	}
	for _, sorted := range []bool{false, true} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("sorted=%t,shared=%t", sorted, shared), func(t *testing.T) {
				if sorted {
					defer linear.SetSorting(1, math.MaxInt, 700, 0)() // several pieces a batch
				}
				r := random(t)
				h := newHarness[W](t, d, 14)
				h.tab.Shared, h.tab.Alone = shared, true
				want := map[W]W{}
				pool := append(distinct[W](r, space), special[W]()...)
				pool = slices.Compact(slices.Sorted(slices.Values(pool)))
				for range rounds {
					r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
					n := 1 + r.IntN(len(pool))
					keys := pool[:n]
					results, erased := make([]linear.Result, n), make([]bool, n)
					switch r.IntN(5) {
					case 0, 1:
						values := make([]W, n)
						for i := range values {
							values[i] = W(r.Uint64())
						}
						if r.IntN(2) == 0 {
							results = nil
						}
						h.insert(keys, values, results)
						for i, k := range keys {
							_, ok := want[k]
							if results != nil && (results[i] == linear.Replaced) != ok || results != nil && results[i] == linear.Left {
								t.Fatalf("insert of %#x, there before: %t: result %d", k, ok, results[i])
							}
							want[k] = values[i]
						}
					case 2, 3:
						if r.IntN(2) == 0 {
							erased = nil
						}
						h.erase(keys, erased)
						for i, k := range keys {
							_, ok := want[k]
							if erased != nil && erased[i] != ok {
								t.Fatalf("erasure of %#x, there before: %t: result %t", k, ok, erased[i])
							}
							delete(want, k)
						}
					case 4:
						if r.IntN(4) == 0 {
							do(t, d, func(q *device.Queue) { h.tab.Clear(q) })
							clear(want)
						}
						do(t, d, func(q *device.Queue) { must(t, h.tab.Rehash(q, 14+r.IntN(3))) })
						if c := h.counts(); c.Dead != 0 {
							t.Fatalf("counts %+v after a rehash", c)
						}
					}
					if c := h.counts(); c.Left != 0 {
						t.Fatalf("counts %+v in %d slots", c, h.tab.Slots())
					} else if shared && c.Live+c.Dead > 1<<13 { // so that a batch always has room
						do(t, d, func(q *device.Queue) { must(t, h.tab.Rehash(q, 14)) })
					}
					h.check(want, pool)
				}
			})
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A key that a batch has many times is new once and erased once, and keeps one of its values.
func TestDuplicates(t *testing.T) { each(t, duplicates[uint32], duplicates[uint64]) }

func duplicates[W linear.Word](t *testing.T, d *device.Device) {
	for _, shared := range []bool{false, true} {
		for _, distinct := range []int{1, 5, 300} {
			const n = 20_000
			h := newHarness[W](t, d, 10)
			h.tab.Shared = shared
			keys, values := make([]W, n), make([]W, n)
			for i := range keys {
				keys[i], values[i] = linear.KeyOf(W(i%distinct)), W(i)
			}
			results, erased := make([]linear.Result, n), make([]bool, n)
			h.insert(keys, values, results)
			fresh := map[W]int{}
			for i, r := range results {
				if r == linear.Inserted {
					fresh[keys[i]]++
				} else if r != linear.Replaced {
					t.Fatalf("result %d", r)
				}
			}
			pairs, count := h.iterate(n)
			if count != distinct || len(fresh) != distinct || len(pairs) != distinct {
				t.Fatalf("%d pairs, %d new keys, want %d", count, len(fresh), distinct)
			}
			for k, v := range pairs {
				if fresh[k] != 1 || int(v) >= n || keys[v] != k {
					t.Fatalf("key %#x is new %d times and has %d", k, fresh[k], v)
				}
			}
			h.erase(keys, erased)
			gone := map[W]int{}
			for i, e := range erased {
				if e {
					gone[keys[i]]++
				}
			}
			for k, times := range gone {
				if times != 1 {
					t.Fatalf("key %#x was erased %d times", k, times)
				}
			}
			if len(gone) != distinct {
				t.Fatalf("%d keys were erased, want %d", len(gone), distinct)
			}
			h.check(map[W]W{}, keys[:distinct])
		}
	}
}

// A full table takes what it has slots for, says so of the others, and goes on to find, replace, erase.
func TestFull(t *testing.T) { each(t, full[uint32], full[uint64]) }

func full[W linear.Word](t *testing.T, d *device.Device) {
	logs := []int{linear.MinLog2, 6, 10}
	if testing.Short() {
		logs = logs[:2]
	}
	for _, log2 := range logs {
		t.Run(fmt.Sprint(log2), func(t *testing.T) {
			r := random(t)
			slots := 1 << log2
			h := newHarness[W](t, d, log2)
			keys := distinct[W](r, 3*slots)
			for i, k := range keys {
				if linear.Mix(k) < 4 { // these lie elsewhere
					keys[i] = linear.KeyOf(W(4 + i))
				}
			}
			results := make([]linear.Result, len(keys))
			h.insert(keys, keys, results)
			want := map[W]W{}
			left := 0
			for i, k := range keys {
				if results[i] == linear.Inserted {
					want[k] = k
				} else {
					left++
				}
			}
			// Some may be given up while there is a slot. What has few buckets is filled to the last.
			if c := h.counts(); c.Live != len(want) || c.Left != left || left < 2*slots || log2 < 7 && c.Live != slots {
				t.Fatalf("counts %+v, %d left, %d inserted in %d slots", c, left, len(want), slots)
			}
			h.check(want, keys)
			do(t, d, func(q *device.Queue) { h.tab.ClearLeft(q) })

			gone := keys[:slots]
			h.erase(gone, nil)
			for _, k := range gone {
				delete(want, k)
			}
			h.check(want, keys)
			room := slots - len(want)
			h.insert(gone[:room/2], gone[:room/2], nil)
			for _, k := range gone[:room/2] {
				want[k] = k
			}
			h.check(want, keys)

			do(t, d, func(q *device.Queue) {
				if err := h.tab.Rehash(q, max(log2-2, linear.MinLog2)); log2 > linear.MinLog2 && !errors.Is(err, linear.ErrFull) {
					t.Errorf("rehash of %d pairs into 2^%d slots: %v", len(want), log2-2, err)
				}
			})
			h.check(want, keys)
			do(t, d, func(q *device.Queue) { must(t, h.tab.Rehash(q, log2+2)) })
			h.check(want, keys)
			h.insert(keys, keys, nil)
			for _, k := range keys {
				want[k] = k
			}
			h.check(want, keys)
		})
	}
	do(t, d, func(q *device.Queue) {
		for _, log2 := range []int{-1, linear.MinLog2 - 1, linear.MaxLog2 + 1} {
			if _, err := linear.NewTable[W](q, log2); err == nil {
				t.Errorf("no error of a table of 2^%d slots", log2)
			}
		}
	})
}

// table is what Local and OnDevice have in common.
type table[W linear.Word] interface {
	exact.Table[W, W]
	Stats() (linear.Stats, error)
	Slots() int
}

// In a shared table every erasure leaves a tombstone, and inserts leave those alone: it is what a key's place
// depends on. Otherwise a bucket with an empty slot gets another one, and tombstones are reused.
func TestShared(t *testing.T) { each(t, shared[uint32], shared[uint64]) }

func shared[W linear.Word](t *testing.T, d *device.Device) {
	const log2, n = 10, 300
	keys := distinct[W](random(t), 2*n)
	for _, shared := range []bool{false, true} {
		h := newHarness[W](t, d, log2)
		h.tab.Shared = shared
		want := func(live, dead int) {
			t.Helper()
			if c := h.counts(); c.Live != live || c.Dead != dead {
				t.Fatalf("shared: %t: %+v, want %d, %d", shared, c, live, dead)
			}
		}
		h.insert(keys[:n], keys[:n], nil)
		h.erase(keys[:n], nil)
		if !shared {
			if c := h.counts(); c.Dead >= n {
				t.Fatalf("%+v: no slot became empty", c)
			}
			continue
		}
		want(0, n)
		h.insert(keys[:n], keys[:n], nil)
		want(n, n)
		h.tab.Shared = false
		h.insert(keys, keys, nil)
		if c := h.counts(); c.Live != 2*n || c.Dead >= n {
			t.Fatalf("%+v: tombstones are not reused", c)
		}
	}
	// Full buckets keep tombstones in any case: others' ways go through them.
	h := newHarness[W](t, d, linear.MinLog2)
	pool := make([]W, 1<<linear.MinLog2)
	for i := range pool {
		pool[i] = linear.KeyOf(^W(0) - W(i))
	}
	h.insert(pool, pool, nil)
	h.erase(pool[:3], nil)
	if c := h.counts(); c.Dead != 3 {
		t.Fatalf("%+v", c)
	}
	want := map[W]W{}
	for _, k := range pool[3:] {
		want[k] = k
	}
	h.check(want, pool)
}

// Keys that come and go at a high load never fill a table with tombstones, and ways stay short.
func TestChurn(t *testing.T) { each(t, churn[uint32], churn[uint64]) }

func churn[W linear.Word](t *testing.T, d *device.Device) {
	r := random(t)
	rounds := 200
	if testing.Short() {
		rounds = 30
	}
	const log2, live, change = 10, 768, 100
	l, err := linear.NewLocal[W](log2, linear.Options{})
	must(t, err)
	on, err := linear.NewOnDevice[W](d, log2, linear.Options{})
	must(t, err)
	for name, tab := range map[string]table[W]{"local": l, "on device": on} {
		keys := distinct[W](r, live+rounds*change)
		if _, err := tab.Insert(keys[:live], keys[:live]); err != nil {
			t.Fatal(err)
		}
		for i := range rounds {
			from := i * change
			if n, err := tab.Delete(keys[from : from+change]); n != change || err != nil {
				t.Fatalf("%s: %d deleted, %v", name, n, err)
			}
			if n, err := tab.Insert(keys[live+from:][:change], keys[live+from:][:change]); n != change || err != nil {
				t.Fatalf("%s, round %d: %d inserted, %v", name, i, n, err)
			}
		}
		s, err := tab.Stats()
		must(t, err)
		if s.Pairs != live || tab.Len() != live || tab.Slots() != 1<<log2 || s.Mean > 8 {
			t.Errorf("%s: %d pairs in %d slots, finds of which read %.1f buckets", name, s.Pairs, tab.Slots(), s.Mean)
		}
		must(t, tab.Close())
	}
}

// Statistics count what finds of the pairs read, one by one.
func TestStats(t *testing.T) { each(t, stats[uint32], stats[uint64]) }

func stats[W linear.Word](t *testing.T, d *device.Device) {
	r := random(t)
	for _, load := range []float64{0, 0.1, 0.5, 0.9, 0.97} {
		const log2 = 12
		h := newHarness[W](t, d, log2)
		n := int(load * (1 << log2))
		keys := distinct[W](r, n)
		h.insert(keys, keys, nil)
		if load > 0 {
			h.insert(special[W](), special[W](), nil)
		}
		pairs, count := h.iterate(2 << log2)
		var s linear.Stats
		do(t, d, func(q *device.Queue) { s, _ = h.tab.Stats(q) })
		sum, longest := 0, 0
		for i, c := range s.Histogram {
			if sum += c; c > 0 {
				longest = i + 1
			}
		}
		if s.Pairs != count || sum != len(pairs) || s.Longest < longest || longest < len(s.Histogram) && s.Longest != longest {
			t.Fatalf("load %v: %+v of %d pairs", load, s, count)
		}
		if count > 0 && (s.Mean < 1 || s.Mean > float64(s.Longest)) {
			t.Fatalf("load %v: mean %v, longest %d", load, s.Mean, s.Longest)
		}
	}
	// Keys that all begin at one bucket fill one bucket after the other.
	h := newHarness[W](t, d, 12)
	bits := bytesOf[W](8)
	keys := make([]W, 16)
	for i := range keys {
		keys[i] = linear.KeyOf(W(5)<<(bits-8) + W(i))
	}
	h.insert(keys, keys, nil)
	var s linear.Stats
	do(t, d, func(q *device.Queue) { s, _ = h.tab.Stats(q) })
	per := 4
	if bits == 64 {
		per = 2
	}
	for i := range 16 / per {
		if s.Histogram[i] != per {
			t.Fatalf("16 keys of one bucket: %d are found with %d buckets, want %d", s.Histogram[i], i+1, per)
		}
	}
}

// Batches of all kinds run at the same time on the streams of a job, over few keys. What they say must fit one
// order of them: values are those of their keys, every key is there once or not at all, and as
// many times more often new than erased.
func TestRaces(t *testing.T) { each(t, races[uint32], races[uint64]) }

func races[W linear.Word](t *testing.T, d *device.Device) {
	n, rounds := 40_000, 12
	if testing.Short() {
		n, rounds = 4000, 3
	}
	// The low bits of a value say who wrote it, the others are its key's.
	value := func(k W, i int) W { return k*0x9e3779b1<<3 | W(i&7) }
	for _, space := range []int{3, 40, 1000} {
		r := random(t)
		h := newHarness[W](t, d, 15)
		h.tab.Shared = true
		pool := append(distinct[W](r, space), special[W]()[:4]...)
		pool = slices.Compact(slices.Sorted(slices.Values(pool)))
		there := map[W]int{}
		for range rounds {
			type batch struct {
				insert       bool
				keys, values []W
				results      []byte
			}
			batches := make([]batch, 2*device.Streams)
			for i := range batches {
				b := batch{i%device.Streams < 2, make([]W, n), make([]W, n), make([]byte, n)}
				for j := range b.keys {
					b.keys[j] = pool[r.IntN(len(pool))]
					b.values[j] = value(b.keys[j], i)
				}
				batches[i] = b
			}
			asked := make([]W, n)
			for j := range asked {
				asked[j] = pool[r.IntN(len(pool))]
			}
			var answers [device.Streams][]W
			var found [device.Streams][]byte
			do(t, d, func(q *device.Queue) {
				var kp, vp, rp [2 * device.Streams]device.Ptr
				for i, b := range batches {
					kp[i], vp[i], rp[i] = input(q, b.keys), input(q, b.values), q.Temp(n)
				}
				ap := input(q, asked)
				var av, af [device.Streams]device.Ptr
				for s := range device.Streams {
					av[s], af[s] = q.Temp(bytesOf[W](n)), q.Temp(n)
				}
				q.Wait()
				for i, b := range batches {
					on := q.On(i % device.Streams)
					if b.insert {
						h.tab.Insert(on, kp[i], vp[i], rp[i], n)
					} else {
						h.tab.Erase(on, kp[i], rp[i], n)
					}
					if i < device.Streams {
						h.tab.Find(on, av[i], af[i], ap, n)
					}
				}
				for s := range device.Streams {
					q.On(s).Wait()
				}
				for i, b := range batches {
					device.CopyOut(q, b.results, rp[i])
				}
				for s := range device.Streams {
					answers[s], found[s] = make([]W, n), make([]byte, n)
					device.CopyOut(q, answers[s], av[s])
					device.CopyOut(q, found[s], af[s])
				}
				q.Wait()
			})
			for s := range device.Streams {
				for j, k := range asked {
					v, ok := answers[s][j], found[s][j]
					if ok == 1 && v&^7 != value(k, 0) || ok == 0 && v != 0 || ok > 1 {
						t.Fatalf("key %#x: %#x, %d", k, v, ok)
					}
				}
			}
			left := 0
			for _, b := range batches {
				for j, k := range b.keys {
					switch {
					case b.insert && linear.Result(b.results[j]) == linear.Inserted:
						there[k]++
					case b.insert && linear.Result(b.results[j]) == linear.Left:
						left++
					case !b.insert && b.results[j] == 1:
						there[k]--
					}
				}
			}
			pairs, count := h.iterate(len(pool))
			c := h.counts()
			if count != len(pairs) || c.Live != count || c.Left != left {
				t.Fatalf("%d pairs, %d counted, %+v, %d left", len(pairs), count, c, left)
			}
			for _, k := range pool {
				v, ok := pairs[k]
				if there[k] < 0 || there[k] > 1 || (there[k] == 1) != ok || ok && v&^7 != value(k, 0) {
					t.Fatalf("key %#x: %d times more often inserted than erased; in the table: %t, with %#x", k, there[k], ok, v)
				}
			}
			do(t, d, func(q *device.Queue) {
				h.tab.ClearLeft(q)
				must(t, h.tab.Rehash(q, 15))
			})
			h.check(pairs, pool)
		}
	}
}

// Inserts alone, from several streams, need no shared table: they agree on a key's slot also where
// tombstones are reused.
func TestInsertsRace(t *testing.T) { each(t, insertsRace[uint32], insertsRace[uint64]) }

func insertsRace[W linear.Word](t *testing.T, d *device.Device) {
	n := 30_000
	if testing.Short() {
		n = 3000
	}
	r := random(t)
	h := newHarness[W](t, d, 12)
	old := distinct[W](r, 3900)
	h.insert(old, old, nil)
	h.erase(old, nil)
	if c := h.counts(); c.Dead < 1000 {
		t.Fatalf("%+v: too few tombstones", c)
	}
	pool := distinct[W](r, 2500)
	keys := make([]W, n)
	for i := range keys {
		keys[i] = pool[r.IntN(len(pool))]
	}
	results := make([]byte, device.Streams*n)
	do(t, d, func(q *device.Queue) {
		kp, rp := input(q, keys), q.Temp(len(results))
		q.Wait()
		for s := range device.Streams {
			h.tab.Insert(q.On(s), kp, kp, rp.Add(s*n), n)
		}
		for s := range device.Streams {
			q.On(s).Wait()
		}
		device.CopyOut(q, results, rp)
	})
	fresh, want := map[W]int{}, map[W]W{}
	for i, x := range results {
		want[keys[i%n]] = keys[i%n]
		if linear.Result(x) == linear.Inserted {
			fresh[keys[i%n]]++
		}
	}
	for k := range want {
		if fresh[k] != 1 {
			t.Fatalf("key %#x was new %d times", k, fresh[k])
		}
	}
	h.check(want, pool)
}

// A table that does not grow gives ErrFull with all others of the batch in, and says which are not.
func TestErrFull(t *testing.T) { each(t, errFull[uint32], errFull[uint64]) }

func errFull[W linear.Word](t *testing.T, d *device.Device) {
	defer linear.SetChunks(8<<10, 64)()
	r := random(t)
	const log2, slots = 9, 1 << 9
	keys := distinct[W](r, 4*slots)
	for i, k := range keys {
		if linear.Mix(k) < 4 {
			keys[i] = linear.KeyOf(W(4 + i))
		}
	}
	first := keys[:slots/2]
	values := make([]W, len(keys))
	for i := range values {
		values[i] = W(i) + 1
	}
	l, err := linear.NewLocal[W](log2, linear.Options{})
	must(t, err)
	on, err := linear.NewOnDevice[W](d, log2, linear.Options{})
	must(t, err)
	defer func() { must(t, on.Close()) }()
	results := make([]linear.Result, len(keys))
	tabs := map[string]table[W]{"local": l, "on device": on}
	for name, insert := range map[string]func(keys, values []W) (int, error){
		"local":     l.Insert,
		"on device": func(keys, values []W) (int, error) { return on.InsertResults(keys, values, results[:len(keys)]) },
	} {
		if n, err := insert(first, first); n != len(first) || err != nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
		n, err := insert(keys, values)
		if n != slots-len(first) || !errors.Is(err, linear.ErrFull) {
			t.Fatalf("%s: %d added, want %d; %v", name, n, slots-len(first), err)
		}
		got, found := make([]W, len(keys)), make([]bool, len(keys))
		must(t, tabs[name].Find(got, found, keys))
		in := 0
		for i := range keys {
			if found[i] {
				in++
			}
			if i < len(first) && !found[i] || found[i] && got[i] != values[i] || !found[i] && got[i] != 0 {
				t.Fatalf("%s: key %d of %d: %v, %t", name, i, len(keys), got[i], found[i])
			}
			if name != "local" && (results[i] == linear.Left) == found[i] || name != "local" && i < len(first) != (results[i] == linear.Replaced) {
				t.Fatalf("key %d of %d, found: %t: result %d", i, len(keys), found[i], results[i])
			}
		}
		if in != slots {
			t.Fatalf("%s: %d keys in %d slots", name, in, slots)
		}
		// It goes on to work, and to be rid of tombstones.
		tab := tabs[name]
		few := first[:10]
		if n, err := tab.Delete(few); n != len(few) || err != nil {
			t.Fatalf("%s: %d deleted, %v", name, n, err)
		}
		if n, err := tab.Insert(few, few); n != len(few) || err != nil {
			t.Fatalf("%s: %d added, %v", name, n, err)
		}
		if n, err := tab.Delete(keys); n != slots || err != nil {
			t.Fatalf("%s: %d deleted, %v", name, n, err)
		}
		if s, err := tab.Stats(); s.Pairs != 0 || s.Dead > slots/4 || err != nil {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		if n, err := tab.Insert(first, first); n != len(first) || err != nil {
			t.Fatalf("%s: %d added, %v", name, n, err)
		}
	}
}

// Where there is no memory for a larger table an insert gives that error, and the table is as before.
func TestNoMemory(t *testing.T) {
	t.Run("32", noMemory[uint32])
	t.Run("64", noMemory[uint64])
}

func noMemory[W linear.Word](t *testing.T) {
	most := math.MaxInt
	driver := sim.New(0, &sim.Faults{Alloc: func(bytes int) int {
		if bytes > most {
			return device.CodeOutOfMemory
		}
		return 0
	}})
	d, err := device.Open(driver, linear.Modules()...)
	must(t, err)
	defer func() { _ = d.Close() }()
	r := random(t)
	const log2 = 12
	on, err := linear.NewOnDevice[W](d, log2, linear.Options{Grow: true})
	must(t, err)
	keys := distinct[W](r, 8<<log2)
	half := keys[:2000]
	_, err = on.Insert(half, half)
	must(t, err)
	must(t, on.Find(make([]W, len(keys)), nil, keys)) // makes the buffers
	before := driver.Allocations()
	check := func(want int) {
		t.Helper()
		got, found := make([]W, len(keys)), make([]bool, len(keys))
		must(t, on.Find(got, found, keys))
		for i := range keys {
			if found[i] != (i < want) || found[i] && got[i] != keys[i] {
				t.Fatalf("key %d, with %d in: %t, %v", i, want, found[i], got[i])
			}
		}
		if on.Len() != want {
			t.Fatalf("length %d, want %d", on.Len(), want)
		}
	}

	most = bytesOf[W](2) << log2 // no larger table
	if n, err := on.Insert(keys, keys); n != 0 || !errors.Is(err, device.ErrMemory) {
		t.Fatalf("%d added, %v", n, err)
	}
	check(len(half))
	// What fits is taken, and what is there is replaced.
	if n, err := on.Insert(keys[:3000], keys[:3000]); n != 1000 || err != nil {
		t.Fatalf("%d added, %v", n, err)
	}
	check(3000)
	if on.Slots() != 1<<log2 || driver.Allocations() != before {
		t.Fatalf("%d slots, %d pieces of memory, %d before", on.Slots(), driver.Allocations(), before)
	}

	// A table with many tombstones serves on where there is no memory to be rid of them.
	most = 0
	if n, err := on.Delete(keys[1000:3000]); n != 2000 || err != nil {
		t.Fatalf("%d deleted, %v", n, err)
	}
	check(1000)
	if _, err := on.Clone(); !errors.Is(err, device.ErrMemory) {
		t.Fatalf("clone: %v", err)
	}
	if _, err := linear.NewOnDevice[W](d, log2, linear.Options{}); !errors.Is(err, device.ErrMemory) {
		t.Fatalf("new table: %v", err)
	}
	must(t, on.Close())
	if n := driver.Allocations(); n != 0 {
		t.Fatalf("%d pieces of memory are left", n)
	}

	// Buffers that cannot be had leave nothing behind.
	most = math.MaxInt
	on, err = linear.NewOnDevice[W](d, log2, linear.Options{})
	must(t, err)
	most = 0
	if _, err := on.Insert(keys, keys); !errors.Is(err, device.ErrMemory) {
		t.Fatalf("insert: %v", err)
	}
	most = math.MaxInt
	if n, err := on.Insert(half, half); n != len(half) || err != nil {
		t.Fatalf("%d added, %v", n, err)
	}
	must(t, on.Close())
	if n := driver.Allocations(); n != 0 {
		t.Fatalf("%d pieces of memory are left", n)
	}
}

// Keys that all begin in one region have ways that end before the table is full: one that may grow
// does, and the results of the attempts before hold.
func TestCrowdedRegion(t *testing.T) {
	for _, m := range devicetest.Makers() {
		t.Run(m.Name, func(t *testing.T) {
			const log2, way = 15, 1 << 13 // slots
			d := m.Open(t, linear.Modules())
			t.Cleanup(func() { _ = d.Close() })
			n := way + way/32
			keys := make([]uint32, n)
			span := uint32(1) << (32 - (log2 - 13)) // hashes that begin in a region
			for i := range keys {
				keys[i] = linear.KeyOf(span + uint32(i)*(span/uint32(n)))
			}
			results := make([]linear.Result, n)
			fixed, err := linear.NewOnDevice[uint32](d, log2, linear.Options{})
			must(t, err)
			defer func() { must(t, fixed.Close()) }()
			if added, err := fixed.InsertResults(keys, keys, results); added != way || !errors.Is(err, linear.ErrFull) {
				t.Fatalf("%d added, %v", added, err)
			}
			// All of a batch for which there is a place is in, also what is far down a way.
			values := slices.Repeat([]uint32{7}, n)
			reversed := slices.Clone(keys)
			slices.Reverse(reversed) // those without a place come first
			if added, err := fixed.InsertResults(reversed, values, nil); added != 0 || !errors.Is(err, linear.ErrFull) {
				t.Fatalf("%d added, %v", added, err)
			}
			found := make([]bool, n)
			must(t, fixed.Find(values, found, keys))
			for i := range keys {
				if found[i] == (results[i] == linear.Left) || found[i] && values[i] != 7 {
					t.Fatalf("key %d, result %d: %d, %t", i, results[i], values[i], found[i])
				}
			}
			h := newHarness[uint32](t, d, log2+4)
			h.insert(keys, keys, nil)
			do(t, d, func(q *device.Queue) {
				if err := h.tab.Rehash(q, log2); !errors.Is(err, linear.ErrFull) {
					t.Errorf("rehash into 2^%d slots: %v", log2, err)
				}
				if h.tab.Log2() != log2+4 {
					t.Errorf("2^%d slots after a rehash that failed", h.tab.Log2())
				}
			})
			want := map[uint32]uint32{}
			for _, k := range keys {
				want[k] = k
			}
			h.check(want, keys)
			grows, err := linear.NewOnDevice[uint32](d, log2, linear.Options{Grow: true})
			must(t, err)
			defer func() { must(t, grows.Close()) }()
			if added, err := grows.InsertResults(keys, keys, results); added != n || err != nil || grows.Slots() == 1<<log2 {
				t.Fatalf("%d added in %d slots, %v", added, grows.Slots(), err)
			}
			for i, r := range results {
				if r != linear.Inserted {
					t.Fatalf("key %d: result %d", i, r)
				}
			}
			l, err := linear.NewLocal[uint32](log2, linear.Options{Grow: true})
			must(t, err)
			if added, err := l.Insert(keys, keys); added != n || err != nil || l.Slots() == 1<<log2 {
				t.Fatalf("local: %d added in %d slots, %v", added, l.Slots(), err)
			}
		})
	}
}

// A lost device is an error of every call, and Close still works.
func TestLost(t *testing.T) {
	broken := 0
	driver := sim.New(0, &sim.Faults{Kernel: func(string) int { return broken }})
	d, err := device.Open(driver, linear.Modules()...)
	must(t, err)
	defer func() { _ = d.Close() }()
	on, err := linear.NewOnDevice[uint32](d, 10, linear.Options{})
	must(t, err)
	keys := []uint32{1, 2, 3}
	_, err = on.Insert(keys, keys)
	must(t, err)
	broken = device.CodeIllegalAddress
	if _, err := on.Insert(keys, keys); !errors.Is(err, device.ErrLost) {
		t.Errorf("insert: %v", err)
	}
	if err := on.Find(make([]uint32, 3), nil, keys); !errors.Is(err, device.ErrLost) {
		t.Errorf("find: %v", err)
	}
	if _, err := on.Delete(keys); !errors.Is(err, device.ErrLost) {
		t.Errorf("delete: %v", err)
	}
	must(t, on.Close())
}

func TestFindAllocatesNothing(t *testing.T) {
	l, err := linear.NewLocal[uint32](10, linear.Options{})
	must(t, err)
	keys := []uint32{1, 2, 3, 4, 5}
	_, err = l.Insert(keys, keys)
	must(t, err)
	values, found := make([]uint32, len(keys)), make([]bool, len(keys))
	if n := testing.AllocsPerRun(100, func() { _ = l.Find(values, found, keys) }); n != 0 {
		t.Errorf("%v allocations a find", n)
	}
}

// The hash is a bijection with the inverse that iterate uses.
func TestHash(t *testing.T) {
	r := random(t)
	for range 100_000 {
		if k := r.Uint32(); linear.KeyOf(linear.Mix(k)) != k {
			t.Fatalf("key %#x", k)
		}
		if k := r.Uint64(); linear.KeyOf(linear.Mix(k)) != k {
			t.Fatalf("key %#x", k)
		}
	}
}

// Readers of a Local run beside each other and see whole batches.
func TestLocalReaders(t *testing.T) {
	l, err := linear.NewLocal[uint64](linear.MinLog2, linear.Options{Grow: true})
	must(t, err)
	keys := distinct[uint64](random(t), 2000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			found := make([]bool, len(keys))
			for n := 0; n < len(keys); {
				if err := l.Find(make([]uint64, len(keys)), found, keys); err != nil {
					t.Error(err)
					return
				}
				n = 0
				for _, f := range found {
					if f {
						n++
					}
				}
				if n%500 != 0 {
					t.Errorf("%d keys are there: a batch has 500", n)
					return
				}
			}
		})
	}
	for from := 0; from < len(keys); from += 500 {
		_, err := l.Insert(keys[from:from+500], keys[from:from+500])
		must(t, err)
	}
	wg.Wait()
}

// BenchmarkLocal is one processor with a table of 128 or 256 MB at load 0.5.
func BenchmarkLocal(b *testing.B) {
	b.Run("32", benchmarkLocal[uint32])
	b.Run("64", benchmarkLocal[uint64])
}

func benchmarkLocal[W linear.Word](b *testing.B) {
	const log2, n = 24, 1 << 23
	l, err := linear.NewLocal[W](log2, linear.Options{})
	if err != nil {
		b.Fatal(err)
	}
	keys, others := make([]W, n), make([]W, n)
	for i := range keys {
		keys[i], others[i] = W(i), W(i+n)
	}
	// Whatever part of the benchmark runs, the table is full and its answers are right.
	if added, err := l.Insert(keys, keys); added != n || err != nil {
		b.Fatalf("%d added, %v", added, err)
	}
	values, found := make([]W, n), make([]bool, n)
	for hit, asked := range map[bool][]W{true: keys, false: others} {
		if err := l.Find(values, found, asked); err != nil {
			b.Fatal(err)
		}
		for i, k := range asked {
			if found[i] != hit || hit && values[i] != k {
				b.Fatalf("key %#x: %#x, %t; there: %t", k, values[i], found[i], hit)
			}
		}
	}
	for _, c := range []struct {
		name string
		work func() error
	}{
		{"replace", func() error { _, err := l.Insert(keys, keys); return err }},
		{"hit", func() error { return l.Find(values, nil, keys) }},
		{"miss", func() error { return l.Find(values, nil, others) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := c.work(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}
