package devicetest

import (
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
)

// A Maker opens devices of one kind, for tests that need more than one, or a new one each time.
type Maker struct {
	Name   string // "sim" or "cuda"
	Count  int    // how many different ones there are
	driver func(ordinal int) (device.Driver, error)
}

// Makers gives the kinds that Each runs on.
func Makers() []Maker {
	makers := []Maker{{"sim", 4, func(i int) (device.Driver, error) { return sim.New(i, nil), nil }}}
	if openCUDA != nil {
		n, err := countCUDA()
		if err != nil {
			n = 1 // opening it says what is wrong
		}
		makers = append(makers, Maker{"cuda", n, openCUDA})
	}
	return makers
}

// Open opens the first device with the modules, or fails the test.
func (m Maker) Open(tb testing.TB, modules []*device.Module) *device.Device {
	tb.Helper()
	return m.OpenAt(tb, 0, modules)
}

// OpenAt opens device i. Where there are not so many they are opened a second time: GPUs can be.
func (m Maker) OpenAt(tb testing.TB, i int, modules []*device.Module) *device.Device {
	tb.Helper()
	driver, err := m.driver(i % m.Count)
	if err != nil {
		tb.Fatal(err)
	}
	d, err := device.Open(driver, modules...)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
