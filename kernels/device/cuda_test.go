//go:build cuda && linux

package device_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/internal/testmodule"
)

func openCUDA(t *testing.T, modules ...*device.Module) *device.Device {
	t.Helper()
	driver, err := device.OpenCUDA(0)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, driver, modules...)
}

func TestDescribeCUDA(t *testing.T) {
	n, err := device.CountCUDA()
	if err != nil || n < 1 {
		t.Fatalf("%d GPUs, error %v", n, err)
	}
	for ordinal := range n {
		about, err := device.DescribeCUDA(ordinal)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", about)
		if about.Ordinal != ordinal || about.Name == "" || about.Memory < 1<<28 || about.Multiprocessors < 1 ||
			about.SharedMemory < 48<<10 || about.L2 < 1<<16 || about.Major < 7 {
			t.Errorf("GPU %d: %+v", ordinal, about)
		}
	}
}

func TestNoSuchGPU(t *testing.T) {
	for _, ordinal := range []int{99, -1} {
		_, err := device.OpenCUDA(ordinal)
		if !errors.Is(err, device.ErrNoDevice) {
			t.Errorf("GPU %d: got error %v, want %v", ordinal, err, device.ErrNoDevice)
		}
	}
}

// A process that is shown no GPU says so itself, before package cu can.
func TestNoGPUAtAll(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestNoSuchGPU$")
	for require, want := range map[string]string{"0": "--- SKIP: all tests of this binary: no CUDA device", "1": "--- FAIL: all tests of this binary: no CUDA device"} {
		child := *child
		child.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=-1", "REQUIRE_GPU="+require)
		out, err := child.CombinedOutput()
		if !strings.HasPrefix(string(out), want) || (err != nil) != (require == "1") {
			t.Errorf("REQUIRE_GPU=%s: got error %v and\n%s\nwant %q", require, err, out, want)
		}
	}
}

func TestCompilerLog(t *testing.T) {
	driver, err := device.OpenCUDA(0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = device.Open(driver, &device.Module{Name: "broken", PTX: ".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n\tnonsense;\n}\n"})
	var e *device.DriverError
	if !errors.As(err, &e) || errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "load module broken") || !strings.Contains(err.Error(), "ptxas") {
		t.Errorf("got error %v, want one with the module and what the compiler says", err)
	}
	t.Log(err)
	works(t, openCUDA(t, testmodule.Module))
}

func TestCloseGivesMemoryBack(t *testing.T) {
	for range 3 {
		d := openCUDA(t)
		do(t, d, device.Build, func(q *device.Queue) { q.Alloc(int(d.Describe().Memory / 10 * 6)) })
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Freed memory is there for the next allocation, on the other lane too.
func TestFreedMemoryIsUsedAgain(t *testing.T) {
	d := openCUDA(t)
	for i := range 6 {
		do(t, d, device.Lane(i%2), func(q *device.Queue) {
			p := q.Temp(int(d.Describe().Memory / 10 * 6))
			q.Fill(p, uint32(i), 1<<20)
		})
	}
}

// Two users of one GPU in a process do not end each other.
func TestTwoDevicesOnOneGPU(t *testing.T) {
	a, b := openCUDA(t, testmodule.Module), openCUDA(t, testmodule.Module)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	works(t, b)
}

func BenchmarkCUDA(b *testing.B) {
	driver, err := device.OpenCUDA(0)
	if err != nil {
		b.Fatal(err)
	}
	d, err := device.Open(driver, testmodule.Module)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	var p device.Ptr
	job := func(b *testing.B, job func(*device.Queue)) {
		b.Helper()
		if err := d.Do(device.Serve, func(q *device.Queue) error { job(q); return nil }); err != nil {
			b.Fatal(err)
		}
	}
	job(b, func(q *device.Queue) { p = q.Alloc(1 << 20); q.Fill(p, 0, 1<<18) })
	for name, work := range map[string]func(*device.Queue){
		"nothing":    func(*device.Queue) {},
		"one kernel": func(q *device.Queue) { add1(q, p, 100) },
		"hundred kernels": func(q *device.Queue) { // to see what one more costs
			for range 100 {
				add1(q, p, 100)
			}
		},
		"temporary memory":  func(q *device.Queue) { q.Free(q.Temp(1 << 28)); q.Wait() },
		"stream and events": func(q *device.Queue) { q.On(1).Follow(q); add1(q.On(1), p, 100); q.Follow(q.On(1)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				job(b, work)
			}
		})
	}
}
