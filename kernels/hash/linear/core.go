package linear

import (
	"math/bits"
	"unsafe"
)

// What slots hold, and the table's shape, as linear.cu has them.
const (
	emptyWord = 0
	tombWord  = 1
	mark      = 3 // the key of all pairs of a side region

	bucketWords = 4
	line        = 4    // buckets
	region      = 2048 // buckets
	side        = 8    // buckets of a side region
	poll        = 32   // buckets between two looks at whether the table was found full
	probes      = 64   // entries of the histogram
)

// Word is what a table's keys and values are.
type Word interface{ uint32 | uint64 }

// A Result says what became of an insert.
type Result uint8

const (
	Replaced Result = iota // the key was there: it has the new value
	Inserted               // the key is new
	Left                   // no slot was found
)

func wide[W Word]() bool { return unsafe.Sizeof(*new(W)) == 8 }

// bytesOf is the size of n words.
func bytesOf[W Word](n int) int { return n * int(unsafe.Sizeof(*new(W))) }

// slotBits is log2 of the slots of a bucket.
func slotBits[W Word]() int {
	if wide[W]() {
		return 1
	}
	return 2
}

// reserved is the number of hashes that have a side region each.
func reserved[W Word]() int {
	if wide[W]() {
		return 3
	}
	return 1
}

// mix is the finaliser of MurmurHash3 (A. Appleby) for 32 or 64 bits, a bijection; unmix is its inverse.
func mix[W Word](key W) W {
	if wide[W]() {
		h := uint64(key)
		h ^= h >> 33
		h *= 0xff51afd7ed558ccd
		h ^= h >> 33
		h *= 0xc4ceb9fe1a85ec53
		return W(h ^ h>>33)
	}
	h := uint32(key)
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return W(h ^ h>>16)
}

func unmix[W Word](hash W) W {
	if wide[W]() {
		h := uint64(hash)
		h ^= h >> 33
		h *= 0x9cb4b2f8129337db
		h ^= h >> 33
		h *= 0x4f74430c22a54005
		return W(h ^ h>>33)
	}
	h := uint32(hash)
	h ^= h >> 16
	h *= 0x7ed1b41d
	h ^= h>>13 ^ h>>26
	h *= 0xa5cb9243
	return W(h ^ h>>16)
}

// core is a table over memory that somebody else has: the Go heap, or a simulated device. It is given
// hashes for keys.
type core[W Word] struct {
	words []uint64 // buckets, those of the side regions last
	log2  int      // of the number of main buckets
	// shared keeps to what is right beside other batches: see linear.cu. patient gives up no request
	// because others were left.
	shared, patient  bool
	live, dead, left int
}

// wordsOf is the size of a table with so many main buckets.
func wordsOf[W Word](log2 int) int { return (1<<log2 + reserved[W]()*side) * bucketWords }

func aside[W Word](h W) bool { return uint64(h) < uint64(reserved[W]()) }

// keyOf is what a slot's key is compared with.
func keyOf[W Word](h W) uint64 {
	if aside(h) {
		return mark
	}
	return uint64(h)
}

// home is where a hash's way begins, in words.
func (c *core[W]) home(h W) uint64 {
	if aside(h) {
		return (1<<c.log2 + uint64(h)*side) * bucketWords
	}
	return uint64(h) >> (8*int(unsafe.Sizeof(h)) - c.log2) * bucketWords
}

// span is the number of buckets of a region: the table is one, or many full ones.
func (c *core[W]) span() uint64 { return min(uint64(1)<<c.log2, region) }

// at is the place of a bucket on a hash's way, in words. A way stays in its region: the buckets of its home's
// line, those first that share 64 bytes, then the next line's.
func (c *core[W]) at(h W, step int) uint64 {
	home := c.home(h) / bucketWords
	if aside(h) {
		return (home + uint64(step)) * bucketWords
	}
	span := c.span()
	in := (home/line+uint64(step/line))&(span/line-1)*line | (home^uint64(step))%line
	return (home&^(span-1) | in) * bucketWords
}

// way is the number of buckets on a hash's way.
func (c *core[W]) way(h W) int {
	if aside(h) {
		return side
	}
	return int(c.span())
}

// look looks for a key in a bucket: match is its slot, or else -1, and empty and dead are the first such slots
// or -1. Where there is a match it looks no further.
func look[W Word](b *[bucketWords]uint64, key uint64) (match, empty, dead int) {
	slots := 1 << slotBits[W]()
	shift := uint(32) // a word has the key above the value; a key is not 0
	if wide[W]() {
		shift = 0
	}
	for s := range slots {
		if b[s&3]>>(shift&63) == key {
			return s, -1, -1
		}
	}
	empty, dead = -1, -1
	for s := slots - 1; s >= 0; s-- {
		switch b[s&3] {
		case emptyWord:
			empty = s
		case tombWord:
			dead = s
		}
	}
	return -1, empty, dead
}

func (c *core[W]) bucket(at uint64) *[bucketWords]uint64 { return (*[bucketWords]uint64)(c.words[at:]) }

// valueAt gives the value of a slot.
func valueAt[W Word](b *[bucketWords]uint64, slot int) W {
	if wide[W]() {
		return W(b[slot+2])
	}
	return W(b[slot])
}

// put fills a slot, which is a place in words.
func (c *core[W]) put(slot uint64, key uint64, value W) {
	if wide[W]() {
		c.words[slot], c.words[slot+2] = key, uint64(value)
	} else {
		c.words[slot] = key<<32 | uint64(value)
	}
}

func (c *core[W]) insert(h, value W) Result {
	key, way := keyOf(h), c.way(h)
	free, reuse := uint64(0), false
	for step := 0; ; {
		at := c.at(h, step)
		match, empty, dead := look[W](c.bucket(at), key)
		if match >= 0 {
			c.put(at+uint64(match), key, value)
			return Replaced
		}
		if dead >= 0 && !reuse && !c.shared {
			free, reuse = at+uint64(dead), true
		}
		if empty >= 0 && !reuse {
			free = at + uint64(empty)
		}
		if step++; empty >= 0 {
			break
		}
		if step == way {
			if !reuse {
				c.left++
				return Left
			}
			break
		}
		if step%poll == 0 && !c.patient && c.left > 0 {
			c.left++
			return Left
		}
	}
	c.put(free, key, value)
	c.live++
	if reuse {
		c.dead--
	}
	return Inserted
}

// locate gives the place of a key's slot, and whether the next slot of its bucket is empty.
func (c *core[W]) locate(h W) (at uint64, slot int, open bool) {
	key := keyOf(h)
	for step, way := 0, c.way(h); step < way; step++ {
		at := c.at(h, step)
		b := c.bucket(at)
		match, empty, _ := look[W](b, key)
		if match >= 0 {
			next := match + 1
			return at, match, next < 1<<slotBits[W]() && b[next] == emptyWord
		}
		if empty >= 0 {
			break
		}
	}
	return 0, -1, false
}

func (c *core[W]) find(h W) (value W, ok bool) {
	at, slot, _ := c.locate(h)
	if slot < 0 {
		return 0, false
	}
	return valueAt[W](c.bucket(at), slot), true
}

func (c *core[W]) erase(h W) bool {
	at, slot, open := c.locate(h)
	if slot < 0 {
		return false
	}
	c.live--
	if open && !c.shared {
		// A way ends at a bucket with an empty slot: nothing was ever put behind this one. The empty slots of a
		// bucket are its last.
		c.words[at+uint64(slot)] = emptyWord
	} else {
		c.words[at+uint64(slot)] = tombWord
		c.dead++
	}
	return true
}

// pair gives the hash and the value of a slot; ok is false where there is no pair. Slots are numbered as they lie.
func (c *core[W]) pair(i uint64) (h, value W, ok bool) {
	bucket, slot := i>>slotBits[W](), int(i&(1<<slotBits[W]()-1))
	b := c.bucket(bucket * bucketWords)
	if b[slot] <= tombWord {
		return 0, 0, false
	}
	switch main := uint64(1) << c.log2; {
	case bucket >= main:
		h = W((bucket - main) / side)
	case wide[W]():
		h = W(b[slot])
	default:
		h = W(b[slot] >> 32)
	}
	return h, valueAt[W](b, slot), true
}

// slots is the number of all slots, side regions too.
func (c *core[W]) slots() uint64 { return uint64(len(c.words)/bucketWords) << slotBits[W]() }

// each calls f for every pair.
func (c *core[W]) each(f func(h, value W)) {
	for i := range c.slots() {
		if h, value, ok := c.pair(i); ok {
			f(h, value)
		}
	}
}

// rehash puts all pairs into an empty table.
func (c *core[W]) rehash(to *core[W]) { c.each(func(h, value W) { to.insert(h, value) }) }

// stats counts the buckets that finds of all pairs read.
func (c *core[W]) stats() (s Stats) {
	s.Dead = c.dead
	sum := 0
	main, span := uint64(1)<<c.log2, c.span()
	for i := range c.slots() {
		h, _, ok := c.pair(i)
		if !ok {
			continue
		}
		bucket, home := i>>slotBits[W](), c.home(h)/bucketWords
		n := int((bucket/line-home/line)&(span/line-1)*line+(bucket^home)%line) + 1
		if bucket >= main {
			n = int(bucket-home) + 1
		}
		s.Histogram[min(n, probes)-1]++
		s.Longest = max(s.Longest, n)
		s.Pairs++
		sum += n
	}
	if s.Pairs > 0 {
		s.Mean = float64(sum) / float64(s.Pairs)
	}
	return s
}

// group is how many requests a processor has under way: it loads the buckets of all of them before it looks at
// any, so that they come from memory beside each other.
const group = 16

// start is where a request begins: its hash, the place of its first bucket and that bucket's first word.
type start[W Word] struct {
	h     W
	at    uint64
	first uint64
}

// begin loads the first buckets of up to group keys.
func (c *core[W]) begin(starts *[group]start[W], keys []W) {
	for i, k := range keys[:min(len(keys), group)] {
		h := mix(k)
		at := c.home(h)
		starts[i] = start[W]{h, at, c.words[at]}
	}
}

// findFrom is find for a request that was begun.
func (c *core[W]) findFrom(s *start[W]) (value W, ok bool) {
	key := keyOf(s.h)
	if !wide[W]() && s.first>>32 == key {
		return W(s.first), true
	}
	b := c.bucket(s.at)
	match, empty, _ := look[W](b, key)
	switch {
	case match >= 0:
		return valueAt[W](b, match), true
	case empty >= 0:
		return 0, false
	}
	return c.find(s.h)
}

// fillLoad is the part of the slots beyond which tables grow that may.
const fillLoad = 0.75

// crowded reports whether so many taken slots are too many for a table that grows.
func crowded(used, log2 int) bool { return float64(used) > fillLoad*float64(int(1)<<log2) }

// stale reports whether so many tombstones are worth a rehash.
func stale(dead, log2 int) bool { return dead > 1<<log2/4 }

// log2For gives the log2 of the slots in which so many pairs are no crowd.
func log2For(pairs int) int { return max(bits.Len(uint(float64(pairs)/fillLoad)), MinLog2) }
