package flavors_test

import (
	"fmt"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// repeat gives n strides of s bits.
func repeat(s, n int) (list []int) {
	for range n {
		list = append(list, s)
	}
	return list
}

// strideLists are the lists that the conformance suite runs with, for each family the same
// number: regular, irregular, single bits, and levels that cross the border of a 64-bit word.
var strideLists = []struct{ v4, v6 []int }{
	{nil, nil},
	{[]int{16, 8, 8}, append([]int{16}, repeat(8, 14)...)},
	{[]int{8, 8, 8, 8}, append([]int{16}, repeat(4, 28)...)},
	{repeat(1, 32), repeat(1, 128)},
	{[]int{3, 7, 9, 2, 5, 6}, []int{11, 7, 9, 3, 5, 11, 9, 8, 10, 2, 12, 6, 4, 10, 7, 9, 5}},
	{[]int{12, 12, 8}, append([]int{10, 10}, repeat(12, 9)...)},
}

func TestEngineConformance(t *testing.T) {
	for _, flavor := range []flavors.Flavor{flavors.Pushed, flavors.List} {
		for i, l := range strideLists {
			t.Run(fmt.Sprintf("%s/%d", flavor, i), func(t *testing.T) {
				lpmtest.Conformance(t, func(t testing.TB) lpm.Engine {
					e, err := flavors.NewCPU(flavors.Options{Flavor: flavor, Strides4: l.v4, Strides6: l.v6})
					if err != nil {
						t.Fatal(err)
					}
					return e
				})
			})
		}
	}
}
