package sim

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/device"
)

func TestMemoryIsLimited(t *testing.T) {
	s := New(0, nil)
	s.about.Memory = 1000
	var held []device.Ptr
	alloc := func(n int) error {
		p, err := s.Alloc(n, 0)
		if err == nil {
			held = append(held, p)
		}
		return err
	}
	for range 3 {
		if err := errors.Join(alloc(600), alloc(400)); err != nil {
			t.Fatal(err)
		}
		if err := alloc(1); !errors.Is(err, device.ErrMemory) {
			t.Errorf("got error %v, want %v", err, device.ErrMemory)
		}
		for _, p := range held {
			if err := s.Free(p, 0); err != nil {
				t.Error(err)
			}
		}
		held = nil
	}
}

func TestFreshMemoryIsGarbage(t *testing.T) {
	s := New(0, nil)
	p, err := s.Alloc(16, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(s.Bytes(p, 16)[8:]); got != garbage {
		t.Errorf("fresh memory holds %#x, want %#x", got, uint64(garbage))
	}
}

// fail gives a fault of one kernel.
func fail(kernel string, code int) func(string) int {
	return func(k string) int {
		if k == kernel {
			return code
		}
		return 0
	}
}

func TestFaults(t *testing.T) {
	ran := map[string]int{}
	twin := func(name string) device.Twin { return func(device.Memory, []uint64) { ran[name]++ } }
	module := &device.Module{Name: "m", Twins: map[string]device.Twin{"good": twin("good"), "bad": twin("bad")}}
	for name, c := range map[string]struct {
		faults Faults
		is     error // nil for none that callers branch on
		lost   bool
	}{
		"alloc":                      {Faults{Alloc: func(n int) int { return device.CodeOutOfMemory }}, device.ErrMemory, false},
		"launch":                     {Faults{Launch: fail("m.bad", device.CodeInvalidValue)}, nil, false},
		"launch on a poisoned GPU":   {Faults{Launch: fail("m.bad", device.CodeIllegalAddress)}, device.ErrLost, true},
		"kernel":                     {Faults{Kernel: fail("m.bad", device.CodeLaunchFailed)}, device.ErrLost, true},
		"kernel, nothing that lasts": {Faults{Kernel: fail("m.bad", device.CodeInvalidValue)}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			clear(ran)
			d, err := device.Open(New(0, &c.faults), module)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			err = d.Do(device.Build, func(q *device.Queue) error {
				q.Launch("m.good", device.Launch{GridX: 1, Block: 1})
				q.Temp(8)
				q.Launch("m.bad", device.Launch{GridX: 1, Block: 1})
				return nil
			})
			if err == nil || c.is != nil && !errors.Is(err, c.is) || errors.Is(err, device.ErrLost) != c.lost {
				t.Errorf("got error %v, want one that is %v", err, c.is)
			}
			if ran["good"] != 1 || ran["bad"] != 0 {
				t.Errorf("kernels ran so often: %v", ran)
			}
			err = d.Do(device.Serve, func(q *device.Queue) error {
				q.Launch("m.good", device.Launch{GridX: 1, Block: 1})
				return nil
			})
			if errors.Is(err, device.ErrLost) != c.lost || (err != nil) != c.lost {
				t.Errorf("the next job gave %v", err)
			}
		})
	}
}
