package flavors_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ribwarp/ribwarp/flavors"
	"github.com/ribwarp/ribwarp/kernels/ceilings"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
	"github.com/ribwarp/ribwarp/kernels/tree"
	"github.com/ribwarp/ribwarp/lpm"
	"github.com/ribwarp/ribwarp/lpm/lpmtest"
)

// The figures of docs/benchmarks/gpu.txt: every benchmark prints what it measured beside the
// ceiling of the same run. They need a GPU and the tag cuda; without, they skip.

// benchDevice opens the GPU.
func benchDevice(b *testing.B) *device.Device {
	b.Helper()
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			d := m.Open(b, append(flavors.GPUModules(), ceilings.Module, linear.Modules()[0]))
			b.Cleanup(func() { _ = d.Close() })
			return d
		}
	}
	b.Skip("needs a GPU: build with the tag cuda")
	return nil
}

// onDevice runs a job of a benchmark.
func onDevice(b *testing.B, d *device.Device, job func(q *device.Queue)) {
	b.Helper()
	if err := d.Do(device.Build, func(q *device.Queue) error { job(q); return q.Err() }); err != nil {
		b.Fatal(err)
	}
}

// median gives the median milliseconds that the device takes for a piece of work.
func median(q *device.Queue, runs int, work func()) float64 {
	work() // caches, and memory for the pool
	times := make([]float64, runs)
	for i := range times {
		from := q.Mark()
		work()
		to := q.Mark()
		q.Wait()
		times[i] = q.Elapsed(from, to)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func rate(n int, ms float64) float64 { return float64(n) / ms / 1e6 } // G/s

// row prints one measured line.
func row(b *testing.B, format string, args ...any) {
	b.Helper()
	fmt.Printf("%-28s %s\n", b.Name()[len("BenchmarkGPU"):], fmt.Sprintf(format, args...))
}

// parallel fills a slice on all processors, each part with its own generator.
func parallel[T any](dst []T, seed uint64, value func(r *rand.Rand) T) {
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := len(dst) * w / workers; i < len(dst)*(w+1)/workers; i++ {
				dst[i] = value(r)
			}
		})
	}
	wg.Wait()
}

// inPrefix gives random addresses of random prefixes.
func inPrefix4(rs []lpm.Route4, n int) []uint32 {
	keys := make([]uint32, n)
	parallel(keys, 4, func(r *rand.Rand) uint32 { return lpmtest.InPrefix4(rs[r.IntN(len(rs))], r) })
	return keys
}

func inPrefix6(rs []lpm.Route6, n int) []uint64 {
	keys := make([]uint64, n)
	parallel(keys, 6, func(r *rand.Rand) uint64 { return lpmtest.InPrefix6(rs[r.IntN(len(rs))], r).Hi })
	return keys
}

// gatherRate measures dependent reads of a table of so many bytes, in G keys/s.
func gatherRate(q *device.Queue, dst, keys device.Ptr, n, bytes, reads int) float64 {
	size := bytes / 4
	table := q.Temp(4 * size)
	words := make([]uint32, size)
	parallel(words, 9, func(r *rand.Rand) uint32 { return r.Uint32() })
	device.CopyIn(q, table, words)
	q.Wait()
	ms := median(q, 9, func() { ceilings.Gather(q, dst, keys, n, table, size, reads) })
	q.Free(table)
	return rate(n, ms)
}

func strides(b *testing.B, width int, list []int) *flavors.Strides {
	b.Helper()
	st, err := flavors.NewStrides(width, list)
	if err != nil {
		b.Fatal(err)
	}
	return st
}

// BenchmarkGPUCeilings is what the device's memory gives, whatever the tree.
func BenchmarkGPUCeilings(b *testing.B) {
	d := benchDevice(b)
	about := d.Describe()
	row(b, "%s, %d multiprocessors, %d MB of L2, compute capability %d.%d", about.Name, about.Multiprocessors, about.L2>>20, about.Major, about.Minor)
	onDevice(b, d, func(q *device.Queue) {
		const n = 1 << 28
		keys, dst := q.Temp(4*n), q.Temp(4*n)
		host := make([]uint32, n)
		parallel(host, 1, func(r *rand.Rand) uint32 { return r.Uint32() })
		device.CopyIn(q, keys, host)
		row(b, "streams only, 4 bytes in and out: %.0f G/s", gatherRate(q, dst, keys, n, 1<<20, 0))
		for _, mb := range []int{1, 8, 12, 16, 20, 24, 28, 32, 48, 64, 256, 1024} {
			rates := []string{}
			for reads := 1; reads <= ceilings.MaxGathers; reads++ {
				rates = append(rates, fmt.Sprintf("%.1f", gatherRate(q, dst, keys, n, mb<<20, reads)))
			}
			row(b, "%4d MB table, 1 to 4 dependent reads: %s G/s", mb, strings.Join(rates, ", "))
		}
	})
}

// BenchmarkGPUMatch4 is IPv4 longest match, keys and answers on the device.
func BenchmarkGPUMatch4(b *testing.B) {
	d := benchDevice(b)
	rs := realRoutes(b).V4
	const n = 1 << 28
	in, uniform := inPrefix4(rs, n), make([]uint32, n)
	parallel(uniform, 2, func(r *rand.Rand) uint32 { return r.Uint32() })
	onDevice(b, d, func(q *device.Queue) {
		keys, dst := q.Temp(4*n), q.Temp(4*n)
		for _, list := range [][]int{{16, 8, 8}, {17, 7, 8}, {18, 6, 8}, {19, 5, 8}, {20, 4, 8}} {
			im, err := buildOn(q, strides(b, 32, list), tree.Pushed, rs, 32, (*tree.Columns).Set32)
			if err != nil {
				b.Fatal(err)
			}
			device.CopyIn(q, keys, in)
			msIn := median(q, 9, func() { im.Match(q, dst, keys, n, 32) })
			hits := hitRate(q, dst, n)
			ceiling := gatherRate(q, dst, keys, n, 4*im.CellCount, 1)
			device.CopyIn(q, keys, uniform)
			msUniform := median(q, 9, func() { im.Match(q, dst, keys, n, 32) })
			row(b, "%-10s cells %5.1f MB: in-prefix %.1f G/s (%.0f %% hits), uniform %.1f G/s (%.0f %% hits); one read of a table of this size %.1f G/s: ratios %.3f, %.3f",
				flavors.FormatStrides(list), float64(4*im.CellCount)/1e6, rate(n, msIn), 100*hits, rate(n, msUniform), 100*hitRate(q, dst, n), ceiling, rate(n, msIn)/ceiling, rate(n, msUniform)/ceiling)
			im.Free(q)
		}
	})
}

// hitRate is the part of the answers that are a route.
func hitRate(q *device.Queue, dst device.Ptr, n int) float64 {
	n = min(n, 1<<22)
	got := make([]uint32, n)
	device.CopyOut(q, got, dst)
	q.Wait()
	hits := 0
	for _, h := range got {
		if h != 0 {
			hits++
		}
	}
	return float64(hits) / float64(n)
}

// eights completes a list of strides to 128 bits.
func eights(list ...int) []int {
	left := 128
	for _, n := range list {
		left -= n
	}
	for ; left > 8; left -= 8 {
		list = append(list, 8)
	}
	return append(list, left)
}

var benchLists6 = [][]int{flavors.DefaultGPUStrides6, eights(24, 12, 12), eights(24, 12, 4, 8), eights(24, 8, 8, 8), eights(22, 10, 8, 8), eights(16, 16, 8, 8), eights(25, 12, 11), eights(26, 11, 11), eights(24, 14, 10), eights(25, 13, 10), eights(26, 12, 10)}

// BenchmarkGPUMatch6 is IPv6 longest match of in-prefix keys by their first 64 bits.
func BenchmarkGPUMatch6(b *testing.B) {
	d := benchDevice(b)
	rs := realRoutes(b).V6
	const n = 1 << 27
	in := inPrefix6(rs, n)
	onDevice(b, d, func(q *device.Queue) {
		keys, dst := q.Temp(8*n), q.Temp(4*n)
		device.CopyIn(q, keys, in)
		three, two := gatherRate(q, dst, keys, n, 16<<20, 3), gatherRate(q, dst, keys, n, 16<<20, 2)
		row(b, "dependent reads of a table of 16 MB, keys of 4 bytes: three %.1f G/s, two %.1f G/s", three, two)
		for _, list := range benchLists6 {
			im, err := buildOn(q, strides(b, 128, list), tree.Pushed, rs, 48, (*tree.Columns).Set128)
			if err != nil {
				b.Fatal(err)
			}
			ms := median(q, 9, func() { im.Match(q, dst, keys, n, 64) })
			row(b, "%-24s cells %6.1f MB: in-prefix %.1f G/s (%.0f %% hits); of three reads %.3f", flavors.FormatStrides(list[:6]), float64(4*im.CellCount)/1e6, rate(n, ms), 100*hitRate(q, dst, n), rate(n, ms)/three)
			im.Free(q)
		}
	})
}

// BenchmarkGPUBuild is the time from unsorted prefixes in device memory to an image that can be
// searched, the sort and the wait for the number of nodes included.
func BenchmarkGPUBuild(b *testing.B) {
	d := benchDevice(b)
	rs := realRoutes(b)
	onDevice(b, d, func(q *device.Queue) {
		build := func(what string, st *flavors.Strides, in tree.Columns) {
			var cells, bytes int
			ms := median(q, 21, func() {
				im, err := tree.Build(q, tree.NewShape(st.List()), in, tree.Pushed)
				if err != nil {
					b.Fatal(err)
				}
				cells, bytes = im.CellCount, im.Bytes()
				im.Free(q)
			})
			row(b, "%s, %d prefixes, strides %s: %.3f ms (%.0f M/s), %.1f MB of cells, %.1f MB in all", what, in.N, flavors.FormatStrides(st.List()), ms, float64(in.N)/ms/1e3, 4*float64(cells)/1e6, float64(bytes)/1e6)
		}
		for _, list := range [][]int{flavors.DefaultGPUStrides4, {16, 8, 8}} {
			c := columnsOf(q, rs.V4, 24, (*tree.Columns).Set32)
			build("IPv4", strides(b, 32, list), c)
			c.Free(q)
		}
		for _, list := range benchLists6 {
			c := columnsOf(q, rs.V6, 48, (*tree.Columns).Set128)
			build("IPv6", strides(b, 128, list), c)
			c.Free(q)
		}
	})
}

// BenchmarkGPUHostFed is whole batches from host memory through lpm.Table, beside the copies alone.
func BenchmarkGPUHostFed(b *testing.B) {
	d := benchDevice(b)
	rs := realRoutes(b)
	const n = 1 << 28
	e := gpuEngine(b, flavors.Options{}, d)
	defer e.Close()
	tab := lpmtest.Build(b, e, rs)
	defer tab.Close()
	v4, err := device.NewPinned[uint32](d, n)
	if err != nil {
		b.Fatal(err)
	}
	v6, err := device.NewPinned[uint64](d, n/2)
	if err != nil {
		b.Fatal(err)
	}
	out, err := device.NewPinned[lpm.Handle](d, n)
	if err != nil {
		b.Fatal(err)
	}
	copy(v4.Slice, inPrefix4(rs.V4, n))
	copy(v6.Slice, inPrefix6(rs.V6, n/2))
	copies4, copies6 := 0.0, 0.0
	onDevice(b, d, func(q *device.Queue) {
		copies4 = copiesOnly(q, out.Slice, v4.Slice)
		copies6 = copiesOnly(q, out.Slice[:n/2], v6.Slice)
	})
	wall := func(n int, ask func() error) float64 {
		times := make([]float64, 5)
		for i := range times {
			start := time.Now()
			if err := ask(); err != nil {
				b.Fatal(err)
			}
			times[i] = float64(time.Since(start).Nanoseconds()) / 1e6
		}
		slices.Sort(times)
		return rate(n, times[len(times)/2])
	}
	r4 := wall(n, func() error { return tab.Lookup4(out.Slice, v4.Slice) })
	row(b, "IPv4 pinned: %.2f G/s; copies alone %.2f G/s; ratio %.3f", r4, copies4, r4/copies4)
	r6 := wall(n/2, func() error { return tab.(flavors.HighTable).Lookup64(out.Slice[:n/2], v6.Slice) })
	row(b, "IPv6 pinned, 8 bytes: %.2f G/s; copies alone %.2f G/s; ratio %.3f", r6, copies6, r6/copies6)
	slice4, slice6, answers := slices.Clone(v4.Slice), make([]lpm.Addr6, n/2), make([]lpm.Handle, n)
	for i, h := range v6.Slice {
		slice6[i] = lpm.Addr6{Hi: h, Lo: uint64(i)}
	}
	row(b, "IPv4 from Go slices: %.2f G/s", wall(n, func() error { return tab.Lookup4(answers, slice4) }))
	row(b, "IPv6 from Go slices of 16-byte addresses: %.2f G/s", wall(n/2, func() error { return tab.Lookup6(answers[:n/2], slice6) }))
	// Where the time goes: the processors' copies alone.
	row(b, "copying 4 bytes in and out on %d processors, without a device: %.2f G/s", runtime.GOMAXPROCS(0), wall(n, func() error {
		var wg sync.WaitGroup
		workers := min(runtime.GOMAXPROCS(0), 8)
		for w := range workers {
			wg.Go(func() {
				from, to := n*w/workers, n*(w+1)/workers
				copy(v4.Slice[from:to], slice4[from:to])
				copy(answers[from:to], out.Slice[from:to])
			})
		}
		wg.Wait()
		return nil
	}))
	out.Close()
	v4.Close()
	v6.Close()
}

// copiesOnly is the rate of the same copies as a lookup's, chunk by chunk over all streams, with no
// kernel in between.
func copiesOnly[K uint32 | uint64](q *device.Queue, out []lpm.Handle, in []K) float64 {
	const chunk = 1 << 20
	var devIn, devOut [device.Streams]device.Ptr
	for i := range devIn {
		devIn[i], devOut[i] = q.Temp(8*chunk), q.Temp(4*chunk)
	}
	q.Wait()
	times := make([]float64, 5)
	for i := range times {
		start := time.Now()
		for from := 0; from < len(in); from += chunk {
			s := from / chunk % device.Streams
			device.CopyIn(q.On(s), devIn[s], in[from:from+chunk])
			device.CopyOut(q.On(s), out[from:from+chunk], devOut[s])
		}
		for s := range device.Streams {
			q.On(s).Wait()
		}
		times[i] = float64(time.Since(start).Nanoseconds()) / 1e6
	}
	slices.Sort(times)
	return rate(len(in), times[len(times)/2])
}

// BenchmarkGPUBatches is the time of one batch through lpm.Table, on both processors.
func BenchmarkGPUBatches(b *testing.B) {
	d := benchDevice(b)
	rs := realRoutes(b)
	gpu := gpuEngine(b, flavors.Options{}, d)
	defer gpu.Close()
	tabs := map[string]lpm.Table{"GPU": lpmtest.Build(b, gpu, rs), "CPU": lpmtest.Build(b, newEngine(b), rs)}
	defer tabs["GPU"].Close()
	const most = 1 << 20
	v4 := inPrefix4(rs.V4, 16*most)
	v6 := make([]lpm.Addr6, 16*most)
	for i, h := range inPrefix6(rs.V6, 16*most) {
		v6[i].Hi = h
	}
	dst := make([]lpm.Handle, most)
	for _, family := range []string{"IPv4", "IPv6"} {
		for _, n := range []int{1, 64, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20} {
			for _, engine := range []string{"CPU", "GPU"} {
				runs := min(max(1<<26/n, 200), 5000)
				if n >= 1<<16 {
					runs = 300
				}
				times := make([]time.Duration, 0, runs)
				for i := range runs + 20 {
					from := i * n % (len(v4) - n + 1)
					start := time.Now()
					var err error
					if family == "IPv4" {
						err = tabs[engine].Lookup4(dst[:n], v4[from:from+n])
					} else {
						err = tabs[engine].Lookup6(dst[:n], v6[from:from+n])
					}
					if err != nil {
						b.Fatal(err)
					}
					if i >= 20 {
						times = append(times, time.Since(start))
					}
				}
				slices.Sort(times)
				p50, p99 := times[len(times)/2], times[len(times)*99/100]
				row(b, "%s batch of %7d on the %s: p50 %9.1f us, p99 %9.1f us, %8.1f M/s", family, n, engine, float64(p50.Nanoseconds())/1e3, float64(p99.Nanoseconds())/1e3, float64(n)/float64(p50.Nanoseconds())*1e3)
			}
		}
	}
}

// BenchmarkGPUDevices is pinned IPv4 batches split over one, two, ... GPUs of the host.
func BenchmarkGPUDevices(b *testing.B) {
	benchDevice(b)
	makers := devicetest.Makers()
	maker := makers[len(makers)-1]
	rs := realRoutes(b)
	const n = 1 << 28
	for count := 1; count <= maker.Count; count *= 2 {
		var ds []*device.Device
		for i := range count {
			ds = append(ds, maker.OpenAt(b, i, flavors.GPUModules()))
		}
		e := gpuEngine(b, flavors.Options{}, ds...)
		tab := lpmtest.Build(b, e, rs)
		in, err := device.NewPinned[uint32](ds[0], n)
		if err != nil {
			b.Fatal(err)
		}
		out, err := device.NewPinned[lpm.Handle](ds[0], n)
		if err != nil {
			b.Fatal(err)
		}
		copy(in.Slice, inPrefix4(rs.V4, n))
		times := make([]time.Duration, 7)
		for i := range times {
			start := time.Now()
			if err := tab.Lookup4(out.Slice, in.Slice); err != nil {
				b.Fatal(err)
			}
			times[i] = time.Since(start)
		}
		slices.Sort(times)
		start := time.Now()
		next, err := e.Update(b.Context(), tab, lpm.Routes{V4: rs.V4[:1000], V6: rs.V6[:300]})
		if err != nil {
			b.Fatal(err)
		}
		row(b, "%d of %d GPUs: pinned IPv4 %.2f G/s; a generation with 1,300 changes on all of them in %v", count, maker.Count, rate(n, float64(times[3].Nanoseconds())/1e6), time.Since(start).Round(10*time.Microsecond))
		_ = next.Close()
		_ = tab.Close()
		in.Close()
		out.Close()
		_ = e.Close()
	}
}

// BenchmarkGPUExactFind is exact find of 2^25 random 32-bit keys in random order.
func BenchmarkGPUExactFind(b *testing.B) {
	d := benchDevice(b)
	const n = 1 << 25
	keys := make([]uint32, n)
	parallel(keys, 3, func(r *rand.Rand) uint32 { return r.Uint32() })
	order := slices.Clone(keys)
	rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	high := make([]uint64, n)
	for i, k := range keys {
		high[i] = uint64(k) << 32
	}
	onDevice(b, d, func(q *device.Queue) {
		in := tree.Columns{Hi: q.Temp(8 * n), N: n, Longest: 32}
		device.CopyIn(q, in.Hi, high)
		ask, dst := q.Temp(4*n), q.Temp(4*n)
		for _, list := range [][]int{{26, 3, 3}, {26, 4, 2}, {25, 4, 3}, {26, 2, 2, 2}, {24, 4, 4}} {
			im, err := tree.Build(q, tree.NewShape(list), in, tree.Keys)
			if err != nil {
				row(b, "%s: %v", flavors.FormatStrides(list), err)
				continue
			}
			build := median(q, 3, func() {
				im.Free(q)
				if im, err = tree.Build(q, tree.NewShape(list), in, tree.Keys); err != nil {
					b.Fatal(err)
				}
			})
			device.CopyIn(q, ask, order)
			random := median(q, 9, func() { im.Find(q, dst, ask, n, 32) })
			got := make([]int32, n)
			device.CopyOut(q, got, dst)
			q.Wait()
			for i, p := range got {
				if p < 0 || keys[p] != order[i] {
					b.Fatalf("key %#x found at %d", order[i], p)
				}
			}
			ordered := slices.Clone(order)
			slices.Sort(ordered)
			device.CopyIn(q, ask, ordered)
			inOrder := median(q, 9, func() { im.Find(q, dst, ask, n, 32) })
			row(b, "%-8s %.2f GB of device memory, built in %.1f ms: random order %.1f G/s, sorted %.1f G/s", flavors.FormatStrides(list), float64(im.Bytes())/1e9, build, rate(n, random), rate(n, inOrder))
			im.Free(q)
		}
	})
}

// BenchmarkGPUOneChange is a table of both real tables after one change: the change is brought to the device's
// hash maps, all pairs are taken out, sorted and built into a new tree.
func BenchmarkGPUOneChange(b *testing.B) {
	d := benchDevice(b)
	rs := realRoutes(b)
	e := gpuEngine(b, flavors.Options{}, d)
	defer e.Close()
	tab := lpmtest.Build(b, e, rs)
	for _, c := range []struct {
		what    string
		changes func(i int) lpm.Routes
	}{
		{"one IPv4 route changed", func(i int) lpm.Routes { return lpm.Routes{V4: rs.V4[i : i+1]} }},
		{"one IPv4 route withdrawn", func(i int) lpm.Routes {
			x := rs.V4[i]
			x.Handle = lpm.None
			return lpm.Routes{V4: []lpm.Route4{x}}
		}},
		{"one IPv6 route changed", func(i int) lpm.Routes { return lpm.Routes{V6: rs.V6[i : i+1]} }},
		{"one route of each changed", func(i int) lpm.Routes { return lpm.Routes{V4: rs.V4[i : i+1], V6: rs.V6[i : i+1]} }},
		{"1,000 routes changed", func(i int) lpm.Routes { return lpm.Routes{V4: rs.V4[i : i+800], V6: rs.V6[i : i+200]} }},
	} {
		var times []time.Duration
		for i := range 210 {
			start := time.Now()
			next, err := e.Update(b.Context(), tab, c.changes(i*7))
			if err != nil {
				b.Fatal(err)
			}
			if i >= 10 {
				times = append(times, time.Since(start))
			}
			_ = tab.Close()
			tab = next
		}
		slices.Sort(times)
		row(b, "%s of %d: p50 %.3f ms, p99 %.3f ms, from the call to the new table", c.what, rs.Len(), times[100].Seconds()*1e3, times[197].Seconds()*1e3)
	}
	_ = tab.Close()
}

// BenchmarkGPUDestinations is skewed traffic on the device: the longest match beside a find in a table that
// has all destinations already, which is the most that a cache could do.
func BenchmarkGPUDestinations(b *testing.B) {
	d := benchDevice(b)
	rs := realRoutes(b).V4
	const n, destinations = 1 << 26, 1 << 20
	addresses := inPrefix4(rs, destinations)
	onDevice(b, d, func(q *device.Queue) {
		keys, dst, values := q.Temp(4*n), q.Temp(4*n), q.Temp(4*n)
		im, err := buildOn(q, strides(b, 32, flavors.DefaultGPUStrides4), tree.Pushed, rs, 32, (*tree.Columns).Set32)
		if err != nil {
			b.Fatal(err)
		}
		cache, err := linear.NewTable[uint32](q, 21)
		if err != nil {
			b.Fatal(err)
		}
		device.CopyIn(q, keys, addresses)
		im.Match(q, values, keys, destinations, 32)
		cache.Insert(q, keys, values, 0, destinations)
		for _, skew := range []float64{0, 1.05, 1.5} {
			host := make([]uint32, n)
			parallel(host, 7, func(r *rand.Rand) uint32 {
				if skew == 0 {
					return addresses[r.IntN(destinations)]
				}
				return addresses[0]
			})
			if skew > 0 {
				z := rand.NewZipf(rand.New(rand.NewPCG(8, 8)), skew, 1, destinations-1)
				for i := range host {
					host[i] = addresses[z.Uint64()]
				}
			}
			device.CopyIn(q, keys, host)
			match := median(q, 9, func() { im.Match(q, dst, keys, n, 32) })
			find := median(q, 9, func() { cache.Find(q, values, 0, keys, n) })
			got, want := make([]uint32, n), make([]uint32, n)
			device.CopyOut(q, got, values)
			device.CopyOut(q, want, dst)
			q.Wait()
			if !slices.Equal(got, want) {
				b.Fatal("the cache answers otherwise")
			}
			row(b, "%d destinations, Zipf %.2f: match %.1f G/s, find in a cache with all of them (%.0f MB) %.1f G/s", destinations, skew, rate(n, match), float64(cache.Bytes())/1e6, rate(n, find))
		}
		cache.Free(q)
		im.Free(q)
	})
}
