//go:build cuda && linux

package main

import (
	"github.com/ribwarp/ribwarp/cmd/ribwarp/internal/paths"
	"github.com/ribwarp/ribwarp/kernels/device"
)

func init() {
	openPathDevice = func(index int) (*device.Device, error) {
		driver, err := device.OpenCUDA(index)
		if err != nil {
			return nil, err
		}
		return device.Open(driver, paths.Modules()...)
	}
}
