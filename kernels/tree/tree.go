// Package tree builds and searches radix trees with configurable strides on a device: the Flavors
// method of A. Wolant and K. Kaczmarski (GTC Europe 2017), a kernel a step.
//
//	step of the method            here
//	sort, keep the permutation    records, primitives.Sort, keep, primitives.Compact, gather
//	split into cell numbers       no step: a window of the key, taken where it is needed
//	borders, clear below masks    borders: both at once, see tree.cu
//	node indexes                  primitives.Scan over all levels' borders in one go
//	allocate                      plan, on the host, which waits for the number of nodes
//	link, leaves                  link, leaves
//	containers                    by_length, primitives.Sort, classes, primitives.Scan, entries, starts
//	push                          inherit, paint (once a length), link; level by level
//	search                        match_*, match_lists_*, find_masks, covering, inside
//
// The image is the one that package flavors builds on the processor, byte for byte. A tree whose
// cells are all that a search needs (Keys, Pushed) also gets an index of its root: 32 cells in 8
// bytes, small enough for a block's shared memory, so that a search reads nothing of the root but
// the cells where it ends.
package tree

import (
	_ "embed"
	"math/bits"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o tree.ptx tree.cu
//go:embed tree.ptx
var ptx string

var module = &device.Module{Name: "tree", PTX: ptx, Twins: twins}

// Modules are what a device needs for this package (device.Open).
func Modules() []*device.Module { return []*device.Module{primitives.Module, module} }

// Columns are values on a device, a column each: key, length and payload. Free gives them back.
type Columns struct {
	Hi      device.Ptr // u64: the first 64 bits of the keys, left aligned
	Lo      device.Ptr // u64: the others; 0 where no value has any there
	Bits    device.Ptr // u8: lengths; 0 for keys, which have the tree's
	Payload device.Ptr // u32: below 2^31, 0 for "there is no such value"; 0 (no column) for 1 + the value's place
	N       int
	Longest int // no value is longer

	room int // values that there is memory for
}

// Free gives the columns' memory back.
func (c *Columns) Free(q *device.Queue) {
	for _, p := range []device.Ptr{c.Hi, c.Lo, c.Bits, c.Payload} {
		q.Free(p)
	}
	*c = Columns{}
}

// Bytes is the memory of the columns.
func (c *Columns) Bytes() int {
	bytes := 0
	for _, column := range []struct {
		p    device.Ptr
		size int
	}{{c.Hi, 8}, {c.Lo, 8}, {c.Bits, 1}, {c.Payload, 4}} {
		if column.p != 0 {
			bytes += column.size * c.room
		}
	}
	return bytes
}

// NewColumns allocates columns for n values of masks no longer than longest.
func NewColumns(q *device.Queue, n, longest int) Columns {
	c := Columns{Hi: q.Alloc(8 * n), Bits: q.Alloc(n), Payload: q.Alloc(4 * n), N: n, Longest: longest, room: n}
	if longest > 64 {
		c.Lo = q.Alloc(8 * n)
	}
	return c
}

// Set32 fills n values from place `at` on from records of 12 bytes on the device: key (u32), payload (u32),
// length (u8).
func (c *Columns) Set32(q *device.Queue, at int, records device.Ptr, n int) {
	if c.Lo != 0 {
		q.Fill(c.Lo.Add(8*at), 0, 2*n)
	}
	q.Launch("tree.columns_32", grid(q, n), uint64(c.Hi.Add(8*at)), uint64(c.Bits.Add(at)), uint64(c.Payload.Add(4*at)), uint64(records), uint64(n))
}

// Set128 is Set32 for records of 24 bytes: key (u64 first bits, u64 others), payload (u32), length (u8).
func (c *Columns) Set128(q *device.Queue, at int, records device.Ptr, n int) {
	lo := device.Ptr(0)
	if c.Lo != 0 {
		lo = c.Lo.Add(8 * at)
	}
	q.Launch("tree.columns_128", grid(q, n), uint64(c.Hi.Add(8*at)), uint64(lo), uint64(c.Bits.Add(at)), uint64(c.Payload.Add(4*at)), uint64(records), uint64(n))
}

// Pack32 writes the masks of a tree of 32-bit keys as 64-bit words: key and length.
func (c *Columns) Pack32(q *device.Queue, keys device.Ptr) {
	q.Launch("tree.pack_32", grid(q, c.N), uint64(keys), uint64(c.Hi), uint64(c.Bits), uint64(c.N))
}

// Unpack32 is its inverse: it fills n values from place `at` on from words and payloads.
func (c *Columns) Unpack32(q *device.Queue, at int, keys, payloads device.Ptr, n int) {
	q.Copy(c.Payload.Add(4*at), payloads, 4*n)
	q.Launch("tree.unpack_32", grid(q, n), uint64(c.Hi.Add(8*at)), uint64(c.Bits.Add(at)), uint64(keys), uint64(n))
}

// Pack128 writes masks and payloads, in no order, as 128-bit keys of their own: first those shorter than 128
// bits, with a bit set behind the mask that tells its length, and to a second pair of arrays those of 128 bits. All arrays
// have room for every mask. counts (2 u64) gets how many there are of each.
func (c *Columns) Pack128(q *device.Queue, keys, payloads, longKeys, longPayloads, counts device.Ptr) {
	q.Fill(counts, 0, 4)
	q.Launch("tree.pack_128", grid(q, c.N), uint64(keys), uint64(payloads), uint64(longKeys), uint64(longPayloads), uint64(counts),
		uint64(c.Hi), uint64(c.Lo), uint64(c.Bits), uint64(c.Payload), uint64(c.N))
}

// Unpack128 is its inverse for one of the pairs; long says which. c must have room for their length.
func (c *Columns) Unpack128(q *device.Queue, at int, keys, payloads device.Ptr, n int, long bool) {
	lo, whole := device.Ptr(0), uint64(0)
	if c.Lo != 0 {
		lo = c.Lo.Add(8 * at)
	}
	if long {
		whole = 1
	}
	q.Copy(c.Payload.Add(4*at), payloads, 4*n)
	q.Launch("tree.unpack_128", grid(q, n), uint64(c.Hi.Add(8*at)), uint64(lo), uint64(c.Bits.Add(at)), uint64(keys), uint64(n), whole)
}

// An Image is a built tree on a device. It is immutable; Free gives its memory back.
type Image struct {
	Shape *Shape
	Kind  Kind
	// Nodes, Base and NodeBase have an element a level: number of nodes, first cell, nodes of the
	// levels above.
	Nodes, Base, NodeBase []int
	CellCount             int
	Cells                 device.Ptr // u32: the nodes of all levels
	// Of trees of masks: the container of node g, counted through all levels, is Entries[Starts[g]:Starts[g+1]], each
	// 8 bytes: position and payload.
	Starts, Entries device.Ptr
	// Sorted are the tree's values in order, without repetitions. A tree of keys keeps only their
	// number.
	Sorted Columns

	levels  device.Ptr // table of levels
	levelOf device.Ptr // u8 by length, 129
	root    root
}

// root is the index of the root's cells.
type root struct {
	mode     string     // of the match kernels
	words    device.Ptr // 8 bytes for 32 cells
	count    int        // of words
	table    device.Ptr // u16 a page
	pages    int        // size of table
	pageBits int
}

// Bytes is the device memory of the image, its sorted values and its index.
func (im *Image) Bytes() int {
	n := 4*im.CellCount + im.Sorted.Bytes() + 8*im.root.count + 2*im.root.pages
	if im.Entries != 0 {
		n += 8*im.Sorted.N + 4*(im.nodes()+1)
	}
	return n
}

func (im *Image) nodes() int {
	last := len(im.Nodes) - 1
	return im.NodeBase[last] + im.Nodes[last]
}

// Free gives the image's memory back. No job may use it any more.
func (im *Image) Free(q *device.Queue) {
	for _, p := range []device.Ptr{im.Cells, im.Starts, im.Entries, im.levels, im.levelOf, im.root.words, im.root.table} {
		q.Free(p)
	}
	im.Cells, im.Starts, im.Entries, im.levels, im.levelOf, im.root = 0, 0, 0, 0, 0, root{}
	im.Sorted.Free(q)
}

const block = 256

// grid gives enough blocks for n threads, and not more than fill a GPU some times over: kernels
// stride on.
func grid(q *device.Queue, n int) device.Launch {
	return device.Launch{GridX: min((n+block-1)/block, 32*q.Device().Describe().Multiprocessors), Block: block}
}

// Build makes a tree of values in any order. Of equal masks the last one counts, of equal keys the
// first; one whose payload is 0 counts and is not there. in stays as it is.
//
// It waits for the device once, to know the number of nodes, and a second time for the size of an
// index in pages; what comes after that is under way when it returns. An error leaves nothing
// behind; it is the queue's, or wraps ErrCells.
func Build(q *device.Queue, shape *Shape, in Columns, kind Kind) (*Image, error) {
	im := &Image{Shape: shape, Kind: kind}
	b := build{q: q, im: im, shape: shape}
	err := b.run(in)
	q.Free(b.nodes)
	q.Free(b.sorted)
	if err == nil {
		err = q.Err()
	}
	if err != nil {
		im.Free(q)
		return nil, err
	}
	return im, nil
}

// build is a build under way.
type build struct {
	q       *device.Queue
	im      *Image
	shape   *Shape
	plan    *plan
	nodes   device.Ptr // u32: the scan of the borders, a row a level from level 1 on
	row     int        // its length: the number of values before repetitions are dropped
	rows    int
	lengths [256]uint32 // masks of each length
	sorted  device.Ptr  // u64: masks by length
}

func (b *build) run(in Columns) error {
	q, im, s := b.q, b.im, b.shape
	im.levels = q.Alloc(len(s.Strides) * levelSize)
	device.CopyIn(q, im.levels, s.levels(nil))
	if im.Kind != Keys {
		im.levelOf = q.Alloc(len(s.levelOf))
		device.CopyIn(q, im.levelOf, s.levelOf[:])
	}
	b.row = in.N
	b.rows = int(s.levelOf[in.Longest])
	// What the host has to know: the number of values, of each length, and the rows' last elements.
	info := q.Temp(4 * (1 + 256 + b.rows))
	q.Fill(info, 0, 1+256+b.rows)
	if in.N > 0 {
		b.sort(in, info)
		b.number(info)
	}
	known := make([]uint32, 1+256+b.rows)
	device.CopyOut(q, known, info)
	q.Wait()
	if q.Err() != nil {
		return q.Err()
	}
	im.Sorted.N = int(known[0])
	copy(b.lengths[:], known[1:])
	im.Sorted.Longest = s.Width
	if im.Kind != Keys {
		for im.Sorted.Longest > 0 && b.lengths[im.Sorted.Longest] == 0 {
			im.Sorted.Longest--
		}
	}
	counts := make([]int, len(s.Strides))
	counts[0] = 1 // a tree without values still has its root
	before := uint32(0)
	for i, end := range known[1+256:] {
		counts[i+1] = int(end - before)
		before = end
	}
	var err error
	if b.plan, err = s.plan(counts); err != nil {
		return err
	}
	im.Nodes, im.Base, im.NodeBase, im.CellCount = b.plan.nodes, b.plan.base, b.plan.nodeBase, b.plan.cells
	device.CopyIn(q, im.levels, s.levels(b.plan))
	if im.Kind != Keys {
		b.containers()
	}
	im.Cells = q.Alloc(4 * im.CellCount)
	if im.Kind == Pushed {
		b.push()
	} else {
		q.Fill(im.Cells, 0, im.CellCount)
		b.link(0, b.plan.used-1, 0)
		if im.Kind == Keys && im.Sorted.N > 0 {
			last := len(s.Strides) - 1
			b.launch("leaves", im.Sorted.N, uint64(im.Cells), uint64(im.Sorted.N), uint64(im.Sorted.Hi), uint64(im.Sorted.Lo), uint64(im.Sorted.Payload),
				uint64(b.nodes), uint64(b.row), uint64(im.levels), uint64(last))
		}
	}
	b.index()
	if im.Kind == Keys { // nothing asks for them in order, and they are a tenth of the tree
		n := im.Sorted.N
		im.Sorted.Free(q)
		im.Sorted.N = n
	}
	return nil
}

func (b *build) launch(kernel string, n int, args ...uint64) {
	b.q.Launch("tree."+kernel, grid(b.q, n), args...)
}

// sort makes the sorted columns, their number and how many there are of each length.
func (b *build) sort(in Columns, info device.Ptr) {
	q, n := b.q, in.N
	masks := b.im.Kind != Keys
	words, spans := b.spans(in)
	records, scratch := primitives.Records{N: n}, primitives.Records{N: n}
	for range words {
		records.Words = append(records.Words, q.Temp(8*n))
		scratch.Words = append(scratch.Words, q.Temp(8*n))
	}
	var w [3]uint64
	for i, p := range records.Words {
		w[i] = uint64(p)
	}
	b.launch("records", n, w[0], w[1], w[2], uint64(in.Hi), uint64(in.Lo), uint64(in.Bits), uint64(n), uint64(words))
	primitives.Sort(q, records, scratch, spans...)
	for _, p := range scratch.Words {
		q.Free(p)
	}
	flags, index := q.Temp(4*n), q.Temp(4*n)
	last := uint64(0)
	if masks {
		last = 1
	}
	b.launch("keep", n, uint64(flags), w[0], w[1], w[2], uint64(words), uint64(n), uint64(in.Payload), last)
	primitives.Compact(q, index, info, flags, n)
	q.Free(flags)
	s := &b.im.Sorted
	s.room = n
	s.Hi, s.Payload = q.Alloc(8*n), q.Alloc(4*n)
	if in.Lo != 0 {
		s.Lo = q.Alloc(8 * n)
	}
	if masks {
		s.Bits = q.Alloc(n)
	}
	b.launch("gather", n, uint64(s.Hi), uint64(s.Lo), uint64(s.Bits), uint64(s.Payload), uint64(info.Add(4)), w[0], w[1], w[2], uint64(words),
		uint64(index), uint64(info), uint64(in.Payload))
	q.Free(index)
	for _, p := range records.Words {
		q.Free(p)
	}
}

// spans chooses the records' form: the fewest words that hold key, length and place. The sort goes over the
// bits that can differ.
func (b *build) spans(in Columns) (words int, spans []primitives.Span) {
	longest := max(in.Longest, 1)
	if b.shape.Width <= 32 && in.N <= 1<<placeBits {
		low := placeBits
		if in.Bits == 0 {
			low = 64 - b.shape.Width
		}
		return 1, []primitives.Span{{Word: 0, Low: low, High: 64}}
	}
	spans = append(spans, primitives.Span{Word: 0, Low: max(64-longest, 0), High: 64})
	words = 2
	if in.Lo != 0 {
		words = 3
		spans = append(spans, primitives.Span{Word: 1, Low: max(128-longest, 0), High: 64})
	}
	if in.Bits != 0 {
		spans = append(spans, primitives.Span{Word: words - 1, Low: 32, High: 32 + bits.Len(uint(longest))})
	}
	return words, spans
}

// number finds the borders of nodes and numbers the nodes of all levels from the root, number 0, on.
func (b *build) number(info device.Ptr) {
	if b.rows == 0 {
		return
	}
	q, s := b.q, &b.im.Sorted
	b.nodes = q.Temp(4 * b.rows * b.row)
	l := grid(q, b.row)
	l.GridY = b.rows
	q.Launch("tree.borders", l, uint64(b.nodes), uint64(s.Hi), uint64(s.Lo), uint64(s.Bits), uint64(info), uint64(b.row), uint64(b.im.levels))
	primitives.ScanInclusive(q, b.nodes, b.nodes, b.rows*b.row)
	b.launch("row_ends", b.rows, uint64(info.Add(4*(1+256))), uint64(b.nodes), uint64(b.row), uint64(b.rows))
}

// containers sorts every node's masks, longest first. Masks sorted by length are in the order of nodes
// and cells among those of one length, so what is left to find is how many longer ones each node
// has.
func (b *build) containers() {
	q, im, n := b.q, b.im, b.im.Sorted.N
	im.Starts, im.Entries = q.Alloc(4*(b.plan.total+1)), q.Alloc(8*n)
	if n == 0 {
		q.Fill(im.Starts, 0, b.plan.total+1)
		return
	}
	b.sorted = q.Temp(8 * n)
	scratch := q.Temp(8 * n)
	b.launch("by_length", n, uint64(b.sorted), uint64(im.Sorted.Bits), uint64(n))
	primitives.Sort(q, primitives.Records{Words: []device.Ptr{b.sorted}, N: n}, primitives.Records{Words: []device.Ptr{scratch}, N: n}, primitives.Span{Word: 0, Low: 32, High: 40})
	q.Free(scratch)
	class, first, start := q.Temp(4*n), q.Temp(4*b.plan.classes), q.Temp(4*b.plan.classes)
	q.Fill(start, 0, b.plan.classes)
	b.launch("classes", n, uint64(class), uint64(first), uint64(start), uint64(b.sorted), uint64(n), uint64(b.nodes), uint64(b.row), uint64(im.levels), uint64(im.levelOf))
	primitives.ScanExclusive(q, start, start, b.plan.classes)
	b.launch("entries", n, uint64(im.Entries), uint64(class), uint64(first), uint64(start), uint64(b.sorted), uint64(n), uint64(im.Sorted.Hi), uint64(im.Sorted.Lo),
		uint64(im.Sorted.Payload), uint64(im.levels), uint64(im.levelOf))
	b.launch("starts", b.plan.total+1, uint64(im.Starts), uint64(start), uint64(b.plan.total), uint64(n), uint64(im.levels), uint64(b.plan.used))
	for _, p := range []device.Ptr{class, first, start} {
		q.Free(p)
	}
}

// link writes the children of count levels from level on into their parents' cells. from, if not
// 0, receives by child what the cell held; count is 1 then.
func (b *build) link(level, count int, from device.Ptr) {
	if count < 1 {
		return
	}
	im := b.im
	l := grid(b.q, im.Sorted.N)
	l.GridY = count
	b.q.Launch("tree.link", l, uint64(im.Cells), uint64(from), uint64(im.Sorted.N), uint64(im.Sorted.Hi), uint64(im.Sorted.Lo), uint64(b.nodes), uint64(b.row), uint64(im.levels), uint64(level))
}

// push fills the cells from the root down: what a node inherits, its masks, shortest first, and
// its children, which inherit what the cell held.
func (b *build) push() {
	q, im, s := b.q, b.im, b.shape
	from := device.Ptr(0)
	place := 0 // of the masks of a length among those sorted by length
	for l := range b.plan.used {
		base, size := im.Cells.Add(4*im.Base[l]), im.Nodes[l]<<s.Strides[l]
		if l == 0 {
			q.Fill(base, 0, size)
		} else {
			b.launch("inherit", (size+3)/4, uint64(base), uint64(from), uint64(size), uint64(s.Strides[l]))
			q.Free(from)
		}
		shortest, longest := s.offsets[l]+1, s.offsets[l]+s.Strides[l]
		if l == 0 {
			shortest = 0
		}
		for length := shortest; length <= longest; length++ {
			n, free := int(b.lengths[length]), longest-length
			if n == 0 {
				continue
			}
			b.launch("paint", n<<free, uint64(im.Cells), uint64(b.sorted.Add(8*place)), uint64(n), uint64(free), uint64(im.Sorted.Hi), uint64(im.Sorted.Lo), uint64(im.Sorted.Payload),
				uint64(b.nodes), uint64(b.row), uint64(im.levels), uint64(l))
			place += n
		}
		if l+1 < b.plan.used {
			from = q.Temp(4 * im.Nodes[l+1])
			b.link(l, 1, from)
		}
	}
}

const (
	directBytes = 128 << 10 // the largest index that is kept whole in shared memory
	pages       = 4096      // of a larger index
	tableBytes  = 2 * pages
	leastPaged  = 18 // stride of the root: a page is two words at least
)

// index makes the index of the root, if searches use one.
func (b *build) index() {
	q, im := b.q, b.im
	stride := b.shape.Strides[0]
	im.root.mode = "plain"
	if im.Kind == List || b.plan.used < 2 || stride < 6 {
		return
	}
	r := root{count: 1 << stride / 32}
	used := device.Ptr(0)
	switch {
	case im.Kind == Keys:
		r.mode = "global"
	case 8*r.count <= min(directBytes, q.Device().Describe().SharedMemory):
		r.mode = "direct"
	case stride >= leastPaged:
		r.mode, r.pages, r.pageBits = "paged", pages, stride-bits.Len(pages-1)
		used = q.Temp(4 * pages)
		defer q.Free(used)
		q.Fill(used, 0, pages)
	default:
		return
	}
	r.words = q.Alloc(8 * r.count)
	b.launch("root_index", 32*r.count, uint64(r.words), uint64(used), uint64(im.Cells), uint64(32*r.count), uint64(b.shape.Strides[1]), uint64(r.pageBits))
	if r.mode != "paged" {
		im.root = r
		return
	}
	// Only the pages that hold children travel with every search.
	whole, number := r.words, q.Temp(4)
	defer q.Free(number)
	r.table = q.Alloc(tableBytes)
	q.Launch("tree.root_pages", device.Launch{GridX: 1, Block: 1024}, uint64(r.table), uint64(number), uint64(used), uint64(pages))
	have := make([]uint32, 1)
	device.CopyOut(q, have, number)
	q.Wait()
	pageWords := r.pageBits - 5
	wholeCount := r.count
	r.count = int(have[0]) << pageWords
	if 8*r.count+tableBytes > q.Device().Describe().SharedMemory {
		q.Free(whole)
		q.Free(r.table)
		return
	}
	r.words = q.Alloc(8 * r.count)
	b.launch("pack_pages", wholeCount, uint64(r.words), uint64(whole), uint64(r.table), uint64(wholeCount), uint64(pageWords))
	q.Free(whole)
	im.root = r
}

// shared is the size of the index in a block's shared memory.
func (r *root) shared() int {
	switch r.mode {
	case "direct":
		return 8 * r.count
	case "paged":
		return 8*r.count + 2*r.pages
	}
	return 0
}

// fewKeys is the number of keys below which bringing the index into shared memory costs more than it
// saves.
const fewKeys = 1 << 15

// Match gives each of n keys the payload of the longest mask that matches it, 0 where none does; in
// a tree of keys the payload of the key. Keys are left aligned in 32, 64 or 128 bits (width);
// 32 and 64 bits are enough where no mask is longer. dst gets n u32. Both are aligned to 16.
func (im *Image) Match(q *device.Queue, dst, keys device.Ptr, n, width int) {
	im.match(q, dst, keys, n, width, 0)
}

// Find gives each of n keys its payload less 1, and -1 (as u32) where the tree of keys lacks it:
// the key's place in the input of a tree that was built without payloads.
func (im *Image) Find(q *device.Queue, dst, keys device.Ptr, n, width int) {
	im.match(q, dst, keys, n, width, 1)
}

func (im *Image) match(q *device.Queue, dst, keys device.Ptr, n, width int, minus uint64) {
	if n == 0 {
		return
	}
	if im.Kind == List {
		q.Launch(kernel("lists", width), grid(q, n), uint64(dst), uint64(keys), uint64(n), uint64(im.Cells), uint64(im.levels), uint64(im.Starts), uint64(im.Entries))
		return
	}
	r := &im.root
	mode, shared := r.mode, r.shared()
	sms := q.Device().Describe().Multiprocessors
	perThread := 128 / width
	launch := device.Launch{GridX: min((n+perThread*block-1)/(perThread*block), 8*sms), Block: block}
	if shared > 0 {
		if n < fewKeys {
			mode = "plain"
		} else {
			launch = device.Launch{GridX: sms, Block: 1024, Shared: shared}
		}
	}
	q.Launch(kernel(mode, width), launch, uint64(dst), uint64(keys), uint64(n), uint64(im.Cells), uint64(im.levels), uint64(r.words), uint64(r.count),
		uint64(r.table), uint64(r.pages), uint64(r.pageBits), minus)
}

// kernels are the names of the match kernels by mode and width: lookups allocate nothing.
var kernels = func() map[string][3]string {
	names := map[string][3]string{"lists": {"tree.match_lists_32", "tree.match_lists_64", "tree.match_lists_128"}}
	for _, mode := range []string{"plain", "direct", "paged", "global"} {
		names[mode] = [3]string{"tree.match_32_" + mode, "tree.match_64_" + mode, "tree.match_128_" + mode}
	}
	return names
}()

func kernel(mode string, width int) string { return kernels[mode][bits.Len(uint(width))-6] }

// FindMasks gives each of n masks (keys of 16 bytes, lengths of 1 byte) its payload, 0 where the
// tree lacks it.
func (im *Image) FindMasks(q *device.Queue, dst, keys, lengths device.Ptr, n int) {
	q.Launch("tree.find_masks", grid(q, n), uint64(dst), uint64(keys), uint64(lengths), uint64(n), uint64(im.Cells), uint64(im.levels), uint64(im.Starts), uint64(im.Entries), uint64(im.levelOf))
}

// Covering gives each of n masks the payloads of all masks that contain it, it among them, longest first: the
// i-th's go to dst from element i*(Width+1) on, and their number to counts.
func (im *Image) Covering(q *device.Queue, dst, counts, keys, lengths device.Ptr, n int) {
	q.Launch("tree.covering", grid(q, n), uint64(dst), uint64(counts), uint64(im.Shape.Width+1), uint64(keys), uint64(lengths), uint64(n), uint64(im.Cells), uint64(im.levels),
		uint64(im.Starts), uint64(im.Entries), uint64(im.levelOf))
}

// Inside finds the masks inside one: among the sorted values, those from the place that goes to out[0] up
// to that in out[1].
func (im *Image) Inside(q *device.Queue, out device.Ptr, hi, lo uint64, length int) {
	q.Launch("tree.inside", device.Launch{GridX: 1, Block: 32}, uint64(out), uint64(im.Sorted.Hi), uint64(im.Sorted.Lo), uint64(im.Sorted.Bits), uint64(im.Sorted.N), hi, lo, uint64(length))
}

// Entry is a mask in a container as it lies in memory.
type Entry struct{ Pos, Payload uint32 }

// Download copies the image to the host.
func (im *Image) Download(q *device.Queue) (cells, starts []uint32, entries []Entry) {
	cells = make([]uint32, im.CellCount)
	device.CopyOut(q, cells, im.Cells)
	if im.Kind != Keys {
		starts, entries = make([]uint32, im.nodes()+1), make([]Entry, im.Sorted.N)
		device.CopyOut(q, starts, im.Starts)
		device.CopyOut(q, entries, im.Entries)
	}
	q.Wait()
	return cells, starts, entries
}
