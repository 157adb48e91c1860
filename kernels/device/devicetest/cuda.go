//go:build cuda && linux

package devicetest

import "github.com/ribwarp/ribwarp/kernels/device"

func init() { openCUDA = func() (device.Driver, error) { return device.OpenCUDA(0) } }
