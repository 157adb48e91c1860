package slab_test

import (
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
	"github.com/ribwarp/ribwarp/lpm/exact"
	"github.com/ribwarp/ribwarp/lpm/exact/exacttest"
)

// special gives the keys whose hashes are, or are near to, what a slot without a pair holds, and keys at
// the ends of their range.
func special[K slab.Key]() (keys []K) {
	seen := map[K]bool{}
	for i := K(0); i < 6; i++ {
		for _, k := range []K{slab.KeyOf(i), slab.KeyOf(^i), i, ^i} {
			if !seen[k] {
				seen[k] = true
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// conform runs the suite on tables that begin with one bucket, and on some that have buckets for all of it.
func conform[K slab.Key](t *testing.T, open func(buckets int) (exact.Table[K, uint32], error)) {
	key := func(i uint64) K { return K(i * 0x9e3779b97f4a7c15) }
	if _, narrow := any(K(0)).(uint32); narrow {
		key = func(i uint64) K { return K(uint32(i) * 0x9e3779b1) }
	}
	value := func(i uint64) uint32 { return uint32(i) }
	for name, buckets := range map[string]int{"one bucket": 1, "all buckets": slab.BucketsFor[K](exacttest.Most)} {
		t.Run(name, func(t *testing.T) {
			exacttest.Conformance(t, func(t *testing.T) exact.Table[K, uint32] {
				t.Helper()
				tab, err := open(buckets)
				must(t, err)
				return tab
			}, key, value, special[K]())
		})
	}
}

func TestLocalConforms(t *testing.T) {
	t.Run("32", func(t *testing.T) { conform(t, local[uint32]) })
	t.Run("64", func(t *testing.T) { conform(t, local[uint64]) })
}

func local[K slab.Key](buckets int) (exact.Table[K, uint32], error) {
	return slab.NewLocal[K](buckets)
}

// Chunks are small, so that the suite's finds take several. Batches come as they are, or sorted, where larger ones are
// in parts.
func TestOnDeviceConforms(t *testing.T) {
	slab.SetChunk(t, 1000)
	devicetest.Each(t, slab.Modules(), func(t *testing.T, d *device.Device) {
		for _, sorted := range []bool{false, true} {
			name := "plain"
			if sorted {
				name = "sorted"
			}
			t.Run(name, func(t *testing.T) {
				if sorted {
					slab.SetSorting(t, 100, 1<<30, 1999, 0)
				}
				t.Run("32", func(t *testing.T) { conform(t, onDevice[uint32](d)) })
				t.Run("64", func(t *testing.T) { conform(t, onDevice[uint64](d)) })
			})
		}
	})
}

func onDevice[K slab.Key](d *device.Device) func(buckets int) (exact.Table[K, uint32], error) {
	return func(buckets int) (exact.Table[K, uint32], error) { return slab.NewOnDevice[K](d, buckets) }
}
