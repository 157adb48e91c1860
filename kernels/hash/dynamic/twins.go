package dynamic

import (
	"math/bits"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// The kernels of dynamic.cu in plain Go. Parameters are theirs, in their order.
var twins = map[string]device.Twin{}

func init() {
	for _, wide := range []bool{false, true} {
		suffix := "_64"
		if wide {
			suffix = "_128"
		}
		t := twin{wide}
		twins["missing"+suffix] = t.missing
		twins["insert_region"+suffix] = t.insertRegion
		twins["erase"+suffix] = t.erase
		twins["erase_region"+suffix] = t.eraseRegion
		twins["scatter_keys"+suffix] = t.scatterKeys
		twins["count_keys"+suffix] = t.countKeys
		for kind, words := range map[string]int{"requests": t.pairWords(), "erasures": t.keyWords()} {
			twins["count_"+kind+suffix] = func(m device.Memory, a []uint64) { t.countStep(m, a, words) }
			twins["scatter_"+kind+suffix] = func(m device.Memory, a []uint64) { t.scatterStep(m, a, words) }
		}
		twins["migrate"+suffix] = t.migrate
		pairs[uint32](t, suffix+"_32")
		pairs[uint64](t, suffix+"_64")
	}
}

// pairs adds the kernels that know how wide values are.
func pairs[V uint32 | uint64](t twin, suffix string) {
	twins["find"+suffix] = func(m device.Memory, a []uint64) { findTwin[V](t, m, a) }
	twins["insert"+suffix] = func(m device.Memory, a []uint64) { insertTwin[V](t, m, a) }
	twins["scatter_pairs"+suffix] = func(m device.Memory, a []uint64) { scatterPairsTwin[V](t, m, a) }
	for _, form := range forms {
		twins["retrieve_"+form+suffix] = func(m device.Memory, a []uint64) { retrieveTwin[V](t, m, a) }
	}
}

// twin is the twins of one kind of key.
type twin struct{ wide bool }

// descriptor is a submap as kernels get it.
type descriptor struct{ words, sectors, live, used uint64 }

// open gives the map that the descriptors say, and what writes the counters back.
func (t twin) open(m device.Memory, maps, count, seed uint64) (c *core, closed func()) {
	ds := device.View[descriptor](m, maps, int(count))
	c = &core{wide: t.wide, seed: seed}
	for _, d := range ds {
		c.maps = append(c.maps, submap{device.View[uint64](m, d.words, int(words(d.sectors))), d.sectors, d.live, d.used})
	}
	return c, func() {
		for i := range ds {
			ds[i].live, ds[i].used = c.maps[i].live, c.maps[i].used
		}
	}
}

// fullOf gives the counter behind a map's descriptors.
func fullOf(m device.Memory, maps uint64) []uint64 { return device.View[uint64](m, maps+8*fullAt, 1) }

// keys gives n keys from p on.
func (t twin) keys(m device.Memory, c *core, p uint64, n int) func(i int) key {
	if t.wide {
		ks := device.View[[2]uint64](m, p, n)
		return func(i int) key { return c.wideKey(ks[i][0], ks[i][1]) }
	}
	ks := device.View[uint64](m, p, n)
	return func(i int) key { return c.narrowKey(ks[i]) }
}

// results gives a setter for n results from p on, which may be 0.
func results(m device.Memory, p uint64, n int) func(i int, yes bool) {
	if p == 0 {
		return func(int, bool) {}
	}
	rs := m.Bytes(device.Ptr(p), n)
	return func(i int, yes bool) {
		rs[i] = 0
		if yes {
			rs[i] = 1
		}
	}
}

func findTwin[V uint32 | uint64](t twin, m device.Memory, a []uint64) {
	n := int(a[6])
	c, _ := t.open(m, a[0], a[1], a[2])
	found, keys := results(m, a[4], n), t.keys(m, c, a[5], n)
	var values []V
	if a[3] != 0 {
		values = device.View[V](m, a[3], n)
	}
	for i := range n {
		v, ok := c.find(keys(i))
		if values != nil {
			values[i] = V(v)
		}
		found(i, ok)
	}
}

func insertTwin[V uint32 | uint64](t twin, m device.Memory, a []uint64) {
	n := int(a[9])
	c, closed := t.open(m, a[0], a[1], a[3])
	defer closed()
	keys, values, fresh := t.keys(m, c, a[5], n), device.View[V](m, a[6], n), results(m, a[7], n)
	full := fullOf(m, a[0])
	for i := range n {
		put, ok := c.insert(keys(i), uint64(values[i]), int(a[2]), a[4] != 0)
		if put || a[8] == 0 {
			fresh(i, put)
		}
		if !ok {
			full[0]++
		}
	}
}

func (t twin) missing(m device.Memory, a []uint64) {
	n := int(a[4])
	c, _ := t.open(m, a[0], a[1], a[2])
	keys, out := t.keys(m, c, a[3], n), device.View[uint64](m, a[5], 1)
	for i := range n {
		if _, ok := c.find(keys(i)); !ok {
			out[0]++
		}
	}
}

func (t twin) erase(m device.Memory, a []uint64) {
	n := int(a[5])
	c, closed := t.open(m, a[0], a[1], a[2])
	defer closed()
	keys, erased := t.keys(m, c, a[3], n), results(m, a[4], n)
	for i := range n {
		erased(i, c.erase(keys(i)))
	}
}

// Requests of large batches: a narrow key by its hash, a wide one by its two words, then the value,
// and of a wide key the hash.
func (t twin) keyWords() int {
	if t.wide {
		return 2
	}
	return 1
}

func (t twin) pairWords() int { return 2 * t.keyWords() }

func (t twin) putRequest(to []uint64, k key) {
	if t.wide {
		to[0], to[1] = k.hi, k.lo
	} else {
		to[0] = k.h
	}
}

func (t twin) request(c *core, from []uint64) key {
	if t.wide {
		return c.wideKey(from[0], from[1])
	}
	return key{h: from[0]}
}

func (t twin) insertRegion(m device.Memory, a []uint64) {
	w := t.pairWords()
	c, closed := t.open(m, a[0], a[1], a[3])
	defer closed()
	into := &c.maps[a[2]]
	regions := int(into.sectors / span(into.sectors))
	ends, full := device.View[uint32](m, a[7], regions), fullOf(m, a[0])
	all := device.View[uint64](m, a[6], int(ends[regions-1])*w)
	for r := all; len(r) > 0; r = r[w:] {
		if _, ok := c.insert(t.request(c, r), r[t.keyWords()], int(a[2]), a[4] != 0); !ok {
			full[0]++
		}
	}
}

func (t twin) eraseRegion(m device.Memory, a []uint64) {
	w := t.keyWords()
	c, closed := t.open(m, a[0], 1, a[1])
	defer closed()
	regions := int(c.maps[0].sectors / span(c.maps[0].sectors))
	ends := device.View[uint32](m, a[3], regions)
	for r := device.View[uint64](m, a[2], int(ends[regions-1])*w); len(r) > 0; r = r[w:] {
		c.erase(t.request(c, r))
	}
}

// bins is what a step of regions.cuh sorts into.
const bins = 256

// regionOf gives the region of a hash.
func regionOf(h, regions uint64) uint64 {
	r, _ := bits.Mul64(h, regions)
	return r
}

func (t twin) countKeys(m device.Memory, a []uint64) {
	n := int(a[3])
	counts, keys := device.View[uint32](m, a[0], bins), t.keys(m, &core{seed: a[1]}, a[2], n)
	for i := range n {
		counts[regionOf(keys(i).h, a[4])>>a[5]]++
	}
}

func scatterPairsTwin[V uint32 | uint64](t twin, m device.Memory, a []uint64) {
	n, w := int(a[5]), t.pairWords()
	out, next := device.View[uint64](m, a[0], n*w), device.View[uint32](m, a[1], bins)
	keys, values := t.keys(m, &core{seed: a[2]}, a[3], n), device.View[V](m, a[4], n)
	for i := range n {
		k := keys(i)
		to := &next[regionOf(k.h, a[6])>>a[7]]
		r := out[int(*to)*w:][:w]
		*to++
		t.putRequest(r, k)
		r[t.keyWords()] = uint64(values[i])
		if t.wide {
			r[3] = k.h
		}
	}
}

func (t twin) scatterKeys(m device.Memory, a []uint64) {
	n, w := int(a[4]), t.keyWords()
	out, next := device.View[uint64](m, a[0], n*w), device.View[uint32](m, a[1], bins)
	keys := t.keys(m, &core{seed: a[2]}, a[3], n)
	for i := range n {
		k := keys(i)
		to := &next[regionOf(k.h, a[5])>>a[6]]
		t.putRequest(out[int(*to)*w:][:w], k)
		*to++
	}
}

// countStep and scatterStep take requests of so many words. The regions of all segments follow each other,
// so a request's region is the number of its bin.
func (t twin) countStep(m device.Memory, a []uint64, w int) {
	c := &core{wide: t.wide, seed: a[2]}
	segments := int((a[4]-1)>>a[5]) + 1
	counts, ends := device.View[uint32](m, a[0], segments<<a[5]), device.View[uint32](m, a[1], segments)
	for r := device.View[uint64](m, a[3], int(ends[segments-1])*w); len(r) > 0; r = r[w:] {
		counts[regionOf(t.request(c, r).h, a[4])]++
	}
}

func (t twin) scatterStep(m device.Memory, a []uint64, w int) {
	c := &core{wide: t.wide, seed: a[3]}
	segments := int((a[5]-1)>>a[6]) + 1
	next, ends := device.View[uint32](m, a[1], segments<<a[6]), device.View[uint32](m, a[2], segments)
	n := int(ends[segments-1])
	in, out := device.View[uint64](m, a[4], n*w), device.View[uint64](m, a[0], n*w)
	for r := in; len(r) > 0; r = r[w:] {
		to := &next[regionOf(t.request(c, r).h, a[5])]
		copy(out[int(*to)*w:], r[:w])
		*to++
	}
}

func (t twin) migrate(m device.Memory, a []uint64) {
	c, closed := t.open(m, a[0], max(a[1], a[2])+1, a[3])
	defer closed()
	into := &core{wide: t.wide, seed: a[3], maps: c.maps[a[2] : a[2]+1]}
	c.all(&c.maps[a[1]], func(hi, lo, value uint64) {
		k := into.narrowKey(lo)
		if t.wide {
			k = into.wideKey(hi, lo)
		}
		into.insert(k, value, 0, false)
	})
}

func retrieveTwin[V uint32 | uint64](t twin, m device.Memory, a []uint64) {
	c := &core{wide: t.wide, seed: a[2]}
	from := submap{words: device.View[uint64](m, a[0], int(words(a[1]))), sectors: a[1]}
	room := a[5]
	values := device.View[V](m, a[4], int(room))
	count := device.View[uint64](m, a[6], 1)
	narrow, wide := []uint64(nil), [][2]uint64(nil)
	if t.wide {
		wide = device.View[[2]uint64](m, a[3], int(room))
	} else {
		narrow = device.View[uint64](m, a[3], int(room))
	}
	c.all(&from, func(hi, lo, value uint64) {
		if to := count[0]; to < room {
			values[to] = V(value)
			if t.wide {
				wide[to] = [2]uint64{hi, lo}
			} else {
				narrow[to] = lo
			}
		}
		count[0]++
	})
}

// Keys are what a map's keys are: 64 bits, or 128 as two words, most significant first.
type Keys interface {
	~uint64 | ~struct{ Hi, Lo uint64 }
}

// Values are what a map's values are.
type Values interface{ ~uint32 | ~uint64 }

// wide reports whether keys are of 128 bits.
func wide[K Keys]() bool { return unsafe.Sizeof(*new(K)) == 16 }
