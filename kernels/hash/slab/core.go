package slab

import (
	"math/bits"
	"unsafe"
)

// What slots hold, and the table's shape, as slab.cu has them.
const (
	emptyWord = 0
	tombWord  = 1
	mark      = 3 // the key of all pairs of the buckets of reserved hashes

	slabWords = 16
	slabBytes = 8 * slabWords
	link      = 15 // the word with the next slab and the flag

	maxArenas = 32
)

// Key is what a table's keys are. Values have 32 bits.
type Key interface{ uint32 | uint64 }

func wide[K Key]() bool { return unsafe.Sizeof(*new(K)) == 8 }

// slots is how many pairs a slab has.
func slots[K Key]() int {
	if wide[K]() {
		return 10
	}
	return 15
}

// reserved is the number of hashes that have a bucket each of their own.
func reserved[K Key]() int {
	if wide[K]() {
		return 3
	}
	return 1
}

// mix is the finaliser of MurmurHash3 (A. Appleby) for 32 or 64 bits, a bijection; unmix is its inverse.
func mix[K Key](key K) K {
	if wide[K]() {
		h := uint64(key)
		h ^= h >> 33
		h *= 0xff51afd7ed558ccd
		h ^= h >> 33
		h *= 0xc4ceb9fe1a85ec53
		return K(h ^ h>>33)
	}
	h := uint32(key)
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return K(h ^ h>>16)
}

func unmix[K Key](hash K) K {
	if wide[K]() {
		h := uint64(hash)
		h ^= h >> 33
		h *= 0x9cb4b2f8129337db
		h ^= h >> 33
		h *= 0x4f74430c22a54005
		return K(h ^ h>>33)
	}
	h := uint32(hash)
	h ^= h >> 16
	h *= 0x7ed1b41d
	h ^= h>>13 ^ h>>26
	h *= 0xa5cb9243
	return K(h ^ h>>16)
}

func aside[K Key](h K) bool { return uint64(h) < uint64(reserved[K]()) }

// keyOf is what a slot's key is compared with.
func keyOf[K Key](h K) uint64 {
	if aside(h) {
		return mark
	}
	return uint64(h)
}

// bucketOf is the bucket of a hash among so many.
func bucketOf[K Key](h K, buckets uint64) uint64 {
	switch {
	case aside(h):
		return buckets + uint64(h)
	case wide[K]():
		b, _ := bits.Mul64(uint64(h), buckets)
		return b
	default:
		return uint64(h) * buckets >> 32
	}
}

// slab is 128 bytes. 32-bit keys: 15 words of a pair each, the hash above the value. 64-bit ones: ten words of hashes,
// and five of two values each, the lower half first. The last word has the number of the next slab plus 1 below, and
// in the upper half, in chains of a reserved hash, the hash plus 1.
type slab [slabWords]uint64

func (s *slab) next() uint32        { return uint32(s[link]) }
func (s *slab) setNext(next uint32) { s[link] = s[link]>>32<<32 | uint64(next) }

func live[K Key](w uint64) bool {
	if wide[K]() {
		return w > 2
	}
	return w > tombWord
}

// has reports whether a slot's word is that of a key.
func has[K Key](w, key uint64) bool {
	if wide[K]() {
		return w == key
	}
	return w>>32 == key // a key is not 0
}

// value gives the value of a slot.
func value[K Key](s *slab, slot int) uint32 {
	if wide[K]() {
		return uint32(s[(10+slot>>1)&15] >> (32 * (slot & 1)))
	}
	return uint32(s[slot&15])
}

// put fills a slot.
func put[K Key](s *slab, slot int, key uint64, value uint32) {
	if wide[K]() {
		s[slot] = key
		w, shift := &s[10+slot>>1], 32*(slot&1)
		*w = *w&^(0xffffffff<<shift) | uint64(value)<<shift
		return
	}
	s[slot] = key<<32 | uint64(value)
}

// look looks for a key in a slab: match is its slot or -1, end the first empty slot or -1. Where there is a match it looks no
// further.
func look[K Key](s *slab, key uint64) (match, end int) {
	for i := range slots[K]() {
		switch w := s[i]; {
		case has[K](w, key):
			return i, -1
		case w == emptyWord:
			return -1, i
		}
	}
	return -1, -1
}

// counters are those of a table's head. Slabs are numbered as the arenas have them; taken ones come from the free list first, and
// settle does the sums.
type counters struct {
	live, dead int
	taken      uint64 // since the last settle
	listed     uint64 // on the free list then
	fresh      uint64 // taken from the arenas by then
	capacity   uint64 // of the arenas
}

// settle takes what was taken off the free list and the arenas.
func (c *counters) settle() {
	taken := min(c.taken, c.listed+c.capacity-c.fresh) // some may have come for nothing
	fromList := min(taken, c.listed)
	c.listed -= fromList
	c.fresh += taken - fromList
	c.taken = 0
}

// core is a table over memory that somebody else has: the Go heap, or a simulated device. It is given hashes for
// keys.
type core[K Key] struct {
	counters
	heads   []slab // a bucket's first slab each, those of the reserved hashes last
	buckets uint64 // without those
	log2    int    // of the number of slabs of the first arena; each has twice as many as the one before
	arenas  [maxArenas][]slab
	list    []uint32 // free slabs
}

// arenaSlabs is how many slabs an arena has.
func arenaSlabs(log2, arena int) int { return 1 << (log2 + arena) }

// arenaFor is log2 of the size of the first arena of a table.
func arenaFor(buckets int) int { return min(max(bits.Len(uint(buckets)/16), leastArena), 24) }

// leastArena is that of the smallest; tests make it smaller.
var leastArena = 6

// setFlags makes heads, which are zero, those of an empty table.
func (c *core[K]) setFlags() {
	for i := range reserved[K]() {
		c.heads[c.buckets+uint64(i)][link] = uint64(i+1) << 32
	}
}

func (c *core[K]) slab(number uint32) *slab {
	arena := bits.Len32(number>>c.log2+1) - 1
	return &c.arenas[arena&(maxArenas-1)][number-(1<<arena-1)<<c.log2]
}

// after gives the next slab of a chain, or nil.
func (c *core[K]) after(s *slab) *slab {
	if n := s.next(); n != 0 {
		return c.slab(n - 1)
	}
	return nil
}

func (c *core[K]) first(h K) *slab { return &c.heads[bucketOf(h, c.buckets)] }

// take gives the number of a slab that is empty.
func (c *core[K]) take() (number uint32, ok bool) {
	t := c.taken
	if t >= c.listed+c.capacity-c.fresh {
		return 0, false
	}
	c.taken++
	if t < c.listed {
		return c.list[c.listed-1-t], true
	}
	return uint32(c.fresh + t - c.listed), true
}

// extend appends a slab to a chain that ends with s; nil says that there is none.
func (c *core[K]) extend(s *slab, h K) *slab {
	number, ok := c.take()
	if !ok {
		return nil
	}
	more := c.slab(number)
	if aside(h) {
		more[link] = uint64(h+1) << 32
	}
	s.setNext(number + 1)
	return more
}

// insert puts a pair in: unique says whether it takes the place of one with its key. reuse has it take the slot of a deleted
// pair; without, it goes to the first empty slot of the chain.
func (c *core[K]) insert(h K, v uint32, unique, reuse bool) Result {
	key := keyOf(h)
	var free *slab
	var at int
	for s := c.first(h); ; {
		for i := range slots[K]() {
			switch w := s[i]; {
			case unique && has[K](w, key):
				put[K](s, i, key, v)
				return No
			case w == emptyWord:
				c.live++
				if free != nil {
					s, i = free, at
					c.dead--
				}
				put[K](s, i, key, v)
				return Yes
			case w == tombWord && reuse && free == nil:
				free, at = s, i
			}
		}
		next := c.after(s)
		if next == nil && free != nil {
			c.live++
			c.dead--
			put[K](free, at, key, v)
			return Yes
		}
		if next == nil {
			if next = c.extend(s, h); next == nil {
				return Left
			}
		}
		s = next
	}
}

// locate gives a pair with a key, or nil.
func (c *core[K]) locate(h K) (*slab, int) {
	key := keyOf(h)
	for s := c.first(h); s != nil; s = c.after(s) {
		match, end := look[K](s, key)
		if match >= 0 {
			return s, match
		}
		if end >= 0 {
			break
		}
	}
	return nil, 0
}

func (c *core[K]) find(h K) (v uint32, ok bool) {
	s, i := c.locate(h)
	if s == nil {
		return 0, false
	}
	return value[K](s, i), true
}

func (c *core[K]) replace(h K, v uint32) bool {
	s, i := c.locate(h)
	if s == nil {
		return false
	}
	put[K](s, i, keyOf(h), v)
	return true
}

func (c *core[K]) delete(h K) bool {
	s, i := c.locate(h)
	if s == nil {
		return false
	}
	s[i] = tombWord
	c.live--
	c.dead++
	return true
}

func (c *core[K]) count(h K) (n uint32) {
	key := keyOf(h)
	for s := c.first(h); s != nil; s = c.after(s) {
		for i := range slots[K]() {
			if has[K](s[i], key) {
				n++
			}
		}
	}
	return n
}

// lack is the number of slabs that a bucket lacks for so many more pairs.
func (c *core[K]) lack(bucket uint64, pairs int) int {
	s := &c.heads[bucket]
	for next := c.after(s); next != nil; next = c.after(s) {
		s = next
	}
	room := 0
	for i := range slots[K]() {
		if s[i] == emptyWord {
			room++
		}
	}
	return (max(pairs-room, 0) + slots[K]() - 1) / slots[K]()
}

// flush moves the pairs of each chain with deleted ones together and gives the slabs behind them back, empty. The counters are
// settled.
func (c *core[K]) flush() {
	c.dead = 0
	for b := range c.heads {
		c.flushChain(&c.heads[b])
	}
}

func (c *core[K]) flushChain(first *slab) {
	tombs := false
	for s := first; s != nil && !tombs; s = c.after(s) {
		for i := range slots[K]() {
			tombs = tombs || s[i] == tombWord
		}
	}
	if !tombs {
		return
	}
	to, free := first, 0
	for s := first; s != nil; s = c.after(s) {
		for i := range slots[K]() {
			if !live[K](s[i]) {
				continue
			}
			if free == slots[K]() {
				to, free = c.after(to), 0
			}
			key := s[i]
			if !wide[K]() {
				key >>= 32
			}
			put[K](to, free, key, value[K](s, i))
			free++
		}
	}
	clear(to[free:slots[K]()])
	rest := to.next()
	to.setNext(0)
	for rest != 0 {
		s := c.slab(rest - 1)
		c.list[c.listed] = rest - 1
		c.listed++
		rest = s.next()
		*s = slab{}
	}
}

// each calls f for every pair of slabs.
func each[K Key](slabs []slab, f func(h K, v uint32)) {
	for i := range slabs {
		s := &slabs[i]
		flag := s[link] >> 32
		for j := range slots[K]() {
			w := s[j]
			switch {
			case !live[K](w):
			case flag != 0:
				f(K(flag-1), value[K](s, j))
			case wide[K]():
				f(K(w), value[K](s, j))
			default:
				f(K(w>>32), uint32(w))
			}
		}
	}
}

// all calls f for every pair.
func (c *core[K]) all(f func(h K, v uint32)) {
	each(c.heads, f)
	for _, a := range c.arenas {
		each(a, f)
	}
}

// group is how many requests a processor has under way: it loads from the first slabs of all of them before it looks at
// any, so that they come from memory beside each other.
const group = 16

// start is where a request begins.
type start[K Key] struct {
	h     K
	slab  *slab
	first uint64 // the slab's first word
}

// begin loads from the first slabs of up to group keys.
func (c *core[K]) begin(starts *[group]start[K], keys []K) {
	for i, k := range keys[:min(len(keys), group)] {
		h := mix(k)
		s := c.first(h)
		// The second half of a slab is a line of memory of its own; keys are more often in the first.
		starts[i] = start[K]{h, s, s[0]}
	}
}

// findFrom is find for a request that was begun.
func (c *core[K]) findFrom(s *start[K]) (v uint32, ok bool) {
	key := keyOf(s.h)
	match, end := look[K](s.slab, key)
	switch {
	case match >= 0:
		return value[K](s.slab, match), true
	case end >= 0:
		return 0, false
	}
	return c.find(s.h)
}

// fill is the part of the buckets' slots with pairs beyond which a table gets more buckets: its chains are of 1.06 slabs then.
const fill = 0.7

// crowded reports whether so many pairs are too many for so many buckets.
func crowded[K Key](pairs, buckets int) bool {
	return float64(pairs) > fill*float64(buckets*slots[K]())
}

// stale reports whether so many deleted pairs are worth a flush.
func stale(dead, live int) bool { return dead > live/4+slabWords }
