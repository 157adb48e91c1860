//go:build cuda && linux

package flavors

import (
	"fmt"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/index"
)

// NewCUDA is NewGPU on GPUs given by number, as CUDA counts them from 0 on, with an index of prefixes on the
// first. Starting one takes
// about a second, and longer the first time, when the driver compiles the kernels for it. The error
// wraps device.ErrNoDevice where there is no such GPU.
func NewCUDA(o Options, ordinals ...int) (lpm.Engine, error) {
	var devices []*device.Device
	fail := func(err error) (lpm.Engine, error) {
		for _, d := range devices {
			_ = d.Close()
		}
		return nil, err
	}
	for _, i := range ordinals {
		driver, err := device.OpenCUDA(i)
		if err != nil {
			return fail(err)
		}
		d, err := device.Open(driver, append(GPUModules(), slab.Modules()[0])...)
		if err != nil {
			return fail(fmt.Errorf("start GPU %d: %w", i, err))
		}
		devices = append(devices, d)
	}
	e, err := NewGPU(o, devices...)
	if err != nil {
		return fail(err)
	}
	return index.New(e, func(prefixes int) (index.Table, error) {
		return slab.NewOnDevice[uint64](devices[0], slab.BucketsFor[uint64](prefixes+prefixes/4))
	}), nil
}
