//go:build cuda && linux

package devicetest

import "github.com/ribwarp/ribwarp/kernels/device"

func init() { openCUDA, countCUDA = device.OpenCUDA, device.CountCUDA }
