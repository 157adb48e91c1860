package primitives_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

// inputs gives values of several kinds: any, ones, zeros, flags, long runs that tiles' borders
// cut, and few values that are not 0.
func inputs(r *rand.Rand, n int) map[string][]uint32 {
	in := map[string][]uint32{}
	for kind, value := range map[string]func(i int) uint32{
		"any":   func(int) uint32 { return r.Uint32() },
		"ones":  func(int) uint32 { return 1 },
		"zeros": func(int) uint32 { return 0 },
		"flags": func(int) uint32 { return r.Uint32N(2) },
		"runs":  func(i int) uint32 { return uint32(i / 7000) },
		"few":   func(i int) uint32 { return uint32(i) * (r.Uint32N(900) / 899) },
	} {
		values := make([]uint32, n)
		for i := range values {
			values[i] = value(i)
		}
		in[kind] = values
	}
	return in
}

// cases runs a test for every size and kind of input, each in a job.
func cases(t *testing.T, test func(q *device.Queue, r *rand.Rand, what string, in []uint32)) {
	each(t, func(t *testing.T, d *device.Device, r *rand.Rand) {
		for _, n := range sizes() {
			for kind, in := range inputs(r, n) {
				do(t, d, func(q *device.Queue) { test(q, r, fmt.Sprintf("%d %s", n, kind), in) })
			}
		}
	})
}

func TestScan(t *testing.T) {
	cases(t, func(q *device.Queue, _ *rand.Rand, what string, in []uint32) {
		n := len(in)
		exclusive, inclusive := make([]uint32, n), make([]uint32, n)
		sum := uint32(0)
		for i, x := range in {
			exclusive[i] = sum
			sum += x
			inclusive[i] = sum
		}
		from, to := buffer(q, in), buffer(q, make([]uint32, n))
		primitives.ScanExclusive(q, to, from, n)
		same(q, what+": exclusive", to, exclusive)
		primitives.ScanInclusive(q, to, from, n)
		same(q, what+": inclusive", to, inclusive)
		same(q, what+": input afterwards", from, in)
		primitives.ScanExclusive(q, from, from, n)
		same(q, what+": exclusive in place", from, exclusive)
	})
}

func TestCompact(t *testing.T) {
	cases(t, func(q *device.Queue, _ *rand.Rand, what string, flags []uint32) {
		indices := []uint32{}
		for i, f := range flags {
			if f != 0 {
				indices = append(indices, uint32(i))
			}
		}
		// Exactly as much room as is needed.
		to, count := buffer(q, make([]uint32, len(indices))), buffer(q, []uint32{77})
		primitives.Compact(q, to, count, buffer(q, flags), len(flags))
		same(q, what+": number", count, []uint32{uint32(len(indices))})
		same(q, what+": indices", to, indices)
	})
}

func TestReduceByKey(t *testing.T) {
	cases(t, func(q *device.Queue, r *rand.Rand, what string, keys []uint32) {
		values := make([]uint32, len(keys))
		for i := range values {
			values[i] = r.Uint32()
		}
		var runs, sums, lengths []uint32
		for i, k := range keys {
			if i == 0 || k != keys[i-1] {
				runs, sums, lengths = append(runs, k), append(sums, 0), append(lengths, 0)
			}
			sums[len(sums)-1] += values[i]
			lengths[len(lengths)-1]++
		}
		k, v := buffer(q, keys), buffer(q, values)
		for _, c := range []struct {
			what   string
			values device.Ptr
			want   []uint32
		}{{"sums", v, sums}, {"lengths", 0, lengths}} {
			keysOut, sumsOut, number := buffer(q, make([]uint32, len(runs))), buffer(q, make([]uint32, len(runs))), buffer(q, []uint32{77})
			primitives.ReduceByKey(q, keysOut, sumsOut, number, k, c.values, len(keys))
			same(q, what+": number of runs", number, []uint32{uint32(len(runs))})
			same(q, what+": keys", keysOut, runs)
			same(q, what+": "+c.what, sumsOut, c.want)
		}
	})
}

func TestScansOfTooMany(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, _ *rand.Rand) {
		for _, n := range []int{-1, primitives.MaxElements + 1} {
			for what, call := range map[string]func(q *device.Queue){
				"reduce by key": func(q *device.Queue) { primitives.ReduceByKey(q, 0, 0, 0, 0, 0, n) },
				"compact":       func(q *device.Queue) { primitives.Compact(q, 0, 0, 0, n) },
			} {
				err := d.Do(device.Build, func(q *device.Queue) error { call(q); return nil })
				if want := fmt.Sprintf("%s: %d elements, at most 1073741823 can be taken at a time", what, n); err == nil || err.Error() != want {
					t.Errorf("got error %v, want %s", err, want)
				}
			}
		}
		do(t, d, func(q *device.Queue) { // the device still works
			p := buffer(q, []uint32{1, 2, 3})
			primitives.ScanInclusive(q, p, p, 3)
			same(q, "scan", p, []uint32{1, 3, 6})
		})
	})
}
