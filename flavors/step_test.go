package flavors

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/lpm"
)

// The wide step does what the plain one does, on every level of a tree and for every number of
// keys.
func TestStepAgreesWithItsMeaning(t *testing.T) {
	if !useStep {
		t.Skip("this processor has no AVX-512")
	}
	r := rand.New(rand.NewPCG(1, 20))
	masks := make([]lpm.Route6, 5000)
	for i := range masks {
		masks[i] = randomMask(r, 64)
		masks[i].Handle = lpm.Handle(i + 1)
	}
	st := strides(t, 64, 7, 9, 16, 4, 4, 4, 4, 8, 8)
	tree, err := NewTree(st, Pushed, masks)
	if err != nil {
		t.Fatal(err)
	}
	for n := range block + 1 {
		var got, want [block]uint32
		var hi [block]uint64
		for i := range n {
			hi[i] = randomMask(r, 64).Addr.Hi
			got[i] = childBit
		}
		want = got
		for l := range tree.levels {
			lv := &tree.levels[l]
			shift, mask := uint64(64-lv.offset-lv.stride), uint64(1)<<lv.stride-1
			a := step(&got, &hi, n, pagesPointer(lv), shift, mask)
			b := stepGeneric(&want, &hi, n, pagesPointer(lv), shift, mask)
			if got != want {
				t.Fatalf("%d keys, level %d: cells differ:\n got %x\nwant %x", n, l, got[:n], want[:n])
			}
			if (a == 0) != (b == 0) {
				t.Fatalf("%d keys, level %d: live is %d, want %d", n, l, a, b)
			}
		}
	}
}

// All searches of flavor Pushed agree, for every size of a batch.
func TestSearchesAgreeWithAndWithoutWideInstructions(t *testing.T) {
	defer func(was bool) { useStep = was }(useStep)
	if !useStep {
		t.Log("this processor has no AVX-512: only the portable searches are compared")
	}
	wide := useStep
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 21))
		for _, width := range []int{32, 128} {
			masks := make([]lpm.Route6, 2000)
			for i := range masks {
				masks[i] = randomMask(r, width)
				masks[i].Handle = lpm.Handle(i + 1)
			}
			tree, err := NewTree(strides(t, width, randomStrides(r, width, 14)...), Pushed, masks)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{0, 1, few - 1, few, 9, 100, block - 1, block, block + 1, 3*block + 5} {
				keys := make([]Key, n)
				narrow := make([]uint32, n)
				want := make([]lpm.Handle, n)
				for i := range keys {
					keys[i] = clip(randomMask(r, width).Addr, width)
					narrow[i] = uint32(keys[i].Hi >> 32)
					want[i] = lpm.Handle(tree.finish(keys[i], 0, childBit))
				}
				got := make([]lpm.Handle, n)
				for _, useStep = range []bool{wide, false} {
					clear(got)
					if tree.Match(got, keys); !slices.Equal(got, want) {
						t.Fatalf("seed %d, width %d, %d keys, wide %v: Match is wrong", seed, width, n, useStep)
					}
					if width == 32 {
						clear(got)
						if tree.Match4(got, narrow); !slices.Equal(got, want) {
							t.Fatalf("seed %d, %d keys, wide %v: Match4 is wrong", seed, n, useStep)
						}
					}
				}
				useStep = wide
			}
		}
	}
}
