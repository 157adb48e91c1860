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

// sorts decides whether a batch is sorted, and makes what that needs for its parts: without the memory for it the
// batch is done as it is.
func (t *Table[K]) sorts(q *device.Queue, b Batch) (s sorted, ok bool) {
	about := q.Device().Describe()
	if !b.Alone || b.unsorted || b.Results != 0 || b.index != 0 || b.Op != Insert && b.Op != Append && b.Op != Delete ||
		b.N < sorting.requests || t.buckets*slots[K]()/sorting.slots > b.N || t.spans() > maxSpans ||
		float64(t.headsBytes()) <= sorting.cache*float64(about.L2) || about.SharedMemory < tileBytes+(8<<10) {
		return s, false
	}
	for (t.spans()-1)>>s.shift >= bins {
		s.shift++
	}
	s.segments = (t.spans()-1)>>s.shift + 1
	s.kind, s.size = "pairs", bytesOf[K](2)
	if b.Op == Delete {
		s.kind, s.size = "hashes", bytesOf[K](1)
	}
	first, second := s.size*min(b.N, sorting.most), 0
	if s.shift > 0 {
		second = first
	}
	p := q.TryTemps(first, 4*bins, second, 4*s.segments<<s.shift, primitives.ScanState(max(bins, s.segments<<s.shift)))
	if p == nil {
		return s, false
	}
	s.first, s.bins, s.second, s.spans, s.state = p[0], p[1], p[2], p[3], p[4]
	s.requests, s.ends = s.second, s.spans
	if s.shift == 0 {
		s.requests, s.ends = s.first, s.bins
	}
	return s, true
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
func (t *Table[K]) insertSorted(q *device.Queue, b Batch, c Counts, s sorted) error {
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
			t.runSorted(q, part, fresh, t.sort(q, part, s))
			fresh = false
		})
	} else {
		s = t.sort(q, b, s)
		q.Fill(t.head.Add(8*headNeed), 0, 2)
		t.onTable(q, "need_span", device.Launch{GridX: t.spans(), Block: span}, flag(fresh), uint64(s.requests), uint64(s.ends))
		c, err := t.Counts(q)
		if err == nil {
			err = t.Reserve(q, c.need)
		}
		if err != nil {
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

// sorted are requests in the order of the table's spans, with the end of those of each, and what they are sorted in.
type sorted struct {
	requests, ends  device.Ptr // two of those below
	first, second   device.Ptr // requests after the first and the second step
	bins, spans     device.Ptr // ends of the bins of the first step, and of the spans
	state           device.Ptr // of scans
	shift, segments int        // spans of a bin of the first step, as log2; its bins
	kind            string     // of kernels
	size            int        // bytes of a request
}

func (s sorted) free(q *device.Queue) {
	for _, p := range []device.Ptr{s.first, s.second, s.bins, s.spans, s.state} {
		q.Free(p)
	}
}

// sort brings the requests of a batch, or of a part of one, into the order of the spans. It allocates nothing.
func (t *Table[K]) sort(q *device.Queue, b Batch, s sorted) sorted {
	sm := q.Device().Describe().Multiprocessors
	items := tileBytes / s.size
	shift := uint64(s.shift)
	count := device.Launch{GridX: min((b.N+items-1)/items, 2*sm), Block: partThreads}
	scatter := count
	scatter.Shared = tileBytes
	q.Fill(s.bins, 0, bins)
	t.launch(q, "count_keys", count, uint64(s.bins), uint64(b.Keys), uint64(b.N), uint64(t.buckets), shift)
	primitives.ScanExclusiveWith(q, s.state, s.bins, s.bins, bins)
	if b.Op == Delete {
		t.launch(q, "scatter_keys", scatter, uint64(s.first), uint64(s.bins), uint64(b.Keys), uint64(b.N), uint64(t.buckets), shift)
	} else {
		t.launch(q, "scatter_puts", scatter, uint64(s.first), uint64(s.bins), uint64(b.Keys), uint64(b.Values), uint64(b.N), uint64(t.buckets), shift)
	}
	if s.shift == 0 {
		return s
	}
	scatter.GridX, scatter.GridY = min((b.N/s.segments+items-1)/items+1, 8), s.segments
	count.GridX, count.GridY = scatter.GridX, s.segments
	q.Fill(s.spans, 0, s.segments<<s.shift)
	t.launch(q, "count_"+s.kind, count, uint64(s.spans), uint64(s.bins), uint64(s.first), uint64(t.buckets), shift)
	primitives.ScanExclusiveWith(q, s.state, s.spans, s.spans, s.segments<<s.shift)
	t.launch(q, "scatter_"+s.kind, scatter, uint64(s.second), uint64(s.spans), uint64(s.bins), uint64(s.first), uint64(t.buckets), shift)
	return s
}

// runSorted does sorted requests. fresh says that the table is empty.
func (t *Table[K]) runSorted(q *device.Queue, b Batch, fresh bool, s sorted) {
	l := device.Launch{GridX: t.spans(), Block: span, Shared: spanBytes + spanRequest}
	if b.Op == Delete {
		t.onTable(q, "delete_span", l, uint64(s.requests), uint64(s.ends))
		return
	}
	if wide[K]() {
		l.Shared += spanRequest / 2
	}
	t.onTable(q, "insert_span", l, flag(b.Op == Insert), flag(fresh), uint64(s.requests), uint64(s.ends))
}
