package primitives

import (
	"cmp"
	"slices"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// The kernels of primitives.cu in plain Go, over the same buffers, in the order of that file.

var twins = map[string]device.Twin{
	"scan": scanTwin, "reduce_by_key": reduceByKey, "compact": compact,
	"sort_plan":   sortPlan,
	"sort_pass_1": sortPass(1), "sort_pass_2": sortPass(2), "sort_pass_3": sortPass(3),
	"sort_small_1": sortSmall(1), "sort_small_2": sortSmall(2), "sort_small_3": sortSmall(3),
}

func word(m device.Memory, p uint64) *uint32 { return &device.View[uint32](m, p, 1)[0] }

func scanTwin(m device.Memory, a []uint64) {
	n, inclusive := int(a[2]), a[3] != 0
	out, in := device.View[uint32](m, a[0], n), device.View[uint32](m, a[1], n)
	sum := uint32(0)
	for i, x := range in {
		out[i] = sum
		sum += x
		if inclusive {
			out[i] = sum
		}
	}
}

func reduceByKey(m device.Memory, a []uint64) {
	n := int(a[5])
	var keysOut, sums, values []uint32
	keys := device.View[uint32](m, a[3], n)
	if a[4] != 0 {
		values = device.View[uint32](m, a[4], n)
	}
	for i, k := range keys {
		if i == 0 || k != keys[i-1] {
			keysOut, sums = append(keysOut, k), append(sums, 0)
		}
		v := uint32(1)
		if values != nil {
			v = values[i]
		}
		sums[len(sums)-1] += v
	}
	copy(device.View[uint32](m, a[0], len(sums)), keysOut)
	copy(device.View[uint32](m, a[1], len(sums)), sums)
	*word(m, a[2]) = uint32(len(sums))
}

func compact(m device.Memory, a []uint64) {
	var indices []uint32
	for i, f := range device.View[uint32](m, a[2], int(a[3])) {
		if f != 0 {
			indices = append(indices, uint32(i))
		}
	}
	copy(device.View[uint32](m, a[0], len(indices)), indices)
	*word(m, a[1]) = uint32(len(indices))
}

// What a pass has to do.
const (
	planCopy = 1 << iota
	planSort
	planBack   // from the scratch records to the given ones
	planSecond // with the second half of the statuses, which twins do without
)

func unpack(p []uint64, n int) []digit {
	digits := make([]digit, n)
	for i := range digits {
		digits[i] = digit(p[i/4] >> (i % 4 * 16))
	}
	return digits
}

// columns gives the words of n records.
func columns(m device.Memory, p []uint64, n int) [][]uint64 {
	words := make([][]uint64, len(p))
	for w := range p {
		if p[w] != 0 {
			words[w] = device.View[uint64](m, p[w], n)
		}
	}
	return words
}

func sortPlan(m device.Memory, a []uint64) {
	n := int(a[3])
	words, digits := columns(m, a[0:3], n), unpack(a[5:11], int(a[4]))
	passes := len(digits) + len(digits)%2
	starts, plan := device.View[[bins]uint32](m, a[11], len(digits)), device.View[uint32](m, a[12], passes)
	sorts := 0
	for p, d := range digits {
		var counts [bins]uint32
		for _, x := range words[d.word()] {
			counts[d.of(x)]++
		}
		sum := uint32(0)
		for i, c := range counts {
			starts[p][i] = sum
			sum += c
		}
		plan[p] = planSort
		if slices.Contains(counts[:], uint32(n)) {
			plan[p] = 0
		} else {
			sorts++
		}
	}
	copied := sorts%2 == 0
	var side, half uint32
	for p := range plan {
		switch {
		case plan[p] == planSort:
			plan[p] |= side | half
			half ^= planSecond
		case !copied:
			plan[p] = planCopy | side
			copied = true
		default:
			continue
		}
		side ^= planBack
	}
}

func sortPass(words int) device.Twin {
	return func(m device.Memory, a []uint64) {
		n, d, what := int(a[6]), digit(a[7]), *word(m, a[9])
		from, to := columns(m, a[0:words], n), columns(m, a[3:3+words], n)
		if what&planBack != 0 {
			from, to = to, from
		}
		switch {
		case what&planCopy != 0:
			for w := range words {
				copy(to[w], from[w])
			}
		case what&planSort != 0:
			next := device.View[[bins]uint32](m, a[8], 1)[0]
			for i, x := range from[d.word()] {
				at := &next[d.of(x)]
				for w := range words {
					to[w][*at] = from[w][i]
				}
				*at++
			}
		}
	}
}

func sortSmall(words int) device.Twin {
	return func(m device.Memory, a []uint64) {
		n := int(a[3])
		columns, digits := columns(m, a[:words], n), unpack(a[5:11], int(a[4]))
		records := make([][3]uint64, n)
		for i := range records {
			for w := range words {
				records[i][w] = columns[w][i]
			}
		}
		slices.SortStableFunc(records, func(x, y [3]uint64) int {
			for _, d := range slices.Backward(digits) {
				if c := cmp.Compare(d.of(x[d.word()]), d.of(y[d.word()])); c != 0 {
					return c
				}
			}
			return 0
		})
		for i, r := range records {
			for w := range words {
				columns[w][i] = r[w]
			}
		}
	}
}
