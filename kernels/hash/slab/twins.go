package slab

import (
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// The kernels of slab.cu in plain Go, over the same buffers. Parameters are theirs, in their order.
var twins = map[string]device.Twin{"settle": settleTwin, "count_ops": countOpsTwin, "split": splitTwin}

func init() {
	addTwins[uint32]("_32")
	addTwins[uint64]("_64")
}

func addTwins[K Key](suffix string) {
	for name, twin := range map[string]device.Twin{
		"need": needTwin[K], "need_sum": needSumTwin[K], "need_span": needSpanTwin[K],
		"insert_span": insertSpanTwin[K], "delete_span": deleteSpanTwin[K], "flush": flushTwin[K], "iterate": iterateTwin[K],
		"count_keys": countKeysTwin[K], "scatter_puts": scatterPutsTwin[K], "scatter_keys": scatterKeysTwin[K],
		"count_pairs": countStepTwin[K, pair[K]], "scatter_pairs": scatterStepTwin[K, pair[K]],
		"count_hashes": countStepTwin[K, hashed[K]], "scatter_hashes": scatterStepTwin[K, hashed[K]],
	} {
		twins[name+suffix] = twin
	}
	for op := Find; op <= Mixed; op++ {
		twins[op.String()+suffix] = func(m device.Memory, a []uint64) { batchTwin[K](m, op, a) }
	}
}

// onTable runs f on a table, which is the first three parameters, and brings its counters back.
func onTable[K Key](m device.Memory, a []uint64, f func(c *core[K])) {
	head := device.View[uint64](m, a[0], headWords)
	c := &core[K]{
		heads: device.View[slab](m, a[1], int(a[2])+reserved[K]()), buckets: a[2], log2: int(head[headLog2]),
		counters: counters{
			live: int(head[headLive]), dead: int(head[headDead]),
			taken: head[headTaken], listed: head[headFree], fresh: head[headFresh], capacity: head[headCapacity],
		},
	}
	for i, p := range head[headArenas:] {
		if p != 0 {
			c.arenas[i] = device.View[slab](m, p, arenaSlabs(c.log2, i))
		}
	}
	if head[headList] != 0 {
		c.list = device.View[uint32](m, head[headList], int(c.capacity))
	}
	f(c)
	head[headLive], head[headDead], head[headTaken], head[headFree] = uint64(c.live), uint64(c.dead), c.taken, c.listed
}

// optional gives n values from p on, or some that nobody else has where p is 0.
func optional[T any](m device.Memory, p uint64, n int) []T {
	if p == 0 {
		return make([]T, n)
	}
	return device.View[T](m, p, n)
}

// rest is optional for an array of unknown length.
func rest[T any](m device.Memory, p uint64) []T {
	if p == 0 {
		return nil
	}
	return device.View[T](m, p, len(m.Rest(device.Ptr(p)))/int(unsafe.Sizeof(*new(T))))
}

func result(yes bool) Result {
	if yes {
		return Yes
	}
	return No
}

func countOpsTwin(m device.Memory, a []uint64) {
	totals := device.View[uint32](m, a[0], int(Mixed))
	for _, op := range device.View[Op](m, a[1], int(a[2])) {
		totals[op]++
	}
}

func splitTwin(m device.Memory, a []uint64) {
	n := int(a[4])
	index, next, totals := device.View[uint32](m, a[0], n), device.View[uint32](m, a[1], int(Mixed)), device.View[uint32](m, a[3], int(Mixed))
	for i, op := range device.View[Op](m, a[2], n) {
		if op == Find {
			continue
		}
		at := next[op]
		for _, before := range totals[Find+1 : op] {
			at += before
		}
		index[at] = uint32(i)
		next[op]++
	}
}

func batchTwin[K Key](m device.Memory, op Op, a []uint64) {
	n, all := int(a[8]), int(a[8])
	index := rest[uint32](m, a[9])
	if a[11] != 0 {
		totals := device.View[uint32](m, a[11], int(Mixed))
		for _, before := range totals[Find+1 : op] {
			index = index[before:]
		}
		n = int(totals[op])
	}
	if index != nil {
		for _, i := range index[:n] {
			all = max(all, int(i)+1)
		}
	}
	ops, keys := optional[Op](m, a[4], all), device.View[K](m, a[5], all)
	values, results := optional[uint32](m, a[6], all), optional[Result](m, a[7], all)
	left := rest[uint32](m, a[10])
	head := device.View[uint64](m, a[0], headWords)
	onTable(m, a, func(c *core[K]) {
		for k := range n {
			i := k
			if index != nil {
				i = int(index[k])
			}
			does := op
			if op == Mixed {
				does = ops[i]
			} else if op == Find && a[4] != 0 && ops[i] != Find {
				continue
			}
			h := mix(keys[i])
			switch does {
			case Find:
				v, ok := c.find(h)
				values[i], results[i] = v, result(ok)
			case Insert, Append:
				results[i] = c.insert(h, values[i], does == Insert, false)
				if results[i] == Left {
					head[headLeft]++
					if left != nil {
						left[0]++
						left[left[0]] = uint32(i)
					}
				}
			case Replace:
				results[i] = result(c.replace(h, values[i]))
			case Delete:
				results[i] = result(c.delete(h))
			case Count:
				values[i] = c.count(h)
				results[i] = result(values[i] > 0)
			}
		}
	})
}

func needTwin[K Key](m device.Memory, a []uint64) {
	n := int(a[6])
	counts, keys := device.View[uint32](m, a[3], int(a[2])+reserved[K]()), device.View[K](m, a[5], n)
	ops := optional[Op](m, a[4], n)
	for i, k := range keys {
		if a[4] == 0 || ops[i] == Insert || ops[i] == Append {
			counts[bucketOf(mix(k), a[2])]++
		}
	}
}

func needSumTwin[K Key](m device.Memory, a []uint64) {
	head := device.View[uint64](m, a[0], headWords)
	onTable(m, a, func(c *core[K]) {
		for b, n := range device.View[uint32](m, a[3], len(c.heads)) {
			head[headNeed] += uint64(c.lack(uint64(b), int(n)))
		}
	})
}

// A request of a sorted batch.
type request[K Key] interface {
	hash() K
	value() uint32
}

// pair is a request with a value: of 32-bit keys one word with the hash above, of 64-bit ones the hash and then the
// value.
type pair[K Key] [2]K

func newPair[K Key](h K, v uint32) pair[K] {
	if wide[K]() {
		return pair[K]{h, K(v)}
	}
	return pair[K]{K(v), h}
}

func (p pair[K]) hash() K {
	if wide[K]() {
		return p[0]
	}
	return p[1]
}

func (p pair[K]) value() uint32 {
	if wide[K]() {
		return uint32(p[1])
	}
	return uint32(p[0])
}

// hashed is a request without a value.
type hashed[K Key] struct{ h K }

func (r hashed[K]) hash() K       { return r.h }
func (r hashed[K]) value() uint32 { return 0 }

// requestsOf gives the requests of a table's spans.
func requestsOf[R any](m device.Memory, buckets, requests, ends uint64) []R {
	e := device.View[uint32](m, ends, int((buckets+span-1)/span))
	return device.View[R](m, requests, int(e[len(e)-1]))
}

func needSpanTwin[K Key](m device.Memory, a []uint64) {
	head := device.View[uint64](m, a[0], headWords)
	onTable(m, a, func(c *core[K]) {
		counts := map[uint64]int{}
		for _, r := range requestsOf[pair[K]](m, a[2], a[4], a[5]) {
			counts[bucketOf(r.hash(), c.buckets)]++
		}
		for b, n := range counts {
			head[headNeed] += uint64(c.lack(b, n))
		}
	})
}

func insertSpanTwin[K Key](m device.Memory, a []uint64) {
	head := device.View[uint64](m, a[0], headWords)
	onTable(m, a, func(c *core[K]) {
		for _, r := range requestsOf[pair[K]](m, a[2], a[5], a[6]) {
			if c.insert(r.hash(), r.value(), a[3] != 0, true) == Left {
				head[headLeft]++
			}
		}
	})
}

func deleteSpanTwin[K Key](m device.Memory, a []uint64) {
	onTable(m, a, func(c *core[K]) {
		for _, r := range requestsOf[hashed[K]](m, a[2], a[3], a[4]) {
			c.delete(r.h)
		}
	})
}

func settleTwin(m device.Memory, a []uint64) {
	head := device.View[uint64](m, a[0], headWords)
	c := counters{taken: head[headTaken], listed: head[headFree], fresh: head[headFresh], capacity: head[headCapacity]}
	c.settle()
	head[headTaken], head[headFree], head[headFresh] = c.taken, c.listed, c.fresh
}

func flushTwin[K Key](m device.Memory, a []uint64) { onTable(m, a, (*core[K]).flush) }

func iterateTwin[K Key](m device.Memory, a []uint64) {
	room := a[4]
	keys, values, count := device.View[K](m, a[2], int(room)), device.View[uint32](m, a[3], int(room)), device.View[uint64](m, a[5], 1)
	each(device.View[slab](m, a[0], int(a[1])), func(h K, v uint32) {
		if at := count[0]; at < room {
			keys[at], values[at] = unmix(h), v
		}
		count[0]++
	})
}

func spanOf[K Key](h K, buckets uint64) uint64 {
	if aside(h) {
		return 0
	}
	return bucketOf(h, buckets) / span
}

func countKeysTwin[K Key](m device.Memory, a []uint64) {
	counts := device.View[uint32](m, a[0], bins)
	for _, k := range device.View[K](m, a[1], int(a[2])) {
		counts[spanOf(mix(k), a[3])>>a[4]]++
	}
}

func scatterPutsTwin[K Key](m device.Memory, a []uint64) {
	n := int(a[4])
	out, next := device.View[pair[K]](m, a[0], n), device.View[uint32](m, a[1], bins)
	values := device.View[uint32](m, a[3], n)
	for i, k := range device.View[K](m, a[2], n) {
		h := mix(k)
		to := &next[spanOf(h, a[5])>>a[6]]
		out[*to] = newPair(h, values[i])
		*to++
	}
}

func scatterKeysTwin[K Key](m device.Memory, a []uint64) {
	n := int(a[3])
	out, next := device.View[K](m, a[0], n), device.View[uint32](m, a[1], bins)
	for _, k := range device.View[K](m, a[2], n) {
		h := mix(k)
		to := &next[spanOf(h, a[4])>>a[5]]
		out[*to] = h
		*to++
	}
}

// The second step of a sort. The first one's bins have the spans of a table in order, so a request's place
// in counts is its span.
func countStepTwin[K Key, R request[K]](m device.Memory, a []uint64) {
	ends := device.View[uint32](m, a[1], bins)
	counts := rest[uint32](m, a[0])
	for _, r := range device.View[R](m, a[2], int(ends[bins-1])) {
		counts[spanOf(r.hash(), a[3])]++
	}
}

func scatterStepTwin[K Key, R request[K]](m device.Memory, a []uint64) {
	ends := device.View[uint32](m, a[2], bins)
	next := rest[uint32](m, a[1])
	n := int(ends[bins-1])
	out := device.View[R](m, a[0], n)
	for _, r := range device.View[R](m, a[3], n) {
		to := &next[spanOf(r.hash(), a[4])]
		out[*to] = r
		*to++
	}
}
