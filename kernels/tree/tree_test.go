package tree_test

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/tree"
)

// That images are the processor's, and that searches of whole tables agree with it, is tested in
// package flavors. Here: the worked example by hand, and every search against a list of masks.

const child = 1 << 31

// A mask is a value of a tree of masks.
type mask struct {
	hi, lo  uint64
	length  int
	payload uint32
}

func (m mask) covers(hi, lo uint64, length int) bool {
	return m.length <= length && common(m.hi, m.lo, hi, lo) >= m.length
}

func common(hi, lo, hi2, lo2 uint64) int {
	if hi != hi2 {
		return bits.LeadingZeros64(hi ^ hi2)
	}
	return 64 + bits.LeadingZeros64(lo^lo2)
}

// bitMask reads "010-0X-X".
func bitMask(s string, payload uint32) mask {
	s = strings.ReplaceAll(s, "-", "")
	m := mask{length: strings.IndexByte(s+"X", 'X'), payload: payload}
	for i, c := range s[:m.length] {
		if c == '1' {
			m.hi |= 1 << (63 - i)
		}
	}
	return m
}

// columns puts masks on the device.
func columns(q *device.Queue, masks []mask) tree.Columns {
	longest := 0
	records := make([][3]uint64, len(masks))
	for i, m := range masks {
		longest = max(longest, m.length)
		records[i] = [3]uint64{m.hi, m.lo, uint64(m.payload) | uint64(m.length)<<32}
	}
	c := tree.NewColumns(q, len(masks), longest)
	p := q.Temp(24 * len(masks))
	device.CopyIn(q, p, records)
	c.Set128(q, 0, p, len(masks))
	return c
}

func each(t *testing.T, job func(t *testing.T, q *device.Queue)) {
	devicetest.Each(t, tree.Modules(), func(t *testing.T, d *device.Device) {
		if err := d.Do(device.Build, func(q *device.Queue) error { job(t, q); return q.Err() }); err != nil {
			t.Fatal(err)
		}
	})
}

func build(t *testing.T, q *device.Queue, strides []int, kind tree.Kind, masks []mask) *tree.Image {
	t.Helper()
	c := columns(q, masks)
	defer c.Free(q)
	im, err := tree.Build(q, tree.NewShape(strides), c, kind)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// The method's worked example: 6 bits in strides 3, 2, 1.
func TestWorkedExampleOfMasks(t *testing.T) {
	masks := []mask{bitMask("010-0X-X", 1), bitMask("1XX-XX-X", 2), bitMask("010-00-X", 3), bitMask("010-11-1", 4)}
	each(t, func(t *testing.T, q *device.Queue) {
		for _, kind := range []tree.Kind{tree.List, tree.Pushed} {
			im := build(t, q, []int{3, 2, 1}, kind, masks)
			if !slices.Equal(im.Nodes, []int{1, 1, 1}) {
				t.Errorf("nodes %v", im.Nodes)
			}
			cells, starts, entries := im.Download(q)
			want := []uint32{0, 0, child, 0, 2, 2, 2, 2 /**/, 3, 1, 0, child /**/, 0, 4}
			if kind == tree.List {
				want = []uint32{0, 0, child, 0, 0, 0, 0, 0 /**/, 0, 0, 0, child /**/, 0, 0}
			}
			if !slices.Equal(cells, want) {
				t.Errorf("cells %x, want %x", cells, want)
			}
			if !slices.Equal(starts, []uint32{0, 1, 3, 4}) {
				t.Errorf("starts %v", starts)
			}
			// 1XX covers 4 cells from 4 on; node 010 has 010-00-X before 010-0X-X.
			if want := []tree.Entry{{2<<26 | 4, 2}, {0, 3}, {1 << 26, 1}, {1, 4}}; !slices.Equal(entries, want) {
				t.Errorf("entries %v, want %v", entries, want)
			}
			im.Free(q)
		}
	})
}

func TestWorkedExampleOfKeys(t *testing.T) {
	keys := []uint64{}
	for _, s := range []string{"010-01-1", "000-01-1", "111-00-0", "000-00-1", "010-10-0", "000-01-0"} {
		keys = append(keys, bitMask(s, 0).hi)
	}
	each(t, func(t *testing.T, q *device.Queue) {
		in := tree.Columns{Hi: q.Temp(8 * len(keys)), N: len(keys), Longest: 6}
		device.CopyIn(q, in.Hi, keys)
		im, err := tree.Build(q, tree.NewShape([]int{3, 2, 1}), in, tree.Keys)
		if err != nil {
			t.Fatal(err)
		}
		cells, _, _ := im.Download(q)
		want := []uint32{
			child, 0, child | 4, 0, 0, 0, 0, child | 8,
			child, child | 2, 0, 0 /**/, 0, child | 4, child | 6, 0 /**/, child | 8, 0, 0, 0,
			0, 4 /**/, 6, 2 /**/, 0, 1 /**/, 5, 0 /**/, 3, 0,
		}
		if !slices.Equal(cells, want) {
			t.Errorf("cells %x, want %x", cells, want)
		}
		im.Free(q)
	})
}

// randomMasks are crowded: many share their first bits.
func randomMasks(r *rand.Rand, width, n int) (masks []mask) {
	seen := map[[3]uint64]bool{}
	for len(masks) < n {
		m := mask{hi: r.Uint64(), lo: r.Uint64(), length: r.IntN(width + 1), payload: uint32(len(masks) + 1)}
		if r.IntN(4) > 0 {
			m.hi = m.hi&0x000f_0f00_f000_ffff | 0x2001_0000_0000_0000
		}
		if r.IntN(3) == 0 && len(masks) > 0 {
			m.hi, m.lo = masks[r.IntN(len(masks))].hi, masks[r.IntN(len(masks))].lo
		}
		m = clip(m, m.length)
		if key := [3]uint64{m.hi, m.lo, uint64(m.length)}; !seen[key] {
			seen[key] = true
			masks = append(masks, m)
		}
	}
	return masks
}

// clip clears the bits behind length.
func clip(m mask, length int) mask {
	if length < 64 {
		m.hi &^= ^uint64(0) >> length
		m.lo = 0
	} else if length < 128 {
		m.lo &^= ^uint64(0) >> (length - 64)
	}
	return m
}

// TestSearches compares every search of every kind with a walk over all masks.
func TestSearches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, x := range []struct {
		strides  []int
		n, batch int
	}{
		{[]int{3, 2, 1}, 20, 200}, {[]int{16, 8, 8}, 150, 40_000}, {[]int{20, 4, 8}, 150, 40_000}, {[]int{7, 9, 11, 5}, 150, 500},
		{[]int{16, 16, 16, 16}, 150, 40_000}, {[]int{13, 11, 8, 12, 12, 8, 16, 16, 16, 16}, 200, 40_000}, {[]int{21, 11, 8, 9, 15, 8, 8, 8, 8, 8, 8, 16}, 200, 40_000},
	} {
		each(t, func(t *testing.T, q *device.Queue) {
			r := rand.New(rand.NewPCG(seed, uint64(x.n)))
			shape := tree.NewShape(x.strides)
			masks := randomMasks(r, shape.Width, x.n)
			longest := 0
			for _, m := range masks {
				longest = max(longest, m.length)
			}
			// Keys at the masks' borders and anywhere; a batch large enough for the index of the root.
			asked := make([]mask, x.batch)
			for i := range asked {
				m := masks[r.IntN(len(masks))]
				a := mask{hi: r.Uint64(), lo: r.Uint64()}
				if i%8 != 0 {
					inside := clip(a, m.length)
					a.hi, a.lo = a.hi^inside.hi|m.hi, a.lo^inside.lo|m.lo
				}
				asked[i] = clip(a, shape.Width)
				asked[i].length = shape.Width
			}
			want := make([]uint32, len(asked))
			for i, a := range asked {
				best := -1
				for _, m := range masks {
					if m.length > best && m.covers(a.hi, a.lo, shape.Width) {
						best, want[i] = m.length, m.payload
					}
				}
			}
			for _, kind := range []tree.Kind{tree.List, tree.Pushed} {
				im := build(t, q, x.strides, kind, masks)
				for _, width := range []int{32, 64, 128} {
					if width < longest || width == 32 && shape.Width > 32 {
						continue
					}
					for _, n := range []int{0, 1, 7, len(asked)} {
						keys := q.Temp(16 * len(asked))
						switch width {
						case 32:
							device.CopyIn(q, keys, each32(asked[:n]))
						case 64:
							device.CopyIn(q, keys, each64(asked[:n]))
						default:
							device.CopyIn(q, keys, each128(asked[:n]))
						}
						out := q.Temp(4 * (n + 1))
						q.Fill(out, 0xdead, n+1)
						im.Match(q, out, keys, n, width)
						got := make([]uint32, n+1)
						device.CopyOut(q, got, out)
						q.Wait()
						q.Free(keys)
						q.Free(out)
						if got[n] != 0xdead {
							t.Fatalf("a batch of %d wrote behind its end", n)
						}
						for i := range n {
							if got[i] != want[i] {
								t.Fatalf("strides %v, kind %d, keys of %d bits, batch of %d: key %d (%x %x) matches %d, want %d", x.strides, kind, width, n, i, asked[i].hi, asked[i].lo, got[i], want[i])
							}
						}
					}
				}
				relations(t, q, im, masks, r)
				im.Free(q)
			}
		})
	}
}

func each32(asked []mask) (k []uint32) {
	for _, a := range asked {
		k = append(k, uint32(a.hi>>32))
	}
	return k
}

func each64(asked []mask) (k []uint64) {
	for _, a := range asked {
		k = append(k, a.hi)
	}
	return k
}

func each128(asked []mask) (k [][2]uint64) {
	for _, a := range asked {
		k = append(k, [2]uint64{a.hi, a.lo})
	}
	return k
}

// relations compares FindMasks, Covering and Inside.
func relations(t *testing.T, q *device.Queue, im *tree.Image, masks []mask, r *rand.Rand) {
	t.Helper()
	asked := slices.Clone(masks)
	for range 50 { // masks that are not there
		m := masks[r.IntN(len(masks))]
		asked = append(asked, clip(m, r.IntN(m.length+1)))
		asked[len(asked)-1].length = min(m.length, r.IntN(m.length+1))
		asked[len(asked)-1] = clip(asked[len(asked)-1], asked[len(asked)-1].length)
	}
	lengths := make([]uint8, len(asked))
	for i, a := range asked {
		lengths[i] = uint8(a.length)
	}
	room := im.Shape.Width + 1
	n := len(asked)
	keys, lens, found, all, counts := q.Temp(16*n), q.Temp(n), q.Temp(4*n), q.Temp(4*n*room), q.Temp(4*n)
	device.CopyIn(q, keys, each128(asked))
	device.CopyIn(q, lens, lengths)
	q.Fill(all, 0, n*room) // only the first of each are written, and all are read
	im.FindMasks(q, found, keys, lens, n)
	im.Covering(q, all, counts, keys, lens, n)
	gotFound, gotAll, gotCounts := make([]uint32, n), make([]uint32, n*room), make([]uint32, n)
	device.CopyOut(q, gotFound, found)
	device.CopyOut(q, gotAll, all)
	device.CopyOut(q, gotCounts, counts)
	q.Wait()
	for i, a := range asked {
		wantFound := uint32(0)
		var covering, inside []mask
		for _, m := range masks {
			if m.hi == a.hi && m.lo == a.lo && m.length == a.length {
				wantFound = m.payload
			}
			if m.covers(a.hi, a.lo, a.length) {
				covering = append(covering, m)
			}
			if a.covers(m.hi, m.lo, m.length) {
				inside = append(inside, m)
			}
		}
		if gotFound[i] != wantFound {
			t.Fatalf("find %+v: %d, want %d", a, gotFound[i], wantFound)
		}
		slices.SortFunc(covering, func(a, b mask) int { return b.length - a.length })
		if got := gotAll[i*room:][:gotCounts[i]]; !slices.Equal(got, payloads(covering)) {
			t.Fatalf("covering %+v: %v, want %v", a, got, payloads(covering))
		}
		if i%7 != 0 {
			continue
		}
		out, places := q.Temp(8), make([]uint32, 2)
		im.Inside(q, out, a.hi, a.lo, a.length)
		device.CopyOut(q, places, out)
		q.Wait()
		got := make([]uint32, places[1]-places[0])
		device.CopyOut(q, got, im.Sorted.Payload.Add(4*int(places[0])))
		q.Wait()
		slices.SortFunc(inside, func(a, b mask) int {
			switch {
			case a.hi != b.hi:
				return compare(a.hi, b.hi)
			case a.lo != b.lo:
				return compare(a.lo, b.lo)
			}
			return a.length - b.length
		})
		if !slices.Equal(got, payloads(inside)) {
			t.Fatalf("inside %+v: %v, want %v", a, got, payloads(inside))
		}
	}
	for _, p := range []device.Ptr{keys, lens, found, all, counts} {
		q.Free(p)
	}
}

func compare(a, b uint64) int {
	if a < b {
		return -1
	}
	return 1
}

func payloads(masks []mask) []uint32 {
	p := make([]uint32, len(masks))
	for i, m := range masks {
		p[i] = m.payload
	}
	return p
}

// A level that cells could not number is an error that says so, and leaves nothing behind.
func TestTooManyCells(t *testing.T) {
	each(t, func(t *testing.T, q *device.Queue) {
		var masks []mask
		for i := range 40 {
			masks = append(masks, mask{hi: uint64(i) << 58, length: 7, payload: uint32(i + 1)})
		}
		c := columns(q, masks)
		defer c.Free(q)
		if _, err := tree.Build(q, tree.NewShape([]int{6, 26}), c, tree.Pushed); !errors.Is(err, tree.ErrCells) {
			t.Errorf("40 nodes of 2^26 cells: %v", err)
		}
	})
}
