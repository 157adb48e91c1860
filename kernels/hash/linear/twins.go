package linear

import "github.com/ribwarp/ribwarp/kernels/device"

// The kernels of linear.cu in plain Go, over the same buffers. Parameters are theirs, in their order.
var twins = map[string]device.Twin{}

func init() {
	addTwins[uint32]("_32")
	addTwins[uint64]("_64")
}

func addTwins[W Word](suffix string) {
	for name, twin := range map[string]device.Twin{
		"insert": insertTwin[W], "insert_region": insertRegionTwin[W], "find": findTwin[W], "erase": eraseTwin[W],
		"erase_region": eraseRegionTwin[W], "rehash": rehashTwin[W], "iterate": iterateTwin[W], "stats": statsTwin[W],
		"count_keys": countKeysTwin[W], "scatter_pairs": scatterPairsTwin[W], "scatter_keys": scatterKeysTwin[W],
		"count_records": countStepTwin[W](2), "scatter_records": scatterStepTwin[W](2),
		"count_hashes": countStepTwin[W](1), "scatter_hashes": scatterStepTwin[W](1),
	} {
		twins[name+suffix] = twin
	}
}

// onTable runs f on a table and brings its counters back.
func onTable[W Word](m device.Memory, table, log2, mode uint64, f func(c *core[W])) {
	head := device.View[int64](m, table, headWords)
	c := &core[W]{
		words: device.View[uint64](m, table+headBytes, wordsOf[W](int(log2))), log2: int(log2),
		shared: mode&modeShared != 0, patient: mode&modePatient != 0,
		live: int(head[0]), dead: int(head[1]), left: int(head[2]),
	}
	f(c)
	head[0], head[1], head[2] = int64(c.live), int64(c.dead), int64(c.left)
}

// optional gives n bytes from p on, or some that nobody reads where p is 0.
func optional(m device.Memory, p uint64, n int) []byte {
	if p == 0 {
		return make([]byte, n)
	}
	return m.Bytes(device.Ptr(p), n)
}

func truth(yes bool) byte {
	if yes {
		return 1
	}
	return 0
}

func insertTwin[W Word](m device.Memory, a []uint64) {
	n := int(a[6])
	keys, values, results := device.View[W](m, a[3], n), device.View[W](m, a[4], n), optional(m, a[5], n)
	onTable(m, a[0], a[1], a[2], func(c *core[W]) {
		for i, k := range keys {
			results[i] = byte(c.insert(mix(k), values[i]))
		}
	})
}

// Records of 32-bit words have the hash in the upper half of a 64-bit word, those of 64-bit words in the
// first of two.
func recordWords[W Word](m device.Memory, p uint64, n int) (words []W, hash, value int) {
	if wide[W]() {
		return device.View[W](m, p, 2*n), 0, 1
	}
	return device.View[W](m, p, 2*n), 1, 0
}

func insertRegionTwin[W Word](m device.Memory, a []uint64) {
	onTable(m, a[0], a[1], modePatient, func(c *core[W]) {
		n := int(device.View[uint32](m, a[3], c.regions())[c.regions()-1])
		records, hash, value := recordWords[W](m, a[2], n)
		for i := range n {
			c.insert(records[2*i+hash], records[2*i+value])
		}
	})
}

// regions is the number of regions.
func (c *core[W]) regions() int { return max(1<<c.log2/region, 1) }

func findTwin[W Word](m device.Memory, a []uint64) {
	n := int(a[6])
	values, results, keys := device.View[W](m, a[3], n), optional(m, a[4], n), device.View[W](m, a[5], n)
	onTable(m, a[0], a[1], a[2], func(c *core[W]) {
		for i, k := range keys {
			v, ok := c.find(mix(k))
			values[i], results[i] = v, truth(ok)
		}
	})
}

func eraseTwin[W Word](m device.Memory, a []uint64) {
	n := int(a[5])
	keys, results := device.View[W](m, a[3], n), optional(m, a[4], n)
	onTable(m, a[0], a[1], a[2], func(c *core[W]) {
		for i, k := range keys {
			results[i] = truth(c.erase(mix(k)))
		}
	})
}

func eraseRegionTwin[W Word](m device.Memory, a []uint64) {
	onTable(m, a[0], a[1], 0, func(c *core[W]) {
		n := int(device.View[uint32](m, a[3], c.regions())[c.regions()-1])
		for _, h := range device.View[W](m, a[2], n) {
			c.erase(h)
		}
	})
}

func rehashTwin[W Word](m device.Memory, a []uint64) {
	onTable(m, a[0], a[1], modePatient, func(to *core[W]) {
		onTable(m, a[2], a[3], 0, func(from *core[W]) { from.rehash(to) })
	})
}

func iterateTwin[W Word](m device.Memory, a []uint64) {
	room := a[5]
	keys, values, count := device.View[W](m, a[3], int(room)), device.View[W](m, a[4], int(room)), device.View[uint64](m, a[6], 1)
	onTable(m, a[0], a[1], a[2], func(c *core[W]) {
		c.each(func(h, value W) {
			if at := count[0]; at < room {
				keys[at], values[at] = unmix(h), value
			}
			count[0]++
		})
	})
}

func statsTwin[W Word](m device.Memory, a []uint64) {
	out := device.View[uint64](m, a[2], 2+probes)
	onTable(m, a[0], a[1], 0, func(c *core[W]) {
		s := c.stats()
		out[0] += uint64(s.Mean*float64(s.Pairs) + 0.5)
		out[1] = max(out[1], uint64(s.Longest))
		for i, n := range s.Histogram {
			out[2+i] += uint64(n)
		}
	})
}

// binOf gives the bin of a hash in a step of a sort.
func binOf[W Word](h W, shift, bits uint64) uint64 { return uint64(h) >> shift & (1<<bits - 1) }

func countKeysTwin[W Word](m device.Memory, a []uint64) {
	counts := device.View[uint32](m, a[0], bins)
	for _, k := range device.View[W](m, a[1], int(a[2])) {
		counts[binOf(mix(k), a[3], binBits)]++
	}
}

func scatterPairsTwin[W Word](m device.Memory, a []uint64) {
	n := int(a[4])
	next, keys, values := device.View[uint32](m, a[1], bins), device.View[W](m, a[2], n), device.View[W](m, a[3], n)
	out, hash, value := recordWords[W](m, a[0], n)
	for i, k := range keys {
		h := mix(k)
		to := &next[binOf(h, a[5], binBits)]
		out[2*int(*to)+hash], out[2*int(*to)+value] = h, values[i]
		*to++
	}
}

func scatterKeysTwin[W Word](m device.Memory, a []uint64) {
	n := int(a[3])
	out, next := device.View[W](m, a[0], n), device.View[uint32](m, a[1], bins)
	for _, k := range device.View[W](m, a[2], n) {
		h := mix(k)
		to := &next[binOf(h, a[4], binBits)]
		out[*to] = h
		*to++
	}
}

// segments calls f for every request of a sort's second step, with its place and its hash; ends is where the segments end.
func segments[W Word](m device.Memory, ends, requests uint64, words int, f func(segment, i int, h W)) {
	es := device.View[uint32](m, ends, bins)
	n := int(es[bins-1])
	all, hash := device.View[W](m, requests, n*words), 0
	if words == 2 {
		_, hash, _ = recordWords[W](m, requests, n)
	}
	segment := 0
	for i := range n {
		for i >= int(es[segment]) {
			segment++
		}
		f(segment, i, all[i*words+hash])
	}
}

// countStepTwin and scatterStepTwin are of requests of so many words.
func countStepTwin[W Word](words int) device.Twin {
	return func(m device.Memory, a []uint64) {
		counts := device.View[uint32](m, a[0], bins<<a[4])
		segments(m, a[1], a[2], words, func(segment, _ int, h W) { counts[uint64(segment)<<a[4]+binOf(h, a[3], a[4])]++ })
	}
}

func scatterStepTwin[W Word](words int) device.Twin {
	return func(m device.Memory, a []uint64) {
		next := device.View[uint32](m, a[1], bins<<a[5])
		n := int(device.View[uint32](m, a[2], bins)[bins-1])
		in, out := device.View[W](m, a[3], n*words), device.View[W](m, a[0], n*words)
		segments(m, a[2], a[3], words, func(segment, i int, h W) {
			to := &next[uint64(segment)<<a[5]+binOf(h, a[4], a[5])]
			copy(out[int(*to)*words:], in[i*words:][:words])
			*to++
		})
	}
}
