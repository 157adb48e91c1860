package slab_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/ribwarp/ribwarp/kernels/ceilings"
	"github.com/ribwarp/ribwarp/kernels/device"
	"github.com/ribwarp/ribwarp/kernels/device/devicetest"
	"github.com/ribwarp/ribwarp/kernels/hash/slab"
)

// The figures of docs/benchmarks/hash.txt. They need a GPU and the tag cuda; without, they skip.

const (
	benchPairs = 1 << 24
	benchRuns  = 5
	// benchLoad is the pairs a bucket, of 32-bit and of 64-bit keys, with which 0.6 of the slabs' memory are pairs.
	benchLoad32, benchLoad64 = 10.2, 7.05

	bandwidth = 4200. // GB/s that predictions take for streams
	atomics   = 17.   // G/s, random ones of a large table
)

func benchDevice(b *testing.B) *device.Device {
	b.Helper()
	for _, m := range devicetest.Makers() {
		if m.Name == "cuda" {
			d := m.Open(b, append(slab.Modules(), ceilings.Module))
			b.Cleanup(func() { _ = d.Close() })
			return d
		}
	}
	b.Skip("needs a GPU: build with the tag cuda")
	return nil
}

// median gives the median milliseconds that the device takes for work; before each run comes reset.
func median(q *device.Queue, reset, work func()) float64 {
	times := make([]float64, 0, benchRuns)
	for i := range benchRuns + 1 {
		if reset != nil {
			reset()
			q.Wait()
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
	fmt.Printf("%-14s %s\n", b.Name()[len("BenchmarkGPU"):], fmt.Sprintf(format, args...))
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

// benchKey gives different keys for different i, that are no sequence for the hash either.
func benchKey[K slab.Key](i int) K {
	if _, narrow := any(K(0)).(uint32); narrow {
		return K(slab.Mix(uint32(i)*0x9e3779b1 + 12345))
	}
	return K(slab.Mix(uint64(i)*0x9e3779b97f4a7c15 + 12345))
}

func BenchmarkGPUSlab32(b *testing.B) { benchSlab[uint32](b, benchLoad32) }
func BenchmarkGPUSlab64(b *testing.B) { benchSlab[uint64](b, benchLoad64) }

func benchSlab[K slab.Key](b *testing.B, load float64) {
	d := benchDevice(b)
	const n = benchPairs
	keyBytes := bytesOf[K](1)
	keys := fill(make([]K, 2*n), benchKey[K]) // the second half is never put in, but by mixed batches
	values := fill(make([]uint32, n), func(i int) uint32 { return uint32(i)*5 + 1 })
	err := d.Do(device.Build, func(q *device.Queue) error {
		kp, vp, out, results := input(q, keys), input(q, values), q.Temp(4*n), q.Temp(n)
		missing := kp.Add(n * keyBytes)
		tab, err := slab.New[K](q, int(n/load))
		if err != nil {
			return err
		}
		defer func() { tab.Free(q) }()
		must := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		clear := func() { tab.Clear(q) }
		build := func() { must(tab.Build(q, kp, vp, n)) }
		start := func(op slab.Op, keys, values, results device.Ptr, n int, alone bool) func() {
			return func() {
				tab.Start(q, slab.Batch{Op: op, Keys: keys, Values: values, Results: results, N: n, Alone: alone})
			}
		}
		counts := func() slab.Counts {
			c, err := tab.Counts(q)
			must(err)
			return c
		}
		got, flags := make([]uint32, n), make([]slab.Result, n)
		check := func(what string, from, to int) { // of the pairs, only these are there
			b.Helper()
			start(slab.Find, kp, out, results, n, true)()
			device.CopyOut(q, got, out)
			device.CopyOut(q, flags, results)
			q.Wait()
			for i := range got {
				if in := i >= from && i < to; (flags[i] == slab.Yes) != in || in && got[i] != values[i] || !in && got[i] != 0 {
					b.Fatalf("%s: key %d: %d, %d", what, i, flags[i], got[i])
				}
			}
			start(slab.Find, missing, out, results, n, true)()
			device.CopyOut(q, flags, results)
			q.Wait()
			if c := counts(); slices.Contains(flags, slab.Yes) || c.Live != to-from || c.Left != 0 {
				b.Fatalf("%s: finds what was never put in, or %+v", what, c)
			}
		}

		// What bytes and atomics alone would take. Slabs that are in the second-level cache cost nothing.
		perPair := 128 / load // bytes of slabs
		size := float64(tab.Buckets()) * 128
		away := max(1-0.8*float64(q.Device().Describe().L2)/size, 0.05)
		predict := func(bytes, atomic float64) float64 { return 1 / (bytes/bandwidth + atomic/atomics) }
		request := float64(keyBytes + 4)
		if keyBytes == 8 {
			request = 16
		}
		pair := float64(keyBytes + 4)
		streams := 2*pair - 4 + 6*request // keys counted, pairs sorted by two steps, counted twice more, put in
		predictBuild := predict(streams+perPair, 0)
		predictDelete := predict(float64(7*keyBytes)+2*perPair, 0)
		predictFind := predict(128*1.03*away+pair, 0)
		predictMiss := predict(128*1.06*away+pair, 0)
		predictChange := predict((128*1.05+32)*away+pair, 1)
		predictMixed := predict((128*1.05+0.2*32)*away+pair+6, 0.2)

		ms := median(q, clear, build)
		c := counts()
		row(b, "build: %.1f G/s (%.2f ms), predicted %.1f; %d pairs, %d buckets, %d slabs chained, memory use %.3f",
			rate(n, ms), ms, predictBuild, c.Live, tab.Buckets(), c.Slabs, tab.Used(c))
		check("build", 0, n)

		// The yardsticks of the same run.
		copied := q.Temp(tab.Bytes())
		scratch := q.Temp(tab.Bytes())
		ms = median(q, nil, func() { q.Copy(copied, scratch, tab.Bytes()) })
		row(b, "copy of %.2f GB: %.0f GB/s read and written", float64(tab.Bytes())/1e9, 2*float64(tab.Bytes())/ms/1e6)
		q.Fill(scratch, 7, tab.Bytes()/4)
		narrow := fill(make([]uint32, n), func(i int) uint32 { return slab.Mix(uint32(i)) })
		np := input(q, narrow)
		ms = median(q, nil, func() { ceilings.Gather(q, out, np, n, scratch, int(size)/4, 1) })
		row(b, "one random sector of %.2f GB: %.1f G/s", size/1e9, rate(n, ms))
		q.Free(copied)
		q.Free(scratch)
		q.Free(np)

		ms = median(q, nil, start(slab.Find, kp, out, 0, n, true))
		row(b, "find, all hit: %.1f G/s (%.2f ms), predicted %.1f", rate(n, ms), ms, predictFind)
		ms = median(q, nil, start(slab.Find, missing, out, 0, n, true))
		row(b, "find, none hit: %.1f G/s (%.2f ms), predicted %.1f", rate(n, ms), ms, predictMiss)
		ms = median(q, nil, start(slab.Find, kp, out, results, n, false))
		row(b, "find, all hit, beside others, with results: %.1f G/s", rate(n, ms))
		ms = median(q, nil, start(slab.Count, kp, out, 0, n, true))
		row(b, "count: %.1f G/s", rate(n, ms))
		ms = median(q, nil, start(slab.Replace, kp, vp, 0, n, false))
		row(b, "replace: %.1f G/s, predicted %.1f", rate(n, ms), predictChange)

		rebuild := func() { clear(); build() }
		ms = median(q, rebuild, start(slab.Delete, kp, 0, 0, n, true))
		row(b, "delete all, sorted: %.1f G/s (%.2f ms), predicted %.1f", rate(n, ms), ms, predictDelete)
		check("delete all", 0, 0)
		ms = median(q, rebuild, start(slab.Delete, kp, 0, 0, n/2, true))
		row(b, "delete half, sorted: %.1f G/s (%.2f ms)", rate(n/2, ms), ms)
		check("delete half", n/2, n)
		ms = median(q, rebuild, start(slab.Delete, kp, 0, results, n, false))
		row(b, "delete all, beside others: %.1f G/s, predicted %.1f", rate(n, ms), predictChange)
		check("delete beside others", 0, 0)
		ms = median(q, func() { clear(); must(tab.Reserve(q, n/15)) }, start(slab.Insert, kp, vp, 0, n, false))
		row(b, "insert into an empty table, beside others: %.1f G/s, predicted %.1f", rate(n, ms), predictChange)
		check("insert beside others", 0, n)
		ms = median(q, nil, start(slab.Insert, kp, vp, 0, n, true))
		row(b, "insert, all there, sorted: %.1f G/s", rate(n, ms))
		ms = median(q, func() { rebuild(); start(slab.Delete, kp, 0, 0, n/2, true)() }, func() { tab.Flush(q) })
		row(b, "flush with half of the pairs deleted: %.3f ms, %d slabs chained", ms, counts().Slabs)
		check("flush", n/2, n)

		rebuild()
		count := q.Temp(8)
		allKeys := q.Temp(n * keyBytes)
		ms = median(q, func() { q.Fill(count, 0, 2) }, func() { tab.Iterate(q, allKeys, out, n, count) })
		row(b, "iterate: %.3f ms, %.0f GB/s", ms, (float64(tab.Bytes())+pair*n)/ms/1e6)
		q.Free(allKeys)

		benchMixed(b, q, tab, keys, values, vp, results, rebuild, predictMixed)
		return q.Err()
	})
	if err != nil {
		b.Fatal(err)
	}
}

// benchMixed has 10 % insert new keys, 10 % delete and 80 % find pairs, in random order.
func benchMixed[K slab.Key](b *testing.B, q *device.Queue, tab *slab.Table[K], keys []K, values []uint32, vp, results device.Ptr,
	rebuild func(), predicted float64) {
	b.Helper()
	n := len(values)
	ops := make([]slab.Op, n)
	mixed := fill(make([]K, n), func(i int) K {
		switch x := slab.Mix(uint32(i)) % 10; x {
		case 0:
			ops[i] = slab.Insert
			return keys[n+i]
		case 1:
			ops[i] = slab.Delete
		}
		return keys[i]
	})
	// Requests lie in no relation to the pairs' order when they were put in.
	order := fill(make([]uint32, n), func(i int) uint32 { return uint32(uint64(i) * 0x9e3779b1 % uint64(n)) })
	shuffledOps := fill(make([]slab.Op, n), func(i int) slab.Op { return ops[order[i]] })
	shuffled := fill(make([]K, n), func(i int) K { return mixed[order[i]] })
	given := fill(make([]uint32, n), func(i int) uint32 { return values[order[i]] })
	kp, op, mine := input(q, shuffled), input(q, shuffledOps), q.Temp(4*n)
	ms := median(q, func() {
		rebuild()
		device.CopyIn(q, mine, given)
		if err := tab.Reserve(q, n/10); err != nil {
			b.Fatal(err)
		}
	}, func() {
		tab.Start(q, slab.Batch{Op: slab.Mixed, Ops: op, Keys: kp, Values: mine, Results: results, N: n})
	})
	got, flags := make([]uint32, n), make([]slab.Result, n)
	device.CopyOut(q, got, mine)
	device.CopyOut(q, flags, results)
	c, err := tab.Counts(q)
	if err != nil {
		b.Fatal(err)
	}
	live := n
	for i, o := range shuffledOps {
		switch o {
		case slab.Insert:
			live++
		case slab.Delete:
			live--
		}
		if flags[i] != slab.Yes || got[i] != given[i] {
			b.Fatalf("mixed: %v of key %#x: %d, %d, want %d", o, shuffled[i], flags[i], got[i], given[i])
		}
	}
	if c.Live != live || c.Left != 0 {
		b.Fatalf("mixed: %+v, want %d pairs", c, live)
	}
	row(b, "mixed, 10%% insert, 10%% delete, 80%% find: %.1f G/s (%.2f ms), predicted %.1f", rate(n, ms), ms, predicted)
	ms = median(q, func() {
		rebuild()
		device.CopyIn(q, mine, given)
	}, func() {
		if err := tab.Run(q, slab.Batch{Op: slab.Mixed, Ops: op, Keys: kp, Values: mine, Results: results, N: n}); err != nil {
			b.Fatal(err)
		}
	})
	row(b, "the same by Run, which counts what it needs: %.1f G/s", rate(n, ms))
}
