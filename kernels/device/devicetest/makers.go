package devicetest

import (
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
)

// A Maker opens devices of one kind, for tests that need more than one, or a new one each time.
type Maker struct {
	Name   string // "sim" or "cuda"
	driver func() (device.Driver, error)
}

// Makers gives the kinds that Each runs on.
func Makers() []Maker {
	makers := []Maker{{"sim", func() (device.Driver, error) { return sim.New(0, nil), nil }}}
	if openCUDA != nil {
		makers = append(makers, Maker{"cuda", openCUDA})
	}
	return makers
}

// Open opens a device with the modules, or fails the test.
func (m Maker) Open(tb testing.TB, modules []*device.Module) *device.Device {
	tb.Helper()
	driver, err := m.driver()
	if err != nil {
		tb.Fatal(err)
	}
	d, err := device.Open(driver, modules...)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
