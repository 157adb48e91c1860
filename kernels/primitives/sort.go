package primitives

import (
	"fmt"

	"github.com/ribwarp/ribwarp/kernels/device"
)

// Sizes as primitives.cu has them.
const (
	bins      = 256
	maxDigits = 24
	smallSort = block * 8 // records that one block sorts
	planBlock = 1024      // threads
)

// sortTile is the number of records of a block's tile in a pass, by words of a record.
var sortTile = [...]int{1: block * 8, 2: block * 4, 3: block * 4}

// Records are N records of 1 to 3 words (u64) in columns, one of each word. The first word is the
// most significant.
type Records struct {
	Words []device.Ptr
	N     int
}

// A Span is the bits of a word from Low on and below High: 0 <= Low <= High <= 64.
type Span struct{ Word, Low, High int }

// Sort sorts records by the bits of the spans, the most significant span first. Records that have
// the same bits there keep their order; without spans nothing moves. scratch is of the same shape;
// it holds anything afterwards.
//
// It takes up to 24 digits: a span of n bits is n/8 of them, rounded up. Up to 4096 records cost
// one launch. More cost two calls and a launch a digit, rounded up to an even number, and each digit that is not
// the same in all records reads and writes them once; an odd number of those costs a copy more.
// Temporary memory is half a byte a record of one word, and one byte of more.
func Sort(q *device.Queue, records, scratch Records, spans ...Span) {
	n, words := records.N, len(records.Words)
	digits, err := digitsOf(spans, words)
	switch {
	case err != nil:
		q.Fail(err)
		return
	case scratch.N != n || len(scratch.Words) != words:
		q.Fail(fmt.Errorf("sort: %d records of %d words, but scratch is %d of %d: it must have the same shape", n, words, scratch.N, len(scratch.Words)))
		return
	case !fits(q, "sort", n) || n < 2 || len(digits) == 0:
		return
	}
	var a, b, read [3]uint64 // read: the words that digits lie in
	for w := range words {
		a[w], b[w] = uint64(records.Words[w]), uint64(scratch.Words[w])
	}
	for _, d := range digits {
		read[d.word()] = a[d.word()]
	}
	p := pack(digits)
	if n <= smallSort {
		q.Launch(fmt.Sprintf("primitives.sort_small_%d", words), device.Launch{GridX: 1, Block: block},
			a[0], a[1], a[2], uint64(n), uint64(len(digits)), p[0], p[1], p[2], p[3], p[4], p[5])
		return
	}

	// Records change sides with every pass. An even number of passes brings them back.
	passes := len(digits) + len(digits)%2
	tiles := (n + sortTile[words] - 1) / sortTile[words]
	// One piece of memory, so that one call clears it: counts of the digits, what each pass has to
	// do, its counter of tiles, how many blocks have planned, and statuses for two passes. Every
	// pass clears those of the next.
	size := len(digits)*bins + 2*passes + 1
	state := q.Temp(4 * (size + 2*tiles*bins))
	q.Fill(state, 0, size+tiles*bins)
	plan := state.Add(4 * len(digits) * bins)
	counters := plan.Add(4 * passes)
	done := counters.Add(4 * passes)
	status := done.Add(4)

	blocks := min((n+4*planBlock-1)/(4*planBlock), q.Device().Describe().Multiprocessors)
	q.Launch("primitives.sort_plan", device.Launch{GridX: blocks, Block: planBlock}, read[0], read[1], read[2], uint64(n), uint64(len(digits)),
		p[0], p[1], p[2], p[3], p[4], p[5], uint64(state), uint64(plan), uint64(done))
	pass := fmt.Sprintf("primitives.sort_pass_%d", words)
	for i := range passes {
		var d digit
		if i < len(digits) {
			d = digits[i]
		}
		q.Launch(pass, device.Launch{GridX: tiles, Block: block}, a[0], a[1], a[2], b[0], b[1], b[2], uint64(n), uint64(d),
			uint64(state.Add(4*i*bins)), uint64(plan.Add(4*i)), uint64(counters.Add(4*i)), uint64(status))
	}
	q.Free(state)
}

// A digit is up to 8 bits of a word: width | low<<4 | word<<10.
type digit uint16

func (d digit) word() int          { return int(d >> 10) }
func (d digit) of(x uint64) uint64 { return x >> (d >> 4 & 63) & (1<<(d&15) - 1) }

// digitsOf gives the digits of spans, the least significant first.
func digitsOf(spans []Span, words int) (digits []digit, err error) {
	if words < 1 || words > 3 {
		return nil, fmt.Errorf("sort: records of %d words, it takes 1 to 3", words)
	}
	for i := len(spans) - 1; i >= 0; i-- {
		s := spans[i]
		if s.Word < 0 || s.Word >= words || s.Low < 0 || s.Low > s.High || s.High > 64 {
			return nil, fmt.Errorf("sort: bits %d to %d of word %d: records have %d words of 64 bits", s.Low, s.High, s.Word, words)
		}
		for low := s.Low; low < s.High; low += 8 {
			digits = append(digits, digit(min(8, s.High-low)|low<<4|s.Word<<10))
		}
	}
	if len(digits) > maxDigits {
		return nil, fmt.Errorf("sort: the spans are %d digits of up to 8 bits, it takes %d: join spans that follow each other", len(digits), maxDigits)
	}
	return digits, nil
}

// pack puts four digits into a kernel's argument.
func pack(digits []digit) (p [maxDigits / 4]uint64) {
	for i, d := range digits {
		p[i/4] |= uint64(d) << (i % 4 * 16)
	}
	return p
}
