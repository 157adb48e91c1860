//go:build cuda && linux

package main

import (
	"fmt"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/lpm"
)

func init() {
	cuda = &gpuSupport{
		list: func() ([]gpuInfo, error) {
			n, err := device.CountCUDA()
			if err != nil {
				return nil, err
			}
			all := make([]gpuInfo, n)
			for i := range all {
				d, err := device.DescribeCUDA(i)
				if err != nil {
					return nil, err
				}
				all[i] = gpuInfo{
					Index: i, Name: d.Name, Memory: d.Memory, Multiprocessors: d.Multiprocessors,
					ComputeCapability: fmt.Sprintf("%d.%d", d.Major, d.Minor),
				}
			}
			return all, nil
		},
		open:     func(o flavors.Options, indexes []int) (lpm.Engine, error) { return flavors.NewCUDA(o, indexes...) },
		describe: device.DescribeCUDA,
		device: func(index int) (*device.Device, error) {
			driver, err := device.OpenCUDA(index)
			if err != nil {
				return nil, err
			}
			return device.Open(driver, flavors.GPUModules()...)
		},
	}
}
