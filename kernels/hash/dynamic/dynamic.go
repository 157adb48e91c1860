// Package dynamic is a hash map in device memory that grows, and that gives all its pairs back: keys of
// 64 or 128 bits, values of 32 or 64.
//
// A map is a list of submaps. Where a batch of inserts would fill it beyond its load, one more is
// added, twice as large as the largest; the others stay where they are and nothing is rehashed (as
// dynamic_map of NVIDIA's cuCollections grows). A key is in one submap at most. Finds look first where the
// most pairs are.
//
//	submap    sector | sector | sector | sector || sector ...  || aside | aside
//	          a line of 128 bytes                || next line   || keys whose hash means a state
//	sector    64-bit keys    hash, value | hash, value
//	(32 B)    128-bit keys   hash and state, key (2 words), value
//
// A key's way begins at the sector that the highest bits of its hash say, goes through the sectors of
// that line, those first that share 64 bytes, and on through the next lines, up to the first sector with an
// empty slot. For 64-bit keys the hash is a bijection (the finaliser of MurmurHash3), so it
// stands for the key; 128-bit keys are compared as they are. Every key and every value can be stored.
// The hash is salted (Options.Seed), so nobody outside can choose keys that meet.
//
// Erased pairs leave a tombstone, unless their sector has an empty slot: then nothing was ever put
// behind it. Inserts reuse the tombstones on their way. A submap without pairs is emptied, and before the
// map grows, pairs of submaps that are tombstones by more than a quarter move to new ones. At most
// Options.Load of a submap's slots are ever used, tombstones included, so every way ends.
//
// A submap is made of regions of 64 KB, and a way stays in its region. Large batches of inserts and
// erasures are sorted by region first (../regions.cuh); then a block takes a region to shared memory,
// does all its requests there and writes it back. A table with so many regions that two steps of the sort do not
// suffice, more than 65,536 or 4 GB, takes every batch as it comes.
//
// RetrieveAll copies all pairs to two arrays, in four forms that differ in how a pair gets its place.
//
// Cost, in sectors of 32 bytes read at random, at half load: a find 1.2 for each submap that it looks
// through (2.4 at 0.75), an insert the same and an atomic; in a large batch an insert costs five times its
// own size and twice its part of the table, all in order. Memory: 16 or 32 bytes a slot.
package dynamic

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o dynamic.ptx dynamic.cu
//go:embed dynamic.ptx
var ptx string

var module = &device.Module{Name: "dynamic", PTX: ptx, Twins: twins}

// Modules gives what a device needs for this package (device.Open).
func Modules() []*device.Module { return []*device.Module{module, primitives.Module} }

// What dynamic.cu has, too.
const (
	threads       = 256
	insertFlight  = 2
	eraseFlight   = 2
	sortThreads   = 1024
	sortTile      = 128 << 10 // bytes
	regionThreads = 512
)

const (
	// DefaultLoad is the part of the slots that may be used where Options do not say.
	DefaultLoad = 0.75
	// MinSlots is the least number of slots of a map.
	MinSlots = 1024
	// A batch is sorted from sortFrom requests on if the map is larger than what stays in the cache, and
	// its target has no more than sortBytes for each.
	sortFrom  = 1 << 20
	sortBytes = 128
	// sortMost bounds the memory that a sort takes.
	sortMost = 1 << 27
)

// ErrSubmaps is what growing meets after 32 submaps, each twice as large as the one before.
var ErrSubmaps = errors.New("a map has at most 32 submaps")

// Options tune a map.
type Options struct {
	Load float64 // most of a submap's slots that are used, above 0 and below 1; 0 is DefaultLoad
	Seed uint64  // of the hash
}

func (o Options) load() (float64, error) {
	switch {
	case o.Load == 0:
		return DefaultLoad, nil
	case o.Load > 0 && o.Load < 1:
		return o.Load, nil
	}
	return 0, fmt.Errorf("load %v of a map: it must be above 0 and below 1", o.Load)
}

// A Kind is what a map's pairs are.
type Kind struct {
	Wide       bool // keys of 128 bits, most significant word first, instead of 64
	ValueBytes int  // 4 or 8
}

// KindOf gives the kind of maps from K to V.
func KindOf[K Keys, V Values]() Kind { return Kind{wide[K](), int(unsafe.Sizeof(*new(V)))} }

// KeyBytes is the size of a key.
func (k Kind) KeyBytes() int {
	if k.Wide {
		return 16
	}
	return 8
}

// slotWords is the number of 64-bit words of a slot.
func (k Kind) slotWords() int {
	if k.Wide {
		return 4
	}
	return 2
}

// requestBytes is the size of an insert in a sorted batch.
func (k Kind) requestBytes() int { return 2 * k.KeyBytes() }

// keyName and pairName end the names of kernels.
func (k Kind) keyName() string  { return map[bool]string{false: "64", true: "128"}[k.Wide] }
func (k Kind) pairName() string { return fmt.Sprintf("%s_%d", k.keyName(), 8*k.ValueBytes) }

// sizes is a list of submaps: what tells where pairs go, without the pairs.
type sizes struct {
	slotWords int
	load      float64
	maps      []descriptor
}

// slots is the number of a submap's slots, without those aside.
func (s *sizes) slots(m descriptor) uint64 {
	return m.sectors * sectorWords / uint64(s.slotWords)
}

// room is how many empty slots a submap may lose.
func (s *sizes) room(m descriptor) uint64 {
	if most := uint64(float64(s.slots(m)) * s.load); most > m.used {
		return most - m.used
	}
	return 0
}

// sectorsFor gives the sectors of a submap with room for so many pairs.
func (s *sizes) sectorsFor(pairs uint64) uint64 {
	return sectorsOf(uint64(float64(pairs)/s.load)+1, s.slotWords)
}

// sectorsOf gives the sectors for so many slots.
func sectorsOf(slots uint64, slotWords int) uint64 {
	per := sectorWords / uint64(slotWords)
	return whole((max(slots, MinSlots) + per - 1) / per)
}

// whole rounds up to full lines, and full regions where there is more than one.
func whole(sectors uint64) uint64 {
	if sectors > region {
		return (sectors + region - 1) &^ (region - 1)
	}
	return (sectors + line - 1) &^ (line - 1)
}

// best gives the submap with the least room that n fit into, -1 for none.
func (s *sizes) best(n uint64) int {
	best := -1
	for i, m := range s.maps {
		if r := s.room(m); r >= n && (best < 0 || r < s.room(s.maps[best])) {
			best = i
		}
	}
	return best
}

// stale gives a submap that is worth to be rid of its tombstones, -1 for none.
func (s *sizes) stale() int {
	for i, m := range s.maps {
		if m.used-m.live > m.used/4 && m.used > s.slots(m)/16 {
			return i
		}
	}
	return -1
}

// next gives the sectors of the submap to add, so that there is room for so many pairs.
func (s *sizes) next(pairs uint64) (sectors uint64, err error) {
	if len(s.maps) == maxSubmaps {
		return 0, ErrSubmaps
	}
	for _, m := range s.maps {
		sectors = max(sectors, 2*m.sectors)
	}
	return max(whole(sectors), s.sectorsFor(pairs)), nil
}

// part is how many requests of a batch go to a target.
type part struct{ target, n int }

// spread gives parts of n requests to the submaps by their room, oldest first, and the rest to the last.
func (s *sizes) spread(n int) (parts []part) {
	for i, m := range s.maps[:len(s.maps)-1] {
		// Small rests of room would only make more launches.
		if r := s.room(m); r > 0 && r >= s.slots(m)/16 && n > 0 {
			p := part{i, int(min(r, uint64(n)))}
			parts, n = append(parts, p), n-p.n
		}
	}
	if n > 0 {
		parts = append(parts, part{len(s.maps) - 1, n})
	}
	return parts
}

func (s *sizes) len() (n int) {
	for _, m := range s.maps {
		n += int(m.live)
	}
	return n
}

// A Map is a map in a device's memory. Its methods put work on a queue of that device, and those that
// change it wait for its end. It is for one job at a time, but any number may find at the same time.
type Map struct {
	kind  Kind
	seed  uint64
	sizes sizes
	table device.Ptr         // on the device
	order [maxSubmaps]uint64 // as it is there
}

// table is a map as kernels get it.
type table struct {
	maps  [maxSubmaps]descriptor
	full  uint64             // inserts that found no slot
	order [maxSubmaps]uint64 // in which finds go through the submaps
}

// fullAt is where the counter full lies, in words.
const fullAt = maxSubmaps * 4

// maxSlotsLog2 bounds a submap: its bytes are counted in 64 bits with room to spare, and no device has them.
const maxSlotsLog2 = 40

func checkSlots(slots int) error {
	if slots < 0 || uint64(slots) > 1<<maxSlotsLog2 {
		return fmt.Errorf("map of %d slots: there may be 0 to 2^%d", slots, maxSlotsLog2)
	}
	return nil
}

// New makes a map with so many slots, rounded up; 0 is the least.
func New(q *device.Queue, kind Kind, slots int, o Options) (*Map, error) {
	load, err := o.load()
	if err != nil {
		return nil, err
	}
	if kind.ValueBytes != 4 && kind.ValueBytes != 8 {
		return nil, fmt.Errorf("values of %d bytes: there are 4 and 8", kind.ValueBytes)
	}
	if err := checkSlots(slots); err != nil {
		return nil, err
	}
	m := &Map{kind: kind, seed: o.Seed, sizes: sizes{slotWords: kind.slotWords(), load: load}}
	m.table = q.Alloc(int(unsafe.Sizeof(table{})))
	m.add(q, sectorsOf(uint64(slots), m.sizes.slotWords))
	if q.Err() != nil {
		m.Free(q)
	}
	return m, q.Err()
}

// Free gives the map's memory back.
func (m *Map) Free(q *device.Queue) {
	for _, s := range m.sizes.maps {
		q.Free(device.Ptr(s.words))
	}
	q.Free(m.table)
	m.sizes.maps, m.table = nil, 0
}

// Kind is what the map's pairs are.
func (m *Map) Kind() Kind { return m.kind }

// Len is the number of pairs.
func (m *Map) Len() int { return m.sizes.len() }

// Submaps gives the number of slots of every submap, oldest first.
func (m *Map) Submaps() (slots []int) {
	for _, s := range m.sizes.maps {
		slots = append(slots, int(m.sizes.slots(s)))
	}
	return slots
}

// Bytes is the device memory of the map.
func (m *Map) Bytes() (n int) {
	for _, s := range m.sizes.maps {
		n += int(words(s.sectors)) * 8
	}
	return n
}

// alloc makes an empty submap; words is 0 where there is no memory.
func (m *Map) alloc(q *device.Queue, sectors uint64) descriptor {
	d := descriptor{sectors: sectors}
	d.words = uint64(q.Alloc(int(words(sectors)) * 8))
	q.Fill(device.Ptr(d.words), 0, int(words(sectors))*2)
	return d
}

// add appends an empty submap.
func (m *Map) add(q *device.Queue, sectors uint64) {
	if d := m.alloc(q, sectors); d.words != 0 {
		m.sizes.maps = append(m.sizes.maps, d)
		m.write(q)
	}
}

// write brings the descriptors to the device, with the submaps that have the most pairs first in order.
func (m *Map) write(q *device.Queue) {
	var t table
	for i := range t.order[:copy(t.maps[:], m.sizes.maps)] {
		t.order[i] = uint64(i)
	}
	slices.SortStableFunc(t.order[:len(m.sizes.maps)], func(a, b uint64) int {
		return cmp.Compare(t.maps[b].live, t.maps[a].live)
	})
	device.CopyIn(q, m.table, []table{t})
	m.order = t.order
}

// read brings the counters back, and the number of inserts that found no slot.
func (m *Map) read(q *device.Queue) (left uint64, err error) {
	now := make([]table, 1)
	device.CopyOut(q, now, m.table)
	q.Wait()
	if q.Err() != nil {
		return 0, q.Err()
	}
	copy(m.sizes.maps, now[0].maps[:])
	for i := 1; i < len(m.sizes.maps); i++ {
		if m.sizes.maps[m.order[i]].live > m.sizes.maps[m.order[i-1]].live {
			m.write(q)
			break
		}
	}
	return now[0].full, q.Err()
}

// grid is the launch for n pieces of work, so many a thread and a few blocks a multiprocessor.
func grid(q *device.Queue, n, each, blocks int) device.Launch {
	size := threads * each
	return device.Launch{GridX: min((n+size-1)/size, blocks*q.Device().Describe().Multiprocessors), Block: threads}
}

// findFlight is the requests that a thread of a find has under way.
func (m *Map) findFlight() int {
	if m.kind.Wide {
		return 2
	}
	return 4
}

// tile is the slots that a thread of RetrieveAll looks at at a time.
func (m *Map) tile() int {
	if m.kind.Wide {
		return 4
	}
	return 8
}

// occupancy is the blocks of a batch's kernel that a multiprocessor runs at a time.
const occupancy = 4

func (m *Map) count() uint64 { return uint64(len(m.sizes.maps)) }

// Find writes the values of n keys, 0 for missing ones, and for each whether it is there (u8, 0 or 1).
// values and found may be 0.
func (m *Map) Find(q *device.Queue, values, found, keys device.Ptr, n int) {
	q.Launch("dynamic.find_"+m.kind.pairName(), grid(q, n, m.findFlight(), 4*occupancy),
		uint64(m.table), m.count(), m.seed, uint64(values), uint64(found), uint64(keys), uint64(n))
}

// Insert puts n pairs in and counts the keys that were new. Where a key is there already, assign
// says whether its value is replaced. Of a key that a batch has twice one of the values stays. fresh (u8), which may be
// 0, says of each whether it put a new key in.
//
// All memory is allocated before anything is put in: after device.ErrMemory the pairs are as before. (Were
// a region to run full, which the salt makes as good as impossible, the map would grow once more in the middle.)
func (m *Map) Insert(q *device.Queue, keys, values device.Ptr, n int, assign bool, fresh device.Ptr) (added int, err error) {
	if n == 0 {
		return 0, q.Err()
	}
	parts, err := m.reserve(q, keys, n)
	if err != nil {
		return 0, err
	}
	before := m.Len()
	for again := false; ; again = true {
		q.Fill(m.table.Add(8*fullAt), 0, 2)
		b := m.batch(q, n, parts, fresh == 0)
		done := 0
		for _, x := range parts {
			m.insert(q, b, keys.Add(done*m.kind.KeyBytes()), values.Add(done*m.kind.ValueBytes), x, assign, fresh, again)
			if done += x.n; fresh != 0 {
				fresh = fresh.Add(x.n)
			}
		}
		b.free(q)
		left, err := m.read(q)
		if err != nil {
			return 0, err
		}
		if left == 0 {
			return m.Len() - before, nil
		}
		// All of the batch goes to a new submap: what is in already stays where it is.
		sectors, err := m.sizes.next(left)
		if err != nil {
			return 0, err
		}
		if m.add(q, sectors); q.Err() != nil {
			return 0, q.Err()
		}
		parts = []part{{len(m.sizes.maps) - 1, n}}
		if fresh != 0 {
			fresh = fresh.Add(-n)
		}
	}
}

// word is a flag as kernels get it.
func word(flag bool) uint64 {
	if flag {
		return 1
	}
	return 0
}

// insert puts requests into one target.
func (m *Map) insert(q *device.Queue, b batch, keys, values device.Ptr, x part, assign bool, fresh device.Ptr, again bool) {
	if !b.sorted {
		q.Launch("dynamic.insert_"+m.kind.pairName(), grid(q, x.n, insertFlight, occupancy),
			uint64(m.table), m.count(), uint64(x.target), m.seed, word(assign), uint64(keys), uint64(values), uint64(fresh), word(again), uint64(x.n))
		return
	}
	target := m.sizes.maps[x.target]
	empty := target.used == 0
	for first := 0; first < x.n; first += sortMost {
		n := min(sortMost, x.n-first)
		requests, ends := m.sort(q, b, target, keys.Add(first*m.kind.KeyBytes()), values.Add(first*m.kind.ValueBytes), n)
		q.Launch("dynamic.insert_region_"+m.kind.keyName(), regionLaunch(target),
			uint64(m.table), m.count(), uint64(x.target), m.seed, word(assign), word(empty), uint64(requests), uint64(ends))
		empty = false
	}
}

// sample is how many keys of a batch are looked for to see whether counting the new ones is worth it: where
// most are new, twice the room at most is made in vain.
const sample = 1 << 16

// missing counts those of n keys that are not there.
func (m *Map) missing(q *device.Queue, keys device.Ptr, n int) uint64 {
	out, count := q.Temp(8), make([]uint64, 1)
	q.Fill(out, 0, 2)
	q.Launch("dynamic.missing_"+m.kind.keyName(), grid(q, n, m.findFlight(), 4*occupancy),
		uint64(m.table), m.count(), m.seed, uint64(keys), uint64(n), uint64(out))
	device.CopyOut(q, count, out)
	q.Wait()
	q.Free(out)
	return count[0]
}

// reserve makes room for the new ones of n keys and says where they go.
func (m *Map) reserve(q *device.Queue, keys device.Ptr, n int) ([]part, error) {
	if at := m.sizes.best(uint64(n)); at >= 0 {
		return []part{{at, n}}, q.Err()
	}
	// Before the map grows it is worth knowing how many of the keys are new.
	lacking := m.missing(q, keys, min(n, sample))
	switch {
	case n > sample && lacking < sample/2:
		lacking = m.missing(q, keys, n)
	case n > sample:
		lacking = uint64(n)
	}
	at := m.sizes.best(lacking)
	if at < 0 {
		m.sweep(q)
		at = m.sizes.best(lacking)
	}
	if at >= 0 || q.Err() != nil {
		return []part{{at, n}}, q.Err()
	}
	sectors, err := m.sizes.next(lacking)
	if err != nil {
		return nil, err
	}
	m.add(q, sectors)
	return m.sizes.spread(n), q.Err()
}

// sweep rids the map of tombstones where they are many.
func (m *Map) sweep(q *device.Queue) {
	for at := m.sizes.stale(); at >= 0 && q.Err() == nil; at = m.sizes.stale() {
		old := m.sizes.maps[at]
		d := m.alloc(q, old.sectors)
		if d.words == 0 {
			return
		}
		m.sizes.maps = append(m.sizes.maps, d) // for the time of the launch
		m.write(q)
		q.Launch("dynamic.migrate_"+m.kind.keyName(), grid(q, int(m.sizes.slots(old)), 1, occupancy),
			uint64(m.table), uint64(at), m.count()-1, m.seed)
		_, _ = m.read(q) // its error sticks
		last := len(m.sizes.maps) - 1
		if q.Err() != nil {
			q.Free(device.Ptr(d.words))
			m.sizes.maps = m.sizes.maps[:last]
			return
		}
		m.sizes.maps[at] = m.sizes.maps[last]
		m.sizes.maps = m.sizes.maps[:last]
		m.write(q)
		q.Free(device.Ptr(old.words))
	}
}

// Erase takes n keys out and counts those that were there. erased (u8), which may be 0, says of each
// whether it was; of a key that the batch has twice one is.
func (m *Map) Erase(q *device.Queue, keys device.Ptr, n int, erased device.Ptr) (count int, err error) {
	if n == 0 {
		return 0, q.Err()
	}
	before := m.Len()
	if b := m.batch(q, n, []part{{0, n}}, erased == 0 && len(m.sizes.maps) == 1); b.sorted {
		target := m.sizes.maps[0]
		for first := 0; first < n; first += sortMost {
			requests, ends := m.sort(q, b, target, keys.Add(first*m.kind.KeyBytes()), 0, min(sortMost, n-first))
			q.Launch("dynamic.erase_region_"+m.kind.keyName(), regionLaunch(target),
				uint64(m.table), m.seed, uint64(requests), uint64(ends))
		}
		b.free(q)
	} else {
		q.Launch("dynamic.erase_"+m.kind.keyName(), grid(q, n, eraseFlight, occupancy),
			uint64(m.table), m.count(), m.seed, uint64(keys), uint64(erased), uint64(n))
	}
	if _, err := m.read(q); err != nil {
		return 0, err
	}
	m.wipe(q)
	return before - m.Len(), q.Err()
}

// wipe empties submaps that hold nothing but tombstones.
func (m *Map) wipe(q *device.Queue) {
	wiped := false
	for i := range m.sizes.maps {
		if d := &m.sizes.maps[i]; d.live == 0 && d.used > 0 {
			q.Fill(device.Ptr(d.words), 0, int(words(d.sectors))*2)
			d.used, wiped = 0, true
		}
	}
	if wiped {
		m.write(q)
	}
}

// batch is the memory that a batch is sorted in.
type batch struct {
	sorted     bool
	a, b       device.Ptr // requests, after the first and the second step
	ends, more device.Ptr // of the bins of the steps
	state      device.Ptr // of scans
}

// maxRegions is what two steps sort into.
const maxRegions = bins * bins

// minSort and beyond are from how many requests on, and in a map larger than which part of the
// second-level cache, a batch is sorted; tests make them smaller.
var minSort, beyond = sortFrom, 0.5

// batch says whether a batch is worth sorting, and allocates what it takes: without the memory for it the batch is done as
// it is.
func (m *Map) batch(q *device.Queue, n int, parts []part, may bool) (b batch) {
	may = may && n >= minSort && float64(m.Bytes()) > beyond*float64(q.Device().Describe().L2)
	regions := uint64(0)
	for _, x := range parts {
		s := m.sizes.maps[x.target].sectors
		may = may && s*sectorWords*8 <= uint64(x.n)*sortBytes
		regions = max(regions, s/span(s))
	}
	if !may || regions > maxRegions {
		return b
	}
	bytes, second := min(n, sortMost)*m.kind.requestBytes(), 0
	if regions > bins {
		second = 1
	}
	if p := q.TryTemps(bytes, 4*bins, second*bytes, second*4*maxRegions, primitives.ScanState(maxRegions)); p != nil {
		b = batch{true, p[0], p[2], p[1], p[3], p[4]}
	}
	return b
}

func (b batch) free(q *device.Queue) {
	for _, p := range []device.Ptr{b.a, b.b, b.ends, b.more, b.state} {
		q.Free(p)
	}
}

// sort brings the requests for n keys, of pairs where there are values, in the order of a submap's
// regions, and says where they are and where each region's end.
func (m *Map) sort(q *device.Queue, b batch, target descriptor, keys, values device.Ptr, n int) (requests, ends device.Ptr) {
	regions, shift := target.sectors/span(target.sectors), uint64(0)
	for (regions-1)>>shift >= bins {
		shift++
	}
	kind, size := "erasures_", m.kind.KeyBytes()
	if values != 0 {
		kind, size = "requests_", m.kind.requestBytes()
	}
	items := sortTile / size // a little more than what a block takes
	launch := device.Launch{GridX: min((n+items-1)/items, 2*q.Device().Describe().Multiprocessors), Block: sortThreads}
	q.Fill(b.ends, 0, bins)
	q.Launch("dynamic.count_keys_"+m.kind.keyName(), launch, uint64(b.ends), m.seed, uint64(keys), uint64(n), regions, shift)
	primitives.ScanExclusiveWith(q, b.state, b.ends, b.ends, bins)
	launch.Shared = sortTile
	if values != 0 {
		q.Launch("dynamic.scatter_pairs_"+m.kind.pairName(), launch, uint64(b.a), uint64(b.ends), m.seed, uint64(keys), uint64(values), uint64(n), regions, shift)
	} else {
		q.Launch("dynamic.scatter_keys_"+m.kind.keyName(), launch, uint64(b.a), uint64(b.ends), m.seed, uint64(keys), uint64(n), regions, shift)
	}
	if shift == 0 {
		return b.a, b.ends
	}
	segments := int((regions-1)>>shift) + 1
	launch = device.Launch{GridX: min((n/segments+items-1)/items+1, 8), GridY: segments, Block: sortThreads}
	q.Fill(b.more, 0, segments<<shift)
	q.Launch("dynamic.count_"+kind+m.kind.keyName(), launch, uint64(b.more), uint64(b.ends), m.seed, uint64(b.a), regions, shift)
	primitives.ScanExclusiveWith(q, b.state, b.more, b.more, segments<<shift)
	launch.Shared = sortTile
	q.Launch("dynamic.scatter_"+kind+m.kind.keyName(), launch, uint64(b.b), uint64(b.more), uint64(b.ends), m.seed, uint64(b.a), regions, shift)
	return b.b, b.more
}

// regionLaunch has a block for every region of a submap.
func regionLaunch(d descriptor) device.Launch {
	return device.Launch{GridX: int(d.sectors / span(d.sectors)), Block: regionThreads, Shared: int(span(d.sectors)) * sectorWords * 8}
}

// Form is a way to give a pair its place in the output of RetrieveAll.
type Form int

const (
	// Tiles has a block put its pairs in order by a scan, take as many places by one atomic and write them
	// side by side. It is the fastest.
	Tiles Form = iota
	// Warps has every warp take its places by an atomic of its own.
	Warps
	// Blocks has warps take their places from a counter of their block.
	Blocks
	// Atomic has every pair take its place by an atomic: slow, what the others are compared with.
	Atomic
)

// forms are the kernels' names for them.
var forms = [...]string{Tiles: "scan", Warps: "warp", Blocks: "block", Atomic: "atomic"}

func (f Form) String() string { return forms[f] }

// RetrieveAll writes all keys and values to arrays with room for Len pairs, in no order, and their number (u64)
// to count. It does not wait.
func (m *Map) RetrieveAll(q *device.Queue, form Form, keys, values, count device.Ptr) {
	q.Fill(count, 0, 2)
	for _, s := range m.sizes.maps {
		if s.live == 0 {
			continue
		}
		n := int(m.sizes.slots(s)) + aside*sectorWords/m.sizes.slotWords
		q.Launch("dynamic.retrieve_"+forms[form]+"_"+m.kind.pairName(), grid(q, n, m.tile(), retrieveBlocks),
			s.words, s.sectors, m.seed, uint64(keys), uint64(values), uint64(m.Len()), uint64(count))
	}
}

// retrieveBlocks bounds the blocks of a multiprocessor, in effect to one a tile: with as many as run at a
// time it took a tenth longer. Tests make it smaller, so that every block goes round more than once.
var retrieveBlocks = 1 << 20

// Clone makes a copy.
func (m *Map) Clone(q *device.Queue) (*Map, error) {
	c := &Map{kind: m.kind, seed: m.seed, sizes: m.sizes}
	c.sizes.maps = nil
	c.table = q.Alloc(int(unsafe.Sizeof(table{})))
	for _, s := range m.sizes.maps {
		d := s
		d.words = uint64(q.Alloc(int(words(s.sectors)) * 8))
		if d.words == 0 {
			break
		}
		c.sizes.maps = append(c.sizes.maps, d)
		q.Copy(device.Ptr(d.words), device.Ptr(s.words), int(words(s.sectors))*8)
	}
	c.write(q)
	if q.Err() != nil {
		c.Free(q)
	}
	return c, q.Err()
}
