package primitives_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

// sizes are around the borders of warps, blocks and tiles.
func sizes() []int {
	s := []int{0, 1, 2, 31, 32, 33, 255, 256, 257, 2047, 2048, 2049, 4095, 4096, 4097, 8192, 100_000, 140_001}
	if !testing.Short() {
		s = append(s, 1_000_003, 4<<20+5)
	}
	return s
}

const guard uint32 = 0x600df00d // behind every output

// each runs a test on every device, with a seeded generator.
func each(t *testing.T, test func(t *testing.T, d *device.Device, r *rand.Rand)) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	devicetest.Each(t, []*device.Module{primitives.Module}, func(t *testing.T, d *device.Device) {
		test(t, d, rand.New(rand.NewPCG(seed, 0)))
	})
}

func do(t testing.TB, d *device.Device, job func(q *device.Queue)) {
	t.Helper()
	if err := d.Do(device.Build, func(q *device.Queue) error { job(q); return q.Err() }); err != nil {
		t.Fatal(err)
	}
}

// upload gives the values, and a guard behind them, on the device.
func upload[T any](q *device.Queue, values []T, behind T) device.Ptr {
	all := append(slices.Clone(values), behind)
	p := q.Temp(len(all) * int(unsafe.Sizeof(behind)))
	device.CopyIn(q, p, all)
	q.Wait()
	return p
}

// download gives n values and checks the guard behind them.
func download[T comparable](t testing.TB, q *device.Queue, p device.Ptr, n int, behind T) []T {
	t.Helper()
	got := make([]T, n+1)
	device.CopyOut(q, got, p)
	q.Wait()
	if q.Err() == nil && got[n] != behind {
		t.Fatalf("the element behind %d was overwritten: %v", n, got[n])
	}
	return got[:n]
}

func same[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: value %d of %d is %v, want %v", what, i, len(want), got[i], want[i])
		}
	}
}

// values gives n values: all kinds, constant, few different ones, and flags.
func values(r *rand.Rand, n, kind int) []uint32 {
	v := make([]uint32, n)
	for i := range v {
		switch kind {
		case 0:
			v[i] = r.Uint32()
		case 1:
			v[i] = 1
		case 2:
			v[i] = uint32(r.IntN(2))
		case 3:
			if r.IntN(500) == 0 {
				v[i] = uint32(i) // long runs of zeros
			}
		case 4:
			v[i] = uint32(i / 700)
		}
	}
	return v
}

func TestScan(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, r *rand.Rand) {
		for _, n := range sizes() {
			in := values(r, n, r.IntN(5))
			inclusive, exclusive := make([]uint32, n), make([]uint32, n)
			sum := uint32(0)
			for i, x := range in {
				exclusive[i] = sum
				sum += x
				inclusive[i] = sum
			}
			do(t, d, func(q *device.Queue) {
				from, to := upload(q, in, guard), upload(q, make([]uint32, n), guard)
				primitives.ScanExclusive(q, to, from, n)
				same(t, "exclusive", download(t, q, to, n, guard), exclusive)
				primitives.ScanInclusive(q, from, from, n) // in place
				same(t, "inclusive", download(t, q, from, n, guard), inclusive)
			})
		}
	})
}

func TestCompact(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, r *rand.Rand) {
		for _, n := range sizes() {
			for kind := range 4 {
				flags := values(r, n, kind)
				want := []uint32{}
				for i, f := range flags {
					if f != 0 {
						want = append(want, uint32(i))
					}
				}
				do(t, d, func(q *device.Queue) {
					from, to, count := upload(q, flags, guard), upload(q, make([]uint32, n), guard), upload(q, []uint32{77}, guard)
					primitives.Compact(q, to, count, from, n)
					got := download(t, q, count, 1, guard)[0]
					if int(got) != len(want) {
						t.Fatalf("%d of %d elements kept, want %d", got, n, len(want))
					}
					same(t, "places", download(t, q, to, n, guard)[:got], want)
				})
			}
		}
	})
}

func TestReduceByKey(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, r *rand.Rand) {
		for _, n := range sizes() {
			for kind := range 5 {
				keys, vals := values(r, n, kind), values(r, n, 0)
				var wantKeys, wantSums, wantLengths []uint32
				for i, k := range keys {
					if i == 0 || k != keys[i-1] {
						wantKeys, wantSums, wantLengths = append(wantKeys, k), append(wantSums, 0), append(wantLengths, 0)
					}
					wantSums[len(wantSums)-1] += vals[i]
					wantLengths[len(wantLengths)-1]++
				}
				do(t, d, func(q *device.Queue) {
					k, v := upload(q, keys, guard), upload(q, vals, guard)
					keysOut, sums, runs := upload(q, make([]uint32, n), guard), upload(q, make([]uint32, n), guard), upload(q, []uint32{9}, guard)
					for _, x := range []struct {
						values device.Ptr
						want   []uint32
					}{{v, wantSums}, {0, wantLengths}} {
						primitives.ReduceByKey(q, keysOut, sums, runs, k, x.values, n)
						got := download(t, q, runs, 1, guard)[0]
						if int(got) != len(wantKeys) {
							t.Fatalf("%d runs of %d, want %d", got, n, len(wantKeys))
						}
						same(t, "keys", download(t, q, keysOut, n, guard)[:got], wantKeys)
						same(t, "sums", download(t, q, sums, n, guard)[:got], x.want)
					}
				})
			}
		}
	})
}

// sortCase are records and what they are sorted by.
type sortCase struct {
	words [][]uint64
	spans []primitives.Span
}

func (c sortCase) n() int { return len(c.words[0]) }

// want sorts with the library.
func (c sortCase) want() [][]uint64 {
	order := make([]int, c.n())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		for _, s := range c.spans {
			x, y := c.words[s.Word][a], c.words[s.Word][b]
			mask := ^uint64(0)
			if s.High-s.Low < 64 {
				mask = 1<<(s.High-s.Low) - 1
			}
			if o := cmp.Compare(x>>s.Low&mask, y>>s.Low&mask); o != 0 {
				return o
			}
		}
		return 0
	})
	out := make([][]uint64, len(c.words))
	for w := range out {
		for _, i := range order {
			out[w] = append(out[w], c.words[w][i])
		}
	}
	return out
}

func (c sortCase) check(t testing.TB, d *device.Device) {
	t.Helper()
	want := c.want()
	do(t, d, func(q *device.Queue) {
		records, scratch := primitives.Records{N: c.n()}, primitives.Records{N: c.n()}
		for _, w := range c.words {
			records.Words = append(records.Words, upload(q, w, uint64(guard)))
			scratch.Words = append(scratch.Words, upload(q, make([]uint64, len(w)), uint64(guard)))
		}
		primitives.Sort(q, records, scratch, c.spans...)
		for w := range c.words {
			same(t, fmt.Sprintf("%d records of %d words by %v: word %d", c.n(), len(c.words), c.spans, w), download(t, q, records.Words[w], c.n(), uint64(guard)), want[w])
			download(t, q, scratch.Words[w], c.n(), uint64(guard))
		}
	})
}

var sortSpans = [][][]primitives.Span{
	1: {{{0, 26, 64}}, {{0, 0, 64}}, {{0, 5, 6}}, {{0, 32, 40}}, {{0, 60, 64}, {0, 3, 20}}, {}},
	2: {{{0, 16, 64}, {1, 32, 38}}, {{1, 0, 64}, {0, 0, 64}}, {{1, 13, 14}}},
	3: {{{0, 0, 64}, {1, 0, 64}, {2, 32, 40}}, {{2, 7, 31}}, {{1, 50, 64}, {2, 0, 9}, {0, 60, 63}}},
}

func TestSort(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, r *rand.Rand) {
		for _, n := range sizes() {
			for words := 1; words <= 3; words++ {
				for _, spans := range sortSpans[words] {
					if n > 200_000 && len(spans) == 1 && spans[0].High-spans[0].Low < 30 {
						continue // nothing that the smaller ones do not show
					}
					c := sortCase{spans: spans}
					kind := r.IntN(6)
					for w := range words {
						col := make([]uint64, n)
						for i := range col {
							switch kind {
							case 0, 1:
								col[i] = r.Uint64()
							case 2: // all the same but for the place
								col[i] = 0xabcdef00_00000000 | uint64(i)
							case 3: // sorted
								col[i] = uint64(i) << 30
							case 4: // backwards
								col[i] = uint64(n-i) << 30
							case 5: // few different ones
								col[i] = uint64(r.IntN(3))<<62 | uint64(r.IntN(3))<<33 | uint64(r.IntN(2))<<13
							}
						}
						if w == words-1 {
							for i := range col {
								col[i] = col[i]&^0xff | uint64(i&0xff) // who kept the order
							}
						}
						c.words = append(c.words, col)
					}
					c.check(t, d)
				}
			}
		}
	})
}

func TestSortRefuses(t *testing.T) {
	each(t, func(t *testing.T, d *device.Device, _ *rand.Rand) {
		for _, c := range []struct {
			n, words, spans int
		}{{primitives.MaxRecords + 1, 1, 1}, {5, 0, 1}, {5, 4, 1}, {5, 1, 4}} {
			err := d.Do(device.Build, func(q *device.Queue) error {
				primitives.Sort(q, primitives.Records{N: c.n, Words: make([]device.Ptr, c.words)}, primitives.Records{}, make([]primitives.Span, c.spans)...)
				return q.Err()
			})
			if err == nil {
				t.Errorf("%+v was taken", c)
			}
		}
	})
}

func FuzzSort(f *testing.F) {
	f.Add([]byte("the records"), uint8(1), uint8(0), uint8(64))
	f.Add([]byte{255, 0, 255, 1}, uint8(3), uint8(7), uint8(12))
	d, err := device.Open(sim.New(0, nil), primitives.Module)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte, words, low, high uint8) {
		words, low, high = words%3+1, low%64, high%65
		if low >= high {
			return
		}
		c := sortCase{spans: []primitives.Span{{Word: int(low) % int(words), Low: int(low), High: int(high)}}}
		for w := range int(words) {
			col := make([]uint64, len(data))
			for i := range data {
				col[i] = uint64(data[i])<<(8*(w+1)) | uint64(data[(i*7+w)%len(data)])<<48 | uint64(i)<<32>>w
			}
			c.words = append(c.words, col)
		}
		c.check(t, d)
	})
}
