package dynamic_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/ceilings"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/dynamic"
)

// The figures of docs/benchmarks/hash.txt. They need a GPU and the tag cuda; without, they skip.

const (
	benchPairs = 100_000_000
	benchSlots = 200_000_000
	benchRuns  = 5
)

func benchDevice(b *testing.B) *device.Device {
	b.Helper()
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			d := m.Open(b, append(dynamic.Modules(), ceilings.Module))
			b.Cleanup(func() { _ = d.Close() })
			return d
		}
	}
	b.Skip("needs a GPU: build with the tag cuda")
	return nil
}

func onDevice(b *testing.B, d *device.Device, job func(q *device.Queue)) {
	b.Helper()
	if err := d.Do(device.Build, func(q *device.Queue) error { job(q); return q.Err() }); err != nil {
		b.Fatal(err)
	}
}

// median gives the median milliseconds that the device takes for work; before each run comes reset.
func median(q *device.Queue, reset, work func()) float64 {
	times := make([]float64, 0, benchRuns)
	for i := range benchRuns + 1 {
		if reset != nil {
			reset()
		}
		from := q.Mark()
		work()
		to := q.Mark()
		q.Wait()
		if i > 0 { // the first run fills caches and the memory pool
			times = append(times, q.Elapsed(from, to))
		}
	}
	slices.Sort(times)
	return times[len(times)/2]
}

func rate(n int, ms float64) float64 { return float64(n) / ms / 1e6 } // G/s

func row(b *testing.B, format string, args ...any) {
	b.Helper()
	fmt.Printf("%-28s %s\n", b.Name()[len("BenchmarkGPU"):], fmt.Sprintf(format, args...))
}

// fill sets every element on all processors.
func fill[T any](dst []T, value func(i int) T) []T {
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
	return dst
}

// BenchmarkGPUDynamicCeilings is what the memory gives: the copy that RetrieveAll is compared with, and
// reads of a table at random places.
func BenchmarkGPUDynamicCeilings(b *testing.B) {
	d := benchDevice(b)
	onDevice(b, d, func(q *device.Queue) {
		const bytes = 2_400_000_000
		from, to := q.Temp(bytes), q.Temp(bytes)
		q.Fill(from, 1, bytes/4)
		ms := median(q, nil, func() { q.Copy(to, from, bytes) })
		row(b, "copy of %.1f GB: %.3f ms, %.0f GB/s read and written", bytes/1e9, ms, 2*bytes/ms/1e6)
		q.Free(from)
		q.Free(to)
		const n, size = 1 << 26, benchSlots * 16 / 4
		keys, out, table := q.Temp(4*n), q.Temp(4*n), q.Temp(4*size)
		device.CopyIn(q, keys, fill(make([]uint32, n), func(i int) uint32 { return uint32(dynamic.Mix(uint64(i))) }))
		q.Fill(table, 7, size)
		ms = median(q, nil, func() { ceilings.Gather(q, out, keys, n, table, size, 1) })
		row(b, "one random read of %.1f GB: %.1f G/s", size*4/1e9, rate(n, ms))
	})
}

func BenchmarkGPUDynamic64(b *testing.B) {
	benchDynamic(b, func(i int) uint64 { return dynamic.Mix(uint64(i) + 1<<40) })
}

func BenchmarkGPUDynamic128(b *testing.B) {
	benchDynamic(b, func(i int) addr { return addr{dynamic.Mix(uint64(i/4) + 1<<40), uint64(i)} })
}

// benchDynamic measures maps from K to 64-bit values, 10^8 pairs in 2*10^8 slots.
func benchDynamic[K dynamic.Keys](b *testing.B, key func(i int) K) {
	d := benchDevice(b)
	kind := dynamic.KindOf[K, uint64]()
	slot := 16
	if kind.Wide {
		slot = 32
	}
	keys := fill(make([]K, 2*benchPairs), key) // the second half is never put in
	values := fill(make([]uint64, benchPairs), func(i int) uint64 { return uint64(i)*5 + 1 })
	onDevice(b, d, func(q *device.Queue) {
		kb := kind.KeyBytes()
		kp, vp, found, count := q.Temp(size(keys)), q.Temp(8*benchPairs), q.Temp(benchPairs), q.Temp(8)
		keysOut, out := q.Temp(kb*benchPairs), q.Temp(8*benchPairs)
		device.CopyIn(q, kp, keys)
		device.CopyIn(q, vp, values)
		var m *dynamic.Map
		renew := func(slots int, o dynamic.Options) func() {
			return func() {
				if m != nil {
					m.Free(q)
				}
				m, _ = dynamic.New(q, kind, slots, o) // its error sticks
				q.Wait()
			}
		}
		insert := func(parts int) func() {
			return func() {
				for i := range parts {
					n := benchPairs / parts
					_, _ = m.Insert(q, kp.Add(i*n*kb), vp.Add(i*n*8), n, true, 0)
				}
			}
		}
		check := func(what string) {
			b.Helper()
			got := make([]uint64, benchPairs)
			m.Find(q, out, found, kp, benchPairs)
			device.CopyOut(q, got, out)
			q.Wait()
			if m.Len() != benchPairs || !slices.Equal(got, values) {
				b.Fatalf("%s: %d pairs, want %d, or wrong values", what, m.Len(), benchPairs)
			}
			there := make([]bool, benchPairs)
			m.Find(q, 0, found, kp.Add(benchPairs*kb), benchPairs)
			device.CopyOut(q, there, found)
			q.Wait()
			if slices.Contains(there, true) {
				b.Fatalf("%s: finds what was never put in", what)
			}
		}
		// Predicted: a request crosses memory five times (its key and value in, its bin out and in), and the
		// table once there and back.
		predicted := rate(benchPairs, (float64(benchPairs)*float64(kb+5*8+4*kb)+2*float64(benchSlots*slot))/4.2e12*1e3)
		ms := median(q, renew(benchSlots, dynamic.Options{}), insert(1))
		row(b, "insert, pre-sized, sorted: %.1f G/s (%.2f ms), predicted %.1f; %d submap", rate(benchPairs, ms), ms, predicted, len(m.Submaps()))
		check("pre-sized")

		ms = median(q, nil, func() { m.Find(q, out, 0, kp, benchPairs) })
		row(b, "find, pre-sized, all hit: %.1f G/s, predicted %.1f", rate(benchPairs, ms), predictFind(kind, 1))
		ms = median(q, nil, func() { m.Find(q, out, 0, kp.Add(benchPairs*kb), benchPairs) })
		row(b, "find, pre-sized, none hit: %.1f G/s", rate(benchPairs, ms))

		ms = median(q, nil, func() { m.Find(q, 0, found, kp, benchPairs) })
		row(b, "contains, pre-sized, all hit: %.1f G/s", rate(benchPairs, ms))
		for _, form := range []dynamic.Form{dynamic.Tiles, dynamic.Warps, dynamic.Blocks, dynamic.Atomic} {
			ms := median(q, nil, func() { m.RetrieveAll(q, form, keysOut, out, count) })
			moved := float64(benchSlots*slot + benchPairs*(kb+8))
			row(b, "retrieve_all by %-6s: %.3f ms, %.0f GB/s", form, ms, moved/ms/1e6)
		}
		ms = median(q, func() { insert(1)() }, func() { _, _ = m.Erase(q, kp, benchPairs/2, 0) })
		row(b, "erase half, sorted: %.1f G/s", rate(benchPairs/2, ms))

		half := dynamic.Options{Load: 0.5}
		ms = median(q, renew(benchPairs, half), insert(1))
		row(b, "insert, growing from half, one batch: %.1f G/s; submaps %v", rate(benchPairs, ms), m.Submaps())
		check("growing")
		ms = median(q, renew(benchPairs, half), insert(20))
		row(b, "insert, growing from half, 20 batches: %.1f G/s; submaps %v", rate(benchPairs, ms), m.Submaps())
		ms = median(q, renew(benchSlots/16, half), insert(20))
		row(b, "insert, growing from a sixteenth: %.1f G/s; submaps %v", rate(benchPairs, ms), m.Submaps())
		check("growing from a sixteenth")
		ms = median(q, nil, func() { m.Find(q, out, 0, kp, benchPairs) })
		row(b, "find, %d submaps, all hit: %.1f G/s", len(m.Submaps()), rate(benchPairs, ms))
		ms = median(q, nil, func() { m.Find(q, out, 0, kp.Add(benchPairs*kb), benchPairs) })
		row(b, "find, %d submaps, none hit: %.1f G/s", len(m.Submaps()), rate(benchPairs, ms))

		dynamic.SetSort(b, 1<<62, 1)
		ms = median(q, renew(benchSlots, dynamic.Options{}), insert(1))
		row(b, "insert, pre-sized, as it comes: %.1f G/s", rate(benchPairs, ms))
		ms = median(q, func() { insert(1)() }, func() { _, _ = m.Erase(q, kp, benchPairs/2, 0) })
		row(b, "erase half, as it comes: %.1f G/s", rate(benchPairs/2, ms))
		m.Free(q)
	})
}

// predictFind is what 41 G/s of random sectors and 4.2 TB/s of streams give: a find streams a key in and a value out
// and reads 1.2 sectors (1.5 of wide keys) of each submap that it looks through.
func predictFind(kind dynamic.Kind, submaps float64) float64 {
	sectors := 1.2
	if kind.Wide {
		sectors = 1.5
	}
	return 1 / (sectors*submaps/41 + float64(kind.KeyBytes()+8)/4200)
}
