package flavors

import "github.com/ribwarp/ribwarp/lpm"

// Sorted are values in the order of the tree: by key, then by length, shorter first. It is the
// output of step 1 and the input of all others. Columns are parallel.
type Sorted struct {
	Hi []uint64 // the key's first 64 bits
	Lo []uint64 // the others; nil where the key has at most 64
	// Bits is every mask's length; nil for keys, which all have the tree's.
	Bits []uint8
	// Payload is what the tree is to hold: a mask's handle, or 1 + a key's position in the input.
	Payload []uint32
}

// Len is the number of values.
func (s *Sorted) Len() int { return len(s.Hi) }

// record is a value on its way through the sort: order names its place in the input in the low
// 32 bits and the mask's length above them.
type record struct {
	hi, lo uint64
	order  uint64
}

// radixBits is the width of a digit: 2048 counters stay in the first-level cache.
const radixBits = 11

// digits is the number of radix digits that cover n bits.
func digits(n int) int { return (n + radixBits - 1) / radixBits }

// SortKeys is step 1 for keys. Of equal keys the first of the input stays.
func SortKeys(width int, keys []Key) *Sorted {
	recs := make([]record, len(keys))
	for i, k := range keys {
		recs[i] = record{k.Hi, k.Lo, uint64(i)}
	}
	recs = sortRecords(recs)
	recs = unique(recs, true)
	return columns(width, recs, false, func(i uint32) uint32 { return i + 1 })
}

// SortMasks is step 1 for masks. Of equal masks the last of the input stays, and none at all if
// that one has no handle.
func SortMasks(width int, masks []lpm.Route6) *Sorted {
	recs := make([]record, len(masks))
	for i, m := range masks {
		recs[i] = record{m.Addr.Hi, m.Addr.Lo, uint64(m.Bits)<<32 | uint64(i)}
	}
	recs = sortRecords(recs)
	recs = unique(recs, false)
	return columns(width, recs, true, func(i uint32) uint32 { return uint32(masks[i].Handle) })
}

// SortMasks4 is step 1 for IPv4 masks. It gives what SortMasks gives for the same masks; a whole
// IPv4 mask and its place fit into one word (32 + 6 + 26 bits), so it moves a third of the memory.
func SortMasks4(masks []lpm.Route4) *Sorted {
	const placeBits = 26
	n := len(masks)
	if n > 1<<placeBits {
		return SortMasks(32, widen(masks))
	}
	words := make([]uint64, n)
	ordered := true
	for i, m := range masks {
		words[i] = uint64(m.Addr)<<32 | uint64(m.Bits)<<placeBits | uint64(i)
		ordered = ordered && (i == 0 || words[i-1] < words[i])
	}
	if !ordered {
		words = sortWords(words, placeBits)
	}
	s := &Sorted{Hi: make([]uint64, 0, n), Bits: make([]uint8, 0, n), Payload: make([]uint32, 0, n)}
	for i, w := range words {
		if i+1 < n && words[i+1]>>placeBits == w>>placeBits {
			continue // the same mask comes again: the later one counts
		}
		h := masks[w&(1<<placeBits-1)].Handle
		if h == lpm.None {
			continue
		}
		s.Hi = append(s.Hi, w&^(1<<32-1))
		s.Bits = append(s.Bits, uint8(w>>placeBits)&63)
		s.Payload = append(s.Payload, uint32(h))
	}
	return s
}

// sortWords sorts words by their bits from bit low on, least significant digit first. Equal
// words keep their order. A digit that is the same in all words costs no pass. It returns words
// or a buffer of the same size.
func sortWords(words []uint64, low int) []uint64 {
	n := len(words)
	passes := digits(64 - low)
	counts := make([][1 << radixBits]uint32, passes)
	for _, w := range words {
		w >>= low
		for p := range counts {
			counts[p][w&(1<<radixBits-1)]++
			w >>= radixBits
		}
	}
	src, dst := words, make([]uint64, n)
	for p := range counts {
		c := &counts[p]
		if n == 0 || int(c[src[0]>>(low+p*radixBits)&(1<<radixBits-1)]) == n {
			continue
		}
		exclusiveScan(c[:])
		shift := low + p*radixBits
		for _, w := range src {
			d := w >> shift & (1<<radixBits - 1)
			dst[c[d]] = w
			c[d]++
		}
		src, dst = dst, src
	}
	return src
}

// sortRecords is sortWords for records, by key and then length.
func sortRecords(recs []record) []record {
	n := len(recs)
	const perWord = 6 // digits(64)
	digit := func(r *record, p int) uint64 {
		switch {
		case p == 0:
			return r.order >> 32
		case p <= perWord:
			return r.lo >> ((p - 1) * radixBits) & (1<<radixBits - 1)
		default:
			return r.hi >> ((p - 1 - perWord) * radixBits) & (1<<radixBits - 1)
		}
	}
	const passes = 1 + 2*perWord
	counts := make([][1 << radixBits]uint32, passes)
	ordered := true
	for i := range recs {
		r := &recs[i]
		for p := range counts {
			counts[p][digit(r, p)]++
		}
		ordered = ordered && (i == 0 || !recordLess(r, &recs[i-1]))
	}
	if ordered {
		return recs
	}
	src, dst := recs, make([]record, n)
	for p := range counts {
		c := &counts[p]
		if int(c[digit(&src[0], p)]) == n {
			continue
		}
		exclusiveScan(c[:])
		for i := range src {
			r := &src[i]
			d := digit(r, p)
			dst[c[d]] = *r
			c[d]++
		}
		src, dst = dst, src
	}
	return src
}

func recordLess(a, b *record) bool {
	if a.hi != b.hi {
		return a.hi < b.hi
	}
	if a.lo != b.lo {
		return a.lo < b.lo
	}
	return a.order>>32 < b.order>>32
}

// exclusiveScan replaces every element by the sum of those before it.
func exclusiveScan(c []uint32) {
	sum := uint32(0)
	for i, n := range c {
		c[i] = sum
		sum += n
	}
}

// unique drops all but one of each run of equal values: the first or the last.
func unique(recs []record, first bool) []record {
	same := func(a, b *record) bool { return a.hi == b.hi && a.lo == b.lo && a.order>>32 == b.order>>32 }
	out := recs[:0]
	for i := range recs {
		if first && i > 0 && same(&recs[i], &recs[i-1]) || !first && i+1 < len(recs) && same(&recs[i], &recs[i+1]) {
			continue
		}
		out = append(out, recs[i])
	}
	return out
}

// columns turns sorted records into columns.
func columns(width int, recs []record, masks bool, payload func(place uint32) uint32) *Sorted {
	n := len(recs)
	s := &Sorted{Hi: make([]uint64, 0, n), Payload: make([]uint32, 0, n)}
	for i := range recs {
		r := &recs[i]
		p := payload(uint32(r.order))
		if p == uint32(lpm.None) {
			continue
		}
		s.Hi = append(s.Hi, r.hi)
		if width > 64 {
			s.Lo = append(s.Lo, r.lo)
		}
		if masks {
			s.Bits = append(s.Bits, uint8(r.order>>32))
		}
		s.Payload = append(s.Payload, p)
	}
	return s
}
