package tune

import (
	"math"
	"math/bits"
	"sort"

	"github.com/ribwarp/ribwarp/flavors"
)

// A Shape is what is to be known of a table to say what a tree of any strides will be: how many nodes
// a level has, how many bytes, and how often and how scattered its cells are read.
//
// It all depends on the bit at which a level begins. A level that begins at bit d has a node for every
// d-bit beginning of a mask longer than d, whatever the levels above and below it are; so one pass
// over the sorted masks counts for all lists of strides at once.
type Shape struct {
	Width   int // key length in bits
	Masks   int
	Longest int // length of the longest mask
	// Lengths is the number of masks by length.
	Lengths [flavors.MaxWidth + 1]int
	// Nodes[d] is the number of nodes of a level that begins at bit d. The root, Nodes[0], is always there.
	Nodes [flavors.MaxWidth + 1]int
	// Visits[d] is the part of the lookups that come to such a level; 1 for the root.
	Visits [flavors.MaxWidth + 1]float64

	// inside[d] is how many masks longer than d the node has that a lookup visits, on the mean over all lookups.
	inside [flavors.MaxWidth + 1]float64
	pages  [flavors.MaxStride + 1]int // by stride of the root: parts of 1/4096 of it that hold children
	// How the lookups spread: inner[d] over the nodes of a level that begins at bit d, leaf[d] over those of
	// their halves that are no nodes of a level that begins at bit d+1.
	inner, leaf [flavors.MaxWidth + 1]spread
	// joined[d][k] is how they spread over parts of 2^(k+1) nodes that follow each other, for what takes in
	// more than a node. The last k has all nodes in one part.
	joined [flavors.MaxWidth + 1][]spread
}

// Keys says what addresses are looked up.
type Keys struct {
	uniform bool
	sample  []flavors.Key // sorted; nil for the other two
}

var (
	// InPrefix takes a mask of the table, each as likely as the others, and fills the bits behind
	// it at random.
	InPrefix = Keys{}
	// Uniform takes any key.
	Uniform = Keys{uniform: true}
)

// KeysOf takes the given keys, each as often as it is there. It keeps and sorts the slice, which must not
// be empty.
func KeysOf(sample []flavors.Key) Keys {
	sort.Slice(sample, func(i, j int) bool { return sample[i].Compare(sample[j]) < 0 })
	return Keys{sample: sample}
}

// A spread says how lookups are spread over things such as nodes or lines of a cache: those that
// 2^-b to 2^(1-b) of the lookups come to are in class b.
type spread [classes]struct {
	count float64 // of the things
	mass  float64 // part of the lookups
}

// classes is enough for one lookup in 2^95; what is rarer is in the last one.
const classes = 96

// add puts in one thing that a part p of the lookups comes to.
func (s *spread) add(p float64) {
	if p <= 0 {
		return
	}
	b := min(max(1023-int(math.Float64bits(p)>>52), 0), classes-1)
	s[b].count++
	s[b].mass += p
}

// addSplit puts in other's things, each split into 2^n that share its lookups; joined by 2^-n where n is
// negative.
func (s *spread) addSplit(other *spread, n int) {
	scale := math.Ldexp(1, n)
	for b := range other {
		if o := &other[b]; o.count > 0 {
			to := &s[min(max(b+n, 0), classes-1)]
			to.count += o.count * scale
			to.mass += o.mass
		}
	}
}

// rootPages is the number of parts of a root whose children are counted: those that kernels/tree
// indexes apart.
const rootPages = 4096

// ShapeOf scans sorted masks once. It takes some 50 ns a mask.
func ShapeOf(width int, s *flavors.Sorted, keys Keys) *Shape {
	sc := scan{Shape: Shape{Width: width, Masks: s.Len()}, keys: keys, n: float64(max(s.Len(), 1))}
	sc.Nodes[0] = 1
	previous, length := flavors.Key{}, 0 // the mask before
	for k, hi := range s.Hi {
		key := flavors.Key{Hi: hi}
		if s.Lo != nil {
			key.Lo = s.Lo[k]
		}
		n := int(s.Bits[k])
		common := width // bits that both begin with
		if k > 0 {
			common = min(commonBits(previous, key), width)
		} else {
			common = 0
		}
		sc.mask(k, key, n, common, length)
		previous, length = key, n
	}
	sc.close(0, max(length-1, 0), s.Len())
	sc.joinLast()
	for d := range sc.Visits {
		for b := range sc.inner[d] {
			sc.Visits[d] += sc.inner[d][b].mass
		}
	}
	if s.Len() == 0 {
		sc.Visits[0] = 1
	}
	return &sc.Shape
}

// commonBits is the number of bits that both keys begin with.
func commonBits(a, b flavors.Key) int {
	if a.Hi != b.Hi {
		return bits.LeadingZeros64(a.Hi ^ b.Hi)
	}
	return 64 + bits.LeadingZeros64(a.Lo^b.Lo)
}

// scan is a pass under way. Its arrays describe the way from the root to the last mask, by the bit that a
// node begins at.
type scan struct {
	Shape
	keys  Keys
	n     float64
	nodes [flavors.MaxWidth + 1]openNode
	// cover[d] is the sum of 2^(length-d) over the masks of up to d bits on the way: how many lookups the
	// masks around a node send to it, in units of those that a mask gets.
	cover  [flavors.MaxWidth + 1]float64
	pageOf [flavors.MaxStride + 1]uint64 // 1 + the last page with a child
	closed [flavors.MaxWidth + 1]int     // nodes so far
	// joining[d][k] is what comes to the last 2^k nodes, where bit k of closed[d] is set.
	joining [flavors.MaxWidth + 1][32]float64
	keyAt   int // no node that comes has a key of the sample before this one
}

// openNode is a node that the next mask may be in.
type openNode struct {
	key    flavors.Key
	from   int   // the first mask longer than where the node begins
	keys   int   // the first key of the sample in it
	halves uint8 // bits 0, 1: a node begins one bit further in this half; bits 2, 3: a mask is this half
}

// mask takes the next mask. The masks of the order have the property that those which begin as a
// node does and are not longer come before the others: so a node is there from its first longer mask
// on until a mask begins otherwise.
func (sc *scan) mask(k int, key flavors.Key, length, common, before int) {
	sc.Lengths[length]++
	sc.Longest = max(sc.Longest, length)
	sc.close(common+1, before-1, k)
	for c := min(common, before) + 1; c <= length; c++ {
		sc.cover[c] = sc.cover[c-1] / 2
	}
	for d := max(min(common+1, before), 1); d < length; d++ { // the root is there before the first mask
		sc.open(d, k, key)
	}
	if length == 0 {
		sc.cover[0] = 1
		sc.nodes[0].from = 1
		return
	}
	sc.cover[length]++
	sc.nodes[length-1].halves |= 4 << bit(key, length-1)
}

// open comes to a new node that begins at bit d.
func (sc *scan) open(d, k int, key flavors.Key) {
	sc.Nodes[d]++
	sc.nodes[d-1].halves |= 1 << bit(key, d-1)
	node := openNode{key: key, from: k}
	if sc.keys.sample != nil {
		node.key = clip(key, d)
		node.keys = sc.keys.from(sc.keyAt, node.key)
		sc.keyAt = node.keys
	}
	sc.nodes[d] = node
	if d < len(sc.pages) && d > 12 {
		if page := key.Hi>>52 + 1; page != sc.pageOf[d] {
			sc.pageOf[d] = page
			sc.pages[d]++
		}
	}
}

// close leaves the nodes that begin at bits from to to, the lowest first. end is the mask behind them.
func (sc *scan) close(from, to, end int) {
	for d := to; d >= from; d-- {
		node := &sc.nodes[d]
		var whole float64
		var halves [2]float64
		switch {
		case sc.keys.uniform:
			whole = math.Ldexp(1, -d)
			halves = [2]float64{whole / 2, whole / 2}
		case sc.keys.sample != nil:
			middle := sc.keys.from(node.keys, withBit(node.key, d))
			last := sc.keys.behind(middle, node.key, d)
			n := float64(len(sc.keys.sample))
			whole = float64(last-node.keys) / n
			halves = [2]float64{float64(middle-node.keys) / n, float64(last-middle) / n}
		default:
			whole = (float64(end-node.from) + sc.cover[d]) / sc.n
			for h := range halves {
				halves[h] = (float64(node.halves>>(2+h)&1) + sc.cover[d]/2) / sc.n
			}
		}
		sc.inner[d].add(whole)
		sc.join(d, whole)
		sc.inside[d] += whole * float64(end-node.from)
		for h := range halves {
			if node.halves>>h&1 == 0 {
				sc.leaf[d].add(halves[h])
			}
		}
	}
}

// join puts the next node of those that begin at bit d, to which a part p of the lookups comes, to its neighbours:
// as a binary counter carries.
func (sc *scan) join(d int, p float64) {
	k := 0
	for ; sc.closed[d]>>k&1 == 1; k++ {
		p += sc.joining[d][k]
		if k == len(sc.joined[d]) {
			sc.joined[d] = append(sc.joined[d], spread{})
		}
		sc.joined[d][k].add(p)
	}
	sc.joining[d][k] = p
	sc.closed[d]++
}

// joinLast puts in the parts that nodes did not suffice for.
func (sc *scan) joinLast() {
	for d := range sc.closed {
		p := 0.0
		for k := 0; 1<<k < sc.closed[d]; k++ {
			if sc.closed[d]>>k&1 == 1 {
				p += sc.joining[d][k]
			}
			if k == len(sc.joined[d]) {
				sc.joined[d] = append(sc.joined[d], spread{})
			}
			sc.joined[d][k].add(p)
		}
	}
}

// from gives the first key of the sample, from place at on, that is not below key. It looks near
// first.
func (k Keys) from(at int, key flavors.Key) int {
	return at + gallop(len(k.sample)-at, func(i int) bool { return k.sample[at+i].Compare(key) >= 0 })
}

// behind gives the first key of the sample, from place at on, that does not begin with d bits of key, where
// none before does.
func (k Keys) behind(at int, key flavors.Key, d int) int {
	return at + gallop(len(k.sample)-at, func(i int) bool { return clip(k.sample[at+i], d) != key })
}

// gallop is sort.Search for answers that are mostly near the beginning.
func gallop(n int, f func(int) bool) int {
	lo, step := 0, 1
	for lo+step <= n && !f(lo+step-1) {
		lo += step
		step *= 2
	}
	return lo + sort.Search(min(step, n-lo), func(i int) bool { return f(lo + i) })
}

// clip clears the bits of key from bit d on.
func clip(key flavors.Key, d int) flavors.Key {
	switch {
	case d >= 128:
		return key
	case d >= 64:
		return flavors.Key{Hi: key.Hi, Lo: key.Lo &^ (^uint64(0) >> (d - 64))}
	}
	return flavors.Key{Hi: key.Hi &^ (^uint64(0) >> d)}
}

// withBit sets bit d of a key.
func withBit(key flavors.Key, d int) flavors.Key {
	switch {
	case d < 64:
		key.Hi |= 1 << (63 - d)
	case d < 128:
		key.Lo |= 1 << (127 - d)
	}
	return key
}

// bit gives bit d of a key.
func bit(key flavors.Key, d int) uint {
	if d < 64 {
		return uint(key.Hi >> (63 - d) & 1)
	}
	return uint(key.Lo >> (127 - d) & 1)
}

// cells gives how lookups spread over the cells of a level that begins at bit d and takes n, in lines of
// 2^line cells.
func (sh *Shape) cells(d, n, line int) spread {
	var s spread
	end := d + n - line // the bits that all cells of a line have in common
	if end < d {        // nodes that follow each other share a line
		if len(sh.joined[d]) == 0 {
			return sh.inner[d]
		}
		return sh.joined[d][min(d-end, len(sh.joined[d]))-1]
	}
	s.addSplit(&sh.inner[min(end, sh.Width)], 0)
	for g := d; g < end; g++ {
		s.addSplit(&sh.leaf[g], end-g-1)
	}
	return s
}
