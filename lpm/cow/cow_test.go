package cow

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// all copies an array into a slice.
func all(a Array[int]) []int {
	s := make([]int, a.Len())
	for i := range s {
		s[i] = a.At(i)
	}
	return s
}

// Every array of a line of edits stays what a plain slice was at that time.
func TestEditsLeaveOlderArraysAlone(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		want := make([]int, r.IntN(3*PageSize))
		for i := range want {
			want[i] = r.IntN(1000)
		}
		a := Of(slices.Clone(want))
		var arrays []Array[int]
		var wants [][]int
		for range 10 {
			arrays, wants = append(arrays, a), append(wants, slices.Clone(want))
			e := a.Edit()
			for range r.IntN(20) {
				i, v := r.IntN(len(want)+PageSize+2), r.IntN(1000)
				if r.IntN(3) == 0 {
					i = len(want)
					if got := e.Append(v); got != i {
						t.Fatalf("seed %d: append gave index %d, want %d", seed, got, i)
					}
				} else {
					e.Set(i, v)
				}
				for len(want) <= i {
					want = append(want, 0)
				}
				want[i] = v
				if e.At(i) != v || e.Len() != len(want) {
					t.Fatalf("seed %d: edit reads %d (len %d), want %d (len %d)", seed, e.At(i), e.Len(), v, len(want))
				}
			}
			before := a
			a = e.Done()
			checkUnshared(t, before, a)
			checkUnshared(t, arrays[r.IntN(len(arrays))], a)
		}
		arrays, wants = append(arrays, a), append(wants, want)
		for k := range arrays {
			if !slices.Equal(all(arrays[k]), wants[k]) {
				t.Fatalf("seed %d: array %d changed", seed, k)
			}
		}
	}
}

// checkUnshared checks that all that differs is in ranges of Unshared, which leave out what is shared.
func checkUnshared(t *testing.T, a, b Array[int]) {
	t.Helper()
	covered := map[int]bool{}
	for lo, hi := range a.Unshared(b) {
		for i := lo; i < hi; i++ {
			covered[i] = true
		}
		if p := lo >> pageBits; p < len(a.pages) && p < len(b.pages) && a.pages[p] == b.pages[p] {
			t.Fatalf("page %d is shared", p)
		}
	}
	for i := range max(a.Len(), b.Len()) {
		if a.At(i) != b.At(i) && !covered[i] {
			t.Fatalf("element %d differs and is in no range", i)
		}
	}
	for range a.Unshared(a) {
		t.Fatal("an array shares all with itself")
	}
}

func TestOutOfRangeReadsAreZero(t *testing.T) {
	var empty Array[string]
	one := Of([]string{"a"})
	for _, i := range []int{-1, 1, PageSize, 1 << 30} {
		if empty.At(i) != "" || one.At(i) != "" || one.Edit().At(i) != "" {
			t.Errorf("element %d is not zero", i)
		}
	}
	if one.At(0) != "a" || one.Len() != 1 || empty.Len() != 0 {
		t.Error("an array of one element is wrong")
	}
}

func TestEditSharesPagesItDoesNotTouch(t *testing.T) {
	a := Of(make([]int, 4*PageSize))
	e := a.Edit()
	e.Set(PageSize, 1)
	b := e.Done()
	for p, shared := range []bool{true, false, true, true} {
		if (a.pages[p] == b.pages[p]) != shared {
			t.Errorf("page %d shared: %v, want %v", p, !shared, shared)
		}
	}
}
