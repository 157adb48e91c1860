package flavors

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// bitKey reads a key such as "010-01-1": bits from the left, X and - ignored in length only for
// "-". It gives the key and the number of bits before the first X.
func bitKey(t testing.TB, s string) (Key, int) {
	t.Helper()
	s = strings.ReplaceAll(s, "-", "")
	length := strings.IndexByte(s+"X", 'X')
	var k Key
	for i, c := range s[:length] {
		if c == '1' {
			k.Hi |= 1 << (63 - i)
		}
	}
	return k, length
}

func strides(t testing.TB, width int, list ...int) *Strides {
	t.Helper()
	st, err := NewStrides(width, list)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The method's worked example for keys: 6 bits in strides 3, 2, 1. All matrices were made by
// hand from the keys in order:
//
//	000-00-1  000-01-0  000-01-1  010-01-1  010-10-0  111-00-0
func TestStepsOfKeysByHand(t *testing.T) {
	input := []string{"010-01-1", "000-01-1", "111-00-0", "000-00-1", "010-10-0", "000-01-0"}
	var keys []Key
	for _, s := range input {
		k, _ := bitKey(t, s)
		keys = append(keys, k)
	}
	st := strides(t, 6, 3, 2, 1)
	s := SortKeys(6, keys)
	if want := []uint32{4, 6, 2, 1, 5, 3}; !slices.Equal(s.Payload, want) {
		t.Fatalf("permutation (from 1): %v, want %v", s.Payload, want)
	}
	v := Split(st, s)
	wantMatrix(t, "V", v, [][]uint32{{0, 0, 0, 2, 2, 7}, {0, 1, 1, 1, 2, 0}, {1, 0, 1, 1, 0, 0}})
	b := Borders(v)
	wantMatrix(t, "B", b, [][]uint8{{1, 0, 0, 0, 0, 0}, {1, 0, 0, 1, 0, 1}, {1, 1, 0, 1, 1, 1}})
	n := Indexes(b)
	wantMatrix(t, "N", n, [][]uint32{{1, 1, 1, 1, 1, 1}, {1, 1, 1, 2, 2, 3}, {1, 2, 2, 3, 4, 5}})
	if got := NodeCounts(n); !slices.Equal(got, []int{1, 3, 5}) {
		t.Fatalf("nodes: %v", got)
	}
	im, err := BuildKeys(st, s)
	if err != nil {
		t.Fatal(err)
	}
	c := func(node uint32, size uint32) uint32 { return childBit | node*size }
	want := []uint32{
		c(0, 4), 0, c(1, 4), 0, 0, 0, 0, c(2, 4), // the root
		c(0, 2), c(1, 2), 0, 0 /**/, 0, c(2, 2), c(3, 2), 0 /**/, c(4, 2), 0, 0, 0, // 000, 010, 111
		0, 4 /**/, 6, 2 /**/, 0, 1 /**/, 5, 0 /**/, 3, 0, // positions from 1
	}
	if !slices.Equal(im.Cells, want) {
		t.Fatalf("cells:\n got %x\nwant %x", im.Cells, want)
	}
	tree, err := NewKeyTree(st, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		if p, ok := tree.Find(k); !ok || p != i {
			t.Errorf("find %s: %d %v, want position %d", input[i], p, ok, i)
		}
	}
	if k, _ := bitKey(t, "010-01-0"); true {
		if p, ok := tree.Find(k); ok {
			t.Errorf("found 010-01-0 at %d", p)
		}
	}
}

// The method's worked example for masks: 010-0X-X and 010-00-X land in the same node, of level
// 1, and its container lists the longer one first.
func TestStepsOfMasksByHand(t *testing.T) {
	input := []string{"010-0X-X", "1XX-XX-X", "010-00-X", "010-11-1"}
	var masks []lpm.Route6
	for i, s := range input {
		k, n := bitKey(t, s)
		masks = append(masks, lpm.Route6{Addr: k, Bits: uint8(n), Handle: lpm.Handle(i + 1)})
	}
	st := strides(t, 6, 3, 2, 1)
	s := SortMasks(6, masks)
	if want := []uint32{1, 3, 4, 2}; !slices.Equal(s.Payload, want) {
		t.Fatalf("order: %v, want %v", s.Payload, want)
	}
	v := Split(st, s)
	b := Borders(v)
	n := Indexes(b)
	Trim(st, s.Bits, b, n)
	// In order: 010-0X-X, 010-00-X, 010-11-1, 1XX-XX-X. Of level 1 only the node 010 is left, of
	// level 2 only 010-11.
	wantMatrix(t, "trimmed N", n, [][]uint32{{1, 1, 1, 1}, {1, 1, 1, 0}, {0, 0, 1, 0}})
	wantMatrix(t, "trimmed B", b, [][]uint8{{1, 0, 0, 0}, {1, 0, 0, 0}, {0, 0, 1, 0}})
	im, err := BuildMasks(st, s, List)
	if err != nil {
		t.Fatal(err)
	}
	if got := im.container(1, 0); !slices.Equal(got, []Entry{{entryPos(0, 0), 3}, {entryPos(1, 0), 1}}) {
		t.Errorf("container of node 010: %v, want 010-00-X (3) before 010-0X-X (1)", got)
	}
	if want := []uint32{0, 1, 3, 4}; !slices.Equal(im.Starts, want) {
		t.Errorf("starts of containers: %v, want %v", im.Starts, want)
	}
	im, err = BuildMasks(st, s, Pushed)
	if err != nil {
		t.Fatal(err)
	}
	want := []uint32{
		0, 0, childBit, 0, 2, 2, 2, 2, // the root: 1XX fills its half
		3, 1, 0, childBit, // 010: 00 is the longer mask's, 01 the shorter one's
		0, 4, // 010-11
	}
	if !slices.Equal(im.Cells, want) {
		t.Fatalf("pushed cells:\n got %x\nwant %x", im.Cells, want)
	}
	tree := TreeOf(im, Pushed)
	key, length := bitKey(t, "010-00-1")
	if got := tree.Covering(nil, key, length); !slices.Equal(got, []lpm.Handle{3, 1}) {
		t.Errorf("covering 010-00-1: %v", got)
	}
}

func wantMatrix[T comparable](t *testing.T, name string, got, want [][]T) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("%s:\n got %v\nwant %v", name, got, want)
	}
}

// The sort agrees with the library's, whatever the width, and keeps the right one of equals.
func TestSortAgreesWithTheLibrary(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 5))
		width := 1 + r.IntN(MaxWidth)
		masks := make([]lpm.Route6, r.IntN(3000))
		for i := range masks {
			masks[i] = randomMask(r, width)
			masks[i].Handle = lpm.Handle(r.IntN(10)) // 0: no handle, is dropped
		}
		want := map[lpm.Route6]lpm.Handle{}
		for _, m := range masks {
			want[lpm.Route6{Addr: m.Addr, Bits: m.Bits}] = m.Handle
		}
		var list []lpm.Route6
		for m, h := range want {
			if h != lpm.None {
				m.Handle = h
				list = append(list, m)
			}
		}
		slices.SortFunc(list, func(a, b lpm.Route6) int {
			if c := a.Addr.Compare(b.Addr); c != 0 {
				return c
			}
			return int(a.Bits) - int(b.Bits)
		})
		check := func(name string, s *Sorted) {
			if s.Len() != len(list) {
				t.Fatalf("seed %d, %s, width %d: %d values, want %d", seed, name, width, s.Len(), len(list))
			}
			for k, m := range list {
				lo := uint64(0)
				if width > 64 {
					lo = s.Lo[k]
				}
				if s.Hi[k] != m.Addr.Hi || lo != m.Addr.Lo || s.Bits[k] != m.Bits || s.Payload[k] != uint32(m.Handle) {
					t.Fatalf("seed %d, %s, width %d: value %d is %x %x/%d -> %d, want %+v", seed, name, width, k, s.Hi[k], lo, s.Bits[k], s.Payload[k], m)
				}
			}
		}
		check("SortMasks", SortMasks(width, masks))
		if width <= 32 {
			narrow := make([]lpm.Route4, len(masks))
			for i, m := range masks {
				narrow[i] = lpm.Route4{Addr: uint32(m.Addr.Hi >> 32), Bits: m.Bits, Handle: m.Handle}
			}
			check("SortMasks4", SortMasks4(narrow))
		}
	}
}

// randomMask draws a mask of a key of width bits whose bits vary only in few places.
func randomMask(r *rand.Rand, width int) lpm.Route6 {
	key := Key{Hi: 0x5a5a5a5a5a5a5a5a, Lo: 0x3c3c3c3c3c3c3c3c}
	for range r.IntN(8) {
		if bit := r.IntN(128); bit < 64 {
			key.Hi ^= 1 << (63 - bit)
		} else {
			key.Lo ^= 1 << (127 - bit)
		}
	}
	bits := r.IntN(width + 1)
	return lpm.Route6{Addr: clip(key, bits), Bits: uint8(bits), Handle: lpm.Handle(1 + r.IntN(1<<20))}
}

// randomStrides draws a list that sums to width, with strides up to limit.
func randomStrides(r *rand.Rand, width, limit int) (list []int) {
	for width > 0 {
		s := 1 + r.IntN(min(limit, width))
		list = append(list, s)
		width -= s
	}
	return list
}
