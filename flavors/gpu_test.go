package flavors_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ribwarp/ribwarp/fixtures"
	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/device/sim"
	"github.com/ribwarp/ribwarp/kernels/tree"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// gpuStrideLists are strideLists and, in place of the defaults, whose roots take the simulator long
// to fill, lists with an index in pages and whole.
func gpuStrideLists(maker string) (lists []struct{ v4, v6 []int }) {
	lists = slices.Clone(strideLists)
	if maker == "sim" {
		lists[0].v4, lists[0].v6 = []int{20, 4, 8}, append([]int{20, 12, 12, 4}, repeat(8, 10)...)
	}
	return append(lists, struct{ v4, v6 []int }{[]int{13, 11, 8}, append([]int{12, 12, 12, 12}, repeat(8, 10)...)})
}

// short tells which of gpuStrideLists -short leaves out.
func short(maker devicetest.Maker, i int) bool {
	return testing.Short() && i != 1 && i != 4 && (i != 0 || maker.Name == "sim")
}

// eachGPUEngine runs a test with engines of every kind of device, flavor and list. With -short it is
// two lists, and the defaults on a GPU.
func eachGPUEngine(t *testing.T, test func(t *testing.T, o flavors.Options, open func(testing.TB) lpm.Engine)) {
	for _, maker := range devicetest.Makers() {
		for _, flavor := range []flavors.Flavor{flavors.Pushed, flavors.List} {
			for i, l := range gpuStrideLists(maker.Name) {
				if short(maker, i) {
					continue
				}
				o := flavors.Options{Flavor: flavor, Strides4: l.v4, Strides6: l.v6}
				t.Run(fmt.Sprintf("%s/%s/%d", maker.Name, flavor, i), func(t *testing.T) {
					test(t, o, func(tb testing.TB) lpm.Engine { return gpuEngine(tb, o, maker.Open(tb, flavors.GPUModules())) })
				})
			}
		}
	}
}

func gpuEngine(tb testing.TB, o flavors.Options, devices ...*device.Device) lpm.Engine {
	tb.Helper()
	e, err := flavors.NewGPU(o, devices...)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestGPUConformance(t *testing.T) {
	eachGPUEngine(t, func(t *testing.T, _ flavors.Options, open func(testing.TB) lpm.Engine) {
		lpmtest.Conformance(t, open)
	})
}

// imageTables are the tables whose images are compared.
func imageTables(t *testing.T, seed uint64) map[string]lpm.Routes {
	tables := map[string]lpm.Routes{
		"empty": {},
		"one":   lpmtest.RoutesOf("10.0.0.0/8", "2001:db8::/32"),
		"two":   lpmtest.RoutesOf("0.0.0.0/0", "255.255.255.255/32", "::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"),
	}
	for _, n := range fixtures.Nasty() {
		var rs lpm.Routes
		for h, p := range n.Prefixes {
			rs.Add(p, lpm.Handle(h+1))
		}
		tables["nasty "+n.Name] = rs
	}
	r := rand.New(rand.NewPCG(seed, 0))
	many := lpmtest.RandomRoutes(r, 3000, 1)
	many.V4 = append(many.V4, many.V4[:100]...) // prefixes that occur twice
	for i := range 50 {
		many.V6 = append(many.V6, many.V6[i])
		many.V6[len(many.V6)-1].Handle = lpm.Handle(90000 + i)
		many.V4 = append(many.V4, lpm.Route4{Addr: many.V4[i].Addr, Bits: many.V4[i].Bits}) // and one that goes again
	}
	tables["random"] = many
	table := fixtures.Generate(seed, 8000, 3000)
	var like lpm.Routes
	for i, p := range table.Prefixes() {
		like.Add(p, lpm.Handle(i+1))
	}
	r.Shuffle(len(like.V4), func(i, j int) { like.V4[i], like.V4[j] = like.V4[j], like.V4[i] })
	r.Shuffle(len(like.V6), func(i, j int) { like.V6[i], like.V6[j] = like.V6[j], like.V6[i] })
	tables["like the Internet's"] = like
	return tables
}

// sameImage compares what a device built with what the processor builds.
func sameImage(t *testing.T, q *device.Queue, got *tree.Image, want *flavors.Image) {
	t.Helper()
	if !slices.Equal(got.Nodes, want.Nodes) || !slices.Equal(got.Base, want.Base) || !slices.Equal(got.NodeBase, want.NodeBase) {
		t.Fatalf("nodes %v at cells %v, want %v at %v", got.Nodes, got.Base, want.Nodes, want.Base)
	}
	cells, starts, entries := got.Download(q)
	if q.Err() != nil {
		t.Fatal(q.Err())
	}
	for i := range want.Cells {
		if cells[i] != want.Cells[i] {
			t.Fatalf("cell %d of %d is %#x, want %#x (levels start at %v)", i, len(want.Cells), cells[i], want.Cells[i], want.Base)
		}
	}
	if got.Kind == tree.Keys {
		return
	}
	if !slices.Equal(starts, want.Starts) {
		t.Fatalf("starts of containers differ: %v, want %v", head(starts), head(want.Starts))
	}
	for i, e := range want.Entries {
		if entries[i] != (tree.Entry{Pos: e.Pos, Payload: e.Handle}) {
			t.Fatalf("entry %d is %v, want %v", i, entries[i], e)
		}
	}
	if len(cells) != len(want.Cells) || len(entries) != len(want.Entries) {
		t.Fatalf("%d cells and %d entries, want %d and %d", len(cells), len(entries), len(want.Cells), len(want.Entries))
	}
}

func head(s []uint32) []uint32 { return s[:min(len(s), 20)] }

// columnsOf puts routes on a device.
func columnsOf[R lpm.Route4 | lpm.Route6](q *device.Queue, rs []R, longest int, set func(*tree.Columns, *device.Queue, int, device.Ptr, int)) tree.Columns {
	c := tree.NewColumns(q, len(rs), longest)
	records := q.Temp(len(rs) * int(unsafe.Sizeof(*new(R))))
	device.CopyIn(q, records, rs)
	set(&c, q, 0, records, len(rs))
	q.Free(records)
	return c
}

// buildOn puts routes on a device and builds their tree.
func buildOn[R lpm.Route4 | lpm.Route6](q *device.Queue, st *flavors.Strides, kind tree.Kind, rs []R, longest int, set func(*tree.Columns, *device.Queue, int, device.Ptr, int)) (*tree.Image, error) {
	c := columnsOf(q, rs, longest, set)
	defer c.Free(q)
	return tree.Build(q, tree.NewShape(st.List()), c, kind)
}

func longest4(rs []lpm.Route4) (n int) {
	for _, r := range rs {
		n = max(n, int(r.Bits))
	}
	return n
}

func longest6(rs []lpm.Route6) (n int) {
	for _, r := range rs {
		n = max(n, int(r.Bits))
	}
	return n
}

// TestGPUImages: the image is byte for byte the one that the processor builds.
func TestGPUImages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	tables := imageTables(t, seed)
	for _, maker := range devicetest.Makers() {
		for i, l := range gpuStrideLists(maker.Name) {
			if short(maker, i) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", maker.Name, i), func(t *testing.T) {
				d := maker.Open(t, flavors.GPUModules())
				defer d.Close()
				for name, rs := range tables {
					t.Run(name, func(t *testing.T) { sameImages(t, d, l.v4, l.v6, rs) })
				}
			})
		}
	}
}

// sameImages builds both families in both flavors.
func sameImages(t *testing.T, d *device.Device, v4, v6 []int, rs lpm.Routes) {
	if v4 == nil {
		v4, v6 = flavors.DefaultGPUStrides4, flavors.DefaultGPUStrides6
	}
	st4, err := flavors.NewStrides(32, v4)
	if err != nil {
		t.Fatal(err)
	}
	st6, err := flavors.NewStrides(128, v6)
	if err != nil {
		t.Fatal(err)
	}
	for kind, flavor := range map[tree.Kind]flavors.Flavor{tree.List: flavors.List, tree.Pushed: flavors.Pushed} {
		want4, err := flavors.BuildMasks(st4, flavors.SortMasks4(rs.V4), flavor)
		if err != nil {
			t.Fatal(err)
		}
		want6, err := flavors.BuildMasks(st6, flavors.SortMasks(128, rs.V6), flavor)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Do(device.Build, func(q *device.Queue) error {
			got4, err := buildOn(q, st4, kind, rs.V4, longest4(rs.V4), (*tree.Columns).Set32)
			if err != nil {
				return err
			}
			sameImage(t, q, got4, want4)
			got4.Free(q)
			got6, err := buildOn(q, st6, kind, rs.V6, longest6(rs.V6), (*tree.Columns).Set128)
			if err != nil {
				return err
			}
			sameImage(t, q, got6, want6)
			got6.Free(q)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// keyLists are trees of keys of several widths.
var keyLists = []struct {
	width   int
	strides []int
	n       int
}{
	{6, []int{3, 2, 1}, 20}, {1, []int{1}, 2}, {20, []int{20}, 500}, {32, []int{16, 8, 8}, 5000}, {32, []int{22, 5, 5}, 5000}, {48, []int{12, 12, 12, 12}, 3000},
	{64, []int{16, 16, 16, 16}, 800}, {128, repeat(8, 16), 700}, {128, []int{11, 7, 9, 3, 5, 11, 9, 8, 10, 2, 12, 6, 4, 10, 7, 9, 5}, 500},
}

func TestGPUKeyTrees(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, maker := range devicetest.Makers() {
		for _, l := range keyLists {
			t.Run(fmt.Sprintf("%s/%v", maker.Name, l.strides), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, uint64(l.width)))
				d := maker.Open(t, flavors.GPUModules())
				defer d.Close()
				st, err := flavors.NewStrides(l.width, l.strides)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []int{0, 1, 2, l.n} {
					keys := make([]flavors.Key, n)
					for i := range keys {
						keys[i] = randomKey(r, l.width)
					}
					if n > 10 {
						copy(keys[n/2:], keys[:5]) // some occur twice: the first counts
					}
					want, err := flavors.BuildKeys(st, flavors.SortKeys(l.width, keys))
					if err != nil {
						t.Fatal(err)
					}
					got, err := flavors.NewGPUKeyTree(d, st, keys)
					if err != nil {
						t.Fatal(err)
					}
					if err := d.Do(device.Build, func(q *device.Queue) error { sameImage(t, q, got.Image(), want); return q.Err() }); err != nil {
						t.Fatal(err)
					}
					asked := slices.Clone(keys)
					for range 1000 {
						asked = append(asked, randomKey(r, l.width))
					}
					cpu, err := flavors.NewKeyTree(st, keys)
					if err != nil {
						t.Fatal(err)
					}
					found, wanted := make([]int32, len(asked)), make([]int32, len(asked))
					cpu.FindAll(wanted, asked)
					if err := got.FindAll(found, asked); err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(found, wanted) {
						t.Fatalf("%d keys: found %v, want %v", n, found[:min(n, 20)], wanted[:min(n, 20)])
					}
					got.Close()
					got.Close()
				}
			})
		}
	}
}

func randomKey(r *rand.Rand, width int) flavors.Key {
	k := flavors.Key{Hi: r.Uint64(), Lo: r.Uint64()}
	if r.IntN(2) == 0 { // crowded
		k.Hi &= 0xff0000ff_00ff0000
	}
	switch {
	case width < 64:
		return flavors.Key{Hi: k.Hi &^ (^uint64(0) >> width)}
	case width == 64:
		return flavors.Key{Hi: k.Hi}
	}
	return k
}

// bothEngines are an engine on a device and one on the processor.
func bothEngines(t testing.TB, o flavors.Options, open func(testing.TB) lpm.Engine) (gpu, cpu lpm.Engine) {
	gpu = open(t)
	cpu, err := flavors.NewCPU(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gpu.Close() })
	return gpu, cpu
}

// agree compares the answers of two tables, in batches large enough for the index of the root.
func agree(t testing.TB, gpu, cpu lpm.Table, v4 []uint32, v6 []lpm.Addr6) {
	t.Helper()
	got, want := make([]lpm.Handle, max(len(v4), len(v6))), make([]lpm.Handle, max(len(v4), len(v6)))
	if err := errors.Join(gpu.Lookup4(got, v4), cpu.Lookup4(want, v4)); err != nil {
		t.Fatal(err)
	}
	for i, a := range v4 {
		if got[i] != want[i] {
			t.Fatalf("%s: GPU gives route %d, processor %d", lpm.Netip4(a), got[i], want[i])
		}
	}
	if err := errors.Join(gpu.Lookup6(got, v6), cpu.Lookup6(want, v6)); err != nil {
		t.Fatal(err)
	}
	for i, a := range v6 {
		if got[i] != want[i] {
			t.Fatalf("%s: GPU gives route %d, processor %d", a.Netip(), got[i], want[i])
		}
	}
}

// manyProbes repeats a table's probes up to at least n of each family, with random addresses between.
func manyProbes(rs lpm.Routes, r *rand.Rand, n int) (v4 []uint32, v6 []lpm.Addr6) {
	p4, p6 := lpmtest.Probes(rs, r)
	for len(v4) < n {
		v4 = append(append(v4, p4...), r.Uint32())
	}
	for len(v6) < n && len(rs.V6) > 0 {
		v6 = append(append(v6, p6...), lpm.Addr6{Hi: r.Uint64(), Lo: r.Uint64()}, lpm.Addr6{Hi: 0x2001<<48 | r.Uint64()>>16})
	}
	return v4, v6
}

// TestGPUAgreesThroughChanges: random changes; after each generation both processors agree.
func TestGPUAgreesThroughChanges(t *testing.T) {
	generations, batch := 8, 40_000
	if testing.Short() {
		generations = 3
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	eachGPUEngine(t, func(t *testing.T, o flavors.Options, open func(testing.TB) lpm.Engine) {
		r := rand.New(rand.NewPCG(seed, 1))
		gpu, cpu := bothEngines(t, o, open)
		rs := lpmtest.RandomRoutes(r, 400, 1)
		g, c := lpmtest.Build(t, gpu, rs), lpmtest.Build(t, cpu, rs)
		for n := range generations {
			v4, v6 := manyProbes(rs, r, batch)
			agree(t, g, c, v4, v6)
			next := lpmtest.RandomRoutes(r, 60, lpm.Handle(1000*(n+1)))
			for i := range next.V4 {
				if r.IntN(3) == 0 && len(rs.V4) > 0 { // withdraw, or change
					next.V4[i] = rs.V4[r.IntN(len(rs.V4))]
					next.V4[i].Handle = lpm.Handle(r.IntN(2) * (1_000_000*(n+1) + i))
				}
			}
			for i := range next.V6 {
				if r.IntN(3) == 0 && len(rs.V6) > 0 {
					next.V6[i] = rs.V6[r.IntN(len(rs.V6))]
					next.V6[i].Handle = lpm.Handle(r.IntN(2) * (2_000_000*(n+1) + i))
				}
			}
			if n%3 == 2 {
				next.V4 = nil // only one family changes
			}
			g2, err := gpu.Update(context.Background(), g, next)
			if err != nil {
				t.Fatal(err)
			}
			c2, err := cpu.Update(context.Background(), c, next)
			if err != nil {
				t.Fatal(err)
			}
			agree(t, g, c, v4[:1000], v6[:1000]) // the old generation stays as it is
			_ = g.Close()
			g, c = g2, c2
			rs.V4, rs.V6 = append(rs.V4, next.V4...), append(rs.V6, next.V6...)
		}
		_ = g.Close()
	})
}

// TestGPUUpdates: what the hash maps of prefixes must get right. Prefixes of all lengths over the same
// address are different keys; of a prefix that is changed twice the later change counts; and a table that
// is not the maps' own, because an update from it was made before or is made once more, gives the same.
func TestGPUUpdates(t *testing.T) {
	eachGPUEngine(t, func(t *testing.T, o flavors.Options, open func(testing.TB) lpm.Engine) {
		gpu := open(t)
		defer gpu.Close()
		var rs lpm.Routes
		h := lpm.Handle(0)
		add := func(to *lpm.Routes, a string, bits int) {
			h++
			to.Add(netip.PrefixFrom(netip.MustParseAddr(a), bits), h)
		}
		for bits := range 129 {
			add(&rs, "::", bits)
			add(&rs, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", bits)
			if bits <= 32 {
				add(&rs, "0.0.0.0", bits)
				add(&rs, "255.255.255.255", bits)
			}
		}
		first := lpmtest.Build(t, gpu, rs)
		defer first.Close()
		var changes lpm.Routes
		for i := range rs.V6 {
			if x := rs.V6[i]; i%3 == 0 {
				x.Handle = lpm.None
				changes.V6 = append(changes.V6, x)
			}
		}
		for i := range rs.V4 {
			if x := rs.V4[i]; i%3 == 1 {
				x.Handle = lpm.None
				changes.V4 = append(changes.V4, x)
			}
		}
		add(&changes, "2001:db8::1", 128)
		add(&changes, "2001:db8::1", 128) // this one counts
		add(&changes, "192.0.2.0", 24)
		changes.Add(netip.MustParsePrefix("192.0.2.0/24"), lpm.None) // and this
		changes.Add(netip.MustParsePrefix("198.51.100.0/24"), lpm.None)
		add(&changes, "198.51.100.0", 24) // and this
		want := lpmtest.OracleOf(rs)
		want.Apply(changes)
		r := rand.New(rand.NewPCG(3, 3))
		v4, v6 := lpmtest.Probes(want.Routes(), r)
		for range 2 {
			next, err := gpu.Update(context.Background(), first, changes)
			if err != nil {
				t.Fatal(err)
			}
			lpmtest.Check(t, next, want, v4, v6)
			again, err := gpu.Update(context.Background(), next, changes)
			if err != nil {
				t.Fatal(err)
			}
			lpmtest.Check(t, again, want, v4, v6)
			_ = next.Close()
			_ = again.Close()
		}
		lpmtest.Check(t, first, lpmtest.OracleOf(rs), v4, v6)
	})
}

// simEngine is an engine on simulated devices, with their drivers.
func simEngine(t testing.TB, faults ...*sim.Faults) (lpm.Engine, []*sim.Driver) {
	var devices []*device.Device
	var drivers []*sim.Driver
	for i, f := range faults {
		driver := sim.New(i, f)
		d, err := device.Open(driver, flavors.GPUModules()...)
		if err != nil {
			t.Fatal(err)
		}
		drivers, devices = append(drivers, driver), append(devices, d)
	}
	e := gpuEngine(t, flavors.Options{Strides4: []int{13, 11, 8}, Strides6: append([]int{12, 12, 12, 12}, repeat(8, 10)...)}, devices...)
	t.Cleanup(func() { _ = e.Close() })
	return e, drivers
}

// TestGPUUsesTheIndexOfTheRoot: answers are the same without, only later.
func TestGPUUsesTheIndexOfTheRoot(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 16))
	rs := lpmtest.RandomRoutes(r, 300, 1)
	v4, v6 := manyProbes(rs, r, 40_000)
	dst := make([]lpm.Handle, max(len(v4), len(v6)))
	for root, want := range map[int][2]string{16: {"tree.match_32_direct", "tree.match_128_direct"}, 20: {"tree.match_32_paged", "tree.match_128_paged"}} {
		var launched sync.Map
		driver := sim.New(0, &sim.Faults{Launch: func(kernel string) int { launched.Store(kernel, true); return 0 }})
		d, err := device.Open(driver, flavors.GPUModules()...)
		if err != nil {
			t.Fatal(err)
		}
		e := gpuEngine(t, flavors.Options{Strides4: []int{root, 24 - root, 8}, Strides6: append([]int{root, 24 - root}, repeat(8, 13)...)}, d)
		tab := lpmtest.Build(t, e, rs)
		if err := errors.Join(tab.Lookup4(dst, v4), tab.Lookup6(dst, v6)); err != nil {
			t.Fatal(err)
		}
		for _, kernel := range want {
			if _, ok := launched.Load(kernel); !ok {
				t.Errorf("root of %d bits: %s was not launched", root, kernel)
			}
		}
		_ = tab.Close()
		_ = e.Close()
	}
}

// TestGPUSmallSharedMemory: on smaller GPUs the index of a wide root goes into pages, or is left out.
func TestGPUSmallSharedMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 15))
	var crowded lpm.Routes // in every page
	for i := range 1 << 13 {
		crowded.V4 = append(crowded.V4, lpm.Route4{Addr: uint32(i) << 19, Bits: 22, Handle: lpm.Handle(i + 1)})
	}
	few := lpmtest.RandomRoutes(r, 300, 1)
	for _, kib := range []int{16, 48, 64, 99, 163} {
		for name, rs := range map[string]lpm.Routes{"crowded": crowded, "few": few} {
			for _, root := range []int{16, 17, 18, 19, 20} {
				t.Run(fmt.Sprintf("%d KiB/%s/%d", kib, name, root), func(t *testing.T) {
					driver := sim.New(0, nil)
					driver.LimitShared(kib << 10)
					d, err := device.Open(driver, flavors.GPUModules()...)
					if err != nil {
						t.Fatal(err)
					}
					o := flavors.Options{Strides4: []int{root, 24 - root, 8}, Strides6: append([]int{16}, repeat(8, 14)...)}
					gpu, cpu := bothEngines(t, o, func(tb testing.TB) lpm.Engine { return gpuEngine(tb, o, d) })
					g, c := lpmtest.Build(t, gpu, rs), lpmtest.Build(t, cpu, rs)
					defer g.Close()
					v4, v6 := manyProbes(rs, r, 33_000)
					agree(t, g, c, v4, v6)
				})
			}
		}
	}
}

// TestGPUOutOfMemory: whichever allocation of a build fails, the error says so, nothing is left
// behind, the table before goes on, and the next build works.
func TestGPUOutOfMemory(t *testing.T) {
	var left atomic.Int64 // allocations until the one that fails
	left.Store(1 << 60)
	faults := &sim.Faults{Alloc: func(int) int {
		if left.Add(-1) == 0 {
			return device.CodeOutOfMemory
		}
		return 0
	}}
	e, drivers := simEngine(t, faults)
	r := rand.New(rand.NewPCG(5, 5))
	rs := lpmtest.RandomRoutes(r, 200, 1)
	tab := lpmtest.Build(t, e, rs)
	defer tab.Close()
	v4, v6 := lpmtest.Probes(rs, r)
	lpmtest.Check(t, tab, lpmtest.OracleOf(rs), v4, v6)
	before := drivers[0].Allocations()
	failures := 0
	for k := int64(1); ; k++ {
		left.Store(k)
		next, err := e.Update(context.Background(), tab, lpmtest.RandomRoutes(r, 20, 1000))
		if err == nil {
			left.Store(1 << 60)
			_ = next.Close()
			break
		}
		failures++
		if !errors.Is(err, lpm.ErrMemory) {
			t.Fatalf("allocation %d: %v", k, err)
		}
		if n := drivers[0].Allocations(); n != before {
			t.Fatalf("allocation %d: %d pieces of memory in use, %d before", k, n, before)
		}
	}
	if failures < 20 {
		t.Errorf("a build of two trees failed for %d allocations only", failures)
	}
	lpmtest.Check(t, tab, lpmtest.OracleOf(rs), v4, v6)
}

// TestGPULost: a kernel that traps ends the device; what was its job is another's, as long as
// there is one.
func TestGPULost(t *testing.T) {
	var broken atomic.Bool
	trap := &sim.Faults{Kernel: func(string) int {
		if broken.Load() {
			return device.CodeLaunchFailed
		}
		return 0
	}}
	r := rand.New(rand.NewPCG(6, 6))
	rs := lpmtest.RandomRoutes(r, 200, 1)
	v4, v6 := lpmtest.Probes(rs, r)
	t.Run("the only one", func(t *testing.T) {
		broken.Store(false)
		e, _ := simEngine(t, trap)
		tab := lpmtest.Build(t, e, rs)
		defer tab.Close()
		broken.Store(true)
		for range 2 {
			if err := tab.Lookup4(make([]lpm.Handle, len(v4)), v4); !errors.Is(err, lpm.ErrLost) {
				t.Fatalf("lookup: %v", err)
			}
		}
		broken.Store(false) // for the process it is gone all the same
		if err := tab.Lookup6(make([]lpm.Handle, len(v6)), v6); !errors.Is(err, lpm.ErrLost) {
			t.Fatalf("lookup: %v", err)
		}
		if _, err := e.Update(context.Background(), tab, rs); !errors.Is(err, lpm.ErrLost) {
			t.Fatalf("update: %v", err)
		}
		if _, err := e.Build(context.Background(), rs); !errors.Is(err, lpm.ErrLost) {
			t.Fatalf("build: %v", err)
		}
	})
	t.Run("one of two", func(t *testing.T) {
		broken.Store(false)
		e, _ := simEngine(t, trap, nil)
		tab := lpmtest.Build(t, e, rs)
		broken.Store(true)
		o := lpmtest.OracleOf(rs)
		for range 3 {
			lpmtest.Check(t, tab, o, v4, v6)
		}
		changes := lpmtest.RandomRoutes(r, 50, 1000)
		next, err := e.Update(context.Background(), tab, changes)
		if err != nil {
			t.Fatal(err)
		}
		_ = tab.Close()
		lpmtest.Check(t, next, lpmtest.OracleOf(lpm.Routes{V4: slices.Concat(rs.V4, changes.V4), V6: slices.Concat(rs.V6, changes.V6)}), v4, v6)
		_ = next.Close()
	})
	t.Run("in a build", func(t *testing.T) {
		broken.Store(false)
		e, _ := simEngine(t, trap)
		tab := lpmtest.Build(t, e, rs)
		defer tab.Close()
		broken.Store(true)
		if _, err := e.Update(context.Background(), tab, rs); !errors.Is(err, lpm.ErrLost) {
			t.Fatalf("update: %v", err)
		}
	})
}

// TestGPULargeBatches: batches of many chunks, from ordinary and from pinned memory, on one device
// and split over several.
func TestGPULargeBatches(t *testing.T) {
	n := 5<<20 + 17
	if testing.Short() {
		n = 1<<19 + 3
	}
	defer flavors.SetChunkBytes(256 << 10)() // several on each stream
	for _, maker := range devicetest.Makers() {
		for _, devices := range []int{1, 3} {
			for _, long := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d devices/longer than 64: %v", maker.Name, devices, long), func(t *testing.T) {
					var ds []*device.Device
					for i := range devices {
						ds = append(ds, maker.OpenAt(t, i, flavors.GPUModules()))
					}
					largeBatches(t, ds, n, long)
				})
			}
		}
	}
}

func largeBatches(t *testing.T, ds []*device.Device, n int, long bool) {
	r := rand.New(rand.NewPCG(7, 7))
	var rs lpm.Routes
	for i, p := range fixtures.Generate(7, 3000, 1000).Prefixes() {
		rs.Add(p, lpm.Handle(i+1))
	}
	if long {
		rs.V6 = append(rs.V6, lpm.Route6{Addr: lpm.Addr6{Hi: rs.V6[0].Addr.Hi, Lo: 5 << 60}, Bits: 68, Handle: 77777})
	}
	o := flavors.Options{Strides4: []int{13, 11, 8}, Strides6: append([]int{12, 12, 12, 12}, repeat(8, 10)...)}
	gpu, cpu := bothEngines(t, o, func(testing.TB) lpm.Engine { return gpuEngine(t, o, ds...) })
	g, c := lpmtest.Build(t, gpu, rs), lpmtest.Build(t, cpu, rs)
	defer g.Close()
	pinned4, err := device.NewPinned[uint32](ds[0], n)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned4.Close()
	pinned6, err := device.NewPinned[lpm.Addr6](ds[0], n)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned6.Close()
	pinnedHigh, err := device.NewPinned[uint64](ds[0], n)
	if err != nil {
		t.Fatal(err)
	}
	defer pinnedHigh.Close()
	out, err := device.NewPinned[lpm.Handle](ds[0], n)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for i := range n {
		pinned4.Slice[i] = lpmtest.InPrefix4(rs.V4[r.IntN(len(rs.V4))], r)
		pinned6.Slice[i] = lpmtest.InPrefix6(rs.V6[r.IntN(len(rs.V6))], r)
		if r.IntN(8) == 0 {
			pinned4.Slice[i] = r.Uint32()
		}
		pinnedHigh.Slice[i] = pinned6.Slice[i].Hi
	}
	v4, v6, high := slices.Clone(pinned4.Slice), slices.Clone(pinned6.Slice), slices.Clone(pinnedHigh.Slice)
	agree(t, g, c, v4, v6)
	want := make([]lpm.Handle, n)
	check := func(what string, err error, got []lpm.Handle) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s: address %d of %d: route %d, want %d", what, i, n, got[i], want[i])
			}
		}
		clear(got)
	}
	if err := c.Lookup4(want, v4); err != nil {
		t.Fatal(err)
	}
	check("pinned IPv4", g.Lookup4(out.Slice, pinned4.Slice), out.Slice)
	if err := c.Lookup6(want, v6); err != nil {
		t.Fatal(err)
	}
	check("pinned IPv6", g.Lookup6(out.Slice, pinned6.Slice), out.Slice)
	ordinary := make([]lpm.Handle, n)
	if long {
		if err := g.(flavors.HighTable).Lookup64(ordinary, high); !errors.Is(err, flavors.ErrLongPrefixes) {
			t.Fatalf("first words in a table with a /68: %v", err)
		}
		return
	}
	check("first words of IPv6", g.(flavors.HighTable).Lookup64(ordinary, high), ordinary)
	check("pinned first words of IPv6", g.(flavors.HighTable).Lookup64(out.Slice, pinnedHigh.Slice), out.Slice)
}

// TestGPUClosesDuringBatches: engines and tables that close while others look up give right
// answers or ErrClosed.
func TestGPUClosesDuringBatches(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	rs := lpmtest.RandomRoutes(r, 100, 1)
	v4, _ := lpmtest.Probes(rs, r)
	for _, maker := range devicetest.Makers() {
		t.Run(maker.Name, func(t *testing.T) {
			d := maker.Open(t, flavors.GPUModules())
			e := gpuEngine(t, flavors.Options{Strides4: []int{16, 8, 8}, Strides6: repeat(8, 16)}, d)
			tab := lpmtest.Build(t, e, rs)
			want := make([]lpm.Handle, len(v4))
			if err := tab.Lookup4(want, v4); err != nil {
				t.Fatal(err)
			}
			_ = e.Close() // the table goes on
			var wg sync.WaitGroup
			var answered atomic.Int64
			for range 4 {
				wg.Go(func() {
					got := make([]lpm.Handle, len(v4))
					for {
						switch err := tab.Lookup4(got, v4); {
						case errors.Is(err, lpm.ErrClosed):
							return
						case err != nil:
							t.Error(err)
							return
						case !slices.Equal(got, want):
							t.Error("wrong answers while the device closes")
						}
						answered.Add(1)
					}
				})
			}
			for answered.Load() < 50 && !t.Failed() {
				runtime.Gosched()
			}
			// Nobody should close a table under a lookup; the device, which goes with it, waits.
			_ = d.Close()
			wg.Wait()
			_ = tab.Close()
		})
	}
}
