package slab_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

// each runs a test for tables of both kinds on every device.
func each(t *testing.T, test32, test64 func(*testing.T, *device.Device)) {
	t.Helper()
	devicetest.Each(t, slab.Modules(), func(t *testing.T, d *device.Device) {
		t.Run("32", func(t *testing.T) { test32(t, d) })
		t.Run("64", func(t *testing.T) { test64(t, d) })
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
	must(t, d.Do(device.Build, func(q *device.Queue) error { job(q); return q.Err() }))
}

func bytesOf[T any](n int) int { return n * int(unsafe.Sizeof(*new(T))) }

func input[T any](q *device.Queue, s []T) device.Ptr {
	p := q.Temp(bytesOf[T](len(s)))
	device.CopyIn(q, p, s)
	return p
}

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

// harness drives a table in device memory from slices and checks the space behind outputs.
type harness[K slab.Key] struct {
	t   *testing.T
	d   *device.Device
	tab *slab.Table[K]
}

func newHarness[K slab.Key](t *testing.T, d *device.Device, buckets int) *harness[K] {
	t.Helper()
	h := &harness[K]{t: t, d: d}
	do(t, d, func(q *device.Queue) {
		tab, err := slab.New[K](q, buckets)
		if err == nil {
			h.tab = tab
		}
	})
	t.Cleanup(func() { do(t, d, func(q *device.Queue) { h.tab.Free(q) }) })
	return h
}

func (h *harness[K]) counts() (c slab.Counts) {
	h.t.Helper()
	do(h.t, h.d, func(q *device.Queue) { c, _ = h.tab.Counts(q) })
	return c
}

// run does a batch. values are given to what needs them, and written by what gives some. results may be nil.
func (h *harness[K]) run(op slab.Op, ops []slab.Op, keys []K, values []uint32, results []slab.Result) {
	h.t.Helper()
	n := len(keys)
	do(h.t, h.d, func(q *device.Queue) {
		b := slab.Batch{Op: op, Keys: input(q, keys), N: n, Alone: true}
		if op == slab.Mixed {
			b.Ops = input(q, ops)
		}
		if values != nil {
			b.Values = output(q, 4*n)
			device.CopyIn(q, b.Values, values)
		}
		if results != nil {
			b.Results = output(q, n)
		}
		if h.tab.Run(q, b) != nil {
			return
		}
		if values != nil {
			device.CopyOut(q, values, b.Values)
			checkGuard(h.t, q, b.Values, 4*n)
		}
		if results != nil {
			device.CopyOut(q, results, b.Results)
			checkGuard(h.t, q, b.Results, n)
		}
	})
}

func (h *harness[K]) insert(keys []K, values []uint32) {
	h.run(slab.Insert, nil, keys, slices.Clone(values), nil)
}

// pairs gives all pairs, with room for so many, and the number that the table has.
func (h *harness[K]) pairs(room int) (keys []K, values []uint32, count int) {
	h.t.Helper()
	keys, values = make([]K, room), make([]uint32, room)
	n := make([]uint64, 1)
	do(h.t, h.d, func(q *device.Queue) {
		kp, vp, cp := output(q, bytesOf[K](room)), output(q, 4*room), input(q, n)
		h.tab.Iterate(q, kp, vp, room, cp)
		device.CopyOut(q, keys, kp)
		device.CopyOut(q, values, vp)
		device.CopyOut(q, n, cp)
		checkGuard(h.t, q, kp, bytesOf[K](room))
		checkGuard(h.t, q, vp, 4*room)
	})
	return keys[:min(room, int(n[0]))], values[:min(room, int(n[0]))], int(n[0])
}

// check compares the whole table, and finds and counts of keys, with what should be there.
func (h *harness[K]) check(want map[K]uint32, keys []K) {
	h.t.Helper()
	ks, vs, n := h.pairs(len(want) + 3)
	got := map[K]uint32{}
	for i, k := range ks {
		if _, ok := got[k]; ok {
			h.t.Errorf("key %#x twice", k)
		}
		got[k] = vs[i]
	}
	if n != len(want) || !maps.Equal(got, want) {
		h.t.Fatalf("%d pairs, want %d, or others", n, len(want))
	}
	if c := h.counts(); c.Live != len(want) || c.Dead < 0 || c.Left != 0 {
		h.t.Fatalf("counts %+v with %d pairs", c, len(want))
	}
	values, numbers := make([]uint32, len(keys)), make([]uint32, len(keys))
	found, counted := make([]slab.Result, len(keys)), make([]slab.Result, len(keys))
	h.run(slab.Find, nil, keys, values, found)
	h.run(slab.Count, nil, keys, numbers, counted)
	for i, k := range keys {
		v, ok := want[k]
		if values[i] != v || (found[i] == slab.Yes) != ok || (numbers[i] == 1) != ok || counted[i] != found[i] {
			h.t.Fatalf("key %#x: %#x, %d, %d times; want %#x, %t", k, values[i], found[i], numbers[i], v, ok)
		}
	}
}

// distinct gives n different random keys.
func distinct[K slab.Key](r *rand.Rand, n int) []K {
	seen := make(map[K]bool, n)
	keys := make([]K, 0, n)
	for len(keys) < n {
		if k := K(r.Uint64()); !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	return keys
}

func randomValues(r *rand.Rand, n int) []uint32 {
	values := make([]uint32, n)
	for i := range values {
		values[i] = r.Uint32()
		if r.IntN(20) == 0 {
			values[i] = uint32(r.IntN(4)) - 1
		}
	}
	return values
}

// Batches of every kind, also mixed ones, with and without results, sorted and not: all as a Go map has it. Arenas
// are made before batches, or in their midst.
func TestStreams(t *testing.T) { each(t, streams[uint32], streams[uint64]) }

func streams[K slab.Key](t *testing.T, d *device.Device) {
	rounds, space, sizes := 60, 6000, []int{1, 37, 700, 3000}
	if testing.Short() {
		rounds, space, sizes = 20, 1500, []int{1, 300}
	}
	for _, buckets := range sizes {
		for _, how := range []string{"plain", "sorted", "mixed batches split", "growing in mid-batch"} {
			t.Run(fmt.Sprintf("%d buckets, %s", buckets, how), func(t *testing.T) {
				slab.SetLeastArena(t, 2)
				switch how {
				case "sorted":
					slab.SetSorting(t, 1, math.MaxInt, 700, 0) // large ones in parts
				case "mixed batches split":
					slab.SetSplit(t, 1)
				case "growing in mid-batch":
					slab.SetReserving(t, false)
				}
				streamsOf[K](t, d, random(t), buckets, rounds, space)
			})
		}
	}
}

func streamsOf[K slab.Key](t *testing.T, d *device.Device, r *rand.Rand, buckets, rounds, space int) {
	h := newHarness[K](t, d, buckets)
	want := map[K]uint32{}
	pool := append(distinct[K](r, space), special[K]()...)
	slices.Sort(pool)
	pool = slices.Compact(pool)
	for round := range rounds {
		r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		n := 1 + r.IntN(len(pool))
		keys, values, results := pool[:n], randomValues(r, n), make([]slab.Result, n)
		if r.IntN(2) == 0 {
			results = nil
		}
		op := []slab.Op{slab.Insert, slab.Insert, slab.Delete, slab.Replace, slab.Mixed, slab.Mixed, slab.Find}[r.IntN(7)]
		if op == slab.Find { // no batch
			switch r.IntN(4) {
			case 0:
				do(t, d, func(q *device.Queue) { h.tab.Clear(q) })
				clear(want)
			case 1:
				do(t, d, func(q *device.Queue) { must(t, h.tab.Rehash(q, 1+r.IntN(2*buckets))) })
			default:
				before := h.counts()
				do(t, d, func(q *device.Queue) { h.tab.Flush(q) })
				if c := h.counts(); c.Dead != 0 || c.Slabs > before.Slabs || c.Slabs+c.Room != before.Slabs+before.Room {
					t.Fatalf("%+v before a flush, %+v after it", before, c)
				}
			}
			h.check(want, pool)
			continue
		}
		ops := make([]slab.Op, n)
		for i := range ops {
			if ops[i] = op; op == slab.Mixed {
				ops[i] = []slab.Op{slab.Find, slab.Insert, slab.Append, slab.Replace, slab.Delete, slab.Count}[r.IntN(6)]
				if _, ok := want[keys[i]]; ok && ops[i] == slab.Append {
					ops[i] = slab.Insert // this test has every key once
				}
			}
		}
		given := slices.Clone(values)
		if op == slab.Delete {
			h.run(op, nil, keys, nil, results)
		} else {
			h.run(op, ops, keys, values, results)
		}
		for i, k := range keys {
			v, there := want[k]
			var result slab.Result
			answer := given[i]
			switch ops[i] {
			case slab.Insert, slab.Append:
				if want[k] = given[i]; !there {
					result = slab.Yes
				}
			case slab.Replace:
				if there {
					want[k], result = given[i], slab.Yes
				}
			case slab.Delete:
				if delete(want, k); there {
					result = slab.Yes
				}
			case slab.Find:
				if answer = v; there {
					result = slab.Yes
				}
			case slab.Count:
				if answer = 0; there {
					answer, result = 1, slab.Yes
				}
			}
			if results != nil && results[i] != result || values[i] != answer {
				t.Fatalf("round %d: %v of key %#x, there before: %t: result %v, value %#x; want %d, %#x", round, ops[i], k, there, results[i:min(i+1, len(results))], values[i], result, answer)
			}
		}
		h.check(want, pool)
	}
}

// Batches of sizes about those of warps, and large ones.
func TestSizes(t *testing.T) { each(t, sizes[uint32], sizes[uint64]) }

func sizes[K slab.Key](t *testing.T, d *device.Device) {
	large := 100_000
	if testing.Short() {
		large = 5000
	}
	for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 33, 255, 256, 257, large} {
		for _, sorted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d,sorted=%t", n, sorted), func(t *testing.T) {
				if sorted {
					slab.SetSorting(t, 1, math.MaxInt, math.MaxInt, 0)
				}
				r := random(t)
				h := newHarness[K](t, d, slab.BucketsFor[K](n))
				keys, values := distinct[K](r, n), randomValues(r, n)
				want := map[K]uint32{}
				do(t, d, func(q *device.Queue) { must(t, h.tab.Build(q, input(q, keys), input(q, values), n)) })
				for i, k := range keys {
					want[k] = values[i]
				}
				h.check(want, keys)
				if c := h.counts(); n == large && h.tab.Used(c) < 0.45 {
					t.Errorf("%+v in %d buckets: %.2f of the memory is used", c, h.tab.Buckets(), h.tab.Used(c))
				}
				h.run(slab.Delete, nil, keys[:n/2], nil, nil)
				for _, k := range keys[:n/2] {
					delete(want, k)
				}
				h.check(want, keys)
			})
		}
	}
}

// A key that a batch has many times is new once and deleted once, and keeps one of its values.
func TestDuplicates(t *testing.T) { each(t, duplicates[uint32], duplicates[uint64]) }

func duplicates[K slab.Key](t *testing.T, d *device.Device) {
	n := 20_000
	if testing.Short() {
		n = 3000
	}
	for _, sorted := range []bool{false, true} {
		if sorted {
			slab.SetSorting(t, 1, math.MaxInt, math.MaxInt, 0)
		}
		for _, distinct := range []int{1, 5, 300} {
			h := newHarness[K](t, d, 16)
			keys, values := make([]K, n), make([]uint32, n)
			for i := range keys {
				keys[i], values[i] = slab.KeyOf(K(i%distinct)), uint32(i)
			}
			for range 2 { // the second time all are there
				var results []slab.Result
				if !sorted {
					results = make([]slab.Result, n)
				}
				fresh := distinct - h.counts().Live
				h.run(slab.Insert, nil, keys, values, results)
				for _, r := range results {
					if r == slab.Yes {
						fresh--
					} else if r != slab.No {
						t.Fatalf("result %d", r)
					}
				}
				if ks, vs, count := h.pairs(n); count != distinct || results != nil && fresh != 0 {
					t.Fatalf("%d pairs, want %d; %d more or less are new", count, distinct, fresh)
				} else {
					for i, k := range ks {
						if keys[vs[i]] != k {
							t.Fatalf("key %#x has %d", k, vs[i])
						}
					}
				}
			}
			var gone []slab.Result
			if !sorted {
				gone = make([]slab.Result, n)
			}
			h.run(slab.Delete, nil, keys, nil, gone)
			times := map[K]int{}
			for i, r := range gone {
				if r == slab.Yes {
					times[keys[i]]++
				}
			}
			for k, n := range times {
				if n != 1 {
					t.Fatalf("key %#x was deleted %d times", k, n)
				}
			}
			if gone != nil && len(times) != distinct {
				t.Fatalf("%d keys were deleted, want %d", len(times), distinct)
			}
			h.check(map[K]uint32{}, keys[:distinct])
		}
	}
}

// Pairs of one key beside each other: all are counted and given, each is deleted once, and a replacement or an insert
// changes one. That goes for keys of reserved hashes, too.
func TestAppend(t *testing.T) { each(t, appends[uint32], appends[uint64]) }

func appends[K slab.Key](t *testing.T, d *device.Device) {
	const times = 150
	for _, sorted := range []bool{false, true} {
		if sorted {
			slab.SetSorting(t, 1, math.MaxInt, math.MaxInt, 0)
		}
		h := newHarness[K](t, d, 3)
		var once, keys []K
		for i := K(0); i < 9; i++ {
			once = append(once, slab.KeyOf(i))
		}
		var values []uint32
		for i := range times {
			for range once {
				values = append(values, uint32(i))
			}
			keys = append(keys, once...)
		}
		h.run(slab.Append, nil, keys, values, nil)
		checkTimes := func(want int, wantSum uint32) {
			t.Helper()
			ks, vs, n := h.pairs(len(keys))
			sums, counts := map[K]uint32{}, make([]uint32, len(once))
			for i, k := range ks {
				sums[k] += vs[i]
			}
			h.run(slab.Count, nil, once, counts, nil)
			for i, k := range once {
				if counts[i] != uint32(want) || sums[k] != wantSum {
					t.Fatalf("key %#x: %d pairs, want %d; sum of the values %d, want %d", k, counts[i], want, sums[k], wantSum)
				}
			}
			if c := h.counts(); n != want*len(once) || c.Live != n {
				t.Fatalf("%d pairs, %+v", n, c)
			}
		}
		sum := uint32(times * (times - 1) / 2)
		checkTimes(times, sum)
		do(t, d, func(q *device.Queue) { must(t, h.tab.Rehash(q, 20)) })
		checkTimes(times, sum)
		one := make([]uint32, len(once))
		h.run(slab.Find, nil, once, one, nil)
		for _, op := range []slab.Op{slab.Replace, slab.Insert} { // both meet the pair that a find gives
			more := slices.Clone(one)
			for i := range more {
				more[i] += 1000
			}
			h.run(op, nil, once, more, nil)
			checkTimes(times, sum+1000)
			h.run(op, nil, once, one, nil)
			checkTimes(times, sum)
		}
		for i := range times {
			h.run(slab.Delete, nil, once, nil, nil)
			counts := make([]uint32, len(once))
			h.run(slab.Count, nil, once, counts, nil)
			if slices.Max(counts) != uint32(times-i-1) || slices.Min(counts) != slices.Max(counts) {
				t.Fatalf("%d pairs after %d deletions", counts, i+1)
			}
			if i == times/2 {
				do(t, d, func(q *device.Queue) { h.tab.Flush(q) })
			}
		}
		checkTimes(0, 0)
	}
}

// A search for the word of an empty slot, of a deleted pair or of one being filled must not match such a slot, and a deletion of
// one must not wipe it.
func TestSentinels(t *testing.T) { each(t, sentinels[uint32], sentinels[uint64]) }

func sentinels[K slab.Key](t *testing.T, d *device.Device) {
	r := random(t)
	h := newHarness[K](t, d, 8)
	ordinary, values := distinct[K](r, 400), randomValues(r, 400)
	keys := special[K]()
	want := map[K]uint32{}
	for i, k := range ordinary {
		if slices.Contains(keys, k) {
			ordinary[i], k = ordinary[0], ordinary[0]
		}
		want[k] = values[i]
	}
	for k, v := range want {
		h.insert([]K{k}, []uint32{v})
	}
	h.run(slab.Delete, nil, ordinary[:100], nil, nil) // there are tombstones
	for _, k := range ordinary[:100] {
		delete(want, k)
	}
	h.check(want, keys)
	for _, op := range []slab.Op{slab.Delete, slab.Replace} {
		results := make([]slab.Result, len(keys))
		h.run(op, nil, keys, make([]uint32, len(keys)), results)
		if slices.Contains(results, slab.Yes) {
			t.Fatalf("%v of keys that are not there: %v", op, results)
		}
		h.check(want, append(keys, ordinary...))
	}
	for value := range uint32(4) { // pairs whose words are as near to those of no pair as can be
		for _, k := range keys {
			h.insert([]K{k}, []uint32{value})
			want[k] = value
		}
		h.check(want, append(keys, ordinary...))
	}
	do(t, d, func(q *device.Queue) { h.tab.Flush(q) })
	h.check(want, append(keys, ordinary...))
	h.run(slab.Delete, nil, keys, nil, nil)
	for _, k := range keys {
		delete(want, k)
	}
	h.check(want, append(keys, ordinary...))
}

// An insert after a deletion must find its key behind the hole that the deletion left, and not put it there twice.
func TestInsertAfterDelete(t *testing.T) {
	each(t, insertAfterDelete[uint32], insertAfterDelete[uint64])
}

func insertAfterDelete[K slab.Key](t *testing.T, d *device.Device) {
	for _, sorted := range []bool{false, true} {
		if sorted {
			slab.SetSorting(t, 1, math.MaxInt, math.MaxInt, 0)
		}
		h := newHarness[K](t, d, 1)
		keys := make([]K, 100)
		values := make([]uint32, len(keys))
		want := map[K]uint32{}
		for i := range keys {
			keys[i], values[i] = slab.KeyOf(K(i+100)), uint32(i)
			want[keys[i]] = values[i]
		}
		h.insert(keys, values)
		for i := 0; i+1 < len(keys); i += 2 { // a hole before each of the others
			h.run(slab.Delete, nil, keys[i:i+1], nil, nil)
			delete(want, keys[i])
			h.insert(keys[i+1:i+2], []uint32{7})
			want[keys[i+1]] = 7
		}
		h.check(want, keys)
		h.run(slab.Delete, nil, keys, nil, nil)
		h.check(map[K]uint32{}, keys)
	}
}

// Slabs that a flush empties are taken again: keys that come and go need no more arenas.
func TestFlushReuses(t *testing.T) { each(t, flushReuses[uint32], flushReuses[uint64]) }

func flushReuses[K slab.Key](t *testing.T, d *device.Device) {
	slab.SetLeastArena(t, 3)
	r := random(t)
	const n = 2000
	h := newHarness[K](t, d, 4)
	bytes, slabs := 0, 0
	for round := range 6 {
		keys, values := distinct[K](r, n), randomValues(r, n)
		want := map[K]uint32{}
		for i, k := range keys {
			want[k] = values[i]
		}
		h.insert(keys, values)
		h.check(want, keys)
		if c := h.counts(); round == 0 {
			bytes, slabs = h.tab.Bytes(), c.Slabs
		} else if h.tab.Bytes() != bytes || c.Slabs > slabs+4 || c.Slabs < slabs-4 {
			t.Fatalf("round %d: %d bytes, %+v; at first %d, %d slabs", round, h.tab.Bytes(), c, bytes, slabs)
		}
		h.run(slab.Delete, nil, keys, nil, nil)
		do(t, d, func(q *device.Queue) { h.tab.Flush(q) })
		if c := h.counts(); c.Live != 0 || c.Dead != 0 || c.Slabs != 0 {
			t.Fatalf("round %d: %+v after a flush of deleted pairs", round, c)
		}
		h.check(map[K]uint32{}, keys)
	}
}

// Sorted inserts take the slots of deleted pairs: keys that come and go need no flush.
func TestSortedReuses(t *testing.T) { each(t, sortedReuses[uint32], sortedReuses[uint64]) }

func sortedReuses[K slab.Key](t *testing.T, d *device.Device) {
	slab.SetSorting(t, 1, math.MaxInt, math.MaxInt, 0)
	const n = 2000
	h := newHarness[K](t, d, 4)
	var keys, others []K // of the same buckets
	for i := range n {
		k := slab.Mix(K(i) + 1000)
		keys, others = append(keys, slab.KeyOf(k|1)), append(others, slab.KeyOf(k&^1))
	}
	slices.Sort(keys)
	slices.Sort(others)
	keys, others = slices.Compact(keys), slices.Compact(others)
	values := make([]uint32, n)
	h.run(slab.Insert, nil, keys, values[:len(keys)], nil)
	slabs := h.counts().Slabs
	for range 5 {
		h.run(slab.Delete, nil, keys, nil, nil)
		if c := h.counts(); c.Live != 0 || c.Dead == 0 {
			t.Fatalf("%+v after all were deleted", c)
		}
		keys, others = others, keys
		h.run(slab.Insert, nil, keys, values[:len(keys)], nil)
		if c := h.counts(); c.Live != len(keys) || c.Slabs > slabs+4 {
			t.Fatalf("%+v, %d slabs at first", c, slabs)
		}
	}
}

// Tables for the service get more buckets with their pairs, and deleted ones are swept.
func TestShape(t *testing.T) {
	t.Run("local", func(t *testing.T) {
		tab, err := slab.NewLocal[uint64](1)
		must(t, err)
		shape(t, tab)
	})
	devicetest.Each(t, slab.Modules(), func(t *testing.T, d *device.Device) {
		tab, err := slab.NewOnDevice[uint64](d, 1)
		must(t, err)
		shape(t, tab)
	})
}

func shape(t *testing.T, tab interface {
	exact.Table[uint64, uint32]
	Shape() (buckets, dead, slabs int)
}) {
	t.Helper()
	keys, values := distinct[uint64](random(t), 20_000), make([]uint32, 20_000)
	for range 5 {
		_, err := tab.Insert(keys, values)
		must(t, err)
		if buckets, _, slabs := tab.Shape(); buckets < 2000 || buckets > 8000 || slabs > buckets/2 {
			t.Fatalf("%d pairs in %d buckets and %d more slabs", tab.Len(), buckets, slabs)
		}
		_, err = tab.Delete(keys[100:])
		must(t, err)
		if _, dead, slabs := tab.Shape(); dead != 0 || slabs != 0 {
			t.Fatalf("%d deleted pairs, %d slabs, with %d pairs", dead, slabs, tab.Len())
		}
	}
	must(t, tab.Close())
}

// Where there is no slab, a batch that was only started does not wait for one: it leaves requests, says which, and does all
// others.
func TestLeft(t *testing.T) { each(t, left[uint32], left[uint64]) }

func left[K slab.Key](t *testing.T, d *device.Device) {
	r := random(t)
	const n = 3000
	h := newHarness[K](t, d, 20) // and no arenas
	keys, values, results := distinct[K](r, n), randomValues(r, n), make([]slab.Result, n)
	want := map[K]uint32{}
	do(t, d, func(q *device.Queue) {
		b := slab.Batch{Op: slab.Insert, Keys: input(q, keys), Values: input(q, values), Results: input(q, results), N: n}
		h.tab.Start(q, b)
		device.CopyOut(q, results, b.Results)
	})
	for i, r := range results {
		if r == slab.Yes {
			want[keys[i]] = values[i]
		} else if r != slab.Left {
			t.Fatalf("key %#x: result %d", keys[i], r)
		}
	}
	full := 20 * h.tab.Slots()
	if c := h.counts(); c.Left != n-len(want) || c.Live != len(want) || len(want) < full || len(want) > full+40 {
		t.Fatalf("%+v, %d done, %d slots", c, len(want), full)
	}
	do(t, d, func(q *device.Queue) { h.tab.ClearLeft(q) })
	h.check(want, keys)
	h.insert(keys, values)
	for i, k := range keys {
		want[k] = values[i]
	}
	h.check(want, keys)
}

// Out of memory while growing is an error, and leaves everything as it was; what needs no slab still works.
func TestOutOfMemory(t *testing.T) {
	t.Run("32", outOfMemory[uint32])
	t.Run("64", outOfMemory[uint64])
}

func outOfMemory[K slab.Key](t *testing.T) {
	for _, sorted := range []bool{false, true} {
		t.Run(fmt.Sprintf("sorted=%t", sorted), func(t *testing.T) {
			if sorted {
				slab.SetSorting(t, 1, math.MaxInt, math.MaxInt, 0)
			}
			arenas := math.MaxInt // that may be made
			driver := sim.New(0, &sim.Faults{Alloc: func(n int) int {
				if n%(128*64) == 0 { // the arenas of these tables
					if arenas--; arenas < 0 {
						return device.CodeOutOfMemory
					}
				}
				return 0
			}})
			d, err := device.Open(driver, slab.Modules()...)
			must(t, err)
			t.Cleanup(func() { _ = d.Close() })
			r := random(t)
			const n = 9001
			keys, values := distinct[K](r, n), randomValues(r, n)
			h := newHarness[K](t, d, 30)
			want := map[K]uint32{}
			for i, k := range keys[:1500] {
				want[k] = values[i]
			}
			h.insert(keys[:1500], values[:1500])
			h.run(slab.Delete, nil, keys[:100], nil, nil)
			for _, k := range keys[:100] {
				delete(want, k)
			}
			before, bytes := driver.Allocations(), h.tab.Bytes()
			for most := range 2 { // before there is none left
				arenas = most
				err = d.Do(device.Build, func(q *device.Queue) error {
					kp, vp := input(q, keys), input(q, values)
					return h.tab.Run(q, slab.Batch{Op: slab.Insert, Keys: kp, Values: vp, N: n, Alone: true})
				})
				if !errors.Is(err, device.ErrMemory) {
					t.Fatalf("insert: %v", err)
				}
				if driver.Allocations() != before || h.tab.Bytes() != bytes {
					t.Fatalf("%d pieces of memory, %d before; %d bytes, %d before", driver.Allocations(), before, h.tab.Bytes(), bytes)
				}
				h.check(want, keys)
			}
			arenas = 1
			err = d.Do(device.Build, func(q *device.Queue) error { return h.tab.Rehash(q, 1) })
			if !errors.Is(err, device.ErrMemory) || h.tab.Buckets() != 30 || driver.Allocations() != before {
				t.Fatalf("rehash: %v, %d buckets, %d pieces of memory, %d before", err, h.tab.Buckets(), driver.Allocations(), before)
			}
			h.check(want, keys)
			arenas = math.MaxInt
			h.insert(keys, values)
			for i, k := range keys {
				want[k] = values[i]
			}
			h.check(want, keys)
		})
	}
}

// OnDevice is as before after an error of memory, and does without more buckets where they cannot be had.
func TestOnDeviceOutOfMemory(t *testing.T) {
	most := math.MaxInt
	driver := sim.New(0, &sim.Faults{Alloc: func(n int) int {
		if n > most {
			return device.CodeOutOfMemory
		}
		return 0
	}})
	d, err := device.Open(driver, slab.Modules()...)
	must(t, err)
	defer func() { _ = d.Close() }()
	r := random(t)
	const n = 60_000
	keys, values := distinct[uint32](r, n), randomValues(r, n)
	tab, err := slab.NewOnDevice[uint32](d, 100)
	must(t, err)
	check := func(pairs int) {
		t.Helper()
		got, found := make([]uint32, n), make([]bool, n)
		must(t, tab.Find(got, found, keys))
		for i := range keys {
			if found[i] != (i < pairs) || found[i] && got[i] != values[i] {
				t.Fatalf("key %d of %d: %t, %#x", i, pairs, found[i], got[i])
			}
		}
		if tab.Len() != pairs {
			t.Fatalf("length %d, want %d", tab.Len(), pairs)
		}
	}
	if added, err := tab.Insert(keys[:500], values); added != 500 || err != nil {
		t.Fatalf("%d added, %v", added, err)
	}
	before := driver.Allocations()
	most = 4 * n // room for batches alone
	if added, err := tab.Insert(keys, values); added != 0 || !errors.Is(err, device.ErrMemory) {
		t.Fatalf("%d added, %v", added, err)
	}
	check(500)
	if driver.Allocations() != before {
		t.Fatalf("%d pieces of memory, %d before", driver.Allocations(), before)
	}
	most = 20 << 10 // no memory for more buckets, but for more arenas
	if added, err := tab.Insert(keys[:3000], values); added != 2500 || err != nil {
		t.Fatalf("%d added, %v", added, err)
	}
	most = 4 * n
	check(3000)
	most = 0
	if _, err := tab.Clone(); !errors.Is(err, device.ErrMemory) {
		t.Fatalf("clone: %v", err)
	}
	if _, err := slab.NewOnDevice[uint32](d, 100); !errors.Is(err, device.ErrMemory) {
		t.Fatalf("new table: %v", err)
	}
	if _, err := tab.Delete(keys); !errors.Is(err, device.ErrMemory) {
		t.Fatalf("delete: %v", err)
	}
	most = math.MaxInt
	check(3000)
	if added, err := tab.Insert(keys, values); added != n-3000 || err != nil {
		t.Fatalf("%d added, %v", added, err)
	}
	check(n)
	must(t, tab.Close())
	if n := driver.Allocations(); n != 0 {
		t.Fatalf("%d pieces of memory are left", n)
	}
}

// A lost device is an error of every call, and Close still works.
func TestLost(t *testing.T) {
	broken := 0
	driver := sim.New(0, &sim.Faults{Kernel: func(string) int { return broken }})
	d, err := device.Open(driver, slab.Modules()...)
	must(t, err)
	defer func() { _ = d.Close() }()
	tab, err := slab.NewOnDevice[uint32](d, 10)
	must(t, err)
	keys := []uint32{1, 2, 3}
	_, err = tab.Insert(keys, keys)
	must(t, err)
	broken = device.CodeIllegalAddress
	if _, err := tab.Insert(keys, keys); !errors.Is(err, device.ErrLost) {
		t.Errorf("insert: %v", err)
	}
	if err := tab.Find(make([]uint32, 3), nil, keys); !errors.Is(err, device.ErrLost) {
		t.Errorf("find: %v", err)
	}
	if _, err := tab.Delete(keys); !errors.Is(err, device.ErrLost) {
		t.Errorf("delete: %v", err)
	}
	must(t, tab.Close())
}

// Numbers of buckets that no table has are errors.
func TestBuckets(t *testing.T) {
	devicetest.Each(t, slab.Modules(), func(t *testing.T, d *device.Device) {
		do(t, d, func(q *device.Queue) {
			tab, err := slab.New[uint32](q, 1)
			must(t, err)
			defer tab.Free(q)
			for _, buckets := range []int{-1, 0, slab.MaxBuckets + 1} {
				if _, err := slab.New[uint32](q, buckets); err == nil {
					t.Errorf("no error of a table of %d buckets", buckets)
				}
				if _, err := slab.NewLocal[uint32](buckets); err == nil {
					t.Errorf("no error of a local table of %d buckets", buckets)
				}
				if err := tab.Rehash(q, buckets); err == nil {
					t.Errorf("no error of a rehash to %d buckets", buckets)
				}
			}
		})
	})
}

// The hash is a bijection with the inverse that Iterate uses.
func TestHash(t *testing.T) {
	r := random(t)
	for range 100_000 {
		if k := r.Uint32(); slab.KeyOf(slab.Mix(k)) != k {
			t.Fatalf("key %#x", k)
		}
		if k := r.Uint64(); slab.KeyOf(slab.Mix(k)) != k {
			t.Fatalf("key %#x", k)
		}
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	l, err := slab.NewLocal[uint32](10)
	must(t, err)
	keys := []uint32{1, 2, 3, 4, 5}
	_, err = l.Insert(keys, keys)
	must(t, err)
	values, found := make([]uint32, len(keys)), make([]bool, len(keys))
	if n := testing.AllocsPerRun(100, func() { _ = l.Find(values, found, keys) }); n != 0 {
		t.Errorf("%v allocations a find", n)
	}
}

// BenchmarkLocal is a table far larger than the cache.
func BenchmarkLocal(b *testing.B) {
	b.Run("32", benchmarkLocal[uint32])
	b.Run("64", benchmarkLocal[uint64])
}

func benchmarkLocal[K slab.Key](b *testing.B) {
	const n = 1 << 23
	l, err := slab.NewLocal[K](slab.BucketsFor[K](n))
	if err != nil {
		b.Fatal(err)
	}
	keys, others, values := make([]K, n), make([]K, n), make([]uint32, n)
	for i := range keys {
		keys[i], others[i] = slab.KeyOf(K(i)*0x9e3779b1), slab.KeyOf(K(i+n)*0x9e3779b1)
	}
	for _, c := range []struct {
		name string
		work func() error
	}{
		{"insert", func() error { _, err := l.Insert(keys, values); return err }},
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

// Lists of requests count them by 32 bits.
func TestBatchTooLarge(t *testing.T) {
	d, err := device.Open(sim.New(0, nil), slab.Modules()...)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	h := newHarness[uint32](t, d, 10)
	for _, op := range []slab.Op{slab.Insert, slab.Find, slab.Mixed} {
		b := slab.Batch{Op: op, N: math.MaxUint32 + 1}
		for name, run := range map[string]func(q *device.Queue) error{
			"start": func(q *device.Queue) error { h.tab.Start(q, b); return q.Err() },
			"run":   func(q *device.Queue) error { _ = h.tab.Run(q, b); return q.Err() },
		} {
			if err := h.d.Do(device.Build, run); err == nil || !strings.Contains(err.Error(), "4294967296") {
				t.Errorf("%s %v: %v", name, op, err)
			}
		}
	}
}
