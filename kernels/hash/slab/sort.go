package slab

import (
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

// Build puts n pairs into an empty table. It is Run of a batch of inserts alone, which reads no slabs of such a table.
func (t *Table[K]) Build(q *device.Queue, keys, values device.Ptr, n int) error {
	return t.Run(q, Batch{Op: Insert, Keys: keys, Values: values, N: n, Alone: true})
}

// spans is the number of pieces of the table that blocks work on.
func (t *Table[K]) spans() int { return (t.buckets + span - 1) / span }

// sorts decides whether a batch is sorted.
func (t *Table[K]) sorts(q *device.Queue, b Batch) bool {
	about := q.Device().Describe()
	return b.Alone && b.Results == 0 && b.index == 0 && (b.Op == Insert || b.Op == Append || b.Op == Delete) &&
		b.N >= sorting.requests && t.buckets*slots[K]()/sorting.slots <= b.N && t.spans() <= maxSpans &&
		float64(t.headsBytes()) > sorting.cache*float64(about.L2) && about.SharedMemory >= tileBytes+(8<<10)
}

// eachPart calls do for the parts of a batch that are sorted one after the other.
func (t *Table[K]) eachPart(b Batch, do func(part Batch)) {
	for from := 0; from < b.N; from += sorting.most {
		part := b
		part.N = min(sorting.most, b.N-from)
		part.Keys = b.Keys.Add(bytesOf[K](from))
		if b.Op != Delete {
			part.Values = b.Values.Add(4 * from)
		}
		do(part)
	}
}

// insertSorted is Run of a batch that is sorted. All of it is counted before the first pair goes in.
func (t *Table[K]) insertSorted(q *device.Queue, b Batch, c Counts) error {
	fresh := c.Live+c.Dead == 0
	if b.N > sorting.most {
		need, err := t.need(q, b)
		if err == nil {
			err = t.Reserve(q, need)
		}
		if err != nil {
			return err
		}
		t.eachPart(b, func(part Batch) {
			t.runSorted(q, part, fresh, t.sort(q, part))
			fresh = false
		})
	} else {
		s := t.sort(q, b)
		q.Fill(t.head.Add(8*headNeed), 0, 2)
		t.onTable(q, "need_span", device.Launch{GridX: t.spans(), Block: span}, flag(fresh), uint64(s.requests), uint64(s.ends))
		c, err := t.Counts(q)
		if err == nil {
			err = t.Reserve(q, c.need)
		}
		if err != nil {
			s.free(q)
			return err
		}
		t.runSorted(q, b, fresh, s)
	}
	q.Wait()
	return q.Err()
}

func flag(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

// sorted are requests in the order of the table's spans, with the end of those of each.
type sorted struct {
	requests, ends device.Ptr
}

func (s sorted) free(q *device.Queue) {
	q.Free(s.requests)
	q.Free(s.ends)
}

// sort brings the requests of a batch into the order of the spans.
func (t *Table[K]) sort(q *device.Queue, b Batch) sorted {
	spans, shift := t.spans(), 0
	for (spans-1)>>shift >= bins {
		shift++
	}
	kind, size := "pairs", bytesOf[K](2)
	if b.Op == Delete {
		kind, size = "hashes", bytesOf[K](1)
	}
	sm := q.Device().Describe().Multiprocessors
	items := tileBytes / size
	count := device.Launch{GridX: min((b.N+items-1)/items, 2*sm), Block: partThreads}
	scatter := count
	scatter.Shared = tileBytes
	out, ends := q.Temp(size*b.N), q.Temp(4*bins)
	q.Fill(ends, 0, bins)
	t.launch(q, "count_keys", count, uint64(ends), uint64(b.Keys), uint64(b.N), uint64(t.buckets), uint64(shift))
	primitives.ScanExclusive(q, ends, ends, bins)
	if b.Op == Delete {
		t.launch(q, "scatter_keys", scatter, uint64(out), uint64(ends), uint64(b.Keys), uint64(b.N), uint64(t.buckets), uint64(shift))
	} else {
		t.launch(q, "scatter_puts", scatter, uint64(out), uint64(ends), uint64(b.Keys), uint64(b.Values), uint64(b.N), uint64(t.buckets), uint64(shift))
	}
	if shift == 0 {
		return sorted{out, ends}
	}
	segments := (spans-1)>>shift + 1
	scatter.GridX, scatter.GridY = min((b.N/segments+items-1)/items+1, 8), segments
	count.GridX, count.GridY = scatter.GridX, segments
	out2, ends2 := q.Temp(size*b.N), q.Temp(4*segments<<shift)
	q.Fill(ends2, 0, segments<<shift)
	t.launch(q, "count_"+kind, count, uint64(ends2), uint64(ends), uint64(out), uint64(t.buckets), uint64(shift))
	primitives.ScanExclusive(q, ends2, ends2, segments<<shift)
	t.launch(q, "scatter_"+kind, scatter, uint64(out2), uint64(ends2), uint64(ends), uint64(out), uint64(t.buckets), uint64(shift))
	sorted{out, ends}.free(q)
	return sorted{out2, ends2}
}

// runSorted does sorted requests and frees them. fresh says that the table is empty.
func (t *Table[K]) runSorted(q *device.Queue, b Batch, fresh bool, s sorted) {
	l := device.Launch{GridX: t.spans(), Block: span, Shared: spanBytes + spanRequest}
	if b.Op == Delete {
		t.onTable(q, "delete_span", l, uint64(s.requests), uint64(s.ends))
	} else {
		if wide[K]() {
			l.Shared += spanRequest / 2
		}
		t.onTable(q, "insert_span", l, flag(b.Op == Insert), flag(fresh), uint64(s.requests), uint64(s.ends))
	}
	s.free(q)
}
