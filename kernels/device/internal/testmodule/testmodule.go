// Package testmodule holds kernels for the tests of package device.
package testmodule

import (
	_ "embed"
	"slices"

	"github.com/ribwarp/ribwarp/kernels/device"
)

//go:generate nvcc -ptx -arch=compute_75 -O3 --std=c++17 -o testmodule.ptx testmodule.cu
//go:embed testmodule.ptx
var ptx string

// Module is the kernels of testmodule.cu, which says what each does.
var Module = &device.Module{
	Name: "test",
	PTX:  ptx,
	Twins: map[string]device.Twin{
		"add1": func(m device.Memory, args []uint64) {
			words := device.View[uint32](m, args[0], int(args[1]))
			for i := range words {
				words[i]++
			}
		},
		"reverse": func(m device.Memory, args []uint64) {
			slices.Reverse(device.View[uint32](m, args[0], int(args[1])))
		},
		"spin": func(device.Memory, []uint64) {},
		"trap": func(m device.Memory, _ []uint64) { m.Bytes(0, 1) },
	},
}
