package flavors_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

func stridesOf(tab lpm.Table) (v4, v6 []int) {
	in := tab.Info()
	return in.Families[0].Strides, in.Families[1].Strides
}

func generatedRoutes(seed uint64, v4, v6 int) (rs lpm.Routes) {
	for i, p := range fixtures.Generate(seed, v4, v6).Prefixes() {
		rs.Add(p, lpm.Handle(i+1))
	}
	return rs
}

// A choice reaches the newest tables, and those built and updated afterwards; small tables keep their strides.
func TestChoice(t *testing.T) {
	var choice flavors.Choice
	e, err := flavors.NewCPU(flavors.Options{Choice: &choice})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rs, few := generatedRoutes(1, 3000, 2000), generatedRoutes(2, 100, 100)
	o := lpmtest.OracleOf(rs)
	v4, v6 := lpmtest.Probes(rs, rand.New(rand.NewPCG(1, 1)))
	large, small := lpmtest.Build(t, e, rs), lpmtest.Build(t, e, few)
	other4, other6 := []int{13, 11, 8}, eights(21, 11, 16)
	ctx := context.Background()
	if err := choice.Set(ctx, 32, other4, 1000); err != nil {
		t.Fatal(err)
	}
	if err := choice.Set(ctx, 128, other6, 1000); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, tab lpm.Table, want4, want6 []int) {
		t.Helper()
		if got4, got6 := stridesOf(tab); !slices.Equal(got4, want4) || !slices.Equal(got6, want6) {
			t.Fatalf("%s has strides %v and %v, want %v and %v", what, got4, got6, want4, want6)
		}
	}
	expect("the table that there was", large, other4, other6)
	expect("a small one", small, flavors.DefaultStrides4, flavors.DefaultStrides6)
	lpmtest.Check(t, large, o, v4, v6)
	next, err := e.Update(ctx, large, lpm.Routes{V4: few.V4[:1]})
	if err != nil {
		t.Fatal(err)
	}
	expect("an update", next, other4, other6)
	expect("a build", lpmtest.Build(t, e, rs), other4, other6)
	// Only the newest is brought over.
	if err := choice.Set(ctx, 32, nil, 0); err != nil {
		t.Fatal(err)
	}
	expect("a table that was replaced", large, other4, other6)
	expect("the newest", next, flavors.DefaultStrides4, other6)
	lpmtest.Check(t, large, o, v4, v6)
	if err := choice.Set(ctx, 32, []int{16, 8}, 0); !errors.Is(err, flavors.ErrStrides) {
		t.Errorf("strides that sum to 24: error %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := choice.Set(ended, 32, other4, 1000); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: error %v", err)
	}
	expect("the newest, after the end", next, flavors.DefaultStrides4, other6)
}

// Updates and lookups go on while tables are made anew, and no change is lost.
func TestChoiceDuringUpdates(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	var choice flavors.Choice
	e, err := flavors.NewCPU(flavors.Options{Choice: &choice})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rs := generatedRoutes(seed, 20_000, 10_000)
	tab := lpmtest.Build(t, e, rs)
	routes := map[int]lpm.Handle{}
	for i := range rs.V4 {
		routes[i] = rs.V4[i].Handle
	}
	done := make(chan error)
	go func() {
		var err error
		lists := [][]int{{13, 11, 8}, {16, 8, 8}, {24, 8}, {8, 8, 8, 8}}
		for i := 0; i < 12 && err == nil; i++ {
			err = choice.Set(context.Background(), 32, lists[i%len(lists)], 100)
		}
		done <- err
	}()
	gone := []lpm.Handle{}
	for updates := 0; ; updates++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			// What is left is what the changes made of it.
			var all lpm.Routes
			for i, h := range routes {
				x := rs.V4[i]
				x.Handle = h
				all.V4 = append(all.V4, x)
			}
			v4, _ := lpmtest.Probes(all, r)
			all.V6 = rs.V6
			t.Logf("%d updates", updates)
			built := lpmtest.Build(t, e, all)
			want, got := make([]lpm.Handle, len(v4)), make([]lpm.Handle, len(v4))
			if err := errors.Join(built.Lookup4(want, v4), tab.Lookup4(got, v4)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(want, got) {
				t.Fatal("the table answers otherwise than one built of the same routes")
			}
			if got4, _ := stridesOf(tab); !slices.Equal(got4, []int{8, 8, 8, 8}) {
				t.Errorf("the table has strides %v at the end", got4)
			}
			return
		default:
		}
		// Routes go, come back, and change their handles.
		var changes lpm.Routes
		for range 1 + r.IntN(20) {
			i := r.IntN(len(rs.V4))
			x := rs.V4[i]
			if h, there := routes[i]; there {
				gone = append(gone, h)
				delete(routes, i)
				x.Handle = lpm.None
			} else {
				k := r.IntN(len(gone))
				x.Handle, gone[k] = gone[k], gone[len(gone)-1]
				gone = gone[:len(gone)-1]
				routes[i] = x.Handle
			}
			changes.V4 = append(changes.V4, x)
		}
		next, err := e.Update(context.Background(), tab, changes)
		if err != nil {
			t.Fatal(err)
		}
		_ = tab.Close()
		tab = next
	}
}

// On a device the next update has the chosen strides, in a family that it does not change too.
func TestGPUChoice(t *testing.T) {
	devicetest.Each(t, flavors.GPUModules(), func(t *testing.T, d *device.Device) {
		var choice flavors.Choice
		e, err := flavors.NewGPU(flavors.Options{Choice: &choice}, d)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		rs := generatedRoutes(1, 3000, 2000)
		tab := lpmtest.Build(t, e, rs)
		other4, other6 := []int{13, 11, 8}, eights(21, 11, 16)
		if err := errors.Join(choice.Set(t.Context(), 32, other4, 1000), choice.Set(t.Context(), 128, other6, 1000)); err != nil {
			t.Fatal(err)
		}
		next, err := e.Update(t.Context(), tab, lpm.Routes{V4: rs.V4[:1]})
		if err != nil {
			t.Fatal(err)
		}
		_ = tab.Close()
		defer next.Close()
		if got4, got6 := stridesOf(next); !slices.Equal(got4, other4) || !slices.Equal(got6, other6) {
			t.Errorf("strides %v and %v, want %v and %v", got4, got6, other4, other6)
		}
		v4, v6 := lpmtest.Probes(rs, rand.New(rand.NewPCG(1, 1)))
		lpmtest.Check(t, next, lpmtest.OracleOf(rs), v4, v6)
	})
}
