package dynamic_test

import (
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
	"github.com/ribwarp/ribwarp/lpm/exact"
	"github.com/ribwarp/ribwarp/lpm/exact/exacttest"
)

func TestConformance(t *testing.T) {
	devicetest.Each(t, dynamic.Modules(), func(t *testing.T, d *device.Device) {
		t.Run("64-32", func(t *testing.T) { conforms[uint64, uint32](t, d, key64) })
		t.Run("128-64", func(t *testing.T) { conforms[addr, uint64](t, d, key128) })
	})
}

func conforms[K dynamic.Keys, V dynamic.Values](t *testing.T, d *device.Device, key func(uint64) K) {
	var special []K
	for i := range uint64(4) {
		special = append(special, key(i), key(^i))
		if i > 0 { // 0 is its own hash
			special = append(special, key(dynamic.Unmix(i)))
		}
	}
	value := func(i uint64) V { return V(i) }
	t.Run("OnDevice", func(t *testing.T) {
		exacttest.Conformance(t, func(t *testing.T) exact.Table[K, V] {
			m, err := dynamic.NewOnDevice[K, V](d, 0, dynamic.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}, key, value, special)
	})
	t.Run("Local", func(t *testing.T) {
		exacttest.Conformance(t, func(t *testing.T) exact.Table[K, V] {
			m, err := dynamic.NewLocal[K, V](0, dynamic.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}, key, value, special)
	})
}
