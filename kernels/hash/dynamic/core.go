package dynamic

import "math/bits"

// What slots hold, as dynamic.cu has it.
const (
	empty = 0 // the first word of a slot without a pair
	tomb  = 1 // of an erased pair
	mark  = 2 // narrow: of a pair aside
	aside = 2 // sectors of pairs aside
	done  = 3 // wide: the lowest bits of a pair's first word

	line        = 4    // sectors
	region      = 2048 // sectors
	sectorWords = 4
	maxSubmaps  = 32
)

// mix is the finaliser of MurmurHash3 (A. Appleby) for 64 bits, a bijection; unmix is its inverse.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func unmix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0x9cb4b2f8129337db
	h ^= h >> 33
	h *= 0x4f74430c22a54005
	return h ^ h>>33
}

// key is a request's key: its hash, and the key itself where that is wide.
type key struct{ h, hi, lo uint64 }

// submap is one table of slots. live and used are counted by those who change it.
type submap struct {
	words   []uint64
	sectors uint64 // without those aside
	live    uint64 // pairs
	used    uint64 // slots of pairs and of erased pairs
}

// core is a map over memory that somebody else has: the Go heap, or a simulated device. It knows nothing
// of growth.
type core struct {
	wide bool
	seed uint64
	maps []submap // oldest first
}

// words is the number of 64-bit words of a submap with so many sectors.
func words(sectors uint64) uint64 { return (sectors + aside) * sectorWords }

func (c *core) narrowKey(k uint64) key { return key{h: mix(k ^ c.seed)} }

func (c *core) wideKey(hi, lo uint64) key {
	return key{mix(lo^c.seed^mix(hi+c.seed)) &^ done, hi, lo}
}

// first is what the first word of a key's slot holds.
func (c *core) first(k key) uint64 {
	switch {
	case c.wide:
		return k.h | done
	case k.h < aside:
		return mark
	}
	return k.h
}

// span is the number of sectors of a key's way: a submap is one region, or many full ones.
func span(sectors uint64) uint64 { return min(sectors, region) }

// sectorAt gives the sector at a step of a way, which stays in its region: the sectors of the home's line,
// those first that share 64 bytes, then the next line's.
func sectorAt(h, sectors, step uint64) uint64 {
	home, _ := bits.Mul64(h, sectors)
	base := home &^ (region - 1)
	at := (home-base)/line + step/line
	if at >= span(sectors)/line {
		at -= span(sectors) / line
	}
	return base + (at*line | (home^step)%line)
}

// locate finds the place of a key's slot among the words of a submap, -1 where it is missing. dead is the
// first slot of an erased pair on the way, or -1; free is the empty one that ends it, or -1.
func (c *core) locate(m *submap, k key) (slot, dead, free int) {
	first := c.first(k)
	dead = -1
	for step := range span(m.sectors) {
		place := m.sectors + k.h // aside
		if c.wide || k.h >= aside {
			place = sectorAt(k.h, m.sectors, step)
		}
		at := int(place) * sectorWords
		s := (*[sectorWords]uint64)(m.words[at:])
		if c.wide {
			switch {
			case s[0] == first && s[1] == k.hi && s[2] == k.lo:
				return at, -1, -1
			case s[0] == empty:
				return -1, dead, at
			case s[0] == tomb && dead < 0:
				dead = at
			}
			continue
		}
		switch {
		case s[0] == first:
			return at, -1, -1
		case s[2] == first:
			return at + 2, -1, -1
		}
		if dead < 0 {
			if s[0] == tomb {
				dead = at
			} else if s[2] == tomb {
				dead = at + 2
			}
		}
		if s[0] == empty {
			return -1, dead, at
		}
		if s[2] == empty {
			return -1, dead, at + 2
		}
	}
	return -1, dead, -1
}

// valueAt is where the value of the slot at a place is.
func (c *core) valueAt(slot int) int {
	if c.wide {
		return slot + 3
	}
	return slot + 1
}

// find gives the value of a key. It goes from the newest submap to the oldest.
func (c *core) find(k key) (value uint64, ok bool) {
	for i := len(c.maps) - 1; i >= 0; i-- {
		m := &c.maps[i]
		if slot, _, _ := c.locate(m, k); slot >= 0 {
			return m.words[c.valueAt(slot)], true
		}
	}
	return 0, false
}

// insert puts a pair into the target, unless the key is anywhere: then it replaces the value where
// assign is set. It reports whether the key was new; ok is false where it is, but its region is full.
func (c *core) insert(k key, value uint64, target int, assign bool) (fresh, ok bool) {
	for i := range c.maps {
		m := &c.maps[i]
		if i == target {
			continue
		}
		if slot, _, _ := c.locate(m, k); slot >= 0 {
			if assign {
				m.words[c.valueAt(slot)] = value
			}
			return false, true
		}
	}
	m := &c.maps[target]
	slot, dead, free := c.locate(m, k)
	switch {
	case slot >= 0:
		if assign {
			m.words[c.valueAt(slot)] = value
		}
		return false, true
	case dead >= 0:
		slot = dead
	case free >= 0:
		slot = free
		m.used++
	default:
		return false, false
	}
	if c.wide {
		m.words[slot+1], m.words[slot+2] = k.hi, k.lo
	}
	m.words[slot], m.words[c.valueAt(slot)] = c.first(k), value
	m.live++
	return true, true
}

// erase takes a key out and reports whether it was there.
func (c *core) erase(k key) bool {
	for i := len(c.maps) - 1; i >= 0; i-- {
		m := &c.maps[i]
		slot, _, _ := c.locate(m, k)
		if slot < 0 {
			continue
		}
		m.live--
		s := m.words[slot&^(sectorWords-1):]
		if !c.wide && (s[0] == empty || s[2] == empty) {
			// A way ends at a sector with an empty slot, so nothing was ever put behind such a sector.
			m.words[slot] = empty
			m.used--
		} else {
			m.words[slot] = tomb
		}
		return true
	}
	return false
}

// all calls put for every pair of a submap; hi is 0 where keys are narrow.
func (c *core) all(m *submap, put func(hi, lo, value uint64)) {
	if c.wide {
		for i := uint64(0); i < m.sectors; i++ {
			if s := m.words[i*sectorWords:][:sectorWords]; s[0] > tomb {
				put(s[1], s[2], s[3])
			}
		}
		return
	}
	for i := uint64(0); i < 2*m.sectors; i++ {
		if s := m.words[2*i:][:2]; s[0] > tomb {
			put(0, unmix(s[0])^c.seed, s[1])
		}
	}
	for h := range uint64(aside) {
		if s := m.words[(m.sectors+h)*sectorWords:][:2]; s[0] > tomb {
			put(0, unmix(h)^c.seed, s[1])
		}
	}
}
