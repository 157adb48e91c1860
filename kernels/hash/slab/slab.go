// Package slab is a hash table of chained slabs in device memory: keys of 32 or of 64 bits with values of 32 bits, for
// batches of mixed operations that run beside each other.
//
//	buckets: the first slab of each              arenas: slabs for the chains, each arena twice the one before
//	+--------+--------+--------+-- --+-------+   +------+   +------------+   +------------------------+
//	| slab 0 | slab 1 | slab 2 | ... | aside |   |      |   |            |   |                        |
//	+--------+----|---+--------+-- --+-------+   +--^---+   +------------+   +------------------------+
//	              +---------- next -----------------+
//
//	slab, 32 bits:  15 x (hash, value)                                        | next | flag    128 bytes
//	slab, 64 bits:  10 x hash                          | 10 x value           | next | flag    80 + 40 + 8
//
// The hash is the finaliser of MurmurHash3, which is a bijection: it stands for the key, and nothing else needs to be
// compared. Its highest bits say the bucket. The few hashes that look like the words of slots without a pair have a bucket
// each of their own, whose slabs have the hash in their flag. Every key and every value can be stored.
//
// Slots are taken in order, by compare-and-swap of the first empty one, and are never given to another key before the
// next flush: a deleted pair leaves a tombstone. So whatever is before the first empty slot stays as it is, all inserts of
// a key agree on the slot it gets, and a key is never there twice, also where it is deleted meanwhile. A 32-bit pair is one
// word. A 64-bit key's slot is reserved first, then the value is written and then the hash: who sees a key sees a value
// of that key. Deletions exchange the very word that they saw.
//
// A chain that is full gets a slab of the arenas: whoever marks the link fetches it, others read again. Where there is
// none the request is left, never waited for. Run makes arenas for what a batch may need before it starts it. Flush moves the pairs of chains together; slabs that are free then
// are taken first.
//
// Batches may run at the same time, on several streams or jobs, in any mixture; each request takes effect at one moment. A
// batch that is Alone has it faster. What makes arenas (Reserve, and Run of what inserts), Flush, Rehash, Clear and Free want
// the table alone. Who inserts beside others reserves first, starts (Start) and looks for requests that were left.
//
// Cost: a find reads one slab, 128 bytes, and 1.06 at 0.7 of the buckets' slots used; an insert, a replacement or
// a deletion the same and an atomic. Large batches alone that insert or delete are sorted by bucket and cross the
// table once (../regions.cuh). A key that is appended many times has all its pairs in one chain, which each request for it walks.
//
// The hash has no salt. Where others choose the keys, and could choose those that meet, mix a secret into
// the keys by xor.
//
// After S. Ashkiani, M. Farach-Colton, J. D. Owens, A Dynamic Hash Table for the GPU, IPDPS 2018; with tiles of 8
// lanes in place of warps, and its allocator, deletion and uniqueness replaced.
//
// There are three forms: Table in device memory, for batches that are there; OnDevice for batches in
// ordinary memory; and Local in the Go heap.
package slab

import (
	_ "embed"
	"errors"
	"fmt"
	"math"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o slab.ptx slab.cu
//go:embed slab.ptx
var ptx string

var module = &device.Module{Name: "slab", PTX: ptx, Twins: twins}

// Modules gives what a device needs for this package (device.Open).
func Modules() []*device.Module { return []*device.Module{module, primitives.Module} }

// MaxBuckets is the most buckets that a table has.
const MaxBuckets = 1 << 30

// An Op says what a request does.
type Op uint8

const (
	Find    Op = iota // gives the key's value, or 0
	Insert            // puts a pair in, in place of one with its key
	Append            // puts a pair in, beside those with its key
	Replace           // gives a key that is there a new value
	Delete            // takes one pair with the key out
	Count             // gives the number of pairs with the key
	Mixed             // of a batch: Ops says of each request which of the above it is
)

var ops = [...]string{"find", "insert", "append", "replace", "delete", "count", "mixed"}

func (o Op) String() string { return ops[o] }

// inserts reports whether a batch may need slots.
func (o Op) inserts() bool { return o == Insert || o == Append || o == Mixed }

// A Result says what became of a request.
type Result uint8

const (
	No   Result = iota // the key was not there; for Insert: it was, and has the new value
	Yes                // the key was there; for Insert and Append: there is a new pair
	Left               // nothing: there was no slab for the pair
)

// A Batch is N requests in device memory. Where a key has several, they come in no particular order.
type Batch struct {
	Op      Op
	Ops     device.Ptr // u8, for Mixed
	Keys    device.Ptr
	Values  device.Ptr // u32: given to Insert, Append and Replace, written by Find and Count, where it may be 0
	Results device.Ptr // u8; may be 0
	N       int
	// Alone says that no other batch changes the table meanwhile, and if this one does that no other one runs at all.
	// Where nobody wants results, large ones are sorted then.
	Alone bool

	index, left device.Ptr // of a part of a batch; who is left
	totals      device.Ptr // of a split batch
	split       bool       // this is a part of one
	unsorted    bool       // there was no memory to sort it
}

// What slab.cu has, too.
const (
	threads     = 256
	span        = 256
	spanBytes   = (span+3)*17*8 + 16 // of slabs in shared memory
	spanRequest = 24 << 10           // of requests there, half as much again of 16 bytes
	partThreads = 1024
	tileBytes   = 128 << 10
	bins        = 256
	maxSpans    = bins * bins
	scanRows    = 4

	headLive     = 0
	headDead     = 1
	headLeft     = 2
	headTaken    = 3
	headFree     = 4
	headFresh    = 5
	headCapacity = 6
	headNeed     = 7
	headLog2     = 8
	headList     = 9
	headArenas   = 16
	headWords    = headArenas + maxArenas

	modeAlone = 1
)

// blocksFind and blocksScan bound the blocks a multiprocessor of batches, and of what goes through the whole table.
const (
	blocksBatch = 32
	blocksScan  = 32
)

// sorting is when a batch is sorted: from so many requests on, in a table larger than this part of the second-level cache, with
// no more than so many slots a request. most bounds the memory of sorted requests.
var sorting = struct {
	requests, slots, most int
	cache                 float64
}{requests: 1 << 20, slots: 64, most: 1 << 27, cache: 0.5}

// worstCase is the part of the buckets up to which a batch is given as many slabs as it has requests. For larger ones it
// is counted what they need.
const worstCase = 8

// reserving is what tests switch off to have requests left.
var reserving = true

// A Table is a table in a device's memory. Its methods put work on a queue of that device; those that
// give an error also wait for it.
type Table[K Key] struct {
	head, heads, list device.Ptr
	buckets           int
	log2              int // of the slabs of the first arena
	arenas            []device.Ptr
}

// New makes an empty table with so many buckets.
func New[K Key](q *device.Queue, buckets int) (*Table[K], error) {
	if err := checkBuckets(buckets); err != nil {
		return nil, err
	}
	t := &Table[K]{buckets: buckets, log2: arenaFor(buckets)}
	t.head, t.heads = q.Alloc(8*headWords), q.Alloc(t.headsBytes())
	if t.Clear(q); q.Err() != nil {
		t.Free(q)
	}
	return t, q.Err()
}

func checkBuckets(buckets int) error {
	if buckets < 1 || buckets > MaxBuckets {
		return fmt.Errorf("table of %d buckets: there may be 1 to %d", buckets, MaxBuckets)
	}
	return nil
}

// BucketsFor gives a number of buckets for so many pairs, which then take 0.7 of their slots.
func BucketsFor[K Key](pairs int) int {
	return min(int(float64(pairs)/(fill*float64(slots[K]())))+1, MaxBuckets)
}

// Buckets is the number of buckets.
func (t *Table[K]) Buckets() int { return t.buckets }

// Slots is the number of pairs that a slab has.
func (t *Table[K]) Slots() int { return slots[K]() }

// Bytes is the device memory of the table.
func (t *Table[K]) Bytes() int { return 8*headWords + t.headsBytes() + t.capacity()*(slabBytes+4) }

func (t *Table[K]) headsBytes() int { return slabBytes * (t.buckets + reserved[K]()) }

// capacity is the number of slabs of all arenas.
func (t *Table[K]) capacity() int { return arenaSlabs(t.log2, len(t.arenas)) - arenaSlabs(t.log2, 0) }

// Free gives the table's memory back.
func (t *Table[K]) Free(q *device.Queue) {
	for _, p := range append(t.arenas, t.head, t.heads, t.list) {
		q.Free(p)
	}
	*t = Table[K]{}
}

// Clear empties the table. Its arenas stay.
func (t *Table[K]) Clear(q *device.Queue) {
	q.Fill(t.heads, 0, t.headsBytes()/4)
	for i := range reserved[K]() {
		q.Fill(t.heads.Add(slabBytes*(t.buckets+i+1)-4), uint32(i+1), 1)
	}
	for i, a := range t.arenas {
		q.Fill(a, 0, arenaSlabs(t.log2, i)*slabBytes/4)
	}
	q.Fill(t.head, 0, 2*headWords)
	t.writeHead(q)
}

// writeHead brings what the host knows about the arenas to the head.
func (t *Table[K]) writeHead(q *device.Queue) {
	var words [headWords - headCapacity]uint64
	words[0] = uint64(t.capacity())
	words[headLog2-headCapacity], words[headList-headCapacity] = uint64(t.log2), uint64(t.list)
	for i, a := range t.arenas {
		words[headArenas-headCapacity+i] = uint64(a)
	}
	device.CopyIn(q, t.head.Add(8*headCapacity), words[:])
}

// Counts are a table's numbers.
type Counts struct {
	Live  int // pairs
	Dead  int // slots of deleted pairs
	Left  int // requests that found no slab, since the last Clear or ClearLeft
	Slabs int // behind the buckets' first ones
	Room  int // slabs that are free
	need  int
}

// Counts waits for the stream and gives the numbers after it.
func (t *Table[K]) Counts(q *device.Queue) (Counts, error) {
	var h [headNeed + 1]int64
	device.CopyOut(q, h[:], t.head)
	q.Wait()
	c := counters{taken: uint64(h[headTaken]), listed: uint64(h[headFree]), fresh: uint64(h[headFresh]), capacity: uint64(h[headCapacity])}
	c.settle()
	return Counts{
		Live: int(h[headLive]), Dead: int(h[headDead]), Left: int(h[headLeft]), need: int(h[headNeed]),
		Slabs: int(c.fresh - c.listed), Room: int(c.listed + c.capacity - c.fresh),
	}, q.Err()
}

// ClearLeft sets the count of requests that found no slab to 0.
func (t *Table[K]) ClearLeft(q *device.Queue) { q.Fill(t.head.Add(8*headLeft), 0, 2) }

// Used is the part of the memory of all slabs in use that pairs take, with 8 or 12 bytes each.
func (t *Table[K]) Used(c Counts) float64 {
	pair := 8
	if wide[K]() {
		pair = 12
	}
	return float64(c.Live*pair) / float64((t.buckets+c.Slabs)*slabBytes)
}

func (t *Table[K]) launch(q *device.Queue, kernel string, l device.Launch, args ...uint64) {
	suffix := "_32"
	if wide[K]() {
		suffix = "_64"
	}
	q.Launch("slab."+kernel+suffix, l, args...)
}

// onTable is launch for kernels whose parameters begin with the table.
func (t *Table[K]) onTable(q *device.Queue, kernel string, l device.Launch, args ...uint64) {
	t.launch(q, kernel, l, append([]uint64{uint64(t.head), uint64(t.heads), uint64(t.buckets)}, args...)...)
}

// grid is the launch for n threads, with a few blocks a multiprocessor.
func grid(q *device.Queue, n, blocks int) device.Launch {
	return device.Launch{GridX: min((n+threads-1)/threads, blocks*q.Device().Describe().Multiprocessors), Block: threads}
}

// Start starts a batch with the slabs that there are. It does not wait: results, or Counts after it, say how many requests were
// left.
func (t *Table[K]) Start(q *device.Queue, b Batch) {
	if b.N == 0 || !fits(q, b) {
		return
	}
	if s, ok := t.sorts(q, b); ok {
		t.eachPart(b, func(part Batch) { t.runSorted(q, part, false, t.sort(q, part, s)) })
		s.free(q)
		return
	}
	if b.Op == Mixed && b.index == 0 && b.N >= splitFrom {
		t.split(q, b)
		return
	}
	mode := uint64(0)
	if b.Alone {
		mode = modeAlone
	}
	blocks, ops := blocksBatch, b.Ops
	switch {
	case b.split && b.Op != Find:
		blocks = splitBlocks
	case !b.split && b.Op != Mixed:
		ops = 0
	}
	t.onTable(q, b.Op.String(), grid(q, b.N, blocks), mode, uint64(ops), uint64(b.Keys), uint64(b.Values), uint64(b.Results), uint64(b.N),
		uint64(b.index), uint64(b.left), uint64(b.totals))
}

// fits tells whether requests can be counted by 32 bits, as lists of them are; otherwise the queue gets the error.
func fits(q *device.Queue, b Batch) bool {
	if uint64(b.N) > math.MaxUint32 {
		q.Fail(fmt.Errorf("%v: batch of %d requests: at most %d can be done at a time", b.Op, b.N, uint64(math.MaxUint32)))
		return false
	}
	return true
}

// splitFrom is from how many requests on a mixed batch is done kind by kind; tests make it smaller.
var splitFrom = 1 << 16

// splitBlocks bounds the blocks a multiprocessor of a split batch's changes. They wait for their atomics most of the
// time and take few, so that finds fill the rest.
const splitBlocks = 2

// split does a mixed batch as a batch of each kind, on streams of their own.
func (t *Table[K]) split(q *device.Queue, b Batch) {
	b.index, b.totals = q.Temp(4*b.N), q.Temp(4*2*int(Mixed))
	next := b.totals.Add(4 * int(Mixed))
	q.Fill(b.totals, 0, 2*int(Mixed))
	q.Launch("slab.count_ops", grid(q, b.N/64+1, blocksBatch), uint64(b.totals), uint64(b.Ops), uint64(b.N))
	q.Launch("slab.split", grid(q, b.N/16+1, blocksBatch), uint64(b.index), uint64(next), uint64(b.Ops), uint64(b.totals), uint64(b.N))
	var others []*device.Queue
	for i := range device.Streams {
		if on := q.On(i); on != q {
			on.Follow(q)
			others = append(others, on)
		}
	}
	for i, op := range []Op{Insert, Delete, Replace, Append, Count, Find} {
		part, on := b, q
		part.Op, part.split, part.Alone = op, true, false // the others run beside it
		if op == Find {
			part.index, part.totals = 0, 0
		} else {
			on = others[i%len(others)]
		}
		t.Start(on, part)
	}
	for _, on := range others {
		q.Follow(on)
	}
	q.Free(b.index)
	q.Free(b.totals)
}

// Run does a batch, and makes arenas as it needs them. All memory is allocated before anything is done:
// device.ErrMemory leaves the table as it was.
func (t *Table[K]) Run(q *device.Queue, b Batch) error {
	if b.N == 0 || !fits(q, b) || !b.Op.inserts() {
		t.Start(q, b)
		q.Wait()
		return q.Err()
	}
	c, err := t.Counts(q)
	if err != nil {
		return err
	}
	if s, ok := t.sorts(q, b); ok {
		defer s.free(q)
		return t.insertSorted(q, b, c, s)
	}
	b.unsorted = true
	if c.Room < b.N && reserving {
		need := b.N
		if need > t.buckets/worstCase {
			if need, err = t.need(q, b); err != nil {
				return err
			}
		}
		if err := t.Reserve(q, need); err != nil {
			return err
		}
	}
	return t.runAll(q, b)
}

// runAll does a batch, and the requests of it that were left, until none is.
func (t *Table[K]) runAll(q *device.Queue, b Batch) error {
	lists := [2]device.Ptr{q.Temp(4 * (b.N + 1)), 0}
	defer func() { q.Free(lists[0]); q.Free(lists[1]) }()
	for round := 0; ; round++ {
		b.left = lists[round%2]
		q.Fill(b.left, 0, 1)
		t.Start(q, b)
		var left [1]uint32
		device.CopyOut(q, left[:], b.left)
		if q.Wait(); q.Err() != nil || left[0] == 0 {
			return q.Err()
		}
		// Where slabs were reserved none is left. Otherwise one more is enough to go on.
		b.N, b.index = int(left[0]), b.left.Add(4)
		t.ClearLeft(q)
		if err := t.Reserve(q, max(1, b.N/slots[K]())); err != nil {
			return err
		}
		if lists[1] == 0 {
			lists[1] = q.Temp(4 * (b.N + 1))
		}
	}
}

// need is the number of slabs that a batch may need.
func (t *Table[K]) need(q *device.Queue, b Batch) (int, error) {
	n := t.buckets + reserved[K]()
	counts := q.Temp(4 * n)
	q.Fill(counts, 0, n)
	q.Fill(t.head.Add(8*headNeed), 0, 2)
	t.onTable(q, "need", grid(q, b.N, blocksBatch), uint64(counts), uint64(b.Ops), uint64(b.Keys), uint64(b.N))
	t.onTable(q, "need_sum", grid(q, n, blocksScan), uint64(counts))
	c, err := t.Counts(q)
	q.Free(counts)
	return c.need, err
}

// Reserve makes arenas until so many slabs are free. After an error the table is as it was.
func (t *Table[K]) Reserve(q *device.Queue, slabs int) error {
	c, err := t.Counts(q)
	if err != nil || c.Room >= slabs {
		return err
	}
	before, room := len(t.arenas), c.Room
	for ; room < slabs && q.Err() == nil; room += arenaSlabs(t.log2, len(t.arenas)-1) {
		size := arenaSlabs(t.log2, len(t.arenas))
		if len(t.arenas) == maxArenas || uint64(t.capacity()+size) > math.MaxUint32-1 {
			q.Fail(fmt.Errorf("%d slabs: %w", t.capacity()+slabs-room, errArenas))
			break
		}
		a := q.Alloc(size * slabBytes)
		if q.Err() == nil {
			q.Fill(a, 0, size*slabBytes/4)
			t.arenas = append(t.arenas, a)
		}
	}
	list := q.Alloc(4 * t.capacity())
	if q.Err() != nil {
		for _, a := range t.arenas[before:] {
			q.Free(a)
		}
		t.arenas = t.arenas[:before]
		return q.Err()
	}
	if before > 0 {
		q.Copy(list, t.list, 4*(arenaSlabs(t.log2, before)-arenaSlabs(t.log2, 0)))
	}
	q.Free(t.list)
	t.list = list
	q.Launch("slab.settle", device.Launch{GridX: 1, Block: 32}, uint64(t.head))
	t.writeHead(q)
	q.Wait()
	return q.Err()
}

var errArenas = errors.New("more than a table can have")

// Flush takes the tombstones out, and gives slabs that are no longer needed to the next chains. It does not wait.
func (t *Table[K]) Flush(q *device.Queue) {
	q.Launch("slab.settle", device.Launch{GridX: 1, Block: 32}, uint64(t.head))
	t.onTable(q, "flush", grid(q, t.buckets+reserved[K](), blocksScan))
	q.Fill(t.head.Add(8*headDead), 0, 2)
}

// Iterate writes the keys and values of all pairs, in no order, to arrays with room for max, and adds their number to
// count (u64), also of those that found no room.
func (t *Table[K]) Iterate(q *device.Queue, keys, values device.Ptr, max int, count device.Ptr) {
	scan := func(slabs device.Ptr, n int) {
		t.launch(q, "iterate", grid(q, (n*8+scanRows-1)/scanRows, blocksScan),
			uint64(slabs), uint64(n), uint64(keys), uint64(values), uint64(max), uint64(count))
	}
	scan(t.heads, t.buckets+reserved[K]())
	for i, a := range t.arenas {
		scan(a, arenaSlabs(t.log2, i))
	}
}

// Rehash gives the table another number of buckets, and no tombstones. After an error it is as it was.
func (t *Table[K]) Rehash(q *device.Queue, buckets int) error {
	if err := checkBuckets(buckets); err != nil {
		return err
	}
	c, err := t.Counts(q)
	if err != nil {
		return err
	}
	to, err := New[K](q, buckets)
	if err != nil {
		return err
	}
	keys, values, count := q.Temp(bytesOf[K](c.Live)), q.Temp(4*c.Live), q.Temp(8)
	defer func() { q.Free(keys); q.Free(values); q.Free(count) }()
	q.Fill(count, 0, 2)
	t.Iterate(q, keys, values, c.Live, count)
	if err := to.Run(q, Batch{Op: Append, Keys: keys, Values: values, N: c.Live, Alone: true}); err != nil {
		to.Free(q)
		return err
	}
	t.Free(q)
	*t = *to
	return nil
}

// Clone makes a copy. Nobody may change the table meanwhile.
func (t *Table[K]) Clone(q *device.Queue) (*Table[K], error) {
	c := &Table[K]{buckets: t.buckets, log2: t.log2}
	duplicate := func(p device.Ptr, n int) device.Ptr {
		to := q.Alloc(n)
		q.Copy(to, p, n)
		return to
	}
	c.head, c.heads = duplicate(t.head, 8*headWords), duplicate(t.heads, t.headsBytes())
	for i, a := range t.arenas {
		c.arenas = append(c.arenas, duplicate(a, slabBytes*arenaSlabs(t.log2, i)))
	}
	if len(t.arenas) > 0 {
		c.list = duplicate(t.list, 4*t.capacity())
	}
	c.writeHead(q)
	if q.Wait(); q.Err() != nil {
		c.Free(q)
	}
	return c, q.Err()
}

func bytesOf[K Key](n int) int {
	if wide[K]() {
		return 8 * n
	}
	return 4 * n
}
