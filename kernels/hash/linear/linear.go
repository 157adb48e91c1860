// Package linear is a hash table of fixed capacity in device memory: keys and values of 32 or of 64
// bits, linear probing over buckets of one 32-byte sector.
//
//	header | line of 128 bytes                              | line | ...  | side regions
//	       | bucket | bucket | bucket | bucket              |      |      | 8 buckets a reserved hash
//
//	bucket, 32 bits   hash, value | hash, value | hash, value | hash, value
//	bucket, 64 bits   hash | hash | value | value
//
// The hash is the finaliser of MurmurHash3, which is a bijection: it stands for the key, and nothing else needs to be
// compared. A key's way begins at the bucket that the highest bits of its hash say, goes through the buckets of that
// line, those first that share 64 bytes, and on through the next lines of its region of 64 KB, up to the first bucket with an
// empty slot. A few hashes look like the words of empty and of
// erased slots; their pairs lie in side regions. Every key and every value can be stored.
//
// An insert takes a slot by compare-and-swap. A pair of 32-bit words is one 64-bit word; of a 64-bit one
// the slot is reserved first, and its key is published behind its value: who sees a key sees a value of
// that key. Erased pairs leave a tombstone, unless their bucket has an empty slot, since then nothing
// was ever put behind it. Inserts reuse tombstones, but not beside deletions (Table.Shared). Rehash
// drops them, and grows or shrinks the table. A table without a free slot on a key's way leaves that insert
// undone and says so.
//
// Large batches of changes that have the table for themselves are sorted by region first (../regions.cuh); then a block takes a region to shared
// memory, does all its requests there and writes it back.
//
// Cost, in sectors of 32 bytes read at random: a find 1.05 at load 0.5, 1.3 at 0.75 and 2.05 at 0.9 for
// 32-bit pairs (see Stats), an insert or a deletion the same and an atomic; in a large batch five times its own size
// and twice its part of the table, all in order. Memory: 8 or 16 bytes a slot.
//
// The hash has no salt. Where others choose the keys, and could choose those that meet, mix a secret into
// the keys by xor.
//
// There are three forms: Table in device memory, for batches that are there; OnDevice for batches in
// ordinary memory; and Local in the Go heap.
package linear

import (
	_ "embed"
	"fmt"
	"math/bits"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/primitives"
	"github.com/ribwarp/ribwarp/lpm/exact"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o linear.ptx linear.cu
//go:embed linear.ptx
var ptx string

var module = &device.Module{Name: "linear", PTX: ptx, Twins: twins}

// Modules gives what a device needs for this package (device.Open).
func Modules() []*device.Module { return []*device.Module{module, primitives.Module} }

// ErrFull is what an insert meets that finds no slot, and a rehash into too few.
var ErrFull = exact.ErrFull

// The sizes of tables, as log2 of the number of slots.
const (
	MinLog2 = 4
	MaxLog2 = 33
)

// What linear.cu has, too.
const (
	threads       = 256
	findFlight    = 4
	insertFlight  = 2
	eraseFlight   = 2
	sortThreads   = 1024
	sortTile      = 128 << 10 // bytes
	regionThreads = 512
	bins          = 256
	binBits       = 8

	headWords = 32
	headBytes = 8 * headWords

	modeShared  = 1
	modePatient = 2
)

// What sets the speed of launches.
const (
	// rounds is the flights that a block does of a large batch, one after the other, before it adds to the
	// table's counters.
	rounds = 4
	// scanBlocks bounds the blocks a multiprocessor of what goes through all slots.
	scanBlocks = 16
)

// sorting is when a batch is sorted: where it has so many requests, the table is larger than
// this part of the second-level cache, and there are no more than so many slots a request, since
// the whole table is read and written. most bounds the memory of sorted requests.
var sorting = struct {
	requests, slots, most int
	cache                 float64
}{requests: 1 << 20, slots: 16, most: 1 << 27, cache: 0.5}

// A Table is a table in a device's memory. Its methods put work on a queue of that device; those that
// give an error also wait for it.
//
// Batches may run at the same time, on several streams or jobs: any number of the same kind, or of
// finds with one other kind where words have 32 bits; with Shared all kinds together. Each request
// takes effect at one moment. Rehash, Clear and Free want the table alone.
type Table[W Word] struct {
	// Shared is for batches of different kinds at the same time: inserts leave tombstones alone and
	// deletions always leave one, until the next Rehash. It may be changed while no batch runs. Of the few keys whose
	// pairs lie in side regions (0 is one) each can be erased 32 times then, or 16 with 64 bits, before Rehash is due.
	Shared bool
	// Alone is for batches beside which nothing else uses the table, not even one of the same kind: large ones of
	// changes are sorted then. It may be changed like Shared.
	Alone bool

	memory  device.Ptr
	log2    int // of the number of slots
	patient bool
}

// NewTable makes an empty table of 2^log2 slots.
func NewTable[W Word](q *device.Queue, log2 int) (*Table[W], error) {
	if err := checkLog2(log2); err != nil {
		return nil, err
	}
	t := &Table[W]{log2: log2}
	t.memory = q.Alloc(t.Bytes())
	if q.Err() != nil {
		return nil, q.Err()
	}
	if t.Clear(q); q.Err() != nil {
		t.Free(q)
	}
	return t, q.Err()
}

func checkLog2(log2 int) error {
	if log2 < MinLog2 || log2 > MaxLog2 {
		return fmt.Errorf("table of 2^%d slots: the exponent must be %d to %d", log2, MinLog2, MaxLog2)
	}
	return nil
}

// Log2 is that of the number of slots.
func (t *Table[W]) Log2() int { return t.log2 }

// Slots is the number of slots.
func (t *Table[W]) Slots() int { return 1 << t.log2 }

// Bytes is the device memory of the table.
func (t *Table[W]) Bytes() int { return headBytes + 8*wordsOf[W](t.buckets()) }

// buckets is log2 of the number of main buckets.
func (t *Table[W]) buckets() int { return t.log2 - slotBits[W]() }

// slots is the number of all slots, side regions too.
func (t *Table[W]) slots() int { return wordsOf[W](t.buckets()) / bucketWords << slotBits[W]() }

// Free gives the table's memory back.
func (t *Table[W]) Free(q *device.Queue) {
	q.Free(t.memory)
	t.memory = 0
}

// Clear empties the table.
func (t *Table[W]) Clear(q *device.Queue) { q.Fill(t.memory, emptyWord, t.Bytes()/4) }

func (t *Table[W]) mode() (m uint64) {
	if t.Shared {
		m |= modeShared
	}
	if t.patient {
		m |= modePatient
	}
	return m
}

// launch starts one of the table's kernels.
func (t *Table[W]) launch(q *device.Queue, name string, l device.Launch, args ...uint64) {
	q.Launch(kernel[W](name), l, args...)
}

// names are the kernels' names by what they do, so that launches make no strings.
var names = map[string][2]string{}

func init() {
	for _, name := range []string{"insert", "insert_region", "find", "erase", "erase_region", "rehash", "iterate", "stats",
		"count_keys", "scatter_pairs", "scatter_keys", "count_records", "scatter_records", "count_hashes", "scatter_hashes"} {
		names[name] = [2]string{"linear." + name + "_32", "linear." + name + "_64"}
	}
}

func kernel[W Word](name string) string {
	if wide[W]() {
		return names[name][1]
	}
	return names[name][0]
}

// batch is the launch for n requests, and the flights of each block. Blocks are not kept for the whole batch: the
// device gives them out in order, so that those that run are near each other.
func batch(q *device.Queue, n, flight int) (l device.Launch, flights uint64) {
	flights = rounds
	if n < 8*rounds*flight*threads*q.Device().Describe().Multiprocessors {
		flights = 1
	}
	return device.Launch{GridX: blocks(n, flight*threads*int(flights)), Block: threads}, flights
}

// scan is the launch for what goes through n slots.
func scan(q *device.Queue, n int) device.Launch {
	return device.Launch{GridX: min(blocks(n, threads), scanBlocks*q.Device().Describe().Multiprocessors), Block: threads}
}

func blocks(n, size int) int { return (n + size - 1) / size }

// Insert puts n pairs in, or gives a key that is there its new value. Of a key that is in a batch
// twice one of the values stays, and one request says that it is new. results (n of Result), which may be 0, says what became of each. Those
// that found no slot are counted (Counts) and, as long as that count is not 0, others give up too
// that go through more than 32 buckets.
func (t *Table[W]) Insert(q *device.Queue, keys, values, results device.Ptr, n int) {
	b, ok := t.sorted(q, n, results, 2)
	if !ok {
		l, flights := batch(q, n, insertFlight)
		t.launch(q, "insert", l, uint64(t.memory), uint64(t.buckets()), t.mode(), uint64(keys), uint64(values), uint64(results), uint64(n), flights)
		return
	}
	for from := 0; from < n; from += b.most {
		ends := t.sort(q, &b, keys.Add(bytesOf[W](from)), values.Add(bytesOf[W](from)), min(b.most, n-from))
		t.launch(q, "insert_region", t.regionLaunch(), uint64(t.memory), uint64(t.buckets()), uint64(b.requests), uint64(ends), uint64(b.counts))
	}
	b.free(q)
}

// Find writes the values of n keys, 0 for missing ones, and to found (n bytes), which may be 0, whether
// each is there: 1, or 0.
func (t *Table[W]) Find(q *device.Queue, values, found, keys device.Ptr, n int) {
	l, flights := batch(q, n, findFlight)
	t.launch(q, "find", l, uint64(t.memory), uint64(t.buckets()), t.mode(), uint64(values), uint64(found), uint64(keys), uint64(n), flights)
}

// Erase takes n keys out. erased (n bytes), which may be 0, says of each whether it was there; of
// a key that is in a batch twice one is.
func (t *Table[W]) Erase(q *device.Queue, keys, erased device.Ptr, n int) {
	b, ok := t.sorted(q, n, erased, 1)
	if !ok {
		l, flights := batch(q, n, eraseFlight)
		t.launch(q, "erase", l, uint64(t.memory), uint64(t.buckets()), t.mode(), uint64(keys), uint64(erased), uint64(n), flights)
		return
	}
	for from := 0; from < n; from += b.most {
		ends := t.sort(q, &b, keys.Add(bytesOf[W](from)), 0, min(b.most, n-from))
		t.launch(q, "erase_region", t.regionLaunch(), uint64(t.memory), uint64(t.buckets()), uint64(b.requests), uint64(ends), uint64(b.counts))
	}
	b.free(q)
}

// sortedBatch is what a batch is sorted in.
type sortedBatch struct {
	requests   device.Ptr // sorted, of so many words
	words      int
	other      device.Ptr // between two steps
	ends, more device.Ptr // of the bins of the first and the second step
	counts     device.Ptr // the table's, from before
	state      device.Ptr // of scans
	most       int        // requests at a time
}

// regionBits is log2 of the number of regions.
func (t *Table[W]) regionBits() int { return t.buckets() - bits.Len(region-1) }

// sorted decides whether a batch is sorted, and makes what that needs for requests of so many words: without the memory for it
// the batch is done as it is.
// Results are in the order of the requests, so it is not where somebody wants them; and beside other batches, also of
// the same kind, a region cannot leave the table.
func (t *Table[W]) sorted(q *device.Queue, n int, results device.Ptr, words int) (b sortedBatch, ok bool) {
	rule := &sorting
	if results != 0 || t.Shared || !t.Alone || n < rule.requests || float64(t.Bytes()) < rule.cache*float64(q.Device().Describe().L2) || n < t.Slots()/rule.slots ||
		t.regionBits() < 1 || t.regionBits() > 2*binBits {
		return b, false
	}
	most := min(n, rule.most)
	size, more := bytesOf[W](words*most), 0
	if t.regionBits() > binBits {
		more = bins << (t.regionBits() - binBits)
	}
	p := q.TryTemps(size, size*min(more, 1), 4*bins, 4*more, 8*3, primitives.ScanState(max(bins, more)))
	if p == nil {
		return b, false
	}
	return sortedBatch{words: words, most: most, requests: p[0], other: p[1], ends: p[2], more: p[3], counts: p[4], state: p[5]}, true
}

func (b *sortedBatch) free(q *device.Queue) {
	for _, p := range []device.Ptr{b.requests, b.other, b.ends, b.more, b.counts, b.state} {
		q.Free(p)
	}
}

// sort brings the requests for n keys, with values where there are any, in the order of regions, and gives where each
// region's end.
func (t *Table[W]) sort(q *device.Queue, b *sortedBatch, keys, values device.Ptr, n int) (ends device.Ptr) {
	q.Copy(b.counts, t.memory, 8*3)
	hashBits, kind := bytesOf[W](8), "hashes"
	first, scatter := b.requests, []uint64{uint64(keys)}
	if b.other != 0 {
		first = b.other
	}
	name := "scatter_keys"
	if values != 0 {
		name, kind, scatter = "scatter_pairs", "records", append(scatter, uint64(values))
	}
	tile := sortTile / max(bytesOf[W](b.words), 8)
	l := device.Launch{GridX: min(blocks(n, tile), 2*q.Device().Describe().Multiprocessors), Block: sortThreads}
	shift := uint64(hashBits - min(t.regionBits(), binBits))
	q.Fill(b.ends, 0, bins)
	t.launch(q, "count_keys", l, uint64(b.ends), uint64(keys), uint64(n), shift)
	primitives.ScanExclusiveWith(q, b.state, b.ends, b.ends, bins)
	l.Shared = sortTile
	t.launch(q, name, l, append(append([]uint64{uint64(first), uint64(b.ends)}, scatter...), uint64(n), shift)...)
	if b.other == 0 {
		return b.ends
	}
	more := t.regionBits() - binBits
	shift -= uint64(more)
	l = device.Launch{GridX: min(blocks(n/bins, tile)+1, 8), GridY: bins, Block: sortThreads}
	q.Fill(b.more, 0, bins<<more)
	t.launch(q, "count_"+kind, l, uint64(b.more), uint64(b.ends), uint64(b.other), shift, uint64(more))
	primitives.ScanExclusiveWith(q, b.state, b.more, b.more, bins<<more)
	l.Shared = sortTile
	t.launch(q, "scatter_"+kind, l, uint64(b.requests), uint64(b.more), uint64(b.ends), uint64(b.other), shift, uint64(more))
	return b.more
}

// regionLaunch has a block for every region.
func (t *Table[W]) regionLaunch() device.Launch {
	return device.Launch{GridX: 1 << t.regionBits(), Block: regionThreads, Shared: region * bucketWords * 8}
}

// Iterate writes the keys and values of all pairs, in no order, to arrays with room for max, and adds their number to
// count (u64), also of those that found no room.
func (t *Table[W]) Iterate(q *device.Queue, keys, values device.Ptr, max int, count device.Ptr) {
	t.launch(q, "iterate", scan(q, t.slots()), uint64(t.memory), uint64(t.buckets()), t.mode(), uint64(keys), uint64(values), uint64(max), uint64(count))
}

// Counts are a table's numbers.
type Counts struct {
	Live int // pairs
	Dead int // slots with a tombstone
	Left int // inserts that found no slot, since the last ClearLeft
}

// Counts waits for the stream and gives the numbers after it.
func (t *Table[W]) Counts(q *device.Queue) (Counts, error) {
	var c [3]int64
	device.CopyOut(q, c[:], t.memory)
	q.Wait()
	return Counts{Live: int(c[0]), Dead: int(c[1]), Left: int(c[2])}, q.Err()
}

// ClearLeft sets the count of inserts that found no slot to 0.
func (t *Table[W]) ClearLeft(q *device.Queue) { q.Fill(t.memory.Add(8*2), 0, 2) }

// Stats says how many buckets finds of all pairs read.
type Stats struct {
	Pairs     int
	Dead      int // slots with a tombstone
	Mean      float64
	Longest   int
	Histogram [probes]int // of 1, 2, ... buckets; the last entry has all longer ways too
}

// Stats goes through the whole table.
func (t *Table[W]) Stats(q *device.Queue) (s Stats, err error) {
	var out [2 + probes]uint64
	p := q.Temp(8 * len(out))
	q.Fill(p, 0, 2*len(out))
	t.launch(q, "stats", scan(q, t.slots()), uint64(t.memory), uint64(t.buckets()), uint64(p))
	device.CopyOut(q, out[:], p)
	c, err := t.Counts(q)
	q.Free(p)
	if err != nil {
		return s, err
	}
	s.Dead, s.Longest = c.Dead, int(out[1])
	for i, n := range out[2:] {
		s.Histogram[i] = int(n)
		s.Pairs += int(n)
	}
	if s.Pairs > 0 {
		s.Mean = float64(out[0]) / float64(s.Pairs)
	}
	return s, nil
}

// Rehash moves all pairs to a new table of 2^log2 slots without tombstones and frees the old one. After an
// error the table is as it was: ErrFull where the pairs do not fit, device.ErrMemory.
func (t *Table[W]) Rehash(q *device.Queue, log2 int) error {
	if err := checkLog2(log2); err != nil {
		return err
	}
	c, err := t.Counts(q)
	if err != nil {
		return err
	}
	full := fmt.Errorf("%d pairs into 2^%d slots: %w", c.Live, log2, ErrFull)
	if c.Live > 1<<log2 {
		return full
	}
	to, err := NewTable[W](q, log2)
	if err != nil {
		return err
	}
	to.launch(q, "rehash", scan(q, t.slots()), uint64(to.memory), uint64(to.buckets()), uint64(t.memory), uint64(t.buckets()))
	if c, err = to.Counts(q); err == nil && c.Left > 0 {
		err = full
	}
	if err != nil {
		to.Free(q)
		return err
	}
	t.Free(q)
	t.memory, t.log2 = to.memory, log2
	return nil
}

// Clone makes a copy. Nobody may change the table meanwhile.
func (t *Table[W]) Clone(q *device.Queue) (*Table[W], error) {
	c := *t
	if c.memory = q.Alloc(t.Bytes()); q.Err() != nil {
		return nil, q.Err()
	}
	q.Copy(c.memory, t.memory, t.Bytes())
	return &c, nil
}
