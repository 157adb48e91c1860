package dynamic_test

import (
	"fmt"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
	"github.com/ribwarp/ribwarp/lpm/exact"
	"github.com/ribwarp/ribwarp/lpm/exact/exacttest"
)

// Whichever allocation fails, a change is done in full or not at all.
func TestEveryAllocation(t *testing.T) {
	for _, sorted := range []bool{false, true} {
		t.Run(fmt.Sprintf("sorted=%t", sorted), func(t *testing.T) {
			if sorted {
				dynamic.SetSort(t, 1, 0)
			}
			at, failed := 0, false
			d, err := device.Open(sim.New(0, &sim.Faults{Alloc: func(int) int {
				if at--; at == 0 {
					failed = true
					return device.CodeOutOfMemory
				}
				return 0
			}}), dynamic.Modules()...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			exacttest.OutOfMemory(t, device.ErrMemory, func() exact.Table[uint64, uint32] {
				tab, err := dynamic.NewOnDevice[uint64, uint32](d, 0, dynamic.Options{Seed: 1})
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
