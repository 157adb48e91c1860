package primitives

import "github.com/ribwarp/ribwarp/kernels/device"

// The kernels of primitives.cu in plain Go, over the same buffers.

var twins = map[string]device.Twin{
	"scan": scanTwin, "compact": compactTwin, "reduce_by_key": reduceByKeyTwin,
	"radix_histogram": histogramTwin, "radix_plan": planTwin, "radix_pass": passTwin, "radix_settle": settleTwin,
}

func scanTwin(m device.Memory, a []uint64) {
	n := int(a[2])
	out, in := device.View[uint32](m, a[0], n), device.View[uint32](m, a[1], n)
	sum := uint32(0)
	for i, x := range in {
		if a[3] != 0 {
			out[i] = sum + x
		} else {
			out[i] = sum
		}
		sum += x
	}
}

func compactTwin(m device.Memory, a []uint64) {
	n := int(a[3])
	places := device.View[uint32](m, a[0], n)
	count := uint32(0)
	for i, f := range device.View[uint32](m, a[2], n) {
		if f != 0 {
			places[count] = uint32(i)
			count++
		}
	}
	device.View[uint32](m, a[1], 1)[0] = count
}

func reduceByKeyTwin(m device.Memory, a []uint64) {
	n := int(a[5])
	keysOut, sums, keys := device.View[uint32](m, a[0], n), device.View[uint32](m, a[1], n), device.View[uint32](m, a[3], n)
	var values []uint32
	if a[4] != 0 {
		values = device.View[uint32](m, a[4], n)
	}
	runs := uint32(0)
	for i, k := range keys {
		if i == 0 || k != keys[i-1] {
			keysOut[runs] = k
			runs++
		}
		if values != nil {
			sums[runs-1] += values[i]
		} else {
			sums[runs-1]++
		}
	}
	device.View[uint32](m, a[2], 1)[0] = runs
}

// columnsOf gives the words of records; those that they do not have are nil.
func columnsOf(m device.Memory, a []uint64, n int) (w [3][]uint64) {
	for i, p := range a {
		if p != 0 {
			w[i] = device.View[uint64](m, p, n)
		}
	}
	return w
}

func histogramTwin(m device.Memory, a []uint64) {
	n := int(a[4])
	w := columnsOf(m, a[1:4], n)
	counts := device.View[uint32](m, a[0], bins*int(a[8]))
	for _, s := range a[5:8] {
		word, low, high, digit := s&255, s>>8&255, s>>16&255, s>>24&255
		for ; low < high; low, digit = low+8, digit+1 {
			for _, x := range w[word][:n] {
				counts[digit*bins+x>>low&(1<<min(8, high-low)-1)]++
			}
		}
	}
}

func planTwin(m device.Memory, a []uint64) {
	n, digits := uint32(a[2]), int(a[3])
	counts, plan := device.View[uint32](m, a[0], bins*digits), device.View[uint32](m, a[1], digits+1)
	from := uint32(0)
	for d := range digits {
		sum, still := uint32(0), false
		for i, c := range counts[d*bins : (d+1)*bins] {
			counts[d*bins+i] = sum
			sum += c
			still = still || c == n
		}
		plan[d] = from
		if still {
			plan[d] |= 2
		} else {
			from ^= 1
		}
	}
	plan[digits] = from
}

func passTwin(m device.Memory, a []uint64) {
	n, words := int(a[6]), int(a[7])
	word, shift, width := a[8]&255, a[8]>>8&255, a[8]>>16&255
	from, to := columnsOf(m, a[0:3], n), columnsOf(m, a[3:6], n)
	switch plan := device.View[uint32](m, a[10], 1)[0]; {
	case plan&2 != 0:
		return
	case plan&1 != 0:
		from, to = to, from
	}
	next := append([]uint32(nil), device.View[uint32](m, a[9], bins)...)
	for i, x := range from[word] {
		d := x >> shift & (1<<width - 1)
		for w := range words {
			to[w][next[d]] = from[w][i]
		}
		next[d]++
	}
}

func settleTwin(m device.Memory, a []uint64) {
	n, words := int(a[6]), int(a[7])
	if device.View[uint32](m, a[8], 1)[0]&1 == 0 {
		return
	}
	to, from := columnsOf(m, a[0:3], n), columnsOf(m, a[3:6], n)
	for w := range words {
		copy(to[w], from[w])
	}
}
