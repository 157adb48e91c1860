// Package primitives has what GPU algorithms are made of: radix sort, scan, reduce by key and
// compaction over whole arrays in device memory.
//
// Scans go over the data once, with decoupled look-back (D. Merrill, M. Garland: Single-pass
// Parallel Prefix Scan with Decoupled Look-back, 2016): a block publishes its tile's sum, adds up those of the
// tiles before until it meets one that is already complete, and publishes its own complete one.
// The sort goes over the data once a digit of 8 bits in the same manner (A. Adinets, D. Merrill:
// Onesweep, 2022), after one pass that counts all digits. A digit that is the same in all
// records costs one empty launch.
//
// Functions put their work on the queue and return; errors stick to the queue. Temporary memory
// is the queue's (Queue.Temp) and freed behind the work.
package primitives

import (
	_ "embed"
	"fmt"

	"github.com/ribwarp/ribwarp/kernels/device"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o primitives.ptx primitives.cu
//go:embed primitives.ptx
var ptx string

// Module is what a device needs for this package (device.Open).
var Module = &device.Module{Name: "primitives", PTX: ptx, Twins: twins}

const (
	block    = 256
	tile     = block * 16 // elements of a scan
	sortTile = block * 8  // records of a sort
	bins     = 256

	// MaxRecords is the most records that Sort takes.
	MaxRecords = 1<<30 - 1
)

// scanState allocates what a single pass over n elements keeps: a counter, and a word a tile.
func scanState(q *device.Queue, n int) (state device.Ptr, l device.Launch) {
	tiles := (n + tile - 1) / tile
	state = q.Temp(8 * (tiles + 1))
	q.Fill(state, 0, 2*(tiles+1))
	return state, device.Launch{GridX: tiles, Block: block}
}

// ScanExclusive writes to each element of out the sum of all elements of in before it, n u32
// modulo 2^32. out may be in. Both are aligned to 16 bytes.
func ScanExclusive(q *device.Queue, out, in device.Ptr, n int) { scan(q, out, in, n, 0) }

// ScanInclusive is ScanExclusive with the element itself included.
func ScanInclusive(q *device.Queue, out, in device.Ptr, n int) { scan(q, out, in, n, 1) }

func scan(q *device.Queue, out, in device.Ptr, n int, inclusive uint64) {
	if n == 0 {
		return
	}
	state, l := scanState(q, n)
	q.Launch("primitives.scan", l, uint64(out), uint64(in), uint64(n), inclusive, uint64(state))
	q.Free(state)
}

// Compact writes the places (u32, in order) of the elements of flags (n u32) that are not 0 to
// places, which has room for n, and their number to count (u32). flags is aligned to 16 bytes.
func Compact(q *device.Queue, places, count, flags device.Ptr, n int) {
	if n == 0 {
		q.Fill(count, 0, 1)
		return
	}
	state, l := scanState(q, n)
	q.Launch("primitives.compact", l, uint64(places), uint64(count), uint64(flags), uint64(n), uint64(state))
	q.Free(state)
}

// ReduceByKey finds the runs of equal neighbours among n keys (u32): it writes the key of each to
// keysOut, the sum of its values (u32, modulo 2^32) to sumsOut, each with room for n, and the number of runs to runs (u32). Without values (0) a
// run's sum is its length. Inputs are aligned to 16 bytes; no output may be an input.
func ReduceByKey(q *device.Queue, keysOut, sumsOut, runs, keys, values device.Ptr, n int) {
	if n == 0 {
		q.Fill(runs, 0, 1)
		return
	}
	state, l := scanState(q, n)
	q.Fill(sumsOut, 0, n)
	q.Launch("primitives.reduce_by_key", l, uint64(keysOut), uint64(sumsOut), uint64(runs), uint64(keys), uint64(values), uint64(n), uint64(state))
	q.Free(state)
}

// Records are N records of 1 to 3 words of 64 bits, a column a word, the most significant first.
type Records struct {
	Words []device.Ptr
	N     int
}

// A Span are the bits of a word, from Low to below High, that take part in a sort.
type Span struct{ Word, Low, High int }

// Sort sorts records by the bits of the spans, the most significant span first; records that are
// equal there keep their order. The result is in records; scratch has the same shape and holds nothing of use afterwards.
// It takes at most 3 spans and MaxRecords records.
func Sort(q *device.Queue, records, scratch Records, spans ...Span) {
	n, words := records.N, len(records.Words)
	if n > MaxRecords || words < 1 || words > 3 || len(spans) > 3 {
		q.Fail(fmt.Errorf("sort: %d records of %d words by %d spans: at most %d records, 3 words and 3 spans", n, words, len(spans), MaxRecords))
		return
	}
	type digit struct{ word, shift, bits int }
	var digits []digit // the least significant first
	var packed [3]uint64
	for i := len(spans) - 1; i >= 0; i-- {
		s := spans[i]
		packed[i] = uint64(s.Word) | uint64(s.Low)<<8 | uint64(s.High)<<16 | uint64(len(digits))<<24
		for low := s.Low; low < s.High; low += 8 {
			digits = append(digits, digit{s.Word, low, min(8, s.High-low)})
		}
	}
	if n < 2 || len(digits) == 0 {
		return
	}
	var a, b [3]uint64
	for i := range words {
		a[i], b[i] = uint64(records.Words[i]), uint64(scratch.Words[i])
	}
	tiles := (n + sortTile - 1) / sortTile
	perPass := bins * (tiles + 1)
	// One piece of memory, so that one call clears it: counts of digits, then every pass's state.
	state := q.Temp(4 * (len(digits)*bins + len(digits)*perPass))
	q.Fill(state, 0, len(digits)*(bins+perPass))
	plan := q.Temp(4 * (len(digits) + 1))
	q.Launch("primitives.radix_histogram", device.Launch{
		GridX: min((n+4*block-1)/(4*block), 4*q.Device().Describe().Multiprocessors), Block: block, Shared: 4 * bins * len(digits),
	}, uint64(state), a[0], a[1], a[2], uint64(n), packed[0], packed[1], packed[2], uint64(len(digits)))
	q.Launch("primitives.radix_plan", device.Launch{GridX: 1, Block: block}, uint64(state), uint64(plan), uint64(n), uint64(len(digits)))
	for i, d := range digits {
		q.Launch("primitives.radix_pass", device.Launch{GridX: tiles, Block: block}, a[0], a[1], a[2], b[0], b[1], b[2], uint64(n), uint64(words),
			uint64(d.word)|uint64(d.shift)<<8|uint64(d.bits)<<16, uint64(state.Add(4*bins*i)), uint64(plan.Add(4*i)), uint64(state.Add(4*(len(digits)*bins+i*perPass))))
	}
	q.Launch("primitives.radix_settle", device.Launch{GridX: min((n+block-1)/block, 8*q.Device().Describe().Multiprocessors), Block: block},
		a[0], a[1], a[2], b[0], b[1], b[2], uint64(n), uint64(words), uint64(plan.Add(4*len(digits))))
	q.Free(state)
	q.Free(plan)
}
