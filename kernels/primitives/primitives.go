// Package primitives sorts, scans, reduces and compacts whole arrays on a device.
//
//	ScanExclusive, ScanInclusive   sums of all that comes before
//	ReduceByKey                    sums of runs of equal keys
//	Compact                        places of what is kept
//	Sort                           records by some of their bits
//
// The first three go over their input once: a block sums up a tile and finds what lies before it by
// decoupled look-back (D. Merrill and M. Garland, Single-pass Parallel Prefix Scan with Decoupled
// Look-back, 2016). They cost a read and a write of all elements.
//
// The sort goes over the bits in digits of 8, the least significant first, and moves the records once a
// digit, with the same look-back for each of the 256 bins (A. Adinets and D. Merrill, Onesweep: A
// Faster Least Significant Digit Radix Sort for GPUs, 2022). One kernel before counts all digits
// at once. A digit that all records share moves nothing. Few records are sorted by one launch.
//
// All functions put their work on the queue and return; what they allocate is freed behind it, and
// errors stick in the queue.
package primitives

import (
	_ "embed"

	"github.com/ribwarp/ribwarp/kernels/device"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o primitives.ptx primitives.cu
//go:embed primitives.ptx
var ptx string

// Module is what a device needs for this package (device.Open).
var Module = &device.Module{Name: "primitives", PTX: ptx, Twins: twins}

// block is the threads of most kernels' blocks, as primitives.cu has it.
const block = 512
