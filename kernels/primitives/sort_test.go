package primitives_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

type record [3]uint64

// sorted is what Sort must leave.
func sorted(records []record, spans []primitives.Span) []record {
	all := slices.Clone(records)
	slices.SortStableFunc(all, func(a, b record) int {
		for _, s := range spans {
			bits := func(x uint64) uint64 { return x << (64 - s.High) >> (64 - s.High + s.Low) }
			if c := cmp.Compare(bits(a[s.Word]), bits(b[s.Word])); c != 0 {
				return c
			}
		}
		return 0
	})
	return all
}

func column(records []record, w int) []uint64 {
	words := make([]uint64, len(records))
	for i, r := range records {
		words[i] = r[w]
	}
	return words
}

func checkSort(t testing.TB, d *device.Device, what string, words int, records []record, spans []primitives.Span) {
	t.Helper()
	n := len(records)
	do(t, d, func(q *device.Queue) {
		in, scratch := primitives.Records{N: n}, primitives.Records{N: n}
		for w := range words {
			in.Words = append(in.Words, buffer(q, column(records, w)))
			scratch.Words = append(scratch.Words, buffer(q, make([]uint64, n)))
		}
		primitives.Sort(q, in, scratch, spans...)
		want := sorted(records, spans)
		for w := range words {
			same(q, fmt.Sprintf("%d %s records of %d words by %v: word %d", n, what, words, spans, w), in.Words[w], column(want, w))
			contents[uint64](q, "scratch", scratch.Words[w], n) // its guards
		}
	})
}

// kinds of records. All but the equal ones carry their number where no span of sortSpans is, which
// shows whether records that are equal otherwise kept their order.
var kinds = map[string]func(r *rand.Rand, i, n int) record{
	"random":   func(r *rand.Rand, i, _ int) record { return numbered(i, r.Uint64(), r.Uint64(), r.Uint64()) },
	"sorted":   func(_ *rand.Rand, i, _ int) record { return numbered(i, uint64(i)<<30, uint64(i)<<20, uint64(i)<<33) },
	"reversed": func(_ *rand.Rand, i, n int) record { x := uint64(n - i); return numbered(i, x<<30, x<<20, x<<33) },
	"few": func(r *rand.Rand, i, _ int) record {
		x := r.Uint64N(3)
		return numbered(i, x<<62|x<<40, x<<33, x<<50|x<<9)
	},
	"same":      func(_ *rand.Rand, i, _ int) record { return numbered(i, 0x123456789<<28, 0x987654321<<28, ^uint64(0)) },
	"all equal": func(*rand.Rand, int, int) record { return record{^uint64(0), ^uint64(0), ^uint64(0)} },
	// A digit that all share between two that they do not.
	"gap": func(r *rand.Rand, i, _ int) record {
		const gaps = 0x00ff00ffff00ff00
		return numbered(i, r.Uint64()&gaps|0x5a005a0000<<20, r.Uint64()&^gaps, r.Uint64()&gaps)
	},
}

// numbered puts a record's number, which has 20 bits, into the lowest bits of its words.
func numbered(i int, a, b, c uint64) record {
	const number = 1<<20 - 1
	return record{a&^number | uint64(i), b&^number | uint64(i), c&^number | uint64(i)}
}

// sortSpans are, by the words of a record: what the trees sort by; whole words; spans of odd
// widths; some digits and an odd and an even number of them; none.
var sortSpans = [][][]primitives.Span{
	1: {{{0, 26, 64}}, {{0, 20, 64}}, {{0, 41, 42}}, {{0, 32, 40}}, {{0, 60, 64}, {0, 23, 40}}, {{0, 33, 33}}, {}},
	2: {{{0, 20, 64}, {1, 32, 38}}, {{1, 20, 64}, {0, 20, 64}}, {{1, 33, 34}}, {{0, 61, 64}, {1, 27, 38}, {0, 30, 41}}},
	3: {{{0, 20, 64}, {1, 20, 64}, {2, 32, 40}}, {{2, 27, 31}}, {{1, 50, 64}, {2, 20, 29}, {0, 60, 63}}, {{0, 0, 64}, {1, 0, 64}, {2, 0, 64}}},
}

func TestSort(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, r *rand.Rand) {
		for _, n := range sizes() {
			for kind, recordOf := range kinds {
				if (n > 200_000 || testing.Short() && n > 5000) && kind != "random" && kind != "gap" {
					continue // what they are about, tiles of smaller sizes have too
				}
				records := []record{}
				for i := range n {
					records = append(records, recordOf(r, i, n))
				}
				for words := 1; words <= 3; words++ {
					for _, spans := range sortSpans[words] {
						if n > 200_000 && len(spans) != words {
							continue
						}
						checkSort(t, d, kind, words, records, spans)
					}
				}
			}
		}
	})
}

// Every digit that records share is left out. Whichever those are, the result lies where the records did.
func TestSortLeavesDigitsOut(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, r *rand.Rand) {
		for _, span := range []primitives.Span{{Word: 0, Low: 24, High: 56}, {Word: 0, Low: 24, High: 64}} {
			for differ := range uint64(1) << ((span.High - span.Low) / 8) {
				mask := uint64(0)
				for digit := range 5 {
					mask |= differ >> digit & 1 * 0xff << (span.Low + 8*digit)
				}
				records := make([]record, 5000)
				for i := range records {
					records[i][0] = r.Uint64()&mask | uint64(i)
				}
				checkSort(t, d, fmt.Sprintf("masked %#x", mask), 1, records, []primitives.Span{span})
			}
		}
	})
}

func TestSortRefuses(t *testing.T) {
	records := func(n, words int) primitives.Records {
		return primitives.Records{N: n, Words: make([]device.Ptr, words)}
	}
	one := []primitives.Span{{Word: 0, Low: 0, High: 8}}
	each(t, func(t *testing.T, d *device.Device, _ *rand.Rand) {
		for _, c := range []struct {
			in, scratch primitives.Records
			spans       []primitives.Span
			want        string
		}{
			{records(5, 0), records(5, 0), one, "records of 0 words"},
			{records(5, 4), records(5, 4), one, "records of 4 words"},
			{records(5, 2), records(5, 1), one, "same shape"},
			{records(5, 2), records(6, 2), one, "same shape"},
			{records(-1, 1), records(-1, 1), one, "-1 elements"},
			{records(1<<30, 1), records(1<<30, 1), one, "1073741824 elements"},
			{records(5, 2), records(5, 2), []primitives.Span{{2, 0, 8}}, "bits 0 to 8 of word 2"},
			{records(5, 2), records(5, 2), []primitives.Span{{0, 8, 65}}, "bits 8 to 65 of word 0"},
			{records(5, 2), records(5, 2), []primitives.Span{{0, 9, 8}}, "bits 9 to 8 of word 0"},
			{records(5, 2), records(5, 2), []primitives.Span{{-1, 0, 8}}, "word -1"},
			{records(5, 2), records(5, 2), slices.Repeat(one, 25), "25 digits"},
		} {
			err := d.Do(device.Build, func(q *device.Queue) error { primitives.Sort(q, c.in, c.scratch, c.spans...); return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d records of %d words by %v: got error %v, want one about %q", c.in.N, len(c.in.Words), c.spans, err, c.want)
			}
		}
	})
}

// FuzzSort sorts what the data says, once as it is and once repeated to more than one tile.
func FuzzSort(f *testing.F) {
	f.Add([]byte("some records of two words, and how they are sorted"), uint8(1), uint8(0), uint8(64), uint8(33))
	f.Add([]byte{3: 255, 9: 1, 17: 255}, uint8(2), uint8(7), uint8(12), uint8(12))
	f.Add([]byte{}, uint8(0), uint8(0), uint8(0), uint8(0))
	d, err := device.Open(sim.New(0, nil), primitives.Module)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = d.Close() })
	f.Fuzz(func(t *testing.T, data []byte, words, low, high, cut uint8) {
		count := int(words)%3 + 1
		low, high = min(low%65, high%65), max(low%65, high%65)
		// One span, or two that follow each other, in different words where there are some.
		middle := min(max(low, cut), high)
		spans := []primitives.Span{{int(cut) % count, int(middle), int(high)}, {int(low) % count, int(low), int(middle)}}
		var records []record
		for len(data) >= 8*count {
			var r record
			for w := range count {
				r[w] = binary.LittleEndian.Uint64(data)
				data = data[8:]
			}
			records = append(records, r)
		}
		checkSort(t, d, "fuzzed", count, records, spans)
		if len(records) > 0 {
			many := slices.Repeat(records, 5000/len(records)+1)
			for i := range many {
				many[i][count-1] ^= uint64(i) << 32
			}
			checkSort(t, d, "repeated", count, many, spans)
		}
	})
}
