package primitives

import (
	"fmt"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// scanTile is the number of elements of a block's tile, as primitives.cu has it.
const scanTile = block * 8

// MaxElements is the most elements or records that the functions of this package take, all but
// the scans.
const MaxElements = 1<<30 - 1

// fits tells whether n is in range; otherwise the queue gets the error.
func fits(q *device.Queue, what string, n int) bool {
	if n < 0 || n > MaxElements {
		q.Fail(fmt.Errorf("%s: %d elements, at most %d can be taken at a time", what, n, MaxElements))
		return false
	}
	return true
}

// ScanExclusive writes to every element of out the sum of all elements of in before it: n u32,
// modulo 2^32. out may be in.
func ScanExclusive(q *device.Queue, out, in device.Ptr, n int) { scan(q, out, in, n, 0) }

// ScanState is how many bytes ScanExclusiveWith needs for n elements.
func ScanState(n int) int { return 8 * (1 + (n+scanTile-1)/scanTile) }

// ScanExclusiveWith is ScanExclusive that allocates nothing: state has ScanState(n) bytes or more.
func ScanExclusiveWith(q *device.Queue, state, out, in device.Ptr, n int) {
	q.Fill(state, 0, ScanState(n)/4)
	q.Launch("primitives.scan", device.Launch{GridX: (n + scanTile - 1) / scanTile, Block: block}, uint64(out), uint64(in), uint64(n), 0, uint64(state))
}

// ScanInclusive is ScanExclusive with the element itself in the sum.
func ScanInclusive(q *device.Queue, out, in device.Ptr, n int) { scan(q, out, in, n, 1) }

func scan(q *device.Queue, out, in device.Ptr, n int, inclusive uint64) {
	overTiles(q, "primitives.scan", n, uint64(out), uint64(in), uint64(n), inclusive)
}

// ReduceByKey finds the runs of equal neighbours among n keys (u32). It writes each run's key to
// keysOut and the sum of its values (u32, modulo 2^32) to sumsOut, both with room for as many as
// there are, and the number of runs (u32) to runs. Where values is 0 every value is 1. No output
// may be an input.
func ReduceByKey(q *device.Queue, keysOut, sumsOut, runs, keys, values device.Ptr, n int) {
	if n == 0 {
		q.Fill(runs, 0, 1)
	}
	if fits(q, "reduce by key", n) {
		overTiles(q, "primitives.reduce_by_key", n, uint64(keysOut), uint64(sumsOut), uint64(runs), uint64(keys), uint64(values), uint64(n))
	}
}

// Compact writes the indices (u32), in order, of those of n flags (u32) that are not 0 to indices,
// which has room for as many as there are, and their number (u32) to count. No output may be
// an input.
func Compact(q *device.Queue, indices, count, flags device.Ptr, n int) {
	if n == 0 {
		q.Fill(count, 0, 1)
	}
	if fits(q, "compact", n) {
		overTiles(q, "primitives.compact", n, uint64(indices), uint64(count), uint64(flags), uint64(n))
	}
}

// overTiles launches a kernel that scans: its last argument is the state of the tiles' look-back, a
// counter and a status a tile, of 8 bytes each. A single tile needs none.
func overTiles(q *device.Queue, kernel string, n int, args ...uint64) {
	tiles := (n + scanTile - 1) / scanTile
	var state device.Ptr
	if tiles > 1 {
		state = q.Temp(8 * (1 + tiles))
		q.Fill(state, 0, 2*(1+tiles))
	}
	q.Launch(kernel, device.Launch{GridX: tiles, Block: block}, append(args, uint64(state))...)
	q.Free(state)
}
