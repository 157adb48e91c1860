package flavors_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// published is a table with what it must answer, which does not change any more.
type published struct {
	lpm.Table
	oracle lpmtest.Oracle
}

// Every table answers by its own routes and no others, whatever goes on beside it: its trees are replaced, and tables
// follow it by updates, by a build, or by an update that is thrown away.
func TestChoiceBesideLookups(t *testing.T) {
	for _, flavor := range []flavors.Flavor{flavors.Pushed, flavors.List} {
		t.Run(string(flavor), func(t *testing.T) { choiceBesideLookups(t, flavor) })
	}
}

func choiceBesideLookups(t *testing.T, flavor flavors.Flavor) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	sets := 60
	if testing.Short() {
		sets = 15
	}
	own4, own6 := []int{12, 8, 4, 8}, eights(16)
	var choice flavors.Choice
	e, err := flavors.NewCPU(flavors.Options{Flavor: flavor, Strides4: own4, Strides6: own6, Choice: &choice})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rs := generatedRoutes(seed, 4000, 2000)
	var newest atomic.Pointer[published]
	newest.Store(&published{lpmtest.Build(t, e, rs), lpmtest.OracleOf(rs)})
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range 2 {
		running.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				if err := newest.Load().ask(rs, r); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(200 * time.Microsecond) // leaves the processors to the others
			}
		})
	}
	// Chosen and taken back, at times by somebody who does not wait for it.
	list4, list6 := own4, own6
	running.Go(func() {
		defer end()
		r := rand.New(rand.NewPCG(seed, 10))
		lists := [2][][]int{{{16, 8, 8}, {13, 11, 8}, {6, 6, 6, 6, 8}, nil}, {eights(17, 7), eights(12, 4), eights(4, 4), nil}}
		for range sets {
			time.Sleep(rand.N(10 * time.Millisecond))
			f := r.IntN(2)
			list := lists[f][r.IntN(4)]
			within, cancel := context.WithCancel(ctx)
			if r.IntN(4) == 0 {
				cancel()
			}
			err := choice.Set(within, []int{32, 128}[f], list, 500)
			cancel()
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
				return
			}
			if f == 0 {
				list4 = list
			} else {
				list6 = list
			}
		}
		if err := errors.Join(choice.Set(ctx, 32, list4, 500), choice.Set(ctx, 128, list6, 500)); err != nil {
			t.Error(err)
		}
	})
	updates := newest.Load().follow(t, ctx, e, rs, &newest, rand.New(rand.NewPCG(seed, 20)))
	running.Wait()
	last := newest.Load()
	defer last.Close()
	t.Logf("%d updates", updates)
	for f, want := range [][]int{list4, list6} {
		if want == nil {
			want = [][]int{own4, own6}[f]
		}
		if got := last.Info().Families[f].Strides; !slices.Equal(got, want) {
			t.Errorf("family %d has strides %v at the end, want %v", f, got, want)
		}
	}
	v4, v6 := lpmtest.Probes(rs, rand.New(rand.NewPCG(seed, 30)))
	lpmtest.Check(t, last, last.oracle, v4, v6)
}

// ask looks up addresses of routes that may be there. A table that was closed meanwhile is none of its business.
func (p *published) ask(rs lpm.Routes, r *rand.Rand) error {
	var v4 [50]uint32
	var v6 [50]lpm.Addr6
	var got4, got6 [50]lpm.Handle
	for i := range v4 {
		v4[i], v6[i] = lpmtest.InPrefix4(rs.V4[r.IntN(len(rs.V4))], r), lpmtest.InPrefix6(rs.V6[r.IntN(len(rs.V6))], r)
	}
	if err := errors.Join(p.Lookup4(got4[:], v4[:]), p.Lookup6(got6[:], v6[:])); errors.Is(err, lpm.ErrClosed) {
		return nil
	} else if err != nil {
		return err
	}
	for i := range v4 {
		if want := p.oracle.Lookup(lpm.Netip4(v4[i])); got4[i] != want {
			return errors.New(lpm.Netip4(v4[i]).String() + ": another answer than that of the table's own routes")
		}
		if want := p.oracle.Lookup(v6[i].Netip()); got6[i] != want {
			return errors.New(v6[i].Netip().String() + ": another answer than that of the table's own routes")
		}
	}
	return nil
}

// follow publishes tables behind p until ctx ends, and once more, and counts them.
func (p *published) follow(t *testing.T, ctx context.Context, e lpm.Engine, rs lpm.Routes, newest *atomic.Pointer[published], r *rand.Rand) (n int) {
	free := []lpm.Handle{}
	for ended := false; !ended; n++ {
		ended = ctx.Err() != nil
		next := &published{oracle: maps.Clone(p.oracle)}
		count := 1 + r.IntN(5)
		if r.IntN(10) == 0 {
			count = 1 + r.IntN(300)
		}
		changes := toggle(next.oracle, rs, count, &free, r)
		var err error
		switch r.IntN(20) {
		case 0:
			next.Table, err = e.Build(t.Context(), next.oracle.Routes())
		case 1:
			var thrown lpm.Table
			if thrown, err = e.Update(t.Context(), p.Table, lpm.Routes{V4: rs.V4[:10], V6: rs.V6[:10]}); err != nil {
				break
			}
			if r.IntN(2) == 0 {
				_ = thrown.Close()
			}
			fallthrough
		default:
			next.Table, err = e.Update(t.Context(), p.Table, changes)
		}
		if err != nil {
			t.Error(err)
			return n
		}
		newest.Store(next)
		_ = p.Close()
		p = next
		time.Sleep(time.Millisecond) // a publisher rests for longer
	}
	return n
}

// toggle takes routes away and brings them back with the handles of others, in the oracle too.
func toggle(o lpmtest.Oracle, rs lpm.Routes, n int, free *[]lpm.Handle, r *rand.Rand) (changes lpm.Routes) {
	for range n {
		x := r.IntN(len(rs.V4) + len(rs.V6))
		prefix := rs.V6[max(0, x-len(rs.V4))].Prefix()
		if x < len(rs.V4) {
			prefix = rs.V4[x].Prefix()
		}
		h, there := o[prefix]
		if there {
			*free = append(*free, h)
			h = lpm.None
		} else {
			k := r.IntN(len(*free))
			h = (*free)[k]
			*free = slices.Delete(*free, k, k+1)
		}
		one := lpm.Routes{}
		one.Add(prefix, h)
		changes.V4, changes.V6 = append(changes.V4, one.V4...), append(changes.V6, one.V6...)
		o.Apply(one)
	}
	return changes
}

// Strides that are chosen while a table is being built reach it.
func TestChoiceDuringBuilds(t *testing.T) {
	var choice flavors.Choice
	e, err := flavors.NewCPU(flavors.Options{Choice: &choice})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rs := generatedRoutes(1, 2000, 1000)
	lists := [][]int{{13, 11, 8}, {16, 8, 8}}
	for i := range 100 {
		var building sync.WaitGroup
		tables := make([]lpm.Table, 2)
		for k := range tables {
			building.Go(func() { tables[k], _ = e.Build(t.Context(), rs) })
		}
		time.Sleep(rand.N(5 * time.Millisecond)) // into the middle of a build, or not
		if err := choice.Set(t.Context(), 32, lists[i%2], 1); err != nil {
			t.Fatal(err)
		}
		building.Wait()
		for _, tab := range tables {
			if tab == nil {
				t.Fatal("no table")
			}
			if got, _ := stridesOf(tab); !slices.Equal(got, lists[i%2]) {
				t.Errorf("round %d: strides %v, want %v", i, got, lists[i%2])
			}
			_ = tab.Close()
		}
	}
}
