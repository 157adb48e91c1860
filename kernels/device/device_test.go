package device_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/internal/testmodule"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
)

func eachDevice(t *testing.T, test func(*testing.T, *device.Device)) {
	t.Helper()
	devicetest.Each(t, []*device.Module{testmodule.Module}, test)
}

// add1 adds 1 to n words.
func add1(q *device.Queue, words device.Ptr, n int) {
	q.Launch("test.add1", device.Launch{GridX: (n + 255) / 256, Block: 256}, uint64(words), uint64(n))
}

// longTime is cycles for which a kernel spins where another stream must be seen to wait for it.
const longTime = 20_000_000

func spin(q *device.Queue, cycles uint64) {
	q.Launch("test.spin", device.Launch{GridX: 1, Block: 1}, cycles)
}

// do runs a job that must end well.
func do(t *testing.T, d *device.Device, lane device.Lane, job func(*device.Queue)) {
	t.Helper()
	if err := d.Do(lane, func(q *device.Queue) error { job(q); return nil }); err != nil {
		t.Fatal(err)
	}
}

// works fails the test if the device does not do a small piece of work right, on both lanes.
func works(t *testing.T, d *device.Device) {
	t.Helper()
	if err := d.Lost(); err != nil {
		t.Fatalf("lost: %v", err)
	}
	for _, lane := range []device.Lane{device.Serve, device.Build} {
		words := []uint32{1, 2, 3}
		do(t, d, lane, func(q *device.Queue) {
			p := q.Temp(12)
			device.CopyIn(q, p, words)
			add1(q, p, 3)
			device.CopyOut(q, words, p)
		})
		if want := []uint32{2, 3, 4}; !slices.Equal(words, want) {
			t.Fatalf("lane %d gave %d, want %d", lane, words, want)
		}
	}
}

func TestSimpleWork(t *testing.T) { eachDevice(t, works) }

func TestJobsOfALaneRunOneByOne(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		var running [2]atomic.Int32
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := range 20 {
					lane := device.Lane((worker + i) % 2)
					n, times := 1+worker*1000+i, 1+i%4
					words := make([]uint32, n)
					err := d.Do(lane, func(q *device.Queue) error {
						if running[lane].Add(1) != 1 {
							t.Error("two jobs of one lane at the same time")
						}
						defer running[lane].Add(-1)
						p := q.Temp(4 * n)
						q.Fill(p, uint32(worker), n)
						for range times {
							add1(q, p, n)
						}
						device.CopyOut(q, words, p)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					for j, w := range words {
						if w != uint32(worker+times) {
							t.Errorf("worker %d, job %d: word %d of %d is %d, want %d", worker, i, j, n, w, worker+times)
							break
						}
					}
				}
			})
		}
		all.Wait()
	})
}

func TestLanesRunBesideEachOther(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		started, served, built := make(chan bool), make(chan bool), make(chan error)
		go func() {
			built <- d.Do(device.Build, func(*device.Queue) error {
				close(started)
				<-served // for ever, if the lanes wait for each other
				return nil
			})
		}()
		<-started
		do(t, d, device.Serve, func(*device.Queue) {})
		close(served)
		if err := <-built; err != nil {
			t.Error(err)
		}
	})
}

func TestDoWaitsForAllStreams(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		out := pinned[uint32](t, d, device.Streams)
		do(t, d, device.Build, func(q *device.Queue) {
			for i := range device.Streams {
				q := q.On(i)
				p := q.Temp(4)
				spin(q, uint64(i)*longTime) // the job's first stream is done long before the others
				q.Fill(p, uint32(i), 1)
				add1(q, p, 1)
				device.CopyOut(q, out[i:i+1], p)
			}
		})
		if want := []uint32{1, 2, 3, 4}; !slices.Equal(out, want) {
			t.Errorf("got %d, want %d", out, want)
		}
	})
}

func TestFollow(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		out := pinned[uint32](t, d, 1)
		do(t, d, device.Serve, func(q *device.Queue) {
			p := q.Temp(4)
			q.Fill(p, 5, 1)
			other := q.On(1)
			other.Follow(q)
			spin(other, longTime)
			add1(other, p, 1)
			q.Follow(other)
			device.CopyOut(q, out, p)
		})
		if out[0] != 6 {
			t.Errorf("got %d, want 6: the copy ran before the other stream's kernel", out[0])
		}
	})
}

func TestMarks(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		do(t, d, device.Serve, func(q *device.Queue) {
			from := q.Mark()
			spin(q, longTime/10)
			to := q.Mark()
			q.Wait()
			if ms := q.Elapsed(from, to); ms <= 0 {
				t.Errorf("%g ms between two marks", ms)
			}
		})
	})
}

func TestCopiesAndFills(t *testing.T) {
	type pair struct {
		A uint32
		B uint8
	}
	eachDevice(t, func(t *testing.T, d *device.Device) {
		const n = 1000
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		in, out := make([]uint32, n), make([]uint32, n)
		for i := range in {
			in[i] = random.Uint32()
		}
		pairs, pairsOut := []pair{{1, 2}, {3, 4}}, make([]pair, 2)
		do(t, d, device.Build, func(q *device.Queue) {
			a, b := q.Temp(4*n), q.Temp(4*n)
			device.CopyIn(q, a, in)
			q.Fill(b, 7, n)
			q.Copy(b.Add(40), a.Add(80), 400)
			device.CopyOut(q, out, b)
			device.CopyIn(q, a, pairs)
			device.CopyOut(q, pairsOut, a)
			// None of nothing.
			q.Fill(a, 1, 0)
			q.Copy(a, b, 0)
			device.CopyIn(q, a, in[:0])
			device.CopyOut(q, out[:0], b)
			add1(q, a, 0)
		})
		want := slices.Repeat([]uint32{7}, n)
		copy(want[10:110], in[20:])
		if !slices.Equal(out, want) {
			t.Errorf("got %d\nwant %d", out[:120], want[:120])
		}
		if !slices.Equal(pairs, pairsOut) {
			t.Errorf("got %v, want %v", pairsOut, pairs)
		}
	})
}

func TestSharedMemory(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		const n = 256
		words, most := make([]uint32, n), d.Describe().SharedMemory
		for i := range words {
			words[i] = uint32(i)
		}
		reverse := func(shared int) error {
			return d.Do(device.Build, func(q *device.Queue) error {
				p := q.Temp(4 * n)
				device.CopyIn(q, p, words)
				q.Launch("test.reverse", device.Launch{GridX: 1, Block: n, Shared: shared}, uint64(p), n)
				device.CopyOut(q, words, p)
				return nil
			})
		}
		if err := reverse(most); err != nil {
			t.Fatal(err)
		}
		for i, w := range words {
			if w != uint32(n-1-i) {
				t.Fatalf("word %d is %d", i, w)
			}
		}
		isLaunchError(t, reverse(most+1), "test.reverse")
		works(t, d)
	})
}

// isLaunchError checks that err is about the kernel and did not cost the device.
func isLaunchError(t *testing.T, err error, kernel string) {
	t.Helper()
	var launch *device.LaunchError
	if !errors.As(err, &launch) || launch.Kernel != kernel || !strings.Contains(err.Error(), kernel) {
		t.Errorf("got error %v, want one of kernel %s", err, kernel)
	}
	if errors.Is(err, device.ErrLost) {
		t.Errorf("%v: is a lost device", err)
	}
}

func TestLaunchErrors(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		for _, c := range []struct {
			kernel string
			launch device.Launch
			args   []uint64
			want   string
		}{
			{"test.add1", device.Launch{GridX: 1, Block: 2048}, []uint64{0, 0}, "cuLaunchKernel"},
			{"test.add1", device.Launch{GridX: 1, GridY: 1 << 16, Block: 1}, []uint64{0, 0}, "cuLaunchKernel"},
			{"test.add1", device.Launch{GridX: 1, Block: 1}, []uint64{0}, "1 arguments, it takes 2"},
			{"test.trap", device.Launch{GridX: 1, Block: 1}, []uint64{0}, "1 arguments, it takes 0"},
			{"test.nothing", device.Launch{GridX: 1, Block: 1}, nil, "no module"},
		} {
			err := d.Do(device.Serve, func(q *device.Queue) error {
				q.Launch(c.kernel, c.launch, c.args...)
				return nil
			})
			isLaunchError(t, err, c.kernel)
			if err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: does not say %q", err, c.want)
			}
		}
		works(t, d)
	})
}

func TestErrorsStick(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		var p device.Ptr
		own := errors.New("the job's own")
		err := d.Do(device.Build, func(q *device.Queue) error {
			p = q.Alloc(4)
			q.Fill(p, 1, 1)
			if q.Err() != nil {
				t.Errorf("error %v before anything failed", q.Err())
			}
			q.Launch("test.first", device.Launch{GridX: 1, Block: 1})
			q.On(1).Launch("test.second", device.Launch{GridX: 1, Block: 1})
			q.Fill(p, 2, 1)
			if q.Alloc(4) != 0 || q.Mark() != 0 {
				t.Error("a queue with an error gives something")
			}
			if q.Temp(4) != 0 {
				t.Error("a queue with an error gives memory")
			}
			q.Free(12345) // is done, and fails
			return own
		})
		isLaunchError(t, err, "test.first")

		got := make([]uint32, 1)
		do(t, d, device.Build, func(q *device.Queue) { device.CopyOut(q, got, p) })
		if got[0] != 1 {
			t.Errorf("memory holds %d, want 1: work was done after an error", got[0])
		}
		free(d, p)

		if err := d.Do(device.Build, func(q *device.Queue) error { return own }); err != own {
			t.Errorf("got %v, want the job's own error", err)
		}
		works(t, d)
	})
}

func TestTempsAreFreed(t *testing.T) {
	driver := sim.New(0, nil)
	d := open(t, driver, testmodule.Module)
	var kept device.Ptr
	job := func(q *device.Queue) {
		var temps []device.Ptr
		for i := range 5 {
			temps = append(temps, q.On(i%device.Streams).Temp(i)) // of no bytes too
		}
		kept = q.Alloc(8)
		q.Free(temps[2])
		q.Free(0)
		if n := driver.Allocations(); n != 5 {
			t.Errorf("%d pieces of memory during the job, want 5", n)
		}
	}
	do(t, d, device.Build, job)
	if n := driver.Allocations(); n != 1 {
		t.Errorf("%d pieces of memory after the job, want the one that stays", n)
	}
	free(d, kept)
	free(d, 0)
	// After errors too.
	for _, fail := range []func(q *device.Queue) error{
		func(*device.Queue) error { return errors.New("the job's own") },
		func(q *device.Queue) error { q.Launch("test.nothing", device.Launch{GridX: 1, Block: 1}); return nil },
	} {
		if err := d.Do(device.Serve, func(q *device.Queue) error { job(q); q.Free(kept); return fail(q) }); err == nil {
			t.Error("no error")
		}
		if n := driver.Allocations(); n != 0 {
			t.Errorf("%d pieces of memory after a job that failed", n)
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		err := d.Do(device.Build, func(q *device.Queue) error {
			p := q.Temp(2 * int(d.Describe().Memory))
			q.Fill(p, 0, 1)
			return nil
		})
		var driver *device.DriverError
		if !errors.Is(err, device.ErrMemory) || errors.Is(err, device.ErrLost) || !errors.As(err, &driver) || driver.Code != device.CodeOutOfMemory {
			t.Errorf("got %v, want %v", err, device.ErrMemory)
		}
		works(t, d)
	})
}

func TestOutOfPinnedMemory(t *testing.T) {
	// On the simulator only: asking a real system for more than it has troubles others.
	d := open(t, sim.New(0, &sim.Faults{Pinned: func(n int) int {
		if n > 4000 {
			return device.CodeOutOfMemory
		}
		return 0
	}}), testmodule.Module)
	if _, err := device.NewPinned[uint32](d, 1001); !errors.Is(err, device.ErrMemory) {
		t.Errorf("got %v, want %v", err, device.ErrMemory)
	}
	pinned[uint32](t, d, 1000)
}

func TestLost(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		if strings.HasSuffix(t.Name(), "/cuda") && os.Getenv("DEVICE_TEST_TRAP") == "" {
			// A trap spoils CUDA for the process.
			child := exec.Command(os.Args[0], "-test.run=^TestLost$/^cuda$", "-test.v")
			child.Env = append(os.Environ(), "DEVICE_TEST_TRAP=1")
			out, err := child.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestLost/cuda") {
				t.Errorf("%v\n%s", err, out)
			}
			return
		}
		var p device.Ptr
		err := d.Do(device.Build, func(q *device.Queue) error {
			p = q.Alloc(4)
			q.Temp(4)
			q.Launch("test.trap", device.Launch{GridX: 1, Block: 1})
			q.Wait()
			if !errors.Is(q.Err(), device.ErrLost) {
				t.Errorf("the queue's error is %v", q.Err())
			}
			q.Free(p)
			return nil
		})
		var launch *device.LaunchError
		if !errors.Is(err, device.ErrLost) || !errors.As(err, &launch) || launch.Kernel != "test.trap" {
			t.Errorf("got %v, want %v in kernel test.trap", err, device.ErrLost)
		}
		t.Log(err)
		for _, lane := range []device.Lane{device.Serve, device.Build} {
			err := d.Do(lane, func(*device.Queue) error { t.Error("a job ran on a lost device"); return nil })
			if !errors.Is(err, device.ErrLost) || err != d.Lost() {
				t.Errorf("later job: got %v, want %v", err, d.Lost())
			}
		}
		if _, err := device.NewPinned[uint32](d, 1); !errors.Is(err, device.ErrLost) {
			t.Errorf("pinned memory: got %v, want %v", err, device.ErrLost)
		}
		free(d, p)
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestClosed(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		var p device.Ptr
		do(t, d, device.Build, func(q *device.Queue) { p = q.Alloc(4) })
		memory, err := device.NewPinned[uint32](d, 1)
		if err != nil {
			t.Fatal(err)
		}
		free(d, p)
		for range 2 {
			if err := d.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		for _, lane := range []device.Lane{device.Serve, device.Build} {
			err := d.Do(lane, func(*device.Queue) error { t.Error("a job ran on a closed device"); return nil })
			if !errors.Is(err, device.ErrClosed) {
				t.Errorf("job: got %v, want %v", err, device.ErrClosed)
			}
		}
		if _, err := device.NewPinned[uint32](d, 1); !errors.Is(err, device.ErrClosed) {
			t.Errorf("pinned memory: got %v, want %v", err, device.ErrClosed)
		}
		free(d, p)
		memory.Close()
	})
}

func TestCloseWaitsForJobs(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		var ended atomic.Int32
		started := make(chan bool, 2)
		var all sync.WaitGroup
		for lane := range device.Lane(2) {
			all.Go(func() {
				err := d.Do(lane, func(q *device.Queue) error {
					started <- true
					time.Sleep(20 * time.Millisecond) // so that Close comes before the end
					spin(q, longTime)
					q.Wait()
					ended.Add(1)
					return nil
				})
				if err != nil {
					t.Errorf("job during which the device was closed: %v", err)
				}
			})
		}
		<-started
		<-started
		for range 3 {
			all.Go(func() {
				if err := d.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if ended.Load() != 2 {
					t.Error("closed before the jobs were done")
				}
			})
		}
		all.Wait()
	})
}

func TestUseOfFreedMemory(t *testing.T) {
	// On the simulator only: a GPU that keeps what was freed sees nothing wrong in using it.
	driver := sim.New(0, nil)
	d := open(t, driver, testmodule.Module)
	freed := func(q *device.Queue) device.Ptr { p := q.Alloc(400); q.Free(p); return p }
	for name, use := range map[string]func(*device.Queue){
		"copy in":         func(q *device.Queue) { device.CopyIn(q, freed(q), []uint32{1}) },
		"copy out":        func(q *device.Queue) { device.CopyOut(q, make([]uint32, 1), freed(q)) },
		"copy":            func(q *device.Queue) { q.Copy(freed(q), q.Temp(8), 8) },
		"fill":            func(q *device.Queue) { q.Fill(freed(q), 1, 100) },
		"fill of too far": func(q *device.Queue) { q.Fill(q.Temp(400), 1, 101) },
		"free":            func(q *device.Queue) { q.Free(freed(q)) },
	} {
		err := d.Do(device.Serve, func(q *device.Queue) error { use(q); return nil })
		if err == nil || errors.Is(err, device.ErrLost) {
			t.Errorf("%s: got error %v, want one that leaves the device usable", name, err)
		}
	}
	works(t, d)
	for name, use := range map[string]func(*device.Queue){
		"kernel":             func(q *device.Queue) { add1(q, freed(q), 1) },
		"kernel on too much": func(q *device.Queue) { add1(q, q.Temp(400), 101) },
		"kernel before it":   func(q *device.Queue) { add1(q, q.Temp(400).Add(-4), 1) },
	} {
		d := open(t, sim.New(0, nil), testmodule.Module)
		err := d.Do(device.Serve, func(q *device.Queue) error { use(q); return nil })
		if !errors.Is(err, device.ErrLost) || !strings.Contains(fmt.Sprint(err), "test.add1") {
			t.Errorf("%s: got error %v, want %v in test.add1", name, err, device.ErrLost)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	twins := map[string]device.Twin{"there": nil, "missing": nil}
	for name, c := range map[string]struct {
		faults sim.Faults
		module device.Module
		want   string
	}{
		"kernel missing": {module: device.Module{Name: "m", Twins: twins, PTX: ".visible .entry there(\n)\n{\n\tret;\n}\n"}, want: "m: the PTX has no kernel missing"},
		"load fails":     {module: device.Module{Name: "m"}, faults: sim.Faults{Load: func(string) int { return 218 }}, want: "load module m: cuModuleLoadData"},
	} {
		d, err := device.Open(sim.New(3, &c.faults), &c.module)
		if d != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "device 3 (simulator)") {
			t.Errorf("%s: got device %v and error %v, want one that says %q and the device", name, d, err, c.want)
		}
	}
}

func TestPinned(t *testing.T) {
	eachDevice(t, func(t *testing.T, d *device.Device) {
		const n = 1000
		p, err := device.NewPinned[uint64](d, n)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Slice
		if len(s) != n {
			t.Fatalf("%d values, want %d", len(s), n)
		}
		for name, c := range map[string]struct {
			slice []uint64
			want  bool
		}{
			"all":     {s, true},
			"begin":   {s[:1], true},
			"end":     {s[n-1:], true},
			"Go heap": {make([]uint64, n), false},
			"nil":     {nil, false},
		} {
			if device.IsPinned(c.slice) != c.want {
				t.Errorf("%s: pinned is %v", name, !c.want)
			}
		}
		for i := range s {
			s[i] = uint64(i)
		}
		back := pinned[uint64](t, d, n)
		do(t, d, device.Serve, func(q *device.Queue) {
			m := q.Temp(8 * n)
			device.CopyIn(q, m, s)
			device.CopyOut(q, back, m)
		})
		if !slices.Equal(s, back) {
			t.Error("other values came back than were sent")
		}
		p.Close()
		if device.IsPinned(s) || p.Slice != nil {
			t.Error("still pinned after Close")
		}
		p.Close()
	})
}

// pinned gives n values of pinned memory for the time of a test.
func pinned[T any](t *testing.T, d *device.Device, n int) []T {
	t.Helper()
	p, err := device.NewPinned[T](d, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p.Slice
}

// open opens a device for the time of a test.
func open(t *testing.T, driver device.Driver, modules ...*device.Module) *device.Device {
	t.Helper()
	d, err := device.Open(driver, modules...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// free gives memory back in a job of its own.
func free(d *device.Device, p device.Ptr) {
	_ = d.Do(device.Build, func(q *device.Queue) error { q.Free(p); return nil })
}
