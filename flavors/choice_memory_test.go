package flavors_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// Strides whose tree a device has no memory for are not chosen on it: its own ones do, as before.
func TestGPUChoiceOutOfMemory(t *testing.T) {
	faults := &sim.Faults{Alloc: func(n int) int {
		if n > 32<<20 {
			return device.CodeOutOfMemory
		}
		return 0
	}}
	d, err := device.Open(sim.New(0, faults), flavors.GPUModules()...)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var choice flavors.Choice
	own := []int{16, 8, 8}
	e, err := flavors.NewGPU(flavors.Options{Strides4: own, Strides6: eights(16), Choice: &choice}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rs := generatedRoutes(1, 3000, 2000)
	tab := lpmtest.Build(t, e, rs)
	defer tab.Close()
	if err := choice.Set(t.Context(), 32, []int{24, 8}, 1000); err != nil {
		t.Fatal(err)
	}
	next, err := e.Update(t.Context(), tab, lpm.Routes{V4: rs.V4[:1]})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if got, _ := stridesOf(next); !slices.Equal(got, own) {
		t.Errorf("strides %v, want %v", got, own)
	}
	v4, v6 := lpmtest.Probes(rs, rand.New(rand.NewPCG(1, 1)))
	lpmtest.Check(t, next, lpmtest.OracleOf(rs), v4, v6)
}
