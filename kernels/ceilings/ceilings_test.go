package ceilings_test

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/ceilings"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
)

// A yardstick that does not read what it says would be too long.
func TestGatherReadsTheTable(t *testing.T) {
	devicetest.Each(t, []*device.Module{ceilings.Module}, func(t *testing.T, d *device.Device) {
		const n, size = 300_004, 5000
		r := rand.New(rand.NewPCG(1, 1))
		keys, table := make([]uint32, n), make([]uint32, size)
		for i := range keys {
			keys[i] = r.Uint32()
		}
		for i := range table {
			table[i] = r.Uint32()
		}
		for reads := range ceilings.MaxGathers + 1 {
			got := make([]uint32, n)
			if err := d.Do(device.Serve, func(q *device.Queue) error {
				k, out, tab := q.Temp(4*n), q.Temp(4*n), q.Temp(4*size)
				device.CopyIn(q, k, keys)
				device.CopyIn(q, tab, table)
				ceilings.Gather(q, out, k, n, tab, size, reads)
				device.CopyOut(q, got, out)
				q.Wait()
				return q.Err()
			}); err != nil {
				t.Fatal(err)
			}
			for i, k := range keys {
				want := k
				for range reads {
					place, _ := bits.Mul32(want^k*0x9e3779b9, size)
					want = table[place]
				}
				if got[i] != want {
					t.Fatalf("%d reads, key %d: %#x, want %#x", reads, i, got[i], want)
				}
			}
		}
	})
}
