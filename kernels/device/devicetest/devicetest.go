// Package devicetest runs tests on every kind of device: on the simulator always, on a GPU too where
// the test binary was built with the tag cuda.
package devicetest

import (
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
)

// openCUDA opens a GPU, countCUDA counts them. They are nil without the tag cuda.
var (
	openCUDA  func(ordinal int) (device.Driver, error)
	countCUDA func() (int, error)
)

// Each runs a test as subtest "sim" on the simulator, and with the tag cuda as subtest "cuda" on
// the first GPU. The device is opened with the modules and closed after the test. On the simulator
// all memory must have been freed by then.
//
// Where there is no GPU, a test binary with the tag cuda says so and ends before its first test: as
// skipped, or as failed with REQUIRE_GPU=1 in the environment.
func Each(t *testing.T, modules []*device.Module, test func(*testing.T, *device.Device)) {
	t.Helper()
	t.Run("sim", func(t *testing.T) {
		driver := sim.New(0, nil)
		d := open(t, driver, modules)
		t.Cleanup(func() {
			if n := driver.Allocations(); n != 0 {
				t.Errorf("%d pieces of device memory were not freed", n)
			}
		})
		test(t, d)
	})
	if openCUDA == nil {
		return
	}
	t.Run("cuda", func(t *testing.T) {
		driver, err := openCUDA(0)
		if err != nil {
			t.Fatal(err)
		}
		test(t, open(t, driver, modules))
	})
}

// open is device.Open for the time of a test.
func open(t *testing.T, driver device.Driver, modules []*device.Module) *device.Device {
	t.Helper()
	d, err := device.Open(driver, modules...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}
