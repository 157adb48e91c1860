package primitives_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/primitives"
)

// sizes are around the borders of warps, digits' bins and tiles, and some of many tiles: more than
// a look-back sees at once. With -short they are few: a checker of races takes its time.
func sizes() []int {
	if testing.Short() {
		return []int{0, 1, 33, 257, 4096, 4097, 8193, 40_000}
	}
	return []int{0, 1, 2, 31, 32, 33, 255, 256, 257, 511, 512, 513, 2047, 2048, 2049, 4095, 4096, 4097, 6144, 6145, 8191, 8192, 8193, 100_000, 300_001, 1_000_003}
}

// each runs a test on every device, with a generator whose seed it logs.
func each(t *testing.T, test func(*testing.T, *device.Device, *rand.Rand)) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	devicetest.Each(t, []*device.Module{primitives.Module}, func(t *testing.T, d *device.Device) {
		test(t, d, rand.New(rand.NewPCG(seed, 0)))
	})
}

// do runs a job that must end well.
func do(t testing.TB, d *device.Device, job func(*device.Queue)) {
	t.Helper()
	if err := d.Do(device.Build, func(q *device.Queue) error { job(q); return q.Err() }); err != nil {
		t.Fatal(err)
	}
}

// guards lie before and behind every buffer, which so is aligned no better than its values need.
const guards = 1

// buffer gives a copy of the values on the device, between guards.
func buffer[T uint32 | uint64](q *device.Queue, values []T) device.Ptr {
	guard := T(0x600df00d)
	all := append(slices.Repeat([]T{guard}, guards), values...)
	all = append(all, slices.Repeat([]T{guard}, guards)...)
	p := q.Temp(len(all) * int(unsafe.Sizeof(guard)))
	device.CopyIn(q, p, all)
	return p.Add(guards * int(unsafe.Sizeof(guard)))
}

// contents gives the n values of a buffer and checks its guards. A job's thread cannot end a test:
// what is wrong is the queue's error.
func contents[T uint32 | uint64](q *device.Queue, what string, p device.Ptr, n int) []T {
	guard := T(0x600df00d)
	all := make([]T, n+2*guards)
	device.CopyOut(q, all, p.Add(-guards*int(unsafe.Sizeof(guard))))
	q.Wait()
	if q.Err() == nil && (all[0] != guard || all[guards+n] != guard) {
		q.Fail(fmt.Errorf("%s: written outside of a buffer of %d: before it is %#x, behind it %#x", what, n, all[0], all[guards+n]))
	}
	return all[guards : guards+n]
}

// same compares a buffer of exactly the wanted length.
func same[T uint32 | uint64](q *device.Queue, what string, p device.Ptr, want []T) {
	got := contents[T](q, what, p, len(want))
	if q.Err() != nil {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			q.Fail(fmt.Errorf("%s: value %d of %d is %#x, want %#x", what, i, len(want), got[i], want[i]))
			return
		}
	}
}
