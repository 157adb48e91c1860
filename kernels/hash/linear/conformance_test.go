package linear_test

import (
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
	"github.com/ribwarp/ribwarp/lpm/exact"
	"github.com/ribwarp/ribwarp/lpm/exact/exacttest"
)

// special gives the keys whose hashes are, or are near to, what a slot without a pair holds, and keys at
// the ends of their range.
func special[W linear.Word]() (keys []W) {
	seen := map[W]bool{}
	for i := W(0); i < 6; i++ {
		for _, k := range []W{linear.KeyOf(i), linear.KeyOf(^i), i, ^i} {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// tight is log2 of the fewest slots for what the suite puts into a table.
const tight = 17

func conform[W linear.Word](t *testing.T, open func(log2 int, o linear.Options) (exact.Table[W, W], error)) {
	key := func(i uint64) W { return W(i * 0x9e3779b97f4a7c15) }
	if _, narrow := any(W(0)).(uint32); narrow {
		key = func(i uint64) W { return W(uint32(i) * 0x9e3779b1) }
	}
	value := func(i uint64) W { return W(i) }
	for _, c := range []struct {
		name string
		log2 int
		o    linear.Options
	}{{"fixed", tight, linear.Options{}}, {"growing", linear.MinLog2, linear.Options{Grow: true}}} {
		t.Run(c.name, func(t *testing.T) {
			exacttest.Conformance(t, func(t *testing.T) exact.Table[W, W] {
				t.Helper()
				tab, err := open(c.log2, c.o)
				if err != nil {
					t.Fatal(err)
				}
				return tab
			}, key, value, special[W]())
		})
	}
}

func TestLocalConforms(t *testing.T) {
	t.Run("32", func(t *testing.T) { conform(t, local[uint32]) })
	t.Run("64", func(t *testing.T) { conform(t, local[uint64]) })
}

func local[W linear.Word](log2 int, o linear.Options) (exact.Table[W, W], error) {
	return linear.NewLocal[W](log2, o)
}

// On a device chunks are small, so that the suite's batches take several rounds of all streams, and all larger
// batches are sorted.
func TestOnDeviceConforms(t *testing.T) {
	defer linear.SetChunks(8<<10, 256)()
	devicetest.Each(t, linear.Modules(), func(t *testing.T, d *device.Device) {
		for _, sorted := range []bool{false, true} {
			name := "plain"
			if sorted {
				name = "sorted"
				defer linear.SetSorting(100, 1<<30, 1<<30, 0)()
			}
			t.Run(name, func(t *testing.T) {
				t.Run("32", func(t *testing.T) { conform(t, onDevice[uint32](d)) })
				t.Run("64", func(t *testing.T) { conform(t, onDevice[uint64](d)) })
			})
		}
	})
}

func onDevice[W linear.Word](d *device.Device) func(log2 int, o linear.Options) (exact.Table[W, W], error) {
	return func(log2 int, o linear.Options) (exact.Table[W, W], error) { return linear.NewOnDevice[W](d, log2, o) }
}
