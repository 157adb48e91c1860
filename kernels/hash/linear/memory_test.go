package linear_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
	"github.com/ribwarp/ribwarp/lpm/exact"
	"github.com/ribwarp/ribwarp/lpm/exact/exacttest"
)

// Whichever allocation fails, a change is done in full or not at all.
func TestEveryAllocation(t *testing.T) {
	for _, sorted := range []bool{false, true} {
		t.Run(fmt.Sprintf("sorted=%t", sorted), func(t *testing.T) {
			if sorted {
				t.Cleanup(linear.SetSorting(1, math.MaxInt, 700, 0))
			}
			at, failed := 0, false
			d, err := device.Open(sim.New(0, &sim.Faults{Alloc: func(int) int {
				if at--; at == 0 {
					failed = true
					return device.CodeOutOfMemory
				}
				return 0
			}}), linear.Modules()...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			exacttest.OutOfMemory(t, device.ErrMemory, func() exact.Table[uint32, uint32] {
				tab, err := linear.NewOnDevice[uint32](d, 12, linear.Options{Grow: true})
				if err != nil {
					t.Fatal(err)
				}
				return tab
			}, func(n int) bool {
				was := failed
				at, failed = n, false
				return was
			})
		})
	}
}
