package dynamic_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
)

// addr is a wide key.
type addr struct{ Hi, Lo uint64 }

// seed salts the hashes of the tests' maps; with the salt 0 the keys whose hashes mean a state are known.
const seed = 0x51ab

func key64(i uint64) uint64 { return i }
func key128(i uint64) addr  { return addr{i / 3, i * 0x9e3779b97f4a7c15} }

// harness drives the low level of a map of one kind from slices.
type harness[K dynamic.Keys, V dynamic.Values] struct {
	t *testing.T
	d *device.Device
	m *dynamic.Map
}

func newHarness[K dynamic.Keys, V dynamic.Values](t *testing.T, d *device.Device, slots int, o dynamic.Options) *harness[K, V] {
	t.Helper()
	h := &harness[K, V]{t: t, d: d}
	h.do(func(q *device.Queue) (err error) {
		h.m, err = dynamic.New(q, dynamic.KindOf[K, V](), slots, o)
		return err
	})
	t.Cleanup(func() { h.do(func(q *device.Queue) error { h.m.Free(q); return nil }) })
	return h
}

func (h *harness[K, V]) do(job func(q *device.Queue) error) {
	h.t.Helper()
	if err := h.d.Do(device.Build, job); err != nil {
		h.t.Fatal(err)
	}
}

const guard = 0xa5

// output is n bytes of device memory with guards behind them, that check looks at.
func output(q *device.Queue, n int) device.Ptr {
	p := q.Temp(n + 64)
	q.Fill(p, guard*0x01010101, (n+64)/4)
	return p
}

func checkGuard(t *testing.T, q *device.Queue, p device.Ptr, n int) {
	t.Helper()
	b := make([]byte, 60)
	device.CopyOut(q, b, p.Add(n))
	q.Wait()
	for i, x := range b {
		if x != guard {
			t.Fatalf("byte %d behind an output of %d is overwritten", i, n)
		}
	}
}

func size[T any](s []T) int {
	var zero T
	return len(s) * int(unsafe.Sizeof(zero))
}

func (h *harness[K, V]) insert(keys []K, values []V, assign bool) (fresh []bool, added int) {
	h.t.Helper()
	fresh = make([]bool, len(keys))
	h.do(func(q *device.Queue) (err error) {
		kp, vp, fp := q.Temp(size(keys)), q.Temp(size(values)), output(q, len(keys))
		device.CopyIn(q, kp, keys)
		device.CopyIn(q, vp, values)
		if added, err = h.m.Insert(q, kp, vp, len(keys), assign, fp); err != nil {
			return err
		}
		device.CopyOut(q, fresh, fp)
		checkGuard(h.t, q, fp, len(keys))
		return q.Err()
	})
	return fresh, added
}

// put is insert without results, which large batches are sorted for.
func (h *harness[K, V]) put(keys []K, values []V) (added int) {
	h.t.Helper()
	h.do(func(q *device.Queue) (err error) {
		kp, vp := q.Temp(size(keys)), q.Temp(size(values))
		device.CopyIn(q, kp, keys)
		device.CopyIn(q, vp, values)
		added, err = h.m.Insert(q, kp, vp, len(keys), true, 0)
		return err
	})
	return added
}

func (h *harness[K, V]) erase(keys []K, flags bool) (erased []bool, count int) {
	h.t.Helper()
	erased = make([]bool, len(keys))
	h.do(func(q *device.Queue) (err error) {
		kp, ep := q.Temp(size(keys)), device.Ptr(0)
		if flags {
			ep = output(q, len(keys))
		}
		device.CopyIn(q, kp, keys)
		if count, err = h.m.Erase(q, kp, len(keys), ep); err != nil || !flags {
			return err
		}
		device.CopyOut(q, erased, ep)
		checkGuard(h.t, q, ep, len(keys))
		return q.Err()
	})
	return erased, count
}

func (h *harness[K, V]) find(keys []K) (values []V, found []bool) {
	h.t.Helper()
	values, found = make([]V, len(keys)), make([]bool, len(keys))
	h.do(func(q *device.Queue) error {
		kp, vp, fp := q.Temp(size(keys)), output(q, size(values)), output(q, len(keys))
		device.CopyIn(q, kp, keys)
		h.m.Find(q, vp, fp, kp, len(keys))
		device.CopyOut(q, values, vp)
		device.CopyOut(q, found, fp)
		checkGuard(h.t, q, vp, size(values))
		checkGuard(h.t, q, fp, len(keys))
		return q.Err()
	})
	return values, found
}

func (h *harness[K, V]) all(form dynamic.Form) map[K]V {
	h.t.Helper()
	n := h.m.Len()
	keys, values, count := make([]K, n), make([]V, n), make([]uint64, 1)
	h.do(func(q *device.Queue) error {
		kp, vp, cp := output(q, size(keys)), output(q, size(values)), q.Temp(8)
		h.m.RetrieveAll(q, form, kp, vp, cp)
		device.CopyOut(q, keys, kp)
		device.CopyOut(q, values, vp)
		device.CopyOut(q, count, cp)
		checkGuard(h.t, q, kp, size(keys))
		checkGuard(h.t, q, vp, size(values))
		return q.Err()
	})
	if int(count[0]) != n {
		h.t.Fatalf("RetrieveAll (%s) counts %d pairs of %d", form, count[0], n)
	}
	out := make(map[K]V, n)
	for i, k := range keys {
		out[k] = values[i]
	}
	if len(out) != n {
		h.t.Fatalf("RetrieveAll (%s) gives %d keys, %d of them different", form, n, len(out))
	}
	return out
}

// check compares everything with what ought to be there.
func (h *harness[K, V]) check(want map[K]V, others []K) {
	h.t.Helper()
	if h.m.Len() != len(want) {
		h.t.Fatalf("%d pairs, want %d", h.m.Len(), len(want))
	}
	keys := others
	for k := range want {
		keys = append(keys, k)
	}
	values, found := h.find(keys)
	for i, k := range keys {
		v, ok := want[k]
		if found[i] != ok || values[i] != v {
			h.t.Fatalf("key %v: %v %v, want %v %v", k, values[i], found[i], v, ok)
		}
	}
	for k, v := range h.all(dynamic.Tiles) {
		if w, ok := want[k]; !ok || w != v {
			h.t.Fatalf("RetrieveAll gives %v: %v, want %v %v", k, v, w, ok)
		}
	}
}

// kinds runs a test for every kind of map on every kind of device.
func kinds(t *testing.T, test func(t *testing.T, d *device.Device, run runner)) {
	devicetest.Each(t, dynamic.Modules(), func(t *testing.T, d *device.Device) {
		t.Run("64-32", func(t *testing.T) { test(t, d, runOf[uint64, uint32]{key64}) })
		t.Run("64-64", func(t *testing.T) { test(t, d, runOf[uint64, uint64]{key64}) })
		t.Run("128-32", func(t *testing.T) { test(t, d, runOf[addr, uint32]{key128}) })
		t.Run("128-64", func(t *testing.T) { test(t, d, runOf[addr, uint64]{key128}) })
	})
}

// runner is the tests' bodies, by kind.
type runner interface {
	stream(t *testing.T, d *device.Device, seed uint64, rounds, keys, batch int)
	forms(t *testing.T, d *device.Device, submaps int)
	tombstones(t *testing.T, d *device.Device)
	duplicates(t *testing.T, d *device.Device)
	edges(t *testing.T, d *device.Device)
	sorted(t *testing.T, d *device.Device, slots int)
	memory(t *testing.T, d *device.Device, fail *bool)
}

type runOf[K dynamic.Keys, V dynamic.Values] struct{ key func(uint64) K }

func TestRandomStreams(t *testing.T) {
	kinds(t, func(t *testing.T, d *device.Device, run runner) {
		rounds, keys, batch := 60, 20000, 4000
		if testing.Short() {
			rounds, keys, batch = 25, 4000, 900
		}
		run.stream(t, d, rand.Uint64(), rounds, keys, batch)
	})
}

// stream does random batches to a map that begins small, so that it grows in the middle of batches, and
// to a Go map.
func (x runOf[K, V]) stream(t *testing.T, d *device.Device, s uint64, rounds, keys, batch int) {
	t.Logf("seed %d", s)
	r := rand.New(rand.NewPCG(s, 1))
	h := newHarness[K, V](t, d, 0, dynamic.Options{Seed: r.Uint64()})
	want := map[K]V{}
	for round := range rounds {
		n := r.IntN(batch)
		ks, vs := make([]K, n), make([]V, n)
		for i := range ks {
			ks[i], vs[i] = x.key(r.Uint64N(uint64(keys))), V(r.Uint64())
		}
		switch op := r.IntN(5); {
		case op < 3:
			// Duplicates of a key in one batch get one of the values; here they get the same one.
			once := map[K]V{}
			for i, k := range ks {
				if v, ok := once[k]; ok {
					vs[i] = v
				}
				once[k] = vs[i]
			}
			assign := op > 0
			fresh, added := h.insert(ks, vs, assign)
			byKey, count := map[K]int{}, 0
			for i, k := range ks {
				if fresh[i] {
					byKey[k]++
					count++
				}
			}
			if count != added {
				t.Fatalf("round %d: %d added, %d flags", round, added, count)
			}
			for k, v := range once {
				_, was := want[k]
				if was == (byKey[k] == 1) || byKey[k] > 1 {
					t.Fatalf("round %d: key %v is new %d times, was there: %v", round, k, byKey[k], was)
				}
				if !was || assign {
					want[k] = v
				}
			}
		default:
			flags := op == 3
			erased, count := h.erase(ks, flags)
			byKey, wantCount := map[K]int{}, 0
			for i, k := range ks {
				if erased[i] {
					byKey[k]++
				}
			}
			for _, k := range ks {
				if _, was := want[k]; was {
					if flags && byKey[k] != 1 {
						t.Fatalf("round %d: key %v erased %d times", round, k, byKey[k])
					}
					delete(want, k)
					wantCount++
				}
			}
			if count != wantCount {
				t.Fatalf("round %d: %d erased, want %d", round, count, wantCount)
			}
		}
		if round%8 == 0 {
			others := make([]K, 200)
			for i := range others {
				others[i] = x.key(r.Uint64N(2 * uint64(keys)))
			}
			h.check(want, others)
		}
	}
	h.check(want, nil)
	if len(h.m.Submaps()) < 2 {
		t.Errorf("submaps of %v slots: the stream should have made the map grow", h.m.Submaps())
	}
}

// Every form of RetrieveAll must be right for any number of submaps, and where every block goes round
// many times.
func TestRetrieveAllForms(t *testing.T) {
	dynamic.SetRetrieveBlocks(t, 1)
	kinds(t, func(t *testing.T, d *device.Device, run runner) {
		most := 10
		if testing.Short() {
			most = 5
		}
		for submaps := 1; submaps <= most; submaps += 1 + submaps/4 {
			run.forms(t, d, submaps)
		}
	})
}

func (x runOf[K, V]) forms(t *testing.T, d *device.Device, submaps int) {
	h := newHarness[K, V](t, d, 0, dynamic.Options{Seed: seed})
	want := map[K]V{}
	for i := uint64(0); len(h.m.Submaps()) < submaps; {
		n := 1 + dynamic.MinSlots<<(len(h.m.Submaps())-1)/2
		ks, vs := make([]K, n), make([]V, n)
		for j := range ks {
			ks[j], vs[j] = x.key(i), V(i+7)
			want[ks[j]] = vs[j]
			i++
		}
		h.put(ks, vs)
	}
	if got := h.m.Submaps(); len(got) != submaps || submaps > 1 && got[1] < 2*got[0] {
		t.Fatalf("submaps of %v slots, want %d of doubling size", got, submaps)
	}
	for _, form := range []dynamic.Form{dynamic.Tiles, dynamic.Warps, dynamic.Blocks, dynamic.Atomic} {
		got := h.all(form)
		for k, v := range want {
			if w, ok := got[k]; !ok || w != v {
				t.Fatalf("%d submaps, form %s: key %v is %v %v, want %v", submaps, form, k, w, ok, v)
			}
		}
	}
	h.check(want, nil)
}

// Erasing all of a submap must not make an insert search for ever, inserts must take the slots of erased
// pairs, and a map that turns over for long must not grow.
func TestTombstones(t *testing.T) {
	kinds(t, func(t *testing.T, d *device.Device, run runner) { run.tombstones(t, d) })
}

func (x runOf[K, V]) tombstones(t *testing.T, d *device.Device) {
	h := newHarness[K, V](t, d, 4096, dynamic.Options{Seed: seed})
	batch := func(from, n int) (ks []K, vs []V) {
		for i := range n {
			ks, vs = append(ks, x.key(uint64(from+i))), append(vs, V(from+i))
		}
		return ks, vs
	}
	ks, vs := batch(0, 2900) // 3,072 fit
	h.put(ks[:2000], vs[:2000])
	used := h.m.Used()[0]
	// Half of them leave and come back: they find slots of erased pairs on their ways.
	if _, n := h.erase(ks[:1000], false); n != 1000 {
		t.Fatalf("%d erased, want 1000", n)
	}
	h.put(ks[:1000], vs[:1000])
	if now := h.m.Used()[0]; now > used+100 { // which of two keys takes a slot depends on their order
		t.Fatalf("%d slots used after erasing and inserting the same keys, %d before", now, used)
	}
	h.put(ks, vs)
	if len(h.m.Submaps()) != 1 {
		t.Fatalf("submaps %v: want one", h.m.Submaps())
	}
	if _, n := h.erase(ks, true); n != len(ks) || h.m.Len() != 0 {
		t.Fatalf("%d erased, %d left", n, h.m.Len())
	}
	ks, vs = batch(10_000, 3000)
	if n := h.put(ks, vs); n != 3000 || len(h.m.Submaps()) != 1 {
		t.Fatalf("%d added to an emptied map, submaps %v", n, h.m.Submaps())
	}
	// A sliding window of 1,000 keys over 40,000.
	if _, n := h.erase(ks[1000:], false); n != 2000 {
		t.Fatalf("%d erased", n)
	}
	for i := 11_000; i < 50_000; i += 500 {
		in, vs := batch(i, 500)
		out, _ := batch(i-1000, 500)
		if a, e := h.put(in, vs), len(out); a != 500 {
			t.Fatalf("%d added, want 500", a)
		} else if _, n := h.erase(out, false); n != e {
			t.Fatalf("%d erased, want %d", n, e)
		}
	}
	if len(h.m.Submaps()) > 2 {
		t.Errorf("a map of 1,500 pairs at most has grown to submaps %v", h.m.Submaps())
	}
	want := map[K]V{}
	ks, vs = batch(49_000, 1000)
	for i, k := range ks {
		want[k] = vs[i]
	}
	h.check(want, nil)
}

// Of a key that a batch has often one value stays, and the key is there once.
func TestDuplicatesInABatch(t *testing.T) {
	kinds(t, func(t *testing.T, d *device.Device, run runner) { run.duplicates(t, d) })
}

func (x runOf[K, V]) duplicates(t *testing.T, d *device.Device) {
	for _, assign := range []bool{false, true} {
		h := newHarness[K, V](t, d, 0, dynamic.Options{Seed: seed})
		const different, times = 50, 200
		ks, vs := make([]K, different*times), make([]V, different*times)
		for i := range ks {
			ks[i], vs[i] = x.key(uint64(i%different)), V(i)
		}
		fresh, added := h.insert(ks, vs, assign)
		if added != different || h.m.Len() != different {
			t.Fatalf("%d added, %d there, want %d", added, h.m.Len(), different)
		}
		winners := map[K]int{}
		for i, f := range fresh {
			if f {
				winners[ks[i]]++
			}
		}
		values, found := h.find(ks[:different])
		for i := range different {
			if !found[i] || uint64(values[i])%different != uint64(i) || winners[ks[i]] != 1 {
				t.Fatalf("key %d: value %d, found %v, new %d times", i, values[i], found[i], winners[ks[i]])
			}
		}
		if erased, n := h.erase(ks, true); n != different {
			t.Fatalf("%d erased, want %d (flags %v)", n, different, erased[:8])
		}
		h.check(map[K]V{}, ks[:different])
	}
}

// Every key and value can be stored, those too whose hash means a state; and all sizes of batches.
func TestEdges(t *testing.T) {
	kinds(t, func(t *testing.T, d *device.Device, run runner) { run.edges(t, d) })
}

func (x runOf[K, V]) edges(t *testing.T, d *device.Device) {
	// With the salt 0 the hash of Unmix(i) is i.
	h := newHarness[K, V](t, d, 0, dynamic.Options{})
	var ks []K
	for i := range uint64(6) {
		for _, k := range []uint64{i, ^i, dynamic.Unmix(i), dynamic.Unmix(^i), i << 32, i << 62} {
			switch key := any(new(K)).(type) {
			case *uint64:
				*key = k
				ks = append(ks, *any(key).(*K))
			case *addr:
				for _, a := range []addr{{k, 0}, {0, k}, {k, k}, {^uint64(0), k}} {
					*key = a
					ks = append(ks, *any(key).(*K))
				}
			}
		}
	}
	want, once := map[K]V{}, []K(nil)
	for i, k := range ks {
		if _, ok := want[k]; !ok {
			once = append(once, k)
			want[k] = []V{0, 1, 2, ^V(0), ^V(0) - 1, V(i)}[i%6]
		}
	}
	h.check(map[K]V{}, once) // nothing there: no state is taken for a key
	vs := make([]V, len(once))
	for i, k := range once {
		vs[i] = want[k]
	}
	h.put(once, vs)
	h.check(want, []K{x.key(1 << 40)})
	for i, k := range once {
		if i%2 == 0 {
			delete(want, k)
			h.erase([]K{k}, true)
		}
	}
	h.check(want, once)
	for _, n := range []int{0, 1, 31, 32, 33, 255, 256, 257, 1000} {
		h := newHarness[K, V](t, d, n, dynamic.Options{Seed: seed})
		want, ks, vs := map[K]V{}, make([]K, n), make([]V, n)
		for i := range n {
			ks[i], vs[i] = x.key(uint64(i)), V(i)
			want[ks[i]] = vs[i]
		}
		if added := h.put(ks, vs); added != n {
			t.Fatalf("%d added, want %d", added, n)
		}
		h.check(want, []K{x.key(uint64(n))})
	}
}

// A large batch is sorted by region, in one step or two; what it does must be the same.
func TestSorted(t *testing.T) {
	kinds(t, func(t *testing.T, d *device.Device, run runner) {
		dynamic.SetSort(t, 10_000, 0.001)
		run.sorted(t, d, 1<<18)
		if !testing.Short() {
			run.sorted(t, d, 300*4096)
		}
	})
}

func (x runOf[K, V]) sorted(t *testing.T, d *device.Device, slots int) {
	h := newHarness[K, V](t, d, slots, dynamic.Options{Seed: seed})
	var ks []K
	var vs []V
	want := map[K]V{}
	batch := func(from, to int) {
		ks, vs = nil, nil
		for i := from; i < to; i++ {
			k := x.key(uint64(i))
			if i%16 == 1 {
				k = ks[len(ks)-1] // twice
			} else {
				want[k] = V(i * 3)
			}
			ks, vs = append(ks, k), append(vs, want[k])
		}
	}
	batch(0, slots/2)
	if added := h.put(ks, vs); added != len(want) {
		t.Fatalf("%d added, want %d", added, len(want))
	}
	h.check(want, []K{x.key(uint64(slots))})
	erase := func() {
		was := len(want)
		for _, k := range ks {
			delete(want, k)
		}
		if _, n := h.erase(ks, false); n != was-len(want) {
			t.Fatalf("%d erased, want %d", n, was-len(want))
		}
		h.check(want, ks[:100])
	}
	ks = ks[:slots/4]
	erase()
	// More than fit: the rest goes to a second submap, and what is in the first one gets its new value there.
	batch(slots/4, slots*3/2)
	was := h.m.Len()
	if added := h.put(ks, vs); added != len(want)-was {
		t.Fatalf("%d added, want %d", added, len(want)-was)
	}
	if len(h.m.Submaps()) != 2 {
		t.Fatalf("submaps %v, want 2", h.m.Submaps())
	}
	h.check(want, nil)
	ks = ks[len(ks)/3:]
	erase()
}

// Where a region is full the map grows, and the batch goes on. With a known salt one can make keys for it.
func TestFullRegion(t *testing.T) {
	devicetest.Each(t, dynamic.Modules(), func(t *testing.T, d *device.Device) {
		for _, sorted := range []bool{false, true} {
			if sorted {
				dynamic.SetSort(t, 1000, 0)
			}
			h := newHarness[uint64, uint32](t, d, 1<<17, dynamic.Options{})
			ks, vs, want := make([]uint64, 5000), make([]uint32, 5000), map[uint64]uint32{}
			for i := range ks {
				ks[i], vs[i] = dynamic.Unmix(7<<59+uint64(i)), uint32(i)
				want[ks[i]] = vs[i]
			}
			if sorted {
				h.put(ks, vs)
			} else if fresh, added := h.insert(ks, vs, true); added != len(ks) || slices.Contains(fresh, false) {
				t.Fatalf("%d added, want %d, each of them new", added, len(ks))
			}
			if len(h.m.Submaps()) < 2 {
				t.Fatal("5,000 keys of a region of 4,096 slots: the map should have grown")
			}
			h.check(want, []uint64{1, 2, 3, dynamic.Unmix(7<<59 + 6000)})
			if _, n := h.erase(ks, false); n != len(ks) {
				t.Fatalf("%d erased", n)
			}
			h.check(map[uint64]uint32{}, ks)
		}
	})
}

// Without memory to grow the batch fails and the map is as before.
func TestOutOfMemory(t *testing.T) {
	faults, fail := &sim.Faults{}, false
	faults.Alloc = func(bytes int) int {
		if fail {
			return 2 // CUDA_ERROR_OUT_OF_MEMORY
		}
		return 0
	}
	d, err := device.Open(sim.New(0, faults), dynamic.Modules()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for _, run := range []runner{runOf[uint64, uint32]{key64}, runOf[addr, uint64]{key128}} {
		run.memory(t, d, &fail)
	}
}

func (x runOf[K, V]) memory(t *testing.T, d *device.Device, fail *bool) {
	h := newHarness[K, V](t, d, 0, dynamic.Options{Seed: seed})
	want, ks, vs := map[K]V{}, make([]K, 5000), make([]V, 5000)
	for i := range ks {
		ks[i], vs[i] = x.key(uint64(i)), V(i)
		if i < 600 {
			want[ks[i]] = vs[i]
		}
	}
	h.put(ks[:600], vs[:600])
	err := d.Do(device.Build, func(q *device.Queue) error {
		kp, vp, flags := q.Temp(size(ks)), q.Temp(size(vs)), q.Temp(len(ks))
		device.CopyIn(q, kp, ks)
		device.CopyIn(q, vp, vs)
		*fail = true
		defer func() { *fail = false }()
		_, err := h.m.Insert(q, kp, vp, len(ks), true, flags)
		return err
	})
	if !errors.Is(err, device.ErrMemory) {
		t.Fatalf("insert without memory: %v, want ErrMemory", err)
	}
	h.check(want, ks[600:])
	for i, k := range ks {
		want[k] = vs[i]
	}
	h.put(ks, vs)
	h.check(want, nil)
}

func TestNewRefuses(t *testing.T) {
	d, err := device.Open(sim.New(0, nil), dynamic.Modules()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	for _, c := range []struct {
		kind    dynamic.Kind
		options dynamic.Options
	}{
		{dynamic.Kind{ValueBytes: 4}, dynamic.Options{Load: 1}},
		{dynamic.Kind{ValueBytes: 4}, dynamic.Options{Load: -0.5}},
		{dynamic.Kind{ValueBytes: 16}, dynamic.Options{}},
	} {
		err := d.Do(device.Build, func(q *device.Queue) error {
			_, err := dynamic.New(q, c.kind, 0, c.options)
			return err
		})
		if err == nil {
			t.Errorf("%+v %+v: no error", c.kind, c.options)
		}
	}
	for _, slots := range []int{-1, 1<<40 + 1, math.MaxInt} {
		err := d.Do(device.Build, func(q *device.Queue) error {
			_, err := dynamic.New(q, dynamic.Kind{ValueBytes: 4}, slots, dynamic.Options{})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(slots)) {
			t.Errorf("%d slots: %v", slots, err)
		}
	}
}

// A way goes through every sector of its region once, also in maps of more than 2^31 slots.
func TestWay(t *testing.T) {
	for _, sectors := range []uint64{4, 512, 2048, 3 * 2048, 1 << 33} {
		for _, h := range []uint64{0, 1, 1 << 63, ^uint64(0), 0x123456789abcdef0} {
			span := min(sectors, 2048)
			seen, region := map[uint64]bool{}, dynamic.SectorAt(h, sectors, 0)/span
			for step := range span {
				at := dynamic.SectorAt(h, sectors, step)
				if at >= sectors || at/span != region || seen[at] {
					t.Fatalf("%d sectors, hash %x: step %d leads to sector %d, again or outside of region %d", sectors, h, step, at, region)
				}
				seen[at] = true
			}
		}
		if at := dynamic.SectorAt(^uint64(0), sectors, 0); at != sectors-1 {
			t.Fatalf("%d sectors: the largest hash begins at %d", sectors, at)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		if h := r.Uint64(); dynamic.Unmix(dynamic.Mix(h)) != h || dynamic.Mix(dynamic.Unmix(h)) != h {
			t.Fatalf("mix and unmix of %x", h)
		}
	}
}

// A map of more than 2^31 slots, on a GPU only: it takes 34 GB.
func TestMoreThan2To31Slots(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 34 GB")
	}
	devicetest.Each(t, dynamic.Modules(), func(t *testing.T, d *device.Device) {
		const slots, n = 1<<31 + 1<<20, 1 << 20
		if d.Describe().Memory < 20*slots {
			t.Skipf("the device has %d bytes of memory", d.Describe().Memory)
		}
		h := newHarness[uint64, uint64](t, d, slots, dynamic.Options{Seed: seed})
		want, ks, vs := map[uint64]uint64{}, make([]uint64, n), make([]uint64, n)
		for i := range ks {
			ks[i], vs[i] = dynamic.Mix(uint64(i)), uint64(i)
			want[ks[i]] = vs[i]
		}
		h.put(ks, vs)
		h.check(want, []uint64{5, 6, 7})
		for _, form := range []dynamic.Form{dynamic.Warps, dynamic.Blocks, dynamic.Atomic} {
			if got := h.all(form); len(got) != n {
				t.Fatalf("%s gives %d pairs", form, len(got))
			}
		}
		h.erase(ks[:n/2], false)
		for _, k := range ks[:n/2] {
			delete(want, k)
		}
		h.check(want, ks[:n/2])
	})
}
