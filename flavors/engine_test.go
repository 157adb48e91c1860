package flavors_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
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

func TestNastyTablesAgreeWithTheOracle(t *testing.T) {
	for _, flavor := range []flavors.Flavor{flavors.Pushed, flavors.List} {
		for i, l := range strideLists {
			e, err := flavors.NewCPU(flavors.Options{Flavor: flavor, Strides4: l.v4, Strides6: l.v6})
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range fixtures.Nasty() {
				t.Run(fmt.Sprintf("%s/%d/%s", flavor, i, table.Name), func(t *testing.T) {
					var rs lpm.Routes
					for h, p := range table.Prefixes {
						rs.Add(p, lpm.Handle(h+1))
					}
					tab, o := lpmtest.Build(t, e, rs), lpmtest.OracleOf(rs)
					v4, v6 := lpmtest.Probes(rs, rand.New(rand.NewPCG(1, 1)))
					lpmtest.Check(t, tab, o, v4, v6)
					for _, p := range table.Prefixes {
						lpmtest.CheckRelations(t, tab, o, p)
					}
				})
			}
		}
	}
}
