package linear_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ribwarp/ribwarp/kernels/ceilings"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/linear"
)

// Sizes of the figures. Tables are far larger than the second-level cache.
const (
	benchLog2 = 27 // slots
	benchRuns = 5
	// What a device like the H200 is known to give where a table is far larger than its cache, in
	// billions a second: the predictions start from it.
	atomicsInMemory = 17.0
	atomicsInCache  = 45.0
)

// benchDevice opens the GPU.
func benchDevice(b *testing.B) *device.Device {
	b.Helper()
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			d := m.Open(b, append(linear.Modules(), ceilings.Module))
			b.Cleanup(func() { _ = d.Close() })
			return d
		}
	}
	b.Skip("needs a GPU: build with the tag cuda")
	return nil
}

func onQueue(b *testing.B, d *device.Device, job func(q *device.Queue)) {
	b.Helper()
	if err := d.Do(device.Build, func(q *device.Queue) error { job(q); return q.Err() }); err != nil {
		b.Fatal(err)
	}
}

// timed gives the median milliseconds of a piece of work on the device; prepare is done before each run.
func timed(q *device.Queue, prepare, work func()) float64 {
	times := make([]float64, benchRuns+1)
	for i := range times {
		prepare()
		from := q.Mark()
		work()
		to := q.Mark()
		q.Wait()
		times[i] = q.Elapsed(from, to)
	}
	times = times[1:] // the first one gets memory for the pool
	slices.Sort(times)
	return times[len(times)/2]
}

func nothing() {}

func rate(n int, ms float64) float64 { return float64(n) / ms / 1e6 } // G/s

func row(b *testing.B, format string, args ...any) {
	b.Helper()
	fmt.Printf("%-24s %s\n", strings.TrimPrefix(b.Name(), "BenchmarkGPU"), fmt.Sprintf(format, args...))
}

// fill computes a slice on all processors.
func fill[T any](dst []T, value func(i int) T) {
	workers := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := len(dst) * w / workers; i < len(dst)*(w+1)/workers; i++ {
				dst[i] = value(i)
			}
		})
	}
	wg.Wait()
}

// scramble gives different keys for different i, in random order: a bijection that is not the table's hash.
func scramble[W linear.Word](i W) W {
	if unsafe.Sizeof(i) == 8 {
		h := uint64(i)
		h = (h ^ h>>32) * 0xd6e8feb86659fd93
		h = (h ^ h>>32) * 0xd6e8feb86659fd93
		return W(h ^ h>>32)
	}
	h := uint32(i)
	h = (h ^ h>>16) * 0x7feb352d
	h = (h ^ h>>15) * 0x846ca68b
	return W(h ^ h>>16)
}

func benchValue[W linear.Word](key W) W { return key ^ 0x5bd1e995 }

// bench is a table and keys on the device.
type bench[W linear.Word] struct {
	b          *testing.B
	q          *device.Queue
	tab        *linear.Table[W]
	n          int // keys that are there
	keys, miss device.Ptr
	values     device.Ptr
	answers    device.Ptr
	found      device.Ptr
}

func newBench[W linear.Word](b *testing.B, q *device.Queue, most int) *bench[W] {
	tab, err := linear.NewTable[W](q, benchLog2)
	if err != nil {
		b.Fatal(err)
	}
	tab.Alone = true
	x := &bench[W]{b: b, q: q, tab: tab}
	x.keys, x.miss, x.values, x.answers, x.found = q.Temp(bytesOf[W](most)), q.Temp(bytesOf[W](most)), q.Temp(bytesOf[W](most)), q.Temp(bytesOf[W](most)), q.Temp(most)
	host := make([]W, most)
	for p, value := range map[device.Ptr]func(i int) W{
		x.keys: func(i int) W { return scramble(W(i)) }, x.miss: func(i int) W { return scramble(W(i + most)) },
		x.values: func(i int) W { return benchValue(scramble(W(i))) },
	} {
		fill(host, value)
		device.CopyIn(q, p, host)
	}
	q.Wait()
	return x
}

func (x *bench[W]) insert() { x.tab.Insert(x.q, x.keys, x.values, 0, x.n) }

// counts checks the table's numbers.
func (x *bench[W]) counts(live int) linear.Counts {
	c, err := x.tab.Counts(x.q)
	if err != nil {
		x.b.Fatal(err)
	}
	if c.Live != live || c.Left != 0 {
		x.b.Fatalf("%+v, want %d pairs", c, live)
	}
	return c
}

// answersAre checks finds of all keys.
func (x *bench[W]) answersAre(keys device.Ptr, hit bool) {
	x.tab.Find(x.q, x.answers, x.found, keys, x.n)
	asked, got, found := make([]W, x.n), make([]W, x.n), make([]byte, x.n)
	device.CopyOut(x.q, asked, keys)
	device.CopyOut(x.q, got, x.answers)
	device.CopyOut(x.q, found, x.found)
	x.q.Wait()
	for i, k := range asked {
		want, there := benchValue(k), byte(1)
		if !hit {
			want, there = 0, 0
		}
		if got[i] != want || found[i] != there {
			x.b.Fatalf("key %#x: %#x, %d; want %#x, %d", k, got[i], found[i], want, there)
		}
	}
}

// figures are rates in G/s.
type figures struct {
	insert, hit, miss, erase float64
	mean                     float64
}

// measure fills the table to a load, finds, and erases all. The answers are checked if asked for.
func (x *bench[W]) measure(load float64, check bool) (f figures) {
	x.n = int(load * float64(x.tab.Slots()))
	f.insert = rate(x.n, timed(x.q, func() { x.tab.Clear(x.q) }, x.insert))
	x.counts(x.n)
	s, err := x.tab.Stats(x.q)
	if err != nil {
		x.b.Fatal(err)
	}
	f.mean = s.Mean
	if check {
		x.answersAre(x.keys, true)
		x.answersAre(x.miss, false)
	}
	f.hit = rate(x.n, timed(x.q, nothing, func() { x.tab.Find(x.q, x.answers, 0, x.keys, x.n) }))
	f.miss = rate(x.n, timed(x.q, nothing, func() { x.tab.Find(x.q, x.answers, 0, x.miss, x.n) }))
	erase := func() { x.tab.Erase(x.q, x.keys, 0, x.n) }
	f.erase = rate(x.n, timed(x.q, func() {
		x.tab.Clear(x.q)
		x.insert()
	}, erase))
	x.counts(0)
	return f
}

// limits are the ceilings of the same run: random sectors of a table as large, in G/s, and copies within
// the device, in bytes read and written, in TB/s.
func limits(q *device.Queue, bytes int) (sectors, copies float64) {
	const n = 1 << 26
	keys, dst, table := q.Temp(4*n), q.Temp(4*n), q.Temp(bytes)
	host := make([]uint32, n)
	fill(host, func(i int) uint32 { return scramble(uint32(i)) })
	device.CopyIn(q, keys, host)
	q.Fill(table, 0x9e3779b9, bytes/4)
	sectors = rate(n, timed(q, nothing, func() { ceilings.Gather(q, dst, keys, n, table, bytes/4, 1) }))
	copies = 2 * float64(bytes/2) / timed(q, nothing, func() { q.Copy(table, table.Add(bytes/2), bytes/2) }) / 1e9
	for _, p := range []device.Ptr{keys, dst, table} {
		q.Free(p)
	}
	return sectors, copies
}

// unsorted has batches not sorted.
func unsorted() (restore func()) { return linear.SetSorting(math.MaxInt, 1, 1, 0) }

func (x *bench[W]) rows(loads []float64) {
	sectors, copies := limits(x.q, x.tab.Bytes())
	row(x.b, "2^%d slots, %.1f GB; ceilings of this run: %.1f G random sectors/s, copies %.2f TB/s read and written", benchLog2, float64(x.tab.Bytes())/1e9, sectors, copies)
	for _, load := range loads {
		restore := unsorted()
		plain := x.measure(load, true)
		restore()
		f := x.measure(load, true)
		// A request is read; of its way all buckets are read and one is changed by an atomic.
		find := sectors / plain.mean
		change := 1 / (plain.mean/sectors + 1/atomicsInMemory)
		// Sorted: keys are counted, requests are moved (read and written), counted and moved once more, and read;
		// the table comes and goes once, in order.
		request := float64(bytesOf[W](2))
		moved := request/2 + 6*request + 2*float64(x.tab.Bytes())/float64(x.n)
		sorted := 1 / (moved/copies/1e3 + 1/atomicsInCache)
		row(x.b, "load %.2f, %d keys, all answers right, a find reads %.2f buckets", load, x.n, plain.mean)
		row(x.b, "    find hit  %5.1f G/s, predicted %5.1f    find miss %5.1f G/s", f.hit, find, f.miss)
		row(x.b, "    insert    %5.1f G/s, predicted %5.1f    unsorted  %5.1f G/s, predicted %5.1f", f.insert, sorted, plain.insert, change)
		row(x.b, "    delete    %5.1f G/s, predicted %5.1f    unsorted  %5.1f G/s, predicted %5.1f", f.erase, sorted, plain.erase, change)
	}
}

// BenchmarkGPULinear32 is rows 1 and 2 of the comparison with published tables.
func BenchmarkGPULinear32(b *testing.B) {
	d := benchDevice(b)
	onQueue(b, d, func(q *device.Queue) {
		loads := []float64{0.5, 0.75, 0.9}
		x := newBench[uint32](b, q, 1<<benchLog2*9/10+1)
		x.rows(loads)
		x.tab.Free(q)
	})
}

// BenchmarkGPULinear64 is pairs of 64-bit words.
func BenchmarkGPULinear64(b *testing.B) {
	d := benchDevice(b)
	onQueue(b, d, func(q *device.Queue) {
		x := newBench[uint64](b, q, 1<<(benchLog2-1))
		x.rows([]float64{0.5})
		x.tab.Free(q)
	})
}

// BenchmarkGPULinearLoad is the curve over the load. RIBWARP_PLOT names the file that it is drawn in, as SVG.
func BenchmarkGPULinearLoad(b *testing.B) {
	d := benchDevice(b)
	var loads []float64
	for i := 1; i <= 9; i++ {
		loads = append(loads, float64(i)/10)
	}
	loads = append(loads, 0.95)
	curves := []curve{{name: "insert"}, {name: "find hit"}, {name: "find miss"}, {name: "delete"}}
	onQueue(b, d, func(q *device.Queue) {
		x := newBench[uint32](b, q, 1<<benchLog2*19/20+1)
		for _, load := range loads {
			f := x.measure(load, false)
			row(b, "load %.2f: insert %5.1f, find hit %5.1f, find miss %5.1f, delete %5.1f G/s; a find reads %.2f buckets", load, f.insert, f.hit, f.miss, f.erase, f.mean)
			for i, y := range []float64{f.insert, f.hit, f.miss, f.erase} {
				curves[i].y = append(curves[i].y, y)
			}
		}
		x.tab.Free(q)
	})
	if file := os.Getenv("RIBWARP_PLOT"); file != "" {
		if err := os.WriteFile(file, plot("Linear probing, 32-bit pairs in 2^27 slots", "load", "G/s", loads, curves), 0o644); err != nil {
			b.Fatal(err)
		}
		row(b, "drawn in %s", file)
	}
}

// BenchmarkGPULinearHostFed is inserts from ordinary memory, with what became of each back there, and all pairs back
// there.
func BenchmarkGPULinearHostFed(b *testing.B) {
	d := benchDevice(b)
	const n = 1 << 26
	on, err := linear.NewOnDevice[uint32](d, benchLog2, linear.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = on.Close() }()
	keys, values, results := make([]uint32, n), make([]uint32, n), make([]linear.Result, n)
	outKeys, outValues := make([]uint32, n), make([]uint32, n)
	fill(keys, func(i int) uint32 { return scramble(uint32(i)) })
	fill(values, func(i int) uint32 { return benchValue(keys[i]) })
	for _, s := range [][]uint32{outKeys, outValues} {
		fill(s, func(i int) uint32 { return 1 }) // pages that are there
	}
	fill(results, func(i int) linear.Result { return linear.Left })
	wall := func(prepare, work func() error) float64 {
		times := make([]time.Duration, benchRuns+1)
		for i := range times {
			if err := prepare(); err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			if err := work(); err != nil {
				b.Fatal(err)
			}
			times[i] = time.Since(start)
		}
		times = times[1:]
		slices.Sort(times)
		return rate(n, float64(times[len(times)/2].Nanoseconds())/1e6)
	}
	none := func() error { return nil }
	added := func(got int, err error) error {
		if err == nil && got != n {
			err = fmt.Errorf("%d of %d added", got, n)
		}
		return err
	}
	row(b, "2^26 pairs on %d processors", runtime.GOMAXPROCS(0))
	row(b, "inserts, results back:       %.2f G/s", wall(on.Clear, func() error { return added(on.InsertResults(keys, values, results)) }))
	for i, r := range results {
		if r != linear.Inserted {
			b.Fatalf("request %d: result %d", i, r)
		}
	}
	row(b, "inserts, nothing back:       %.2f G/s", wall(on.Clear, func() error { return added(on.Insert(keys, values)) }))
	row(b, "all pairs back:              %.2f G/s", wall(none, func() error { return on.AllInto(outKeys, outValues) }))
	for i, k := range outKeys {
		if outValues[i] != benchValue(k) {
			b.Fatalf("key %#x has %#x", k, outValues[i])
		}
	}
	sum := func(keys []uint32) (s uint64) {
		for _, k := range keys {
			s += uint64(k)
		}
		return s
	}
	if sum(outKeys) != sum(keys) {
		b.Fatal("other keys came back")
	}
	row(b, "inserts, then all pairs back: %.2f G/s", wall(on.Clear, func() error {
		if err := added(on.Insert(keys, values)); err != nil {
			return err
		}
		return on.AllInto(outKeys, outValues)
	}))
	found := make([]bool, n)
	row(b, "finds, found and values back: %.2f G/s", wall(none, func() error { return on.Find(outValues, found, keys) }))
	for i := range outValues {
		if !found[i] || outValues[i] != values[i] {
			b.Fatalf("key %#x: %#x, %t", keys[i], outValues[i], found[i])
		}
	}
	back := make([]byte, n)
	row(b, "the copies alone, no inserts:  %.2f G/s", wall(none, func() error { return on.Feed(keys, values, back) }))
	row(b, "processors' copies alone:     %.2f G/s", wall(none, func() error {
		workers := runtime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				from, to := n*w/workers, n*(w+1)/workers
				copy(outKeys[from:to], keys[from:to])
				copy(outValues[from:to], values[from:to])
				copy(results[from:to], unsafe.Slice((*linear.Result)(unsafe.SliceData(back)), n)[from:to])
			})
		}
		wg.Wait()
		return nil
	}))
	pairs, err := device.NewPinned[uint64](d, n)
	if err != nil {
		b.Fatal(err)
	}
	defer pairs.Close()
	pinned, err := device.NewPinned[byte](d, n)
	if err != nil {
		b.Fatal(err)
	}
	defer pinned.Close()
	row(b, "device's copies alone, pinned: %.2f G/s; predicted 50 GB/s of 8 bytes in: 6.2", wall(none, func() error {
		return d.Do(device.Build, func(q *device.Queue) error {
			const chunk = 1 << 20
			in, out := q.Temp(device.Streams*8*chunk), q.Temp(device.Streams*chunk)
			q.Wait()
			for from := 0; from < n; from += chunk {
				s := from / chunk % device.Streams
				device.CopyIn(q.On(s), in.Add(s*8*chunk), pairs.Slice[from:from+chunk])
				device.CopyOut(q.On(s), pinned.Slice[from:from+chunk], out.Add(s*chunk))
			}
			return q.Err()
		})
	}))
}
