// Package ceilings measures what a device's memory can do at most: the yardsticks that benchmarks of
// searches are compared with, in the same run.
package ceilings

import (
	_ "embed"
	"fmt"
	"math/bits"

	"github.com/ribwarp/ribwarp/kernels/device"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o ceilings.ptx ceilings.cu
//go:embed ceilings.ptx
var ptx string

// Module is what a device needs for this package (device.Open).
var Module = &device.Module{Name: "ceilings", PTX: ptx, Twins: map[string]device.Twin{
	"gather_0": gather(0), "gather_1": gather(1), "gather_2": gather(2), "gather_3": gather(3), "gather_4": gather(4),
}}

// MaxGathers is the most dependent reads that Gather makes.
const MaxGathers = 4

// Gather reads n keys (u32), for each makes the given number of reads of a table of size u32, each
// at a place that depends on the one before, and writes n u32. n is a multiple of 4.
func Gather(q *device.Queue, dst, keys device.Ptr, n int, table device.Ptr, size, reads int) {
	q.Launch(fmt.Sprintf("ceilings.gather_%d", reads), device.Launch{GridX: q.Device().Describe().Multiprocessors * 2, Block: 1024},
		uint64(dst), uint64(keys), uint64(n), uint64(table), uint64(size))
}

func gather(reads int) device.Twin {
	return func(m device.Memory, a []uint64) {
		n := int(a[2])
		dst, keys, table := device.View[uint32](m, a[0], n), device.View[uint32](m, a[1], n), device.View[uint32](m, a[3], int(a[4]))
		for i, k := range keys {
			c := k
			for range reads {
				place, _ := bits.Mul32(c^k*0x9e3779b9, uint32(len(table)))
				c = table[place]
			}
			dst[i] = c
		}
	}
}
