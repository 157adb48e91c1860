package slab_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
)

// history is all that was asked about one key while batches ran beside each other, and what was answered. None of it
// was before any other of it, so its order is open.
type history struct {
	before, after int    // pairs
	was, is       uint32 // the value before, and after
	inserted      int    // pairs put in
	deleted       int    // pairs taken out
	there, absent bool   // somebody saw that the key is there, that it is not
	written       map[uint32]bool
	seen          []uint32
	most          uint32 // pairs that somebody counted
}

func (h *history) note(op slab.Op, result slab.Result, given, got uint32) {
	switch op {
	case slab.Insert, slab.Append:
		h.written[given] = true
		if result == slab.Yes {
			h.inserted++
			h.absent = h.absent || op == slab.Insert
			return
		}
		h.there = true
	case slab.Replace:
		if result == slab.Yes {
			h.written[given] = true
		}
	case slab.Delete:
		if result == slab.Yes {
			h.deleted++
		}
	case slab.Find:
		if result == slab.Yes {
			h.seen = append(h.seen, got)
		}
	case slab.Count:
		h.most = max(h.most, got)
	}
	if op != slab.Insert && op != slab.Append {
		h.there = h.there || result == slab.Yes
		h.absent = h.absent || result == slab.No
	}
}

// wrong says why no order of the requests gives these answers.
func (h *history) wrong() string {
	switch {
	case h.before+h.inserted-h.deleted != h.after:
		return "pairs before, put in, taken out and there now do not add up"
	case h.there && h.before == 0 && h.inserted == 0:
		return "seen, though it never was there"
	case h.absent && h.before > 0 && h.deleted == 0:
		return "missed, though it always was there"
	case int(h.most) > h.before+h.inserted:
		return "counted more often than it was ever there"
	}
	for _, v := range h.seen {
		if !h.written[v] && !(h.before > 0 && v == h.was) {
			return "found with a value that it never had"
		}
	}
	return ""
}

// Batches of all kinds on all streams at once, for few keys in few buckets: a key is never there twice, never has another one's
// value, none is deleted by a request for another one, and nothing is lost.
func TestRaces(t *testing.T) {
	each(t,
		func(t *testing.T, d *device.Device) { races[uint32](t, d, true) },
		func(t *testing.T, d *device.Device) { races[uint64](t, d, true) })
}

// With appends a key is there as often as it was appended and not deleted.
func TestAppendRaces(t *testing.T) {
	each(t,
		func(t *testing.T, d *device.Device) { races[uint32](t, d, false) },
		func(t *testing.T, d *device.Device) { races[uint64](t, d, false) })
}

func races[K slab.Key](t *testing.T, d *device.Device, unique bool) {
	rounds, n := 20, 150*d.Describe().Multiprocessors // as many as one runs beside each other
	if testing.Short() {
		rounds, n = 4, n/4
	}
	r := random(t)
	h := newHarness[K](t, d, 3)
	keys := special[K]()[:12] // all reserved hashes are among them
	keys = append(keys, distinct[K](r, 40)...)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	index := map[K]int{}
	for i, k := range keys {
		index[k] = i
	}
	// A value says its key, so that one of another key is seen.
	value := func(i int) uint32 { return uint32(i)<<20 | r.Uint32()&0xfffff }
	kinds := []slab.Op{slab.Insert, slab.Insert, slab.Delete, slab.Delete, slab.Find, slab.Replace, slab.Count}
	if !unique {
		kinds = []slab.Op{slab.Append, slab.Append, slab.Delete, slab.Delete, slab.Find, slab.Count}
	}
	type batch struct {
		op         slab.Op
		ops        []slab.Op
		keys       []K
		given, got []uint32
		results    []slab.Result
		valuePtr   device.Ptr
		resultPtr  device.Ptr
	}
	histories := make([]history, len(keys))
	for range rounds {
		batches := make([]*batch, 3*device.Streams)
		for i := range batches {
			b := &batch{op: slab.Mixed, got: make([]uint32, n), results: make([]slab.Result, n)}
			if r.IntN(3) == 0 { // a whole batch of one kind
				b.op = kinds[r.IntN(len(kinds))]
			}
			some := 1 + r.IntN(len(keys))
			for range n {
				op, k := b.op, r.IntN(some)
				if op == slab.Mixed {
					op = kinds[r.IntN(len(kinds))]
				}
				b.ops, b.keys, b.given = append(b.ops, op), append(b.keys, keys[k]), append(b.given, value(k))
			}
			batches[i] = b
		}
		do(t, d, func(q *device.Queue) {
			if h.tab.Reserve(q, n) != nil {
				return
			}
			launches := make([]slab.Batch, len(batches))
			for i, b := range batches {
				b.valuePtr, b.resultPtr = output(q, 4*n), output(q, n)
				device.CopyIn(q, b.valuePtr, b.given)
				launches[i] = slab.Batch{Op: b.op, Ops: input(q, b.ops), Keys: input(q, b.keys), Values: b.valuePtr, Results: b.resultPtr, N: n}
			}
			for i := 1; i < device.Streams; i++ {
				q.On(i).Follow(q)
			}
			for i, b := range launches {
				h.tab.Start(q.On(i%device.Streams), b)
			}
			for i, b := range batches {
				on := q.On(i % device.Streams)
				device.CopyOut(on, b.got, b.valuePtr)
				device.CopyOut(on, b.results, b.resultPtr)
				checkGuard(t, on, b.valuePtr, 4*n)
				checkGuard(t, on, b.resultPtr, n)
			}
			for i := range device.Streams {
				q.On(i).Wait()
			}
		})
		for i := range histories {
			h := &histories[i]
			*h = history{before: h.after, was: h.is, written: map[uint32]bool{}}
		}
		left := 0
		for _, b := range batches {
			for i, k := range b.keys {
				if b.results[i] == slab.Left {
					left++
					continue
				}
				histories[index[k]].note(b.ops[i], b.results[i], b.given[i], b.got[i])
			}
		}
		if c := h.counts(); c.Left != left {
			t.Fatalf("%+v, %d requests were left", c, left)
		}
		do(t, d, func(q *device.Queue) { h.tab.ClearLeft(q) })
		ks, vs, _ := h.pairs(len(batches) * n)
		for i, k := range ks {
			at, ok := index[k]
			if !ok {
				t.Fatalf("key %#x, which nobody put in", k)
			}
			x := &histories[at]
			if x.after++; unique && x.after > 1 {
				t.Fatalf("key %#x twice", k)
			}
			if int(vs[i]>>20) != at || !x.written[vs[i]] && !(x.before > 0 && vs[i] == x.was) {
				t.Fatalf("key %#x, number %d, has %#x, which nobody gave it", k, at, vs[i])
			}
			x.is = vs[i]
		}
		for i, x := range histories {
			if why := x.wrong(); why != "" {
				t.Fatalf("key %#x: %s: %+v", keys[i], why, x)
			}
		}
		switch {
		case !unique: // a history knows one value of those before, and chains would get ever longer
			do(t, d, func(q *device.Queue) { h.tab.Clear(q) })
			clear(histories)
		case r.IntN(2) == 0:
			do(t, d, func(q *device.Queue) { h.tab.Flush(q) })
		}
	}
}

// A checker that accepts everything shows nothing.
func TestHistory(t *testing.T) {
	for why, h := range map[string]history{
		"lost":              {before: 1, after: 0},
		"twice":             {inserted: 2, after: 1},
		"deleted twice":     {before: 1, deleted: 2},
		"seen":              {there: true},
		"missed":            {before: 1, after: 1, absent: true},
		"another's value":   {before: 1, after: 1, was: 7, seen: []uint32{8}},
		"counted too often": {before: 1, after: 1, most: 2},
	} {
		if h.wrong() == "" {
			t.Errorf("%s: nothing is wrong with %+v", why, h)
		}
	}
	fine := history{before: 1, was: 7, inserted: 2, deleted: 2, after: 1, there: true, absent: true, seen: []uint32{7, 8}, written: map[uint32]bool{8: true}, most: 1}
	if why := fine.wrong(); why != "" {
		t.Errorf("%+v: %s", fine, why)
	}
}

// Two jobs at a time, on both lanes: one puts keys in and takes them out, the other one finds them and must see a pair as it was
// put in, or none.
func TestLanes(t *testing.T) {
	for _, m := range devicetest.Makers() {
		if m.Name != "cuda" { // a simulator's twins do not run beside each other
			continue
		}
		d := m.Open(t, slab.Modules())
		t.Cleanup(func() { _ = d.Close() })
		t.Run("32", func(t *testing.T) { lanes[uint32](t, d) })
		t.Run("64", func(t *testing.T) { lanes[uint64](t, d) })
		return
	}
	t.Skip("needs a GPU: build with the tag cuda")
}

func lanes[K slab.Key](t *testing.T, d *device.Device) {
	rounds, n := 30, 50_000
	if testing.Short() {
		rounds, n = 4, 2000
	}
	r := random(t)
	h := newHarness[K](t, d, slab.BucketsFor[K](n))
	keys := distinct[K](r, n)
	values := make([]uint32, n)
	for i, k := range keys {
		values[i] = uint32(slab.Mix(k)) ^ 0x5a5a5a5a
	}
	do(t, d, func(q *device.Queue) { _ = h.tab.Reserve(q, rounds*n) })
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- func() error {
			shuffled := slices.Clone(keys)
			got, found := make([]uint32, n), make([]slab.Result, n)
			r := rand.New(rand.NewPCG(1, 2))
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				r.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
				err := d.Do(device.Serve, func(q *device.Queue) error {
					b := slab.Batch{Op: slab.Find, Keys: input(q, shuffled), Values: q.Temp(4 * n), Results: q.Temp(n), N: n}
					h.tab.Start(q, b)
					device.CopyOut(q, got, b.Values)
					device.CopyOut(q, found, b.Results)
					return q.Err()
				})
				if err != nil {
					return err
				}
				for i, k := range shuffled {
					want := uint32(slab.Mix(k)) ^ 0x5a5a5a5a
					if found[i] == slab.Yes && got[i] != want || found[i] == slab.No && got[i] != 0 || found[i] > slab.Yes {
						t.Errorf("key %#x: %d, %#x; it has %#x or is not there", k, found[i], got[i], want)
						return nil
					}
				}
			}
		}()
	}()
	for range rounds {
		for _, op := range []slab.Op{slab.Insert, slab.Insert, slab.Delete} {
			results := make([]slab.Result, n)
			do(t, d, func(q *device.Queue) {
				b := slab.Batch{Op: op, Keys: input(q, keys), Values: input(q, values), Results: q.Temp(n), N: n}
				h.tab.Start(q, b)
				device.CopyOut(q, results, b.Results)
			})
			if slices.Contains(results, slab.Left) {
				t.Errorf("%v: requests were left", op)
			}
		}
	}
	close(stop)
	must(t, <-done)
	h.check(map[K]uint32{}, keys[:min(n, 1000)])
}
